//! Messages written without allocation, for code that runs in a forked child or finds damaged memory.
//!
//! What must hold: nothing here allocates or takes a lock of the C library. Used by `churn` and `evil`.

use core::fmt::{self, Write};

/// Text of one message, cut at 1000 bytes, kept on the stack.
pub struct Message {
    bytes: [u8; 1000],
    length: usize,
}

impl Message {
    /// Formats `arguments`.
    pub fn new(arguments: fmt::Arguments<'_>) -> Self {
        let mut message = Self { bytes: [0; 1000], length: 0 };
        // A message that does not fit is cut: `write_str` below never fails.
        let _ = message.write_fmt(arguments);
        message
    }

    /// Writes the text and a newline to `descriptor`, ignoring errors: there is nobody left to tell.
    pub fn write_to(&self, descriptor: i32) {
        let mut line = [0u8; 1001];
        line[..self.length].copy_from_slice(&self.bytes[..self.length]);
        line[self.length] = b'\n';
        // SAFETY:
        // 1. `line` is a live local array of at least `length + 1` bytes.
        unsafe { libc::write(descriptor, line.as_ptr().cast(), self.length + 1) };
    }
}

impl Write for Message {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.len() - self.length;
        let taken = text.len().min(room);
        self.bytes[self.length..self.length + taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.length += taken;
        Ok(())
    }
}

/// Writes a message to standard error and ends the whole process with `status`, running no exit handler.
pub fn end_process(status: i32, arguments: fmt::Arguments<'_>) -> ! {
    Message::new(arguments).write_to(2);
    // SAFETY:
    // 1. `_exit` has no precondition.
    unsafe { libc::_exit(status) }
}

/// The error number of the last failed libc call of this thread.
pub fn errno() -> i32 {
    // SAFETY:
    // 1. The C library gives a valid pointer to this thread's own variable.
    unsafe { *libc::__errno_location() }
}
