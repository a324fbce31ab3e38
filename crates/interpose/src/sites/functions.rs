//! Where the functions of an ELF object begin: from the table that exceptions are unwound by.
//!
//! Compilers write an entry for every function, and stripping leaves the table in. It is sorted, so one
//! function is found with two or three small reads.
//!
//! Must hold: what an object says is looked at and not trusted: a table that is wrong gives no function, or one that
//! decoding refuses, and no read outside of what [`Memory`] allows. Called by [`crate::patch`].

use core::ops::Range;

use super::Memory;

const LOAD: u32 = 1;
const EH_FRAME: u32 = 0x6474_E550;
const EXECUTABLE: u32 = 1;
const HEADER_BYTES: usize = 64;
const PROGRAM_HEADER_BYTES: usize = 56;
const PROGRAM_HEADERS_MAX: usize = 32;
/// Version 1; the two numbers are 32 bits long; the table has pairs of 32 bits relative to its own header.
const TABLE_FORM: [u8; 4] = [1, 0x1B, 0x03, 0x3B];
const TABLE_AT: usize = 12;
const TABLE_ENTRY_BYTES: usize = 8;
/// Read at once in search of a function.
const TABLE_ENTRIES_READ: usize = 64;
/// After so many steps in which functions did not lie as evenly as expected, the rest is halved.
const EVEN_STEPS_MAX: u32 = 3;
/// The headers of an object, as most have them.
const HEADERS_BYTES: usize = HEADER_BYTES + PROGRAM_HEADERS_MAX * PROGRAM_HEADER_BYTES;

/// An ELF object in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its code.
    pub code: Range<usize>,
    table: usize,
    count: usize,
}

impl Object {
    /// The object whose ELF header is at `base`, with the segment of code that covers `address` (`None`:
    /// the first). `None`: no ELF object, or no table.
    pub fn at(memory: &impl Memory, base: usize, address: Option<usize>) -> Option<Object> {
        // Linkers put the program headers behind the ELF header: one read has them all.
        let mut start = [0; HEADERS_BYTES];
        let start_bytes = memory.read(base, &mut start);
        let header = start.first_chunk::<HEADER_BYTES>().expect("it is longer");
        if start_bytes < HEADER_BYTES || header[..5] != *b"\x7FELF\x02" {
            return None;
        }
        let headers_at = u64_at(header, 32) as usize;
        let count = (u16::from_le_bytes([header[56], header[57]]) as usize).min(PROGRAM_HEADERS_MAX);
        let mut bias = None;
        let mut code = None;
        let mut table = None;
        for index in 0..count {
            let entry_at = headers_at.checked_add(index * PROGRAM_HEADER_BYTES)?;
            let known = start[..start_bytes].get(entry_at..entry_at.checked_add(PROGRAM_HEADER_BYTES)?);
            let mut entry = [0; PROGRAM_HEADER_BYTES];
            match known {
                Some(known) => entry.copy_from_slice(known),
                None => {
                    memory.read(base + entry_at, &mut entry);
                }
            }
            let start = u64_at(&entry, 16) as usize;
            match u32_at(&entry, 0) {
                LOAD => {
                    let bias = *bias.get_or_insert(base.wrapping_sub(start & !0xFFF));
                    let start = bias.wrapping_add(start);
                    let range = start..start + u64_at(&entry, 40) as usize;
                    let is_wanted = address.is_none_or(|address| range.contains(&address));
                    if u32_at(&entry, 4) & EXECUTABLE != 0 && is_wanted && code.is_none() {
                        code = Some(range);
                    }
                }
                EH_FRAME => table = Some(start),
                _ => {}
            }
        }
        let table = bias?.wrapping_add(table?);
        let mut form = [0; TABLE_AT];
        memory.read(table, &mut form);
        if form[..4] != TABLE_FORM {
            return None;
        }
        Some(Object { code: code?, table, count: u32_at(&form, 8) as usize })
    }

    /// The function that holds `address`: from its start to that of the next one.
    pub fn function(&self, memory: &impl Memory, address: usize) -> Option<Range<usize>> {
        if !self.code.contains(&address) {
            return None;
        }
        // Functions lie about evenly: some entries around where this one should be have it mostly.
        let (mut low, mut high) = (0, self.count);
        let (mut low_at, mut high_at) = (self.code.start, self.code.end);
        for step in 0.. {
            let expected = match step {
                0..EVEN_STEPS_MAX => {
                    let part = address.saturating_sub(low_at) as u128 * (high - low) as u128;
                    low + (part / high_at.saturating_sub(low_at).max(1) as u128) as usize
                }
                _ => low + (high - low) / 2,
            };
            let from =
                expected.saturating_sub(TABLE_ENTRIES_READ / 2).clamp(low, high.saturating_sub(1).max(low));
            let until = (from + TABLE_ENTRIES_READ).min(high);
            let mut entries = [[0; TABLE_ENTRY_BYTES]; TABLE_ENTRIES_READ];
            let entries = &mut entries[..until - from];
            let bytes = entries.as_flattened_mut();
            if bytes.is_empty() || memory.read(self.entry_at(from), bytes) < bytes.len() {
                return None;
            }
            let behind = entries.partition_point(|entry| self.start_in(entry) <= address);
            match behind {
                0 => (high, high_at) = (from, self.start_in(&entries[0])),
                _ if behind == entries.len() && until < high => {
                    // It may be the last of these.
                    (low, low_at) = (until - 1, self.start_in(&entries[behind - 1]));
                    if high - low == 1 {
                        return self.at_index(memory, low);
                    }
                }
                _ => {
                    let start = self.start_in(&entries[behind - 1]);
                    let next = match entries.get(behind) {
                        Some(next) => self.start_in(next),
                        None => return self.at_index(memory, until - 1),
                    };
                    return Some(start..next.min(self.code.end));
                }
            }
            if low >= high {
                return None;
            }
        }
        None
    }

    /// All functions, by address.
    pub fn functions<M: Memory>(&self, memory: &M) -> impl Iterator<Item = Range<usize>> {
        (0..self.count).filter_map(move |index| self.at_index(memory, index))
    }

    fn at_index(&self, memory: &impl Memory, index: usize) -> Option<Range<usize>> {
        let start = self.start_of(memory, index)?;
        let next = if index + 1 < self.count { self.start_of(memory, index + 1)? } else { self.code.end };
        Some(start..next.min(self.code.end))
    }

    fn start_of(&self, memory: &impl Memory, index: usize) -> Option<usize> {
        let mut entry = [0; TABLE_ENTRY_BYTES];
        let is_read = memory.read(self.entry_at(index), &mut entry) == entry.len();
        is_read.then(|| self.start_in(&entry))
    }

    fn entry_at(&self, index: usize) -> usize {
        self.table + TABLE_AT + index * TABLE_ENTRY_BYTES
    }

    fn start_in(&self, entry: &[u8; TABLE_ENTRY_BYTES]) -> usize {
        self.table.wrapping_add_signed(u32_at(entry, 0) as i32 as isize)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::vec;
    use std::vec::Vec;
    use uswap_units::Prng;

    const TABLE: usize = 0x10_0000;
    const CODE: usize = 0x20_0000;

    /// Bytes of a table at its place, and how often they were read.
    struct Bytes {
        table: Vec<u8>,
        reads: Cell<u32>,
    }

    impl Memory for Bytes {
        fn read(&self, address: usize, into: &mut [u8]) -> usize {
            self.reads.set(self.reads.get() + 1);
            let rest = self.table.get(address - TABLE..).unwrap_or(&[]);
            let bytes = rest.len().min(into.len());
            into[..bytes].copy_from_slice(&rest[..bytes]);
            bytes
        }
    }

    fn table_of(starts: &[usize]) -> Bytes {
        let mut table = vec![0; TABLE_AT];
        for start in starts {
            table.extend(((start - TABLE) as u32).to_le_bytes());
            table.extend([0; 4]);
        }
        Bytes { table, reads: Cell::new(0) }
    }

    /// Most are short, some are very long: then the steps by which evenly spread ones are found miss.
    fn starts(prng: &mut Prng, count: usize) -> Vec<usize> {
        let mut at = CODE + prng.below(100) as usize;
        let mut next = || {
            let start = at;
            at += 1 + if prng.chance(1, 50) { prng.below(100_000) } else { prng.below(200) } as usize;
            start
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn each_function_is_found_however_they_are_spread() {
        let mut prng = Prng::new(5);
        for count in [0, 1, 2, 63, 64, 65, 130, 1000, 5000] {
            let starts = starts(&mut prng, count);
            let memory = table_of(&starts);
            let end = starts.last().map_or(CODE + 10, |last| last + 50);
            let object = Object { code: CODE..end, table: TABLE, count };
            let all: Vec<_> = object.functions(&memory).collect();
            assert_eq!(all.len(), count);
            let somewhere = (0..500).map(|_| CODE + prng.below((end - CODE) as u64) as usize);
            let edges = starts.iter().flat_map(|start| [*start, start.saturating_sub(1), start + 1]);
            for address in somewhere.chain(edges).filter(|address| object.code.contains(address)) {
                let expected = all.iter().find(|function| function.contains(&address));
                memory.reads.set(0);
                assert_eq!(object.function(&memory, address).as_ref(), expected, "{address:x} of {count}");
                assert!(memory.reads.get() <= 2 * EVEN_STEPS_MAX + 10, "{} reads", memory.reads.get());
            }
        }
    }
}
