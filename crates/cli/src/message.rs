//! Lines for a person, on stderr and stdout.
//!
//! What must hold: a closed or full stderr never ends a run. `eprintln!` panics there, and a panic aborts uswap while
//! the program still needs it. So every line goes through here, and a write that fails is dropped.

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

/// Writes `text` to stdout in one piece. `false` if the reader is gone.
#[must_use]
pub fn write_stdout(text: &str) -> bool {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
}
