//! A symbol for each word: see [`describe`].
//!
//! In batches of 64 words: looked up one by one where each was seen before, then chosen for all at once, with a byte of
//! a register for each word.
//!
//! Must hold: symbols, literals and costs are those that the portable code finds, or both refuse the page. Called by
//! [`crate::kernels`].

use core::arch::x86_64::*;

use super::lanes::{Batch, iota, load, load_32, load_64, store, store_64, widen};
use super::pack::Place;
use crate::words::{
    COPY_ABOVE, Choices, DISTANCE_MAX, DISTANCE_NEAR_MAX, Described, GIVE_UP, NO_SYMBOL, Numbers, Question,
    RECENT_BITS, RECENT_FACTOR, RECENT_PLACES, REGION_BITS, ROUNDS_TO_INTEGER, Recent, Shapes, WORDS_BEFORE,
};

/// Words of a batch, and of a register.
const BATCH: usize = 64;
const EIGHT: usize = 8;

/// What is known of a batch: by word, and as registers of eight words.
struct Seen {
    /// Where the same word was seen; in the upper half, where one that is alike.
    at: [u32; BATCH],
    /// The word laid over the one that is alike.
    alike: [[u64; EIGHT]; EIGHT],
    /// And over the one at the distance that was remembered last.
    again: [[u64; EIGHT]; EIGHT],
    /// Decimal numbers.
    decimal: [[u64; EIGHT]; EIGHT],
}

/// As [`crate::kernels::describe`].
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,lzcnt,popcnt"
)]
pub fn describe(
    question: &Question<'_>,
    (shapes, choices): (&Shapes, &Choices),
    (same, alike): (&mut Recent, &mut Recent),
    literals: &mut [u8],
    described: &mut Described,
) -> Option<()> {
    let numbers = question.numbers;
    let mut seen = Seen {
        at: [0; BATCH],
        alike: [[0; EIGHT]; EIGHT],
        again: [[0; EIGHT]; EIGHT],
        decimal: [[0; EIGHT]; EIGHT],
    };
    let mut distance_again = 1;
    let mut literals_end = question.literals_at;
    let mut last_context = _mm512_setzero_si512();
    let mut bits = [_mm512_setzero_si512(); 4];
    let (symbols, _) = described.symbols.as_chunks_mut::<BATCH>();
    let (contexts, _) = described.contexts.as_chunks_mut::<BATCH>();
    for (batch, (symbols_out, contexts_out)) in symbols.iter_mut().zip(contexts).enumerate() {
        let start = batch * BATCH;
        let words: &[u64; BATCH] =
            numbers[WORDS_BEFORE + start..].first_chunk().expect("a batch of the page");
        let (words, _) = words.as_chunks::<EIGHT>();
        // The first word has no symbol.
        let mut nonzero = if batch == 0 { u64::MAX - 1 } else { u64::MAX };
        let mut large = 0;
        for (eight, words) in words.iter().enumerate() {
            let words = load_64(words);
            let zero = _mm512_cmpeq_epi64_mask(words, _mm512_setzero_si512());
            nonzero &= !(u64::from(zero) << (EIGHT * eight));
            let is_large = _mm512_cmpgt_epu64_mask(words, _mm512_set1_epi64(COPY_ABOVE as i64));
            large |= u64::from(is_large) << (EIGHT * eight);
        }
        look_up(numbers, start, nonzero, (same, alike), &mut seen.at);
        let is_same = lay_over_seen(numbers, words, &seen.at, &mut seen.alike);
        let (same_less_one, alike_less_one) = distances(start, &seen.at);
        let mut copies = is_same & nonzero & large & !same_less_one.too_far;
        let again_exact =
            lay_over_again(numbers, start, copies, &seen.at, &mut distance_again, &mut seen.again) & nonzero;
        copies &= !again_exact;

        // The cheapest symbol of each family.
        let mut best = Choice::zero(words, choices);
        let mut literal_again = best.replace_if_cheaper(Choice::based(&seen.again, &choices.again, choices));
        let near = _mm512_cmplt_epu8_mask(alike_less_one.bytes, _mm512_set1_epi8(DISTANCE_NEAR_MAX as i8));
        let alike = Choice::alike(&seen.alike, near, alike_less_one.too_far, choices);
        let mut literal_alike = best.replace_if_cheaper(alike);
        let mut literal_decimal = 0;
        if question.scale != 0.0 {
            let decimal = Choice::decimal(words, question.scale, &mut seen.decimal, choices);
            literal_decimal = best.replace_if_cheaper(decimal);
        }
        let copy_place = _mm512_min_epu8(same_less_one.bytes, _mm512_set1_epi8(63));
        let copy = _mm512_permutexvar_epi8(copy_place, load(&choices.copy));
        let mut symbols = _mm512_mask_mov_epi8(best.symbol, copies, copy);
        symbols = _mm512_mask_mov_epi8(symbols, again_exact, _mm512_set1_epi8(choices.symbol_again as i8));
        symbols = _mm512_mask_mov_epi8(symbols, !nonzero, _mm512_set1_epi8(choices.symbol_zero as i8));
        literal_alike &= !literal_decimal;
        literal_again &= !literal_decimal & !literal_alike;

        let bytes = _mm512_permutexvar_epi8(symbols, load(&shapes.bytes));
        if gives_up(start, literals_end - question.literals_at, bytes) {
            return None;
        }
        let distances = _mm512_mask_mov_epi8(alike_less_one.bytes, copies, same_less_one.bytes);
        let distance_mask = _mm512_permutexvar_epi8(symbols, load(&shapes.distance_mask));
        let distances = Batch::of(_mm512_and_si512(distances, distance_mask));
        let rotates = Batch::of(_mm512_permutexvar_epi8(symbols, load(&shapes.rotate)));
        let bytes = Batch::of(bytes);
        let word_of_byte = load(&core::array::from_fn(|byte| byte as u8 / 8));
        let byte_of_word = _mm512_set1_epi64(0x0706_0504_0302_0100);
        for (eight, words) in words.iter().enumerate() {
            let of_eight = |mask: u64| (mask >> (EIGHT * eight)) as u8;
            let mut literal = load_64(words);
            literal = _mm512_mask_mov_epi64(literal, of_eight(literal_again), load_64(&seen.again[eight]));
            literal = _mm512_mask_mov_epi64(literal, of_eight(literal_alike), load_64(&seen.alike[eight]));
            if question.scale != 0.0 {
                let decimal = load_64(&seen.decimal[eight]);
                literal = _mm512_mask_mov_epi64(literal, of_eight(literal_decimal), decimal);
            }
            literal = _mm512_maskz_mov_epi64(!of_eight(copies), literal);
            let value = _mm512_rorv_epi64(literal, widen(&rotates.eights()[eight]));
            let value = _mm512_or_si512(value, widen(&distances.eights()[eight]));
            let bytes = _mm512_set1_epi64(i64::from_le_bytes(bytes.eights()[eight]));
            let bytes = _mm512_shuffle_epi8(bytes, word_of_byte);
            let kept = _mm512_cmpgt_epu8_mask(bytes, byte_of_word);
            let place = literals.get_mut(literals_end..)?.first_chunk_mut()?;
            store(place, _mm512_maskz_compress_epi8(kept, value));
            literals_end += kept.count_ones() as usize;
        }

        // Contexts, and what all that costs.
        let context = _mm512_permutexvar_epi8(symbols, load(&choices.context));
        let one_down = _mm512_sub_epi8(iota(), _mm512_set1_epi8(1));
        let mut before = _mm512_permutexvar_epi8(one_down, context);
        before = _mm512_mask_permutexvar_epi8(before, 1, one_down, last_context);
        last_context = context;
        let mut starts = 0;
        for at in question.stream_starts {
            starts |= u64::from(at / BATCH == batch) << (at % BATCH);
        }
        before = _mm512_maskz_mov_epi8(!starts, before);
        store(symbols_out, symbols);
        store(contexts_out, before);
        let place = Place::of(symbols, before);
        let has_code = if batch == 0 { u64::MAX - 1 } else { u64::MAX };
        for (sum, lengths) in bits.iter_mut().zip(&choices.lengths) {
            let lengths = _mm512_maskz_mov_epi8(has_code, place.look_up(lengths));
            *sum = _mm512_add_epi64(*sum, _mm512_sad_epu8(lengths, _mm512_setzero_si512()));
        }
    }
    for (bits, sum) in described.bits.iter_mut().zip(bits) {
        *bits = _mm512_reduce_add_epi64(sum) as u32;
    }
    described.literals_end = literals_end;
    Some(())
}

/// Looks up where each word that is not zero was seen, and notes that it is here.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,lzcnt,popcnt"
)]
fn look_up(
    numbers: &Numbers,
    start: usize,
    nonzero: u64,
    (same, alike): (&mut Recent, &mut Recent),
    seen_at: &mut [u32; BATCH],
) {
    let words: &[u64; BATCH] = numbers[WORDS_BEFORE + start..].first_chunk().expect("a batch of the page");
    // What is zero is looked up and noted in a place of its own, where nobody looks.
    let mut places = [[0; EIGHT]; EIGHT];
    let eights = words.as_chunks::<EIGHT>().0.iter().zip(&mut places).enumerate();
    for (eight, (words, places)) in eights {
        let words = load_64(words);
        let alike = recent_places(_mm512_srli_epi64::<{ REGION_BITS }>(words));
        let both = _mm512_or_si512(recent_places(words), _mm512_slli_epi64::<32>(alike));
        let nowhere = _mm512_set1_epi64((NOWHERE | NOWHERE << 32) as i64);
        store_64(places, _mm512_mask_mov_epi64(nowhere, (nonzero >> (EIGHT * eight)) as u8, both));
    }
    let places: &[u64; BATCH] = places.as_flattened().try_into().expect("64 are 8 times 8");
    for lane in 0..BATCH {
        let place = places[lane];
        let index = (start + lane) as u16;
        let same = &mut same[place as u32 as usize % RECENT_PLACES];
        let alike = &mut alike[(place >> 32) as usize % RECENT_PLACES];
        seen_at[lane] = u32::from(*same) | u32::from(*alike) << 16;
        (*same, *alike) = (index, index);
    }
}

/// Lays each word over the one that is alike; says which were seen as they are.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,lzcnt,popcnt"
)]
fn lay_over_seen(
    numbers: &Numbers,
    words: &[[u64; EIGHT]],
    seen_at: &[u32; BATCH],
    alike: &mut [[u64; EIGHT]; EIGHT],
) -> u64 {
    let mut is_same = 0;
    let eights = words.iter().zip(seen_at.as_chunks::<EIGHT>().0).zip(alike).enumerate();
    for (eight, ((words, at), alike)) in eights {
        let words = load_64(words);
        // One by one into a register: stores and a load would have to wait for each other.
        let same_at = |lane: usize| numbers[WORDS_BEFORE + at[lane] as usize % 512] as i64;
        let alike_at = |lane: usize| numbers[WORDS_BEFORE + (at[lane] >> 16) as usize % 512] as i64;
        let same = _mm512_setr_epi64(
            same_at(0),
            same_at(1),
            same_at(2),
            same_at(3),
            same_at(4),
            same_at(5),
            same_at(6),
            same_at(7),
        );
        is_same |= u64::from(_mm512_cmpeq_epi64_mask(words, same)) << (EIGHT * eight);
        let base = _mm512_setr_epi64(
            alike_at(0),
            alike_at(1),
            alike_at(2),
            alike_at(3),
            alike_at(4),
            alike_at(5),
            alike_at(6),
            alike_at(7),
        );
        store_64(alike, _mm512_xor_si512(words, base));
    }
    is_same
}

/// Where zeros are noted.
const NOWHERE: u64 = 1 << RECENT_BITS;

/// As [`recent_place`](crate::words::recent_place).
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn recent_places(words: __m512i) -> __m512i {
    let product = _mm512_mullo_epi64(words, _mm512_set1_epi64(RECENT_FACTOR as i64));
    _mm512_srli_epi64::<{ 64 - RECENT_BITS }>(product)
}

/// Distances of a batch.
struct Distances {
    /// Each less 1; those that are too far may be anything.
    bytes: __m512i,
    too_far: u64,
}

/// To the same words, and to those that are alike.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
fn distances(start: usize, seen_at: &[u32; BATCH]) -> (Distances, Distances) {
    let mut same = Distances { bytes: _mm512_setzero_si512(), too_far: 0 };
    let mut alike = Distances { bytes: _mm512_setzero_si512(), too_far: 0 };
    let first_of_four = load(&core::array::from_fn(|byte| byte as u8 % 16 * 4));
    let far = _mm512_set1_epi32(DISTANCE_MAX as i32 - 1);
    for (part, at) in seen_at.as_chunks::<16>().0.iter().enumerate() {
        let at = load_32(at);
        let index = _mm512_cvtepu8_epi32(_mm512_castsi512_si128(iota()));
        let less_one = _mm512_add_epi32(index, _mm512_set1_epi32((start + 16 * part) as i32 - 1));
        let lanes = 0xffff << (16 * part);
        let add = |to: &mut Distances, at| {
            let less_one = _mm512_sub_epi32(less_one, at);
            to.bytes = _mm512_mask_permutexvar_epi8(to.bytes, lanes, first_of_four, less_one);
            to.too_far |= u64::from(_mm512_cmpgt_epu32_mask(less_one, far)) << (16 * part);
        };
        add(&mut same, _mm512_and_si512(at, _mm512_set1_epi32(0xffff)));
        add(&mut alike, _mm512_srli_epi32::<16>(at));
    }
    (same, alike)
}

/// Lays each word over the one at the distance that was remembered last, which copies change. Says which are the same.
///
/// In three steps without a branch on content, except for how many copies and changes there are.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,lzcnt,popcnt"
)]
fn lay_over_again(
    numbers: &Numbers,
    start: usize,
    copies: u64,
    seen_at: &[u32; BATCH],
    distance_again: &mut usize,
    again: &mut [[u64; EIGHT]; EIGHT],
) -> u64 {
    let mut exact = 0;
    for (eight, again) in again.iter_mut().enumerate() {
        let start = start + EIGHT * eight;
        let words = load_64(numbers[WORDS_BEFORE + start..].first_chunk().expect("eight words of the page"));
        let over = |distance: usize| {
            let at = WORDS_BEFORE + start - distance.min(WORDS_BEFORE);
            _mm512_xor_si512(words, load_64(numbers[at..].first_chunk().expect("eight words of the page")))
        };
        let mut laid_over = over(*distance_again);
        let mut rest = (copies >> (EIGHT * eight)) as u8;
        // Of the lanes that were not yet passed, those that differ.
        let mut differs = _mm512_test_epi64_mask(laid_over, laid_over);
        while rest & differs != 0 {
            let lane = (rest & differs).trailing_zeros();
            *distance_again = start + lane as usize - seen_at[EIGHT * eight + lane as usize] as u16 as usize;
            let above = (0xfe_u32 << lane) as u8;
            laid_over = _mm512_mask_mov_epi64(laid_over, above, over(*distance_again));
            differs = _mm512_test_epi64_mask(laid_over, laid_over);
            rest &= above;
        }
        exact |= u64::from(!differs) << (EIGHT * eight);
        store_64(again, laid_over);
    }
    exact
}

/// For each word of a batch a symbol, and what it costs.
struct Choice {
    symbol: __m512i,
    cost: __m512i,
}

/// In which lanes a byte of each of eight words goes, for the words of each register.
const LANES: u64 = 0xff;

impl Choice {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn of(symbol: __m512i, choices: &Choices) -> Self {
        Self { symbol, cost: _mm512_permutexvar_epi8(symbol, load(&choices.cost)) }
    }

    /// The literals as they are.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512vbmi")]
    fn zero(words: &[[u64; EIGHT]], choices: &Choices) -> Self {
        let first_byte = first_bytes();
        let (mut leading, mut leading_of_lowest) = (_mm512_setzero_si512(), _mm512_setzero_si512());
        for (eight, words) in words.iter().enumerate() {
            let words = load_64(words);
            let lowest = _mm512_and_si512(words, _mm512_sub_epi64(_mm512_setzero_si512(), words));
            let lanes = LANES << (EIGHT * eight);
            leading = _mm512_mask_permutexvar_epi8(leading, lanes, first_byte, _mm512_lzcnt_epi64(words));
            leading_of_lowest = _mm512_mask_permutexvar_epi8(
                leading_of_lowest,
                lanes,
                first_byte,
                _mm512_lzcnt_epi64(lowest),
            );
        }
        // 63 less the leading zeros is the number of a bit: its byte, and that of the lowest one times 8.
        let sixty_three = _mm512_set1_epi8(63);
        let highest = _mm512_and_si512(
            _mm512_srli_epi16::<3>(_mm512_sub_epi8(sixty_three, leading)),
            _mm512_set1_epi8(7),
        );
        let lowest =
            _mm512_and_si512(_mm512_sub_epi8(sixty_three, leading_of_lowest), _mm512_set1_epi8(0x38));
        let place = _mm512_or_si512(highest, lowest);
        Self::of(_mm512_permutexvar_epi8(place, load(&choices.zero)), choices)
    }

    /// Literals laid over a base.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512vbmi")]
    fn based(literals: &[[u64; EIGHT]; EIGHT], family: &[[u8; 64]; 3], choices: &Choices) -> Self {
        let literals = Literals::of(literals);
        Self::of(literals.look_up(family), choices)
    }

    /// The same, the base near or far.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512vbmi")]
    fn alike(literals: &[[u64; EIGHT]; EIGHT], near: u64, too_far: u64, choices: &Choices) -> Self {
        let literals = Literals::of(literals);
        let far = literals.look_up(&choices.far);
        let symbol = _mm512_mask_mov_epi8(far, near, literals.look_up(&choices.near));
        Self::of(_mm512_mask_mov_epi8(symbol, too_far, _mm512_set1_epi8(NO_SYMBOL as i8)), choices)
    }

    /// Decimal numbers, which are written to `numbers`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi")]
    fn decimal(
        words: &[[u64; EIGHT]],
        scale: f64,
        numbers: &mut [[u64; EIGHT]; EIGHT],
        choices: &Choices,
    ) -> Self {
        let mut bytes = _mm512_setzero_si512();
        let scale = _mm512_set1_pd(scale);
        for (eight, (words, number_out)) in words.iter().zip(numbers).enumerate() {
            let words = load_64(words);
            // From 2^-17 to 2^24; what is not must not get into the multiplication.
            let exponent = _mm512_and_si512(_mm512_srli_epi64::<52>(words), _mm512_set1_epi64(0x7ff));
            let exponent = _mm512_sub_epi64(exponent, _mm512_set1_epi64(1006));
            let moderate = _mm512_cmple_epu64_mask(exponent, _mm512_set1_epi64(41));
            let scaled = _mm512_mul_pd(_mm512_castsi512_pd(_mm512_maskz_mov_epi64(moderate, words)), scale);
            let rounded = _mm512_add_pd(scaled, _mm512_set1_pd(ROUNDS_TO_INTEGER));
            let number = _mm512_cvtepi64_epi32(_mm512_castpd_si512(rounded));
            let zigzag = _mm256_xor_si256(_mm256_slli_epi32::<1>(number), _mm256_srai_epi32::<31>(number));
            let back = _mm512_div_pd(_mm512_cvtepi32_pd(number), scale);
            let exact = _mm512_mask_cmpeq_epi64_mask(moderate, _mm512_castpd_si512(back), words);
            let zigzag = _mm512_cvtepu32_epi64(zigzag);
            store_64(number_out, zigzag);
            // Bytes of the number, two or more; 0: it is none.
            let leading = _mm512_lzcnt_epi64(_mm512_or_si512(zigzag, _mm512_set1_epi64(0x100)));
            let count = _mm512_sub_epi64(_mm512_set1_epi64(8), _mm512_srli_epi64::<3>(leading));
            let count = _mm512_maskz_mov_epi64(exact, count);
            bytes = _mm512_mask_permutexvar_epi8(bytes, LANES << (EIGHT * eight), first_bytes(), count);
        }
        Self::of(_mm512_permutexvar_epi8(bytes, load(&choices.decimal)), choices)
    }

    /// Takes the other one where it is cheaper, or costs the same and comes first. Says where.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn replace_if_cheaper(&mut self, other: Self) -> u64 {
        let cheaper = _mm512_cmplt_epu8_mask(other.cost, self.cost);
        let same = _mm512_cmpeq_epu8_mask(other.cost, self.cost);
        let takes = cheaper | _mm512_mask_cmplt_epu8_mask(same, other.symbol, self.symbol);
        self.symbol = _mm512_mask_mov_epi8(self.symbol, takes, other.symbol);
        self.cost = _mm512_mask_mov_epi8(self.cost, takes, other.cost);
        takes
    }
}

/// The first byte of each of eight words, again and again.
#[inline]
#[target_feature(enable = "avx512f")]
fn first_bytes() -> __m512i {
    load(&core::array::from_fn(|byte| byte as u8 % 8 * 8))
}

/// What counts of literals that are laid over a base, a byte for each word.
struct Literals {
    /// The number of the highest bit, 0 for a zero.
    highest: __m512i,
    /// The three lowest bits are zeros; the fourth too.
    three_zeros: u64,
    four_zeros: u64,
}

impl Literals {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512vbmi")]
    fn of(literals: &[[u64; EIGHT]; EIGHT]) -> Self {
        let (mut leading, mut low) = (_mm512_setzero_si512(), _mm512_setzero_si512());
        for (eight, literals) in literals.iter().enumerate() {
            let literals = load_64(literals);
            let lanes = LANES << (EIGHT * eight);
            let zeros = _mm512_lzcnt_epi64(_mm512_or_si512(literals, _mm512_set1_epi64(1)));
            leading = _mm512_mask_permutexvar_epi8(leading, lanes, first_bytes(), zeros);
            low = _mm512_mask_permutexvar_epi8(low, lanes, first_bytes(), literals);
        }
        Self {
            highest: _mm512_sub_epi8(_mm512_set1_epi8(63), leading),
            three_zeros: _mm512_testn_epi8_mask(low, _mm512_set1_epi8(7)),
            four_zeros: _mm512_testn_epi8_mask(low, _mm512_set1_epi8(15)),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn look_up(&self, family: &[[u8; 64]; 3]) -> __m512i {
        let [few, three, more] = family;
        let symbol = _mm512_permutexvar_epi8(self.highest, load(few));
        let symbol = _mm512_mask_permutexvar_epi8(symbol, self.three_zeros, self.highest, load(three));
        _mm512_mask_permutexvar_epi8(symbol, self.four_zeros, self.highest, load(more))
    }
}

/// Is this enough to see that the page is none for us? `so_far` bytes came before this batch.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn gives_up(start: usize, so_far: usize, bytes: __m512i) -> bool {
    if start >= GIVE_UP[GIVE_UP.len() - 1].words {
        return false;
    }
    let sum = |lanes: u64| {
        let bytes = _mm512_maskz_mov_epi8(lanes, bytes);
        _mm512_reduce_add_epi64(_mm512_sad_epu8(bytes, _mm512_setzero_si512())) as usize
    };
    GIVE_UP.iter().filter(|limit| (start + 1..=start + BATCH).contains(&limit.words)).any(|limit| {
        let lanes = u64::MAX >> (BATCH - (limit.words - start));
        so_far + sum(lanes) > limit.literal_bytes
    })
}
