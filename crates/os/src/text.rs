//! Text without allocation: a buffer to format into, and numbers out of /proc files.
//!
//! Must hold: what does not fit is cut off and remembered, and nothing is allocated. A number that does not fit is
//! none. Called by [`crate::maps`], [`crate::mlock`], [`crate::own_calls`], [`crate::probe`], [`crate::process`] and
//! [`crate::smaps`], which read /proc, and by `agent`, `host`, `interpose`, `control`, the supervisor, `uswap`, `cli`
//! and `bench`.

use core::ffi::CStr;
use core::fmt;

use crate::fd::Fd;
use crate::sys::{Errno, Result};

/// A buffer of `N` bytes that one can format into; what does not fit is cut off and remembered.
///
/// The last byte is never written, so that [`TextBuffer::as_c_str`] always has its terminator.
pub struct TextBuffer<const N: usize> {
    bytes: [u8; N],
    length: usize,
    cut: bool,
}

impl<const N: usize> TextBuffer<N> {
    /// An empty buffer.
    pub const fn new() -> Self {
        const { assert!(N > 0) };
        TextBuffer { bytes: [0; N], length: 0, cut: false }
    }

    /// What was written so far.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&[])
    }

    /// The text up to its first zero byte, with a terminator.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }

    /// Formats `arguments` into a new buffer.
    pub fn format(arguments: fmt::Arguments<'_>) -> Self {
        let mut buffer = Self::new();
        // An error only means that the text was cut.
        let _ = fmt::Write::write_fmt(&mut buffer, arguments);
        buffer
    }
}

impl<const N: usize> Default for TextBuffer<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> fmt::Write for TextBuffer<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = N - 1 - self.length;
        let take = text.len().min(room);
        self.bytes[self.length..self.length + take].copy_from_slice(&text.as_bytes()[..take]);
        self.length += take;
        if take < text.len() {
            self.cut = true;
            return Err(fmt::Error);
        }
        Ok(())
    }
}

impl<const N: usize> fmt::Debug for TextBuffer<N> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_c_str(), out)
    }
}

/// The lines of a text that comes in parts, each as far as its first `N` bytes.
#[derive(Debug)]
pub struct Lines<const N: usize> {
    line: [u8; N],
    length: usize,
}

impl<const N: usize> Lines<N> {
    /// Nothing has come.
    pub const fn new() -> Self {
        Lines { line: [0; N], length: 0 }
    }

    /// Calls `visit` with each line that ends in this part, without its newline.
    pub fn take(&mut self, part: &[u8], mut visit: impl FnMut(&[u8])) {
        for &byte in part {
            if byte == b'\n' {
                visit(&self.line[..core::mem::take(&mut self.length)]);
            } else if self.length < N {
                self.line[self.length] = byte;
                self.length += 1;
            }
        }
    }
}

impl<const N: usize> Default for Lines<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// Calls `visit` with each line of a file, from its start on, as [`Lines`] has them.
pub fn for_each_line<const N: usize>(file: &Fd, mut visit: impl FnMut(&[u8])) -> Result<()> {
    let mut lines = Lines::<N>::new();
    let mut buffer = [0; 1024];
    let mut offset = 0;
    loop {
        match file.pread(&mut buffer, offset) {
            Ok(0) => return Ok(()),
            Ok(bytes) => {
                lines.take(&buffer[..bytes], &mut visit);
                offset += bytes as u64;
            }
            Err(Errno::EINTR) => (),
            Err(errno) => return Err(errno),
        }
    }
}

/// Reads a number at the start of `text`; answers it and the rest. `None` without a digit, or when it does not fit.
pub fn take_number(text: &[u8], radix: u32) -> Option<(u64, &[u8])> {
    let mut value: u64 = 0;
    let mut digits = 0;
    while let Some(digit) = text.get(digits).and_then(|byte| (*byte as char).to_digit(radix)) {
        value = value.checked_mul(radix as u64)?.checked_add(digit as u64)?;
        digits += 1;
    }
    if digits == 0 { None } else { Some((value, &text[digits..])) }
}

/// `text` without the spaces and tabs at its start.
pub fn skip_spaces(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    &text[spaces..]
}

/// `text` behind its first word and the spaces after it.
pub fn skip_word(text: &[u8]) -> &[u8] {
    let word = text.iter().take_while(|byte| !matches!(byte, b' ' | b'\t' | b'\n')).count();
    skip_spaces(&text[word..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_does_not_fit_is_cut_and_keeps_its_terminator() {
        let buffer = TextBuffer::<8>::format(format_args!("/proc/{}/fd", 123));
        assert_eq!(buffer.as_bytes(), b"/proc/1");
        assert_eq!(buffer.as_c_str(), c"/proc/1");
    }

    #[test]
    fn numbers_are_read_up_to_the_first_other_byte() {
        assert_eq!(take_number(b"7f00-x", 16), Some((0x7f00, &b"-x"[..])));
        assert_eq!(take_number(b"x", 10), None);
        assert_eq!(take_number(b"99999999999999999999999", 10), None);
        assert_eq!(skip_word(b"ab  cd"), b"cd");
    }
}
