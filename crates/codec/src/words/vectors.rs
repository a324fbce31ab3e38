//! The same with vector kernels: `uswap-vector` finds symbols and literals for many words at once, here is what holds
//! it together.
//!
//! Must hold: blobs and pages are those of the portable code, to the byte. Called by [`crate::words`], where the
//! processor has what the kernels need.

use uswap_vector::Avx512;
use uswap_vector::kernels;
use uswap_vector::words::{Bases, Question, RECENT_BITS, Stored, WORDS_BEFORE};

use super::symbols::SYMBOL_ZERO;
use super::vector_tables::{CHOICES, SHAPES};
use super::{
    CLASS_COUNT, CODES_BYTES, SCALES, SIZES_BYTES, STREAM_COUNT, WORD_COUNT, WordsScratch, decode_symbols,
    first_word, has_length, stream_start, word_at, words_of_mut,
};
use crate::{Corrupt, Page};

/// Writes header, sizes and literals to one part of the working area and the codes to another: class, end of the
/// literals, start of the codes.
pub(super) fn encode(
    avx512: Avx512,
    words: &[[u8; 8]; WORD_COUNT],
    literals_start: usize,
    scale_index: usize,
    scratch: &mut WordsScratch,
) -> Option<(usize, (usize, usize))> {
    describe(avx512, words, literals_start, scale_index, scratch)?;
    let bits = &scratch.described.bits;
    let class = (0..CLASS_COUNT).min_by_key(|class| bits[*class])?;
    Some((class, write_streams(avx512, class, scratch)))
}

/// As `describe` of the portable code; also writes the literals.
fn describe(
    avx512: Avx512,
    words: &[[u8; 8]; WORD_COUNT],
    literals_at: usize,
    scale_index: usize,
    scratch: &mut WordsScratch,
) -> Option<()> {
    let WordsScratch { same, alike, numbers, described, literals, .. } = scratch;
    same[..1 << RECENT_BITS].fill(0);
    alike[..1 << RECENT_BITS].fill(0);
    for (number, word) in numbers[WORDS_BEFORE..].iter_mut().zip(words) {
        *number = u64::from_le_bytes(*word);
    }
    let question = Question {
        numbers,
        scale: SCALES[scale_index],
        stream_starts: core::array::from_fn(stream_start),
        literals_at,
    };
    kernels::describe(avx512, &question, (&SHAPES, &CHOICES), (same, alike), literals, described)
}

/// As `write_streams` of the portable code.
fn write_streams(avx512: Avx512, class: usize, scratch: &mut WordsScratch) -> (usize, usize) {
    let mut codes_start = CODES_BYTES;
    for stream in 0..STREAM_COUNT {
        let words = stream_start(stream)..stream_start(stream + 1);
        let count = words.len().div_ceil(8);
        kernels::pack(avx512, &scratch.described, &CHOICES, class, words, &mut scratch.packed);
        let stream_end = codes_start;
        // Bits that wait, from the lowest; fewer than eight between two packs.
        let (mut waiting, mut waiting_bits) = (0_u64, 0);
        for (bits, more) in scratch.packed.bits[..count].iter().zip(&scratch.packed.counts[..count]) {
            let more = *more as u32;
            let written = waiting | bits << (waiting_bits & 7);
            scratch.codes[codes_start - 8..codes_start].copy_from_slice(&written.to_be_bytes());
            let all = waiting_bits + more;
            codes_start -= all as usize / 8;
            // Of 64 bits or more, the uppermost were not written.
            let rest =
                if all >= 64 { bits >> 1 >> (63 - (waiting_bits & 7)) } else { written >> (all & !7 & 63) };
            (waiting, waiting_bits) = (rest, all % 8);
        }
        scratch.codes[codes_start - 8..codes_start].copy_from_slice(&waiting.to_be_bytes());
        codes_start -= (waiting_bits as usize).div_ceil(8);
        if stream < SIZES_BYTES {
            scratch.literals[1 + stream] = (stream_end - codes_start) as u8;
        }
    }
    scratch.fill_up(scratch.described.literals_end, codes_start)
}

/// As `restore` of the portable code: first all literals and bases, then one over the other.
pub(super) fn restore(avx512: Avx512, blob: &[u8], page: &mut Page, scale: f64) -> Result<(), Corrupt> {
    let words = words_of_mut(page);
    let mut symbols = [0; WORD_COUNT];
    let codes_bytes = decode_symbols(blob, &mut symbols)?;
    // The first word has no symbol: for now it is a zero.
    symbols[0] = SYMBOL_ZERO as u8;
    let (first, literals_at) = first_word(blob)?;
    let mut bases = Bases::new();
    let stored = Stored { symbols: &symbols, blob, literals_at, scale };
    let literals_end = kernels::lay_out(avx512, &stored, &SHAPES, words, &mut bases).ok_or(Corrupt)?;
    if !has_length(blob, literals_end, codes_bytes) {
        return Err(Corrupt);
    }
    words[0] = first;
    for (part, &based) in bases.based.iter().enumerate() {
        let mut based = based;
        while based != 0 {
            let index = part * 64 + based.trailing_zeros() as usize;
            based &= based - 1;
            let word = word_at(words, index) ^ word_at(words, bases.at[index % WORD_COUNT] as usize);
            words[index % WORD_COUNT] = word.to_le_bytes();
        }
    }
    Ok(())
}
