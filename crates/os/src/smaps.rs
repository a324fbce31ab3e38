//! What `/proc/self/smaps` says of the mappings of this process that `maps` does not: what `madvise` has made of them.
//! The kernel looks at every page for it, which takes about 10 ms for each GiB.
//!
//! Must hold: each mapping is told once, when its last line has been read. Called by `host`, when it takes in a process
//! that runs.

use crate::fd::Fd;
use crate::sys::{Result, abi};
use crate::text::{for_each_line, skip_spaces, take_number};

/// The longest part of a line that matters: names of flags have two letters and a space.
const LINE_BYTES: usize = 256;
const LAZY_FREE: &[u8] = b"LazyFree:";
/// The last line of a mapping.
const FLAGS: &[u8] = b"VmFlags:";

/// One mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Advised {
    /// First byte.
    pub start: usize,
    /// Behind the last byte.
    pub end: usize,
    /// May be written.
    pub is_writable: bool,
    /// So much of it the kernel may drop when it likes (`MADV_FREE`).
    pub lazy_free_bytes: u64,
    /// A forked child has zeros there (`MADV_WIPEONFORK`).
    pub is_wiped_on_fork: bool,
    /// The kernel may merge pages of it with others (`MADV_MERGEABLE`).
    pub is_mergeable: bool,
}

/// Calls `visit` with each mapping, by address.
pub fn for_each_mapping(mut visit: impl FnMut(&Advised)) -> Result<()> {
    let file = Fd::open(c"/proc/self/smaps", abi::O_RDONLY, 0)?;
    let mut mapping = Advised::default();
    for_each_line::<LINE_BYTES>(&file, |line| note(line, &mut mapping, &mut visit))
}

/// Reads a line about `mapping`, and calls `visit` at its last one.
fn note(line: &[u8], mapping: &mut Advised, visit: &mut impl FnMut(&Advised)) {
    if let Some(flags) = line.strip_prefix(FLAGS) {
        let has = |wanted: &[u8]| flags.split(|byte| *byte == b' ').any(|flag| flag == wanted);
        (mapping.is_wiped_on_fork, mapping.is_mergeable) = (has(b"wf"), has(b"mg"));
        visit(mapping);
    } else if let Some(size) = line.strip_prefix(LAZY_FREE) {
        let kib = take_number(skip_spaces(size), 10).map_or(0, |(kib, _)| kib);
        mapping.lazy_free_bytes = kib * 1024;
    } else if let Some(first) = first_line(line) {
        *mapping = first;
    }
}

/// `start-end rw-p ...`.
fn first_line(line: &[u8]) -> Option<Advised> {
    let (start, rest) = take_number(line, 16)?;
    let (end, rest) = take_number(rest.strip_prefix(b"-")?, 16)?;
    let is_writable = skip_spaces(rest).get(1) == Some(&b'w');
    Some(Advised { start: start as usize, end: end as usize, is_writable, ..Advised::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Access, Mapping};
    use crate::text::Lines;
    use crate::{PAGE_BYTES, sys};
    use std::vec::Vec;

    #[test]
    fn what_was_advised_is_read_in_any_parts() {
        let text = b"7f00-7f80 rw-p 00000000 00:00 0 \nAnonymous:  4 kB\nLazyFree:        12 kB\n\
                     VmFlags: rd wr mr mw me ac wf mg \nabc0-abd0 r--p 0 0:0 7 /a\nSize: 4 kB\nVmFlags: rd mr \n";
        let first = Advised {
            start: 0x7f00,
            end: 0x7f80,
            is_writable: true,
            lazy_free_bytes: 12 << 10,
            is_wiped_on_fork: true,
            is_mergeable: true,
        };
        let second = Advised { start: 0xabc0, end: 0xabd0, ..Advised::default() };
        for part_bytes in [1, 7, text.len()] {
            let (mut lines, mut mapping) = (Lines::<LINE_BYTES>::new(), Advised::default());
            let mut seen = Vec::new();
            for part in text.chunks(part_bytes) {
                lines.take(part, |line| note(line, &mut mapping, &mut |mapping| seen.push(*mapping)));
            }
            assert_eq!(seen, [first, second]);
        }
    }

    #[test]
    fn what_this_process_advised_is_found() {
        // The kernel collects some pages on each processor before it does anything about them.
        const PAGES: usize = 256;
        let bytes = PAGES * PAGE_BYTES;
        let wiped = Mapping::anonymous(PAGE_BYTES, PAGE_BYTES, Access::ReadWrite).expect("a page");
        let freed = Mapping::anonymous(bytes, PAGE_BYTES, Access::ReadWrite).expect("some pages");
        let advise = |mapping: &Mapping, advice| {
            sys::plain(abi::__NR_madvise, mapping.start(), mapping.bytes(), advice as usize)
                .expect("Linux 5.14");
        };
        let found = |place: &Mapping| {
            let mut found = Advised::default();
            for_each_mapping(|mapping| {
                if (mapping.start..mapping.end).contains(&place.start()) {
                    found = *mapping;
                }
            })
            .expect("the file is there");
            found
        };
        assert!(!found(&wiped).is_wiped_on_fork);
        advise(&wiped, abi::MADV_WIPEONFORK);
        assert!(found(&wiped).is_wiped_on_fork && !found(&freed).is_wiped_on_fork);
        advise(&freed, abi::MADV_POPULATE_WRITE);
        assert_eq!(found(&freed).lazy_free_bytes, 0);
        advise(&freed, abi::MADV_FREE);
        let lazy_free_bytes = found(&freed).lazy_free_bytes;
        assert!((bytes as u64 / 2..=bytes as u64).contains(&lazy_free_bytes), "{lazy_free_bytes}");
        // How one gets rid of it.
        advise(&freed, abi::MADV_POPULATE_WRITE);
        assert_eq!(found(&freed).lazy_free_bytes, 0);
    }
}
