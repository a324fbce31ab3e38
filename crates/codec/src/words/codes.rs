//! Canonical prefix codes, made from [`LENGTHS`] at compile time.
//!
//! A code is at most eight bits long, and its first bit is the lowest one of the stream. Shorter codes come first;
//! among codes of one length the lower symbol comes first.
//!
//! Must hold: the tables of both directions come from the same lengths, and every eight bits are the start of exactly
//! one code: no blob can hold a code that means nothing. Called by [`crate::words`], and by [`super::vector_tables`],
//! which says them once more.

use super::lengths::{CLASS_COUNT, LENGTHS};
use super::symbols::{CONTEXT_COUNT, SPECS, SYMBOL_COUNT};

/// Longest code.
pub(super) const CODE_BITS_MAX: usize = 8;

/// Context of the first code of a page.
pub(super) const CONTEXT_START: usize = 0;

/// `context << 6 | symbol`: which code to write.
pub(super) const fn code_index(context: usize, symbol: usize) -> usize {
    context << 6 | symbol
}

/// Code and length for one class of pages: `code << 8 | length`.
pub(super) type CodesOfClass = [u16; CONTEXT_COUNT * 64];

pub(super) static CODES: [CodesOfClass; CLASS_COUNT] = {
    let mut codes = [[0; CONTEXT_COUNT * 64]; CLASS_COUNT];
    let mut place = 0;
    while place < CLASS_COUNT * CONTEXT_COUNT {
        let (class, context) = (place / CONTEXT_COUNT, place % CONTEXT_COUNT);
        let lengths = &LENGTHS[class][context];
        let mut next = 0_usize;
        let mut length = 1;
        while length <= CODE_BITS_MAX {
            let mut symbol = 0;
            while symbol < SYMBOL_COUNT {
                if lengths[symbol] as usize == length {
                    let code = (next as u8).reverse_bits() as u16;
                    codes[class][code_index(context, symbol)] = code << 8 | length as u16;
                    next += 1 << (CODE_BITS_MAX - length);
                }
                symbol += 1;
            }
            length += 1;
        }
        assert!(next == 1 << CODE_BITS_MAX, "the lengths make a complete prefix code");
        place += 1;
    }
    codes
};

/// Bits that each class would take for one symbol: 16 bits for each class.
pub(super) static BITS: [u64; CONTEXT_COUNT * 64] = {
    let mut bits = [0; CONTEXT_COUNT * 64];
    let mut place = 0;
    while place < CONTEXT_COUNT * 64 {
        let mut class = 0;
        while class < CLASS_COUNT {
            bits[place] |= ((CODES[class][place] & 0xff) as u64) << (16 * class);
            class += 1;
        }
        place += 1;
    }
    bits
};

/// What the next eight bits of the code stream mean, by `context << 8 | bits`: `symbol << 26 | next context << 8 |
/// length`. Each part lies where the decoder can use it with the fewest steps: a shift looks at the lowest six bits
/// only, the context is in its place for the next look-up, the symbol needs no mask.
pub(super) type MeaningsOfClass = [u32; CONTEXT_COUNT << CODE_BITS_MAX];

pub(super) static MEANINGS: [MeaningsOfClass; CLASS_COUNT] = {
    let mut meanings = [[0; CONTEXT_COUNT << CODE_BITS_MAX]; CLASS_COUNT];
    let mut class = 0;
    while class < CLASS_COUNT {
        let mut place = 0;
        while place < CONTEXT_COUNT * 64 {
            let (context, symbol) = (place / 64, place % 64);
            let length = (CODES[class][place] & 0xff) as u32;
            let mut bits = (CODES[class][place] >> 8) as usize;
            // The code in the low bits, anything above it.
            while length > 0 && bits < 1 << CODE_BITS_MAX {
                meanings[class][context << CODE_BITS_MAX | bits] =
                    (symbol as u32) << 26 | (SPECS[symbol].context as u32) << 8 | length;
                bits += 1 << length;
            }
            place += 1;
        }
        class += 1;
    }
    meanings
};
