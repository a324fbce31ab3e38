//! Codes one behind the other: see [`pack`].
//!
//! Must hold: the codes of eight words take 64 bits at most, and stand in the order of the words, the first one lowest.
//! Called by [`crate::kernels`], and by [`super::describe`] for the places of codes in their table.

use core::arch::x86_64::*;
use core::ops::Range;

use super::lanes::{iota, load, store_64};
use crate::words::{CODE_PLACES, Choices, Described, Packed, WORD_COUNT};

/// As [`crate::kernels::pack`].
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,lzcnt,popcnt"
)]
pub fn pack(
    described: &Described,
    choices: &Choices,
    class: usize,
    words: Range<usize>,
    packed: &mut Packed,
) {
    let codes = &choices.codes[class % choices.codes.len()];
    let lengths = &choices.lengths[class % choices.lengths.len()];
    let places = packed.bits.as_chunks_mut::<8>().0.iter_mut().zip(packed.counts.as_chunks_mut::<8>().0);
    for (start, (bits, counts)) in words.clone().step_by(64).zip(places) {
        // The last 64 words of the page at the latest, and of those the ones that are asked for.
        let from = start.min(WORD_COUNT - 64);
        let skip = start - from;
        let count = (words.end - start).min(64);
        let move_down = _mm512_add_epi8(iota(), _mm512_set1_epi8(skip as i8));
        let wanted = u64::MAX >> (64 - count);
        let take = |bytes: &[u8; WORD_COUNT]| {
            let bytes = load(bytes[from..].first_chunk().expect("64 words before the end"));
            _mm512_permutexvar_epi8(move_down, bytes)
        };
        let (symbols, contexts) = (take(&described.symbols), take(&described.contexts));
        let place = Place::of(symbols, contexts);
        let code = _mm512_maskz_mov_epi8(wanted, place.look_up(codes));
        let length = _mm512_maskz_mov_epi8(wanted, place.look_up(lengths));
        // Two neighbours become one, three times.
        let low = _mm512_set1_epi16(0xff);
        let first_length = _mm512_and_si512(length, low);
        let second = _mm512_sllv_epi16(_mm512_srli_epi16::<8>(code), first_length);
        let code = _mm512_or_si512(_mm512_and_si512(code, low), second);
        let length = _mm512_add_epi16(first_length, _mm512_srli_epi16::<8>(length));
        let low = _mm512_set1_epi32(0xffff);
        let first_length = _mm512_and_si512(length, low);
        let second = _mm512_sllv_epi32(_mm512_srli_epi32::<16>(code), first_length);
        let code = _mm512_or_si512(_mm512_and_si512(code, low), second);
        let length = _mm512_add_epi32(first_length, _mm512_srli_epi32::<16>(length));
        let low = _mm512_set1_epi64(0xffff_ffff);
        let first_length = _mm512_and_si512(length, low);
        let second = _mm512_sllv_epi64(_mm512_srli_epi64::<32>(code), first_length);
        store_64(bits, _mm512_or_si512(_mm512_and_si512(code, low), second));
        store_64(counts, _mm512_add_epi64(first_length, _mm512_srli_epi64::<32>(length)));
    }
}

/// Where 64 codes are in their table.
#[derive(Clone, Copy)]
pub struct Place {
    /// The seven lowest bits.
    low: __m512i,
    /// Bit 7 and bit 8.
    bit_7: __mmask64,
    bit_8: __mmask64,
}

impl Place {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub fn of(symbols: __m512i, contexts: __m512i) -> Self {
        let bit_6 = _mm512_test_epi8_mask(contexts, _mm512_set1_epi8(1));
        let with_bit_6 = _mm512_or_si512(symbols, _mm512_set1_epi8(1 << 6));
        Self {
            low: _mm512_mask_mov_epi8(symbols, bit_6, with_bit_6),
            bit_7: _mm512_test_epi8_mask(contexts, _mm512_set1_epi8(2)),
            bit_8: _mm512_test_epi8_mask(contexts, _mm512_set1_epi8(4)),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub fn look_up(self, table: &[u8; CODE_PLACES]) -> __m512i {
        let (parts, _) = table.as_chunks::<64>();
        let pair = |pair: usize| {
            _mm512_permutex2var_epi8(load(&parts[2 * pair]), self.low, load(&parts[2 * pair + 1]))
        };
        let lower = _mm512_mask_mov_epi8(pair(0), self.bit_7, pair(1));
        let upper = _mm512_mask_mov_epi8(pair(2), self.bit_7, pair(3));
        _mm512_mask_mov_epi8(lower, self.bit_8, upper)
    }
}
