//! One message to a person, in one write, without allocation.
//!
//! Called from any thread of the agent, so it takes no lock and no libc stream. What is longer than the buffer is cut.

use core::fmt;

use crate::fd::write_raw;
use crate::text::TextBuffer;

/// Bytes of the longest message. On the stack of the calling thread.
pub const MESSAGE_BYTES_MAX: usize = 1024;

/// Writes `arguments` to the descriptor `number` with one `write(2)`. A message that cannot be written is lost: there
/// is nobody to tell.
pub fn write_message(number: i32, arguments: fmt::Arguments<'_>) {
    let buffer = TextBuffer::<MESSAGE_BYTES_MAX>::format(arguments);
    let _ = write_raw(number, buffer.as_bytes());
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
