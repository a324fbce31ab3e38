//! One message to a person, in one write, without allocation.
//!
//! Called from any thread of the agent, so it takes no lock and no libc stream. What is longer than the buffer is cut.
//!
//! Must hold: no message ends the program. A write to a pipe that nobody reads raises SIGPIPE, and one to a file beyond
//! RLIMIT_FSIZE raises SIGXFSZ, in the thread that writes.

use core::fmt;

use crate::fd::write_raw;
use crate::sys::{Errno, Result, abi};
use crate::text::TextBuffer;
use crate::thread::{BlockedSignals, pending_signals, take_signal};

/// Bytes of the longest message. On the stack of the calling thread.
pub const MESSAGE_BYTES_MAX: usize = 1024;

/// Writes `arguments` to the descriptor `number` with one `write(2)`. A message that cannot be written is lost: there
/// is nobody to tell.
pub fn write_message(number: i32, arguments: fmt::Arguments<'_>) {
    let buffer = TextBuffer::<MESSAGE_BYTES_MAX>::format(arguments);
    let _ = write_without_signal(number, buffer.as_bytes());
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_arrives_whole_or_cut() {
        let (reader, writer) = crate::fd::pipe().unwrap();
        write_message(writer.raw(), format_args!("page {} of {}\n", 3, "heap"));
        let mut buffer = [0; 2048];
        let length = reader.read(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"page 3 of heap\n");
        write_message(writer.raw(), format_args!("{:>2000}", 1));
        assert_eq!(reader.read(&mut buffer).unwrap(), MESSAGE_BYTES_MAX - 1);
    }
}
