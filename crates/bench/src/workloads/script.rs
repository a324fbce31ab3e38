//! The scripts around real programs, and how they are prepared.
//!
//! A script is called with `prepare` once, without any limit, and makes its inputs; then with `run` under each rival.
//! Its environment says what is wanted: BYTES, SEED, WORK (a directory of its own), THREADS and RUN_S. A `prepare` that
//! ends with [`MISSING`] has said which package is not installed.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// Status of a `prepare` that lacks a program; the one by which test suites say "skipped".
const MISSING: i32 = 77;
/// How long timed parts take.
pub const RUN_S: &str = "RUN_S";
/// Programs and threads that a workload may use at once.
const THREADS: u32 = 2;

/// A script with the files that it needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Script {
    /// Name and text of each file; the first one is the script.
    pub files: &'static [(&'static str, &'static str)],
}

macro_rules! script {
    ($($file:literal),+) => {
        Script { files: &[$(($file, include_str!(concat!("../../../../bench/scripts/", $file)))),+] }
    };
}

/// redis-server and redis-benchmark.
pub const REDIS: Script = script!("redis.sh");
/// make and gcc.
pub const BUILD: Script = script!("build.sh");
/// sort of coreutils.
pub const SORT: Script = script!("sort.sh");
/// pandas.
pub const DATAFRAME: Script = script!("dataframe.sh", "python.sh", "dataframe.py");
/// sqlite3.
pub const SQLITE: Script = script!("sqlite.sh");
/// Objects of Python.
pub const OBJECTS: Script = script!("objects.sh", "python.sh", "objects.py");

/// A Java program whose heap the serial collector collects.
pub const JVM_SERIAL: Script = script!("jvm-serial.sh", "jvm.sh", "Collected.java");
/// The same with the collector G1.
pub const JVM_G1: Script = script!("jvm-g1.sh", "jvm.sh", "Collected.java");
/// Objects of node.js.
pub const NODE: Script = script!("node.sh", "node.js");
/// Objects of Ruby.
pub const RUBY: Script = script!("ruby.sh", "ruby.rb");
/// xz.
pub const XZ: Script = script!("xz.sh");
/// g++.
pub const GCC: Script = script!("gcc.sh");

/// What a script is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Memory at its highest.
    pub bytes: u64,
    /// Seed of contents and accesses.
    pub seed: u64,
    /// How long timed parts take.
    pub seconds: u32,
}

/// A script that lies in its directory.
#[derive(Clone, Debug)]
pub struct Placed {
    path: PathBuf,
    environment: Vec<(OsString, OsString)>,
}

impl Script {
    /// Writes the files into `directory`, which is made and belongs to the script alone.
    pub fn place(&self, directory: &Path, wanted: Wanted) -> anyhow::Result<Placed> {
        let context = || {
            format!("the files of the workload cannot be written to {}; is there room?", directory.display())
        };
        fs::create_dir_all(directory).with_context(context)?;
        for (name, text) in self.files {
            fs::write(directory.join(name), text).with_context(context)?;
        }
        // Scripts change their directory, so the name must hold everywhere.
        let directory = fs::canonicalize(directory).with_context(context)?;
        let numbers = [
            ("BYTES", wanted.bytes),
            ("SEED", wanted.seed),
            ("THREADS", THREADS.into()),
            (RUN_S, wanted.seconds.into()),
        ];
        let mut environment: Vec<(OsString, OsString)> =
            numbers.iter().map(|(name, value)| (name.into(), value.to_string().into())).collect();
        environment.push(("WORK".into(), directory.clone().into()));
        // Numbers are written with a point, and text is sorted by bytes.
        environment.push(("LC_ALL".into(), "C".into()));
        Ok(Placed { path: directory.join(self.files[0].0), environment })
    }
}

impl Placed {
    /// Runs the `prepare` phase. `Some` says what is not installed.
    pub fn prepare(&self) -> anyhow::Result<Option<String>> {
        let output = Command::new("/bin/sh")
            .arg(&self.path)
            .arg("prepare")
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .output()
            .context("/bin/sh cannot be started")?;
        let last_line = |bytes: &[u8]| {
            String::from_utf8_lossy(bytes).trim().lines().last().unwrap_or_default().to_string()
        };
        match output.status.code() {
            Some(0) => Ok(None),
            Some(MISSING) => Ok(Some(last_line(&output.stdout))),
            code => {
                let ended = code.map_or_else(
                    || format!("was ended by signal {}", output.status.signal().unwrap_or_default()),
                    |code| format!("ended with status {code}"),
                );
                let said = [last_line(&output.stdout), last_line(&output.stderr)].join(" ");
                bail!(
                    "{} prepare {ended}: {}; its files are kept in its directory",
                    self.path.display(),
                    said.trim()
                )
            }
        }
    }

    /// The words of the `run` phase.
    pub fn words(&self) -> Vec<OsString> {
        vec!["/bin/sh".into(), self.path.clone().into(), "run".into()]
    }

    /// The variables that it needs.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        self.environment.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &'static str, name: &str) -> (Placed, PathBuf) {
        let directory = std::env::temp_dir().join(format!("uswap-script-{}-{name}", std::process::id()));
        let files: &'static [(&str, &str)] = Box::leak(Box::new([("test.sh", text)]));
        let placed = Script { files }.place(&directory, Wanted { bytes: 5, seed: 6, seconds: 7 }).unwrap();
        (placed, directory)
    }

    #[test]
    fn prepare_tells_ready_missing_and_failed_apart() {
        let text =
            "[ \"$1 $BYTES $SEED $RUN_S\" = 'prepare 5 6 7' ] && [ -d \"$WORK\" ] && touch \"$WORK/made\"";
        let (placed, directory) = place(text, "ready");
        assert_eq!(placed.prepare().unwrap(), None);
        assert!(directory.join("made").exists());
        assert_eq!(placed.words()[2], "run");
        fs::remove_dir_all(directory).unwrap();

        let (placed, directory) = place("echo 'x is missing: apt install y'; exit 77", "missing");
        assert_eq!(placed.prepare().unwrap().as_deref(), Some("x is missing: apt install y"));
        fs::remove_dir_all(directory).unwrap();

        for (text, said) in
            [("echo too small >&2; exit 3", "status 3: too small"), ("kill -9 $$", "signal 9")]
        {
            let (placed, directory) = place(text, "failed");
            let error = placed.prepare().unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
            fs::remove_dir_all(directory).unwrap();
        }
    }

    #[test]
    fn every_script_is_one_that_the_shell_can_read() {
        let scripts =
            [REDIS, BUILD, SORT, DATAFRAME, SQLITE, OBJECTS, JVM_SERIAL, JVM_G1, NODE, RUBY, XZ, GCC];
        for script in scripts {
            let (name, text) = script.files[0];
            assert!(name.ends_with(".sh") && text.starts_with("#!/bin/sh\n"), "{name}");
            let status = Command::new("/bin/sh").args(["-n", "-c", text]).status().unwrap();
            assert!(status.success(), "{name} is not a script");
        }
    }
}
