//! One message to a person, in one write.
//!
//! It runs in any thread of a program, so it takes no lock and no libc stream. Must hold: no message ends the program.
//! A write to a pipe that nobody reads raises SIGPIPE, and one to a file beyond RLIMIT_FSIZE raises SIGXFSZ, in the
//! thread that writes.
//!
//! Called by `host` and `uswap`.

use crate::fd::write_raw;
use crate::sys::{Errno, Result, abi};
use crate::thread::{BlockedSignals, pending_signals, take_signal};

/// Bytes of the longest message. On the stack of the calling thread.
pub const MESSAGE_BYTES_MAX: usize = 1024;

/// `write(2)` to a descriptor number that the caller does not own. It raises no signal, and takes none away.
pub fn write_without_signal(number: i32, bytes: &[u8]) -> Result<usize> {
    let _blocked = BlockedSignals::block_all()?;
    let before = pending_signals();
    let written = write_raw(number, bytes);
    let raised = match written {
        Err(Errno::EPIPE) => abi::SIGPIPE,
        Err(Errno::EFBIG) => abi::SIGXFSZ,
        _ => return written,
    };
    // One that waited already is the program's: the kernel keeps one of a kind, and did not add ours.
    if before & 1 << (raised - 1) == 0 {
        take_signal(raised);
    }
    written
}
