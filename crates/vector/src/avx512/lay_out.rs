//! Literals to their places: see [`lay_out`].
//!
//! Must hold: whatever the blob holds, nothing outside of it is read, and each base lies in front of its word; what
//! asks for more is refused. Called by [`crate::kernels`].

use core::arch::x86_64::*;

use super::lanes::{Batch, iota, load, store, store_16, widen};
use crate::words::{Bases, IS_AGAIN, IS_BASED, IS_COPY, IS_DECIMAL, Shapes, Stored, WORD_COUNT, Words};

/// Symbols of one register.
const BATCH: usize = 64;

/// As [`crate::kernels::lay_out`].
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,lzcnt,popcnt"
)]
pub fn lay_out(stored: &Stored<'_>, shapes: &Shapes, words: &mut Words, bases: &mut Bases) -> Option<usize> {
    let mut first_bytes = [0; WORD_COUNT];
    let end = literals(stored, shapes, words, &mut first_bytes)?;
    find_bases(stored.symbols, shapes, &first_bytes, bases).then_some(end)
}

/// Writes the literals to the words, and the first byte that each stores to `first_bytes`.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,lzcnt,popcnt"
)]
fn literals(
    stored: &Stored<'_>,
    shapes: &Shapes,
    words: &mut Words,
    first_bytes: &mut [u8; WORD_COUNT],
) -> Option<usize> {
    let (bytes, rotate) = (load(&shapes.bytes), load(&shapes.rotate));
    let (bits_unused, shift) = (load(&shapes.bits_unused), load(&shapes.shift));
    // Byte `b` of word `w`: what is `b` bytes behind where the word begins.
    let byte_of_word = _mm512_set1_epi64(0x0706_0504_0302_0100);
    let word_of_byte = load(&core::array::from_fn(|byte| byte as u8 / 8));
    let mut at = stored.literals_at;
    let batches = stored.symbols.as_chunks::<BATCH>().0.iter();
    let outs = words.as_flattened_mut().as_chunks_mut::<{ BATCH * 8 }>().0.iter_mut();
    for ((symbols, out), first_bytes) in batches.zip(outs).zip(first_bytes.as_chunks_mut::<BATCH>().0) {
        let symbols = load(symbols);
        // Sums of the bytes of each eight words.
        let mut ends = _mm512_permutexvar_epi8(symbols, bytes);
        ends = _mm512_add_epi8(ends, _mm512_slli_epi64::<8>(ends));
        ends = _mm512_add_epi8(ends, _mm512_slli_epi64::<16>(ends));
        ends = _mm512_add_epi8(ends, _mm512_slli_epi64::<32>(ends));
        let starts = Batch::of(_mm512_slli_epi64::<8>(ends));
        let ends = Batch::of(ends);
        let rotates = Batch::of(_mm512_permutexvar_epi8(symbols, rotate));
        let bits_unused = Batch::of(_mm512_permutexvar_epi8(symbols, bits_unused));
        let shifts = Batch::of(_mm512_permutexvar_epi8(symbols, shift));
        let outs = out.as_chunks_mut::<64>().0.iter_mut();
        let first_bytes = first_bytes.as_chunks_mut::<8>().0;
        for (eight, (out, first_bytes)) in outs.zip(first_bytes).enumerate() {
            let literals: &[u8; 64] = stored.blob.get(at..)?.first_chunk()?;
            let starts = _mm512_set1_epi64(i64::from_le_bytes(starts.eights()[eight]));
            let places = _mm512_add_epi8(_mm512_shuffle_epi8(starts, word_of_byte), byte_of_word);
            let raw = _mm512_permutexvar_epi8(places, load(literals));
            *first_bytes = _mm_cvtsi128_si64(_mm512_cvtepi64_epi8(raw)).to_le_bytes();
            let mask = _mm512_srlv_epi64(_mm512_set1_epi64(-1), widen(&bits_unused.eights()[eight]));
            let mask = _mm512_sllv_epi64(mask, widen(&shifts.eights()[eight]));
            let turned = _mm512_rolv_epi64(raw, widen(&rotates.eights()[eight]));
            store(out, _mm512_and_si512(turned, mask));
            at += ends.eights()[eight][7] as usize;
        }
        if stored.scale != 0.0 {
            let kinds = _mm512_permutexvar_epi8(symbols, load(&shapes.kind));
            let decimals = _mm512_test_epi8_mask(kinds, _mm512_set1_epi8(IS_DECIMAL as i8));
            for (eight, out) in out.as_chunks_mut::<64>().0.iter_mut().enumerate() {
                let decimals = (decimals >> (8 * eight)) as u8;
                if decimals != 0 {
                    store(out, divided(load(out), decimals, stored.scale));
                }
            }
        }
    }
    Some(at)
}

/// Turns decimal numbers, whose sign is in the lowest bit, into floats.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn divided(literals: __m512i, decimals: u8, scale: f64) -> __m512i {
    let zigzag = _mm512_cvtepi64_epi32(literals);
    let sign = _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_and_si256(zigzag, _mm256_set1_epi32(1)));
    let number = _mm256_xor_si256(_mm256_srli_epi32::<1>(zigzag), sign);
    let quotient = _mm512_div_pd(_mm512_cvtepi32_pd(number), _mm512_set1_pd(scale));
    _mm512_mask_mov_epi64(literals, decimals, _mm512_castpd_si512(quotient))
}

/// Whether all bases are in the page.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,lzcnt,popcnt"
)]
fn find_bases(
    symbols: &[u8; WORD_COUNT],
    shapes: &Shapes,
    first_bytes: &[u8; WORD_COUNT],
    bases: &mut Bases,
) -> bool {
    let kind = load(&shapes.kind);
    let (distance_mask, distance_less_one) = (load(&shapes.distance_mask), load(&shapes.distance_less_one));
    let lane = iota();
    let lane_number = _mm512_add_epi8(lane, _mm512_set1_epi8(1));
    // Of 32 words each.
    let mut index = iota_16();
    let mut too_far = 0_u32;
    // The distance that was remembered last, less 1, in each lane.
    let mut again = _mm512_setzero_si512();
    let batches = symbols.as_chunks::<BATCH>().0.iter().zip(first_bytes.as_chunks::<BATCH>().0);
    let outs = bases.at.as_chunks_mut::<BATCH>().0.iter_mut().zip(&mut bases.based);
    for ((symbols, first_bytes), (out, based)) in batches.zip(outs) {
        let symbols = load(symbols);
        let kinds = _mm512_permutexvar_epi8(symbols, kind);
        let is = |kind: u8| _mm512_test_epi8_mask(kinds, _mm512_set1_epi8(kind as i8));
        let explicit = _mm512_and_si512(load(first_bytes), _mm512_permutexvar_epi8(symbols, distance_mask));
        let explicit = _mm512_add_epi8(explicit, _mm512_permutexvar_epi8(symbols, distance_less_one));
        // For each lane the number of the last one up to it that is remembered: the largest so far.
        let mut last = _mm512_maskz_mov_epi8(is(IS_COPY), lane_number);
        last = _mm512_max_epu8(last, lanes_up::<1>(last, lane));
        last = _mm512_max_epu8(last, lanes_up::<2>(last, lane));
        last = _mm512_max_epu8(last, lanes_up::<4>(last, lane));
        last = _mm512_max_epu8(last, lanes_up::<8>(last, lane));
        last = _mm512_max_epu8(last, lanes_up::<16>(last, lane));
        last = _mm512_max_epu8(last, lanes_up::<32>(last, lane));
        let found = _mm512_test_epi8_mask(last, last);
        let place = _mm512_sub_epi8(last, _mm512_set1_epi8(1));
        let remembered = _mm512_mask_permutexvar_epi8(again, found, place, explicit);
        again = _mm512_permutexvar_epi8(_mm512_set1_epi8(63), remembered);
        let less_one = _mm512_mask_mov_epi8(explicit, is(IS_AGAIN), remembered);
        *based = is(IS_BASED);
        let halves = [_mm512_castsi512_si256(less_one), _mm512_extracti64x4_epi64::<1>(less_one)];
        for (half, (out, less_one)) in out.as_chunks_mut::<32>().0.iter_mut().zip(halves).enumerate() {
            let distance = _mm512_add_epi16(_mm512_cvtepu8_epi16(less_one), _mm512_set1_epi16(1));
            too_far |= _mm512_cmpgt_epu16_mask(distance, index) & (*based >> (32 * half)) as u32;
            store_16(out, _mm512_sub_epi16(index, distance));
            index = _mm512_add_epi16(index, _mm512_set1_epi16(32));
        }
    }
    too_far == 0
}

/// 0 to 31.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn iota_16() -> __m512i {
    _mm512_cvtepu8_epi16(_mm512_castsi512_si256(iota()))
}

/// Each lane what is `BY` lanes below it, and 0 where nothing is.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn lanes_up<const BY: i8>(value: __m512i, lane: __m512i) -> __m512i {
    let from = _mm512_sub_epi8(lane, _mm512_set1_epi8(BY));
    _mm512_maskz_permutexvar_epi8(u64::MAX << BY, from, value)
}
