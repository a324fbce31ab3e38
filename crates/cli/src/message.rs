//! Lines for a person, on stderr and stdout.
//!
//! What must hold: a closed or full stderr never ends a run. `eprintln!` panics there, and a panic aborts uswap while
//! the program still needs it. So every line goes through here, and a write that fails is dropped.

use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use std::fmt::Arguments;
use std::io::Write as _;

/// Writes `uswap: LINE` to stderr in one piece.
pub fn say(line: Arguments<'_>) {
    write_stderr(&format!("uswap: {line}\n"));
}

/// Writes `text` to stderr in one piece, as it is.
pub fn write_stderr(text: &str) {
    // Dropped on purpose: see the head of this file.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// While it lives, what is written to stderr goes to the end of the file, if it is one: the engines of the run open it anew, with a position of their own,
/// and would write over what is there. As GNU make does.
pub struct StderrAppends {
    /// What the flags were.
    changed: Option<OFlags>,
}

impl StderrAppends {
    /// Changes the flags of stderr, which are shared with everyone who has it from the same place.
    pub fn begin() -> StderrAppends {
        let stderr = std::io::stderr();
        let is_file =
            fstat(&stderr).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
        let before = fcntl_getfl(&stderr).ok().filter(|flags| is_file && !flags.contains(OFlags::APPEND));
        let changed = before.filter(|flags| fcntl_setfl(&stderr, *flags | OFlags::APPEND).is_ok());
        StderrAppends { changed }
    }
}

impl Drop for StderrAppends {
    fn drop(&mut self) {
        if let Some(flags) = self.changed {
            let _stays_appending = fcntl_setfl(std::io::stderr(), flags);
        }
    }
}

/// Writes `text` to stdout in one piece. `false` if the reader is gone.
#[must_use]
pub fn write_stdout(text: &str) -> bool {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
}
