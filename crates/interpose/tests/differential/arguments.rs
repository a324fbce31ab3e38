//! Random buffers: in kept memory, over its end, in memory that cannot be written or read, or nowhere.

use crate::evictor::{KEPT, KEPT_END, PAGE, PAGES};
use crate::world::{FOREIGN, FOREIGN_CLOSED, FOREIGN_READ_ONLY, World};

/// A range for the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub start: u64,
    pub bytes: u64,
}

impl World {
    /// A buffer of `bytes` bytes, mostly good.
    pub fn buffer(&mut self, bytes: u64) -> u64 {
        let start = match self.prng.below(40) {
            0 => KEPT_END - self.prng.below(bytes + 1).min(PAGE / 2),
            1 => FOREIGN_READ_ONLY - self.prng.below(bytes + 1).min(PAGE),
            2 => FOREIGN_CLOSED - self.prng.below(bytes + 1).min(PAGE),
            3 => FOREIGN + self.prng.below(PAGE),
            4 => self.prng.below(2) * 0x1000,
            // Over the border of two pages.
            5..=14 => {
                KEPT + (1 + self.prng.below(PAGES - STRUCTURE_PAGES - 24)) * PAGE
                    - self.prng.below(bytes + 1).min(PAGE)
            }
            _ => self.good(bytes),
        };
        if self.prng.chance(1, 2) {
            self.evict_at(start, bytes);
        }
        start
    }

    /// A buffer that is all in kept memory.
    fn good(&mut self, bytes: u64) -> u64 {
        KEPT + self.prng.below((PAGES - STRUCTURE_PAGES) * PAGE - bytes) / 8 * 8
    }

    /// A structure that the program fills, in the pages at the end of kept memory, where no buffer is: what the
    /// kernel writes never changes what it still has to read.
    pub fn words(&mut self, words: &[u64]) -> u64 {
        let bytes = words.len() as u64 * 8;
        let first = KEPT_END - STRUCTURE_PAGES * PAGE;
        self.structure_bytes =
            (self.structure_bytes + 8 * self.prng.below(64)) % ((STRUCTURE_PAGES - 2) * PAGE);
        let start = first + PAGE + self.structure_bytes;
        self.structure_bytes += bytes;
        self.put(start, words);
        self.evict_at(start, bytes);
        start
    }

    /// The program writes words.
    pub fn put(&mut self, start: u64, words: &[u64]) {
        for (index, byte) in words.iter().flat_map(|word| word.to_ne_bytes()).enumerate() {
            // SAFETY:
            // 1. The callers name kept memory; an evicted page is brought by the handler.
            unsafe { ((start + index as u64) as *mut u8).write_volatile(byte) };
        }
    }

    /// A length: mostly short, sometimes several pages. What goes in parts is only asked of the regular file: pipes
    /// and sockets count their room in pieces, and would hold another amount.
    pub fn length(&mut self, file: u64) -> u64 {
        match self.prng.below(20) {
            0 => 0,
            1 => PAGE * (1 + self.prng.below(6)),
            2 if file == self.files.file => PAGE * (10 + self.prng.below(12)) + self.prng.below(9),
            2..=4 => self.prng.below(3 * PAGE),
            _ => 1 + self.prng.below(200),
        }
    }
}

/// Pages at the end of kept memory that hold structures.
const STRUCTURE_PAGES: u64 = 8;
