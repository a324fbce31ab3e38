//! Where the functions of an ELF object begin: from the table that exceptions are unwound by.
//!
//! Compilers write an entry for every function, and stripping leaves the table in. It is sorted, so one
//! function is found with a dozen small reads.

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
        let mut header = [0; HEADER_BYTES];
        if memory.read(base, &mut header) < HEADER_BYTES || header[..5] != *b"\x7FELF\x02" {
            return None;
        }
        let headers_at = base + u64_at(&header, 32) as usize;
        let count = (u16::from_le_bytes([header[56], header[57]]) as usize).min(PROGRAM_HEADERS_MAX);
        let mut bias = None;
        let mut code = None;
        let mut table = None;
        for index in 0..count {
            let mut entry = [0; PROGRAM_HEADER_BYTES];
            memory.read(headers_at + index * PROGRAM_HEADER_BYTES, &mut entry);
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
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = (low + high) / 2;
            if self.start_of(memory, middle)? <= address { low = middle + 1 } else { high = middle }
        }
        self.at_index(memory, low.checked_sub(1)?)
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
        if memory.read(self.table + TABLE_AT + index * TABLE_ENTRY_BYTES, &mut entry) < entry.len() {
            return None;
        }
        Some(self.table.wrapping_add_signed(u32_at(&entry, 0) as i32 as isize))
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
