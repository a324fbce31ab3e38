//! Finds what a page repeats of itself.
//!
//! Must hold: laid end to end, the literals and matches that it finds are the page; what a match repeats lies before
//! it. Called by [`crate::dense`], and by [`super::literals`], which writes what is left.

use crate::{PAGE_BYTES, Page};

/// Shortest match.
pub const MATCH_MIN: usize = 5;
/// Room for the sequences of a page: a power of two, and more than there can be.
pub const SEQUENCES_MAX: usize = 1024;
const _: () = assert!(SEQUENCES_MAX * MATCH_MIN > PAGE_BYTES);

const HASH_BITS: u32 = 11;
/// After so many failed looks in a row, twice as large steps.
const SKIP_BITS: u32 = 6;

/// Where the bytes that begin a match are looked up.
#[inline(always)]
fn hash(word: u64) -> usize {
    ((word << (64 - 8 * MATCH_MIN)).wrapping_mul(0x9E37_79B1_85EB_CA87) >> (64 - HASH_BITS)) as usize
}

#[inline(always)]
fn is_match(one: u64, other: u64) -> bool {
    (one ^ other) << (64 - 8 * MATCH_MIN) == 0
}

/// Bytes as they are, then bytes that stood `offset` before.
#[derive(Clone, Copy)]
pub struct Sequence {
    pub literals: u16,
    pub length: u16,
    pub offset: u16,
}

/// Literals, and room to copy past their end.
pub type LiteralBytes = [u8; PAGE_BYTES + 32];

/// A page as sequences, and the literals of all of them in a row. What remains after the last sequence are literals.
pub struct Parsed {
    /// The page, and room to look past its end.
    page: [u8; PAGE_BYTES + 16],
    table: [u16; 1 << HASH_BITS],
    pub sequences: [Sequence; SEQUENCES_MAX],
    pub sequence_count: usize,
    pub literals: LiteralBytes,
    pub literal_count: usize,
}

impl Parsed {
    pub const fn new() -> Self {
        Self {
            page: [0; PAGE_BYTES + 16],
            table: [0; 1 << HASH_BITS],
            sequences: [Sequence { literals: 0, length: 0, offset: 0 }; SEQUENCES_MAX],
            sequence_count: 0,
            literals: [0; PAGE_BYTES + 32],
            literal_count: 0,
        }
    }

    #[inline(always)]
    fn word(&self, at: usize) -> u64 {
        let at = at % PAGE_BYTES;
        u64::from_le_bytes(*self.page[at..].first_chunk().expect("room behind the page"))
    }

    /// Greedy: the latest place with the same bytes, or the distance of the match before.
    pub fn parse(&mut self, page: &Page) {
        self.page[..PAGE_BYTES].copy_from_slice(page);
        self.table.fill(0);
        (self.sequence_count, self.literal_count) = (0, 0);
        // The first literal that is not yet in a sequence.
        let mut anchor = 0;
        let mut at = 1;
        let mut last_offset = 1;
        let mut misses = 1 << SKIP_BITS;
        while at < PAGE_BYTES - 8 {
            let word = self.word(at);
            let place = hash(word);
            let candidate = usize::from(self.table[place]);
            self.table[place] = at as u16;
            let (mut start, mut from);
            if is_match(self.word(at + 1), self.word((at + 1).wrapping_sub(last_offset)))
                && at + 1 >= last_offset
            {
                (start, from) = (at + 1, at + 1 - last_offset);
            } else if is_match(self.word(candidate), word) && candidate < at {
                (start, from) = (at, candidate);
            } else {
                at += misses >> SKIP_BITS;
                misses += 1;
                continue;
            }
            misses = 1 << SKIP_BITS;
            let mut length = MATCH_MIN + self.same(start + MATCH_MIN, from + MATCH_MIN);
            while start > anchor
                && from > 0
                && self.page[(start - 1) % PAGE_BYTES] == self.page[(from - 1) % PAGE_BYTES]
            {
                (start, from, length) = (start - 1, from - 1, length + 1);
            }
            self.push(anchor, start, length, start - from);
            last_offset = start - from;
            at = start + length;
            anchor = at;
            if at < PAGE_BYTES - 8 {
                // What lies inside of the match is found later by its end.
                let inside = at - 2;
                self.table[hash(self.word(inside))] = inside as u16;
            }
        }
        self.push_literals(anchor, PAGE_BYTES - anchor);
    }

    /// How many bytes are the same from two places on, to the end of the page.
    #[inline(always)]
    fn same(&self, at: usize, from: usize) -> usize {
        let room = PAGE_BYTES - at;
        let mut same = 0;
        while same < room {
            let differ = self.word(at + same) ^ self.word(from + same);
            if differ != 0 {
                return (same + (differ.trailing_zeros() / 8) as usize).min(room);
            }
            same += 8;
        }
        room
    }

    #[inline(always)]
    fn push(&mut self, anchor: usize, start: usize, length: usize, offset: usize) {
        let literals = start - anchor;
        self.push_literals(anchor, literals);
        self.sequences[self.sequence_count % SEQUENCES_MAX] =
            Sequence { literals: literals as u16, length: length as u16, offset: offset as u16 };
        self.sequence_count += 1;
    }

    #[inline(always)]
    fn push_literals(&mut self, anchor: usize, count: usize) {
        // 16 bytes at a time: what is too much is overwritten by the next.
        let mut done = 0;
        while done < count {
            let from = (anchor + done) % PAGE_BYTES;
            let to = (self.literal_count + done) % PAGE_BYTES;
            let bytes: [u8; 16] = *self.page[from..].first_chunk().expect("room behind the page");
            *self.literals[to..].first_chunk_mut().expect("room behind the literals") = bytes;
            done += 16;
        }
        self.literal_count += count;
    }
}
