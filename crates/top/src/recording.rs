//! The file that keeps samples: a line of JSON that says what it is, then one for each sample.
//!
//! What must hold: a sample that was written whole is read again, whenever the writing was broken off. A line that is
//! half written is the last, and is left out.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::sample::Sample;

/// How the first line says what it is.
const FORMAT: &str = "uswap-recording";

/// Goes up when an older reader would misunderstand what is written.
const VERSION: u32 = 1;

#[derive(PartialEq, Debug, Serialize, Deserialize)]
struct Header {
    format: String,
    version: u32,
}

/// What is looked for when only the time is wanted.
#[derive(Deserialize)]
struct Time {
    at_seconds: f64,
}

/// Writes samples to a file.
#[derive(Debug)]
pub struct Writer {
    file: File,
    path: PathBuf,
}

impl Writer {
    /// Makes the file. One that has something in it is left alone.
    ///
    /// # Errors
    /// As a sentence: it is there, or cannot be made or written.
    pub fn create(path: &Path) -> Result<Self, String> {
        let failed = |error| format!("{} cannot be written ({error})", path.display());
        let file = File::options().create(true).append(true).open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.len() > 0 {
            return Err(format!("{} is there already: name another file, or remove it", path.display()));
        }
        let mut writer = Self { file, path: path.to_owned() };
        writer.write(&Header { format: FORMAT.to_owned(), version: VERSION })?;
        Ok(writer)
    }

    /// Adds a sample.
    ///
    /// # Errors
    /// As a sentence: it could not be written.
    pub fn add(&mut self, sample: &Sample) -> Result<(), String> {
        self.write(sample)
    }

    /// In one piece: nothing of it stays in this process.
    fn write(&mut self, line: &impl Serialize) -> Result<(), String> {
        let mut text = serde_json::to_string(line).expect("it has nothing that JSON cannot say");
        text.push('\n');
        self.file
            .write_all(text.as_bytes())
            .map_err(|error| format!("{} cannot be written ({error})", self.path.display()))
    }
}

/// Reads samples of a file, in any order.
#[derive(Debug)]
pub struct Recording {
    file: BufReader<File>,
    path: PathBuf,
    /// Where the line of each sample begins.
    starts: Vec<u64>,
}

impl Recording {
    /// Looks where the samples are.
    ///
    /// # Errors
    /// As a sentence: it is none, of a newer version, empty, or cannot be read.
    pub fn open(path: &Path) -> Result<Self, String> {
        let failed = |error| format!("{} cannot be read ({error})", path.display());
        let mut file = BufReader::new(File::open(path).map_err(failed)?);
        let mut line = Vec::new();
        file.read_until(b'\n', &mut line).map_err(failed)?;
        match serde_json::from_slice::<Header>(&line) {
            Ok(header) if header.format == FORMAT && header.version <= VERSION => (),
            Ok(header) if header.format == FORMAT => {
                return Err(format!("{} was recorded by a newer uswap than this", path.display()));
            }
            _ => return Err(format!("{} is no recording of 'uswap record'", path.display())),
        }
        let (mut starts, mut at) = (Vec::new(), line.len() as u64);
        loop {
            line.clear();
            let bytes = file.read_until(b'\n', &mut line).map_err(failed)?;
            if line.last() != Some(&b'\n') {
                break;
            }
            starts.push(at);
            at += bytes as u64;
        }
        let mut recording = Self { file, path: path.to_owned(), starts };
        // Room that was reserved for it, but not written, ends in a line of its own when another follows.
        if recording.count() > 0 && recording.sample(recording.count() - 1).is_err() {
            recording.starts.pop();
        }
        match recording.count() {
            0 => Err(format!("{} has no samples", path.display())),
            _ => Ok(recording),
        }
    }

    /// How many samples there are; at least one.
    pub fn count(&self) -> usize {
        self.starts.len()
    }

    /// One of them.
    ///
    /// # Errors
    /// As a sentence: it cannot be read.
    pub fn sample(&mut self, index: usize) -> Result<Sample, String> {
        self.read(index)
    }

    /// The last sample that is no later than this; the first, if there is none.
    ///
    /// # Errors
    /// As of [`Self::sample`].
    pub fn index_at(&mut self, at_seconds: f64) -> Result<usize, String> {
        let (mut first, mut end) = (0, self.count());
        while end - first > 1 {
            let middle = first.midpoint(end);
            match self.read::<Time>(middle)?.at_seconds <= at_seconds {
                true => first = middle,
                false => end = middle,
            }
        }
        Ok(first)
    }

    fn read<T: DeserializeOwned>(&mut self, index: usize) -> Result<T, String> {
        let mut line = String::new();
        let read =
            self.file.seek(SeekFrom::Start(self.starts[index])).and_then(|_| self.file.read_line(&mut line));
        let what = |error: &dyn std::fmt::Display| {
            format!("sample {} of {} cannot be read ({error})", index + 1, self.path.display())
        };
        read.map_err(|error| what(&error))?;
        serde_json::from_str(&line).map_err(|error| what(&error))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::made_up;

    /// A file that goes when it is dropped.
    pub(crate) struct Scratch(pub(crate) PathBuf);

    impl Scratch {
        pub(crate) fn new(name: &str) -> Self {
            Self(std::env::temp_dir().join(format!("uswap-top-{name}-{}", std::process::id())))
        }

        /// With the samples of these seconds.
        pub(crate) fn recorded(name: &str, seconds: impl IntoIterator<Item = u32>) -> Self {
            let scratch = Self::new(name);
            let mut writer = Writer::create(&scratch.0).expect("it can be made");
            for second in seconds {
                writer.add(&made_up::sample(second)).expect("it can be written");
            }
            scratch
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _was_not_made = std::fs::remove_file(&self.0);
        }
    }

    fn append(scratch: &Scratch, bytes: &[u8]) {
        let mut file = File::options().append(true).open(&scratch.0).expect("it is there");
        file.write_all(bytes).expect("it can be written");
    }

    #[test]
    fn what_was_recorded_is_read_again() {
        let scratch = Scratch::recorded("round", 1..=9);
        let text = std::fs::read_to_string(&scratch.0).expect("it is there");
        assert!(
            text.starts_with("{\"format\":\"uswap-recording\",\"version\":1}\n{\"at_seconds\":"),
            "{text}"
        );
        let mut recording = Recording::open(&scratch.0).expect("it is one");
        assert_eq!(recording.count(), 9);
        for index in [8, 0, 4, 5] {
            let sample = recording.sample(index).expect("it is there");
            assert_eq!(sample, made_up::sample(index as u32 + 1));
        }
    }

    #[test]
    fn a_line_that_is_half_written_is_left_out() {
        let scratch = Scratch::recorded("half", 1..=2);
        append(&scratch, b"{\"at_seconds\":17");
        assert_eq!(Recording::open(&scratch.0).expect("it is one").count(), 2);
        append(&scratch, b"\0\0\0\n");
        assert_eq!(Recording::open(&scratch.0).expect("it is one").count(), 2);
    }

    #[test]
    fn a_line_in_the_middle_that_is_damaged_is_named() {
        let scratch = Scratch::recorded("damaged", [1]);
        append(&scratch, b"nonsense\n");
        append(&scratch, serde_json::to_string(&made_up::sample(3)).expect("it is JSON").as_bytes());
        append(&scratch, b"\n");
        let mut recording = Recording::open(&scratch.0).expect("it is one");
        assert!(recording.sample(2).is_ok());
        let error = recording.sample(1).unwrap_err();
        assert!(error.starts_with("sample 2 of ") && error.contains("cannot be read"), "{error}");
    }

    #[test]
    fn a_sample_is_found_by_its_time() {
        let scratch = Scratch::recorded("time", (10..=100).step_by(10));
        let mut recording = Recording::open(&scratch.0).expect("it is one");
        let mut at =
            |second: u32| recording.index_at(made_up::sample(second).at_seconds).expect("it is read");
        assert_eq!([0, 10, 19, 20, 55, 100, 999].map(&mut at), [0, 0, 0, 1, 4, 9, 9]);
    }

    #[test]
    fn what_is_no_recording_is_refused_and_none_is_written_over() {
        let scratch = Scratch::new("other");
        let refused = |text: &str, why: &str| {
            std::fs::write(&scratch.0, text).expect("it can be written");
            let error = Recording::open(&scratch.0).unwrap_err();
            assert!(error.contains(why), "{error}");
        };
        refused("", "is no recording");
        refused("{\"a\": 1}\n", "is no recording");
        refused("{\"format\":\"uswap-recording\",\"version\":2}\n", "newer uswap");
        refused("{\"format\":\"uswap-recording\",\"version\":1}\n", "has no samples");
        let error = Writer::create(&scratch.0).unwrap_err();
        assert!(error.contains("is there already"), "{error}");
        let error = Writer::create(Path::new("/proc/no/such")).unwrap_err();
        assert!(error.contains("cannot be written"), "{error}");
    }
}
