//! Lines for a person, on stderr and stdout.
//!
//! What must hold: a closed or full stderr never ends a run. `eprintln!` panics there, and a panic aborts uswap while
//! the program still needs it. So every line goes through here, and a write that fails is dropped.

use rustix::fs::{FileType, OFlags, SeekFrom, fcntl_getfl, fcntl_setfl, fstat, seek};
use std::fmt::Arguments;
use std::io::{Stderr, Write as _};
use std::os::fd::AsFd;

/// Writes `uswap: LINE` to stderr in one piece.
pub fn say(line: Arguments<'_>) {
    write_stderr(&format!("uswap: {line}\n"));
}

/// Writes `text` to stderr in one piece, as it is.
pub fn write_stderr(text: &str) {
    // Dropped on purpose: see the head of this file.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// While it lives, what is written to a file goes to its end: the engines of the run open stderr anew, with a position
/// of their own, and would write over what is there. As GNU make does. Not for anything else than a file.
pub struct Appends<F: AsFd> {
    file: F,
    /// What the flags were.
    changed: Option<OFlags>,
}

impl Appends<Stderr> {
    /// Changes the flags of stderr, which are shared with everyone who has it from the same place.
    pub fn to_stderr() -> Appends<Stderr> {
        Appends::to(std::io::stderr())
    }
}

impl<F: AsFd> Appends<F> {
    fn to(file: F) -> Appends<F> {
        let is_file =
            fstat(&file).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
        let before = fcntl_getfl(&file).ok().filter(|flags| is_file && !flags.contains(OFlags::APPEND));
        let changed = before.filter(|flags| fcntl_setfl(&file, *flags | OFlags::APPEND).is_ok());
        Appends { file, changed }
    }
}

impl<F: AsFd> Drop for Appends<F> {
    fn drop(&mut self) {
        if let Some(flags) = self.changed {
            // Who writes next does it behind what the engines wrote, which has not moved this position.
            let _stays_where_it_is = seek(&self.file, SeekFrom::End(0));
            let _stays_appending = fcntl_setfl(&self.file, flags);
        }
    }
}

/// Writes `text` to stdout in one piece. `false` if the reader is gone.
#[must_use]
pub fn write_stdout(text: &str) -> bool {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn nothing_is_written_over_what_an_engine_said() {
        let path = std::env::temp_dir().join(format!("uswap-message-{}", std::process::id()));
        let mut shell = File::create(&path).unwrap();
        shell.write_all(b"before\n").unwrap();
        let run = Appends::to(shell.try_clone().unwrap());
        let mut engine = File::options().append(true).open(&path).unwrap();
        engine.write_all(b"what an engine said\n").unwrap();
        shell.write_all(b"program\n").unwrap();
        engine.write_all(b"its last word\n").unwrap();
        drop(run);
        shell.write_all(b"Killed\n").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(text, "before\nwhat an engine said\nprogram\nits last word\nKilled\n");
    }
}
