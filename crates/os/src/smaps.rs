//! Which mapping in a range is registered with a userfaultfd, as `/proc/self/smaps` has it.
//!
//! Slow: the kernel walks the page tables of every mapping for it. Asked only when the order of two events is in doubt.

use crate::fd::Fd;
use crate::sys::{Result, abi};
use crate::text;

/// The longest part of a line that matters: a mapping's addresses, or its flags.
const LINE_BYTES: usize = 256;

/// The first mapping with a part of `start..end` (byte addresses) whose missing pages are reported to a userfaultfd;
/// its first byte and the one behind its last.
pub fn first_registered(start: usize, end: usize) -> Result<Option<(usize, usize)>> {
    let file = Fd::open(c"/proc/self/smaps", abi::O_RDONLY | abi::O_CLOEXEC, 0)?;
    let mut buffer = [0; 4096];
    let mut line = [0; LINE_BYTES];
    let mut length = 0;
    let mut mapping = (0, 0);
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(None);
        }
        for &byte in &buffer[..count] {
            if byte != b'\n' {
                if length < LINE_BYTES {
                    line[length] = byte;
                    length += 1;
                }
                continue;
            }
            let text = &line[..length];
            length = 0;
            if let Some(flags) = text.strip_prefix(b"VmFlags:") {
                if mapping.0 < end && start < mapping.1 && has_flag(flags, b"um") {
                    return Ok(Some(mapping));
                }
            } else if let Some(addresses) = addresses_of(text) {
                mapping = addresses;
            }
        }
    }
}

fn has_flag(flags: &[u8], wanted: &[u8]) -> bool {
    flags.split(|&byte| byte == b' ').any(|flag| flag == wanted)
}

/// The addresses at the front of a mapping's first line: `7f00-7f10 rw-p ...`. Other lines begin with a word and a
/// colon.
fn addresses_of(line: &[u8]) -> Option<(usize, usize)> {
    let (start, rest) = text::take_number(line, 16)?;
    let (end, rest) = text::take_number(rest.strip_prefix(b"-")?, 16)?;
    rest.starts_with(b" ").then_some((start as usize, end as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Access, Mapping};
    use crate::uffd::{Features, Mode, Uffd};

    #[test]
    fn only_the_registered_mapping_is_named() {
        let Ok(uffd) = Uffd::open(Features::NONE) else {
            std::println!("SKIP: userfaultfd is not available");
            return;
        };
        let mapping = Mapping::anonymous(16 * 4096, 4096, Access::ReadWrite).expect("16 pages");
        let (start, end) = (mapping.start(), mapping.end());
        assert_eq!(first_registered(start, end), Ok(None));
        uffd.register(start + 4 * 4096, 4 * 4096, Mode::Missing).expect("anonymous memory can be registered");
        assert_eq!(first_registered(start, end), Ok(Some((start + 4 * 4096, start + 8 * 4096))));
        assert_eq!(first_registered(start + 6 * 4096, end), Ok(Some((start + 4 * 4096, start + 8 * 4096))));
        assert_eq!(first_registered(start + 8 * 4096, end), Ok(None));
    }
}
