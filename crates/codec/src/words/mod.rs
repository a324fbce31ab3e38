//! A codec of our own for pages made of 64-bit words: heaps, arrays of pointers or numbers, columns of floats.
//!
//! Each of the 512 words is written as one symbol ([`symbols`]): where its base word is, and how many bytes of literal
//! are laid over that base. The idea is that of WKdm (Wilson, Kaplan, Smaragdakis 1999), with 64-bit words, the page
//! itself as the dictionary, and prefix codes that depend on the symbol before.
//!
//! ```text
//! blob:   header   sizes     literals ->                  <- codes
//!         1 byte   3 bytes   distances and literal bytes, four streams of codes, the first
//!                            as the symbols ask for them  one at the end, each from its end
//! header: class of codes (2 bits), decimal scale (2 bits), bytes of the first word (4 bits)
//! sizes:  of the first three streams of codes
//! ```
//! A code can be decoded only when the one before it in its stream is: so each quarter of the page has a stream, and a
//! processor decodes four at once. Literals and codes meet without a gap, and each may be read past its end: what is
//! read then is a part of the other.
//!
//! Must hold:
//! - `decompress(compress(page)) == page`, for every page that is taken.
//! - Nothing allocates. `decompress` ends on any input, and writes nothing outside of the page.
//! - The same page gives the same bytes, whatever the working area was used for before.
//!
//! Decimal floats are divided: threads that compress or decompress round to the nearest, as threads of the engine do
//! from their first instruction.
//!
//! Called by [`crate`], which writes in front which codec made the blob; its caller compares the content hash of what
//! was read back.

mod codes;
#[cfg(test)]
mod fuzz;
mod lengths;
mod symbols;
#[cfg(test)]
mod tests;
mod vector_tables;
mod vectors;

use self::codes::{BITS, CODES, CONTEXT_START, CodesOfClass, MEANINGS, MeaningsOfClass, code_index};
use self::lengths::CLASS_COUNT;
use self::symbols::{
    AGAIN, ALIKE, COPY, DECIMAL_16, INFO, NEVER, SYMBOL_AGAIN, SYMBOL_ZERO, ZERO, decimal_cost,
};
use uswap_vector::Avx512;
use uswap_vector::words::{
    COPY_ABOVE, DISTANCE_MAX, DISTANCE_NEAR_MAX, Described, GIVE_UP, Numbers, Packed, RECENT_BITS,
    RECENT_PLACES, REGION_BITS, ROUNDS_TO_INTEGER, Recent, WORDS_BEFORE, recent_place,
};

use crate::{Corrupt, PAGE_BYTES, Page};

/// Words of one page.
const WORD_COUNT: usize = PAGE_BYTES / 8;

/// Codes between two refills of the decoder: 7 * 8 bits fit into the 57 that one load is sure to give. The first word
/// has no code, so that 511 = 73 * 7 remain.
const GROUP_WORDS: usize = 7;
const WINDOW_BITS: u32 = 57;
const GROUP_COUNT: usize = (WORD_COUNT - 1) / GROUP_WORDS;
const _: () = assert!(GROUP_WORDS * codes::CODE_BITS_MAX <= WINDOW_BITS as usize);
const _: () = assert!(1 + GROUP_COUNT * GROUP_WORDS == WORD_COUNT);

/// Streams of codes. Each has as many groups, and the last one those that are left.
const STREAM_COUNT: usize = 4;
const STREAM_GROUPS: usize = GROUP_COUNT / STREAM_COUNT;
const SIZES_BYTES: usize = STREAM_COUNT - 1;
const _: () = assert!(STREAM_GROUPS * GROUP_WORDS * codes::CODE_BITS_MAX / 8 <= u8::MAX as usize);

/// Where the literals of the first word begin.
const LITERALS_START: usize = 1 + SIZES_BYTES;

/// Fewest bytes in front of the codes: header, sizes and literals. The decoder loads eight bytes of codes at once, up
/// to seven bytes ahead of what it needs.
const LITERALS_END_MIN: usize = 16;

/// Bytes of literals that are in reach for one group, wherever in its 56 bytes a word begins. A power of two and eight
/// bytes more, so that a mask is all the check that an index needs.
const GROUP_LITERALS_BYTES: usize = 64 + 8;

/// Fewest bytes of codes: what the literals of the last group may read past their end.
const CODES_BYTES_MIN: usize = GROUP_LITERALS_BYTES;

/// Most bytes of header, sizes and literals, and what a group may touch behind them.
const LITERALS_BYTES: usize = LITERALS_START + PAGE_BYTES + GROUP_LITERALS_BYTES;

/// Most bytes of codes, and eight more that a store may touch.
const CODES_BYTES: usize = WORD_COUNT + STREAM_COUNT + 8;

/// What a decimal float was multiplied with, by its number in the header. 0: the page has no decimal floats. The last
/// is not written so far.
const SCALES: [f64; 4] = [0.0, 100.0, 1000.0, 10.0];

/// Working area of [`compress`], about 22 KiB. One for each thread that compresses.
///
/// `WordsScratch::new` is `const`. It holds no pointer and may be moved. What is in it between two calls has no effect
/// on results.
pub(crate) struct WordsScratch {
    /// Where a word was last seen, by its hash.
    same: Recent,
    /// Where a word with the same high bits was last seen, by their hash.
    alike: Recent,
    /// [`code_index`] of each word.
    symbols: [u16; WORD_COUNT],
    /// Distance and literal of each word.
    stored: [u64; WORD_COUNT],
    literals: [u8; LITERALS_BYTES],
    codes: [u8; CODES_BYTES],
    /// For the vector kernels: the page, what they say about it, and codes of one stream.
    numbers: Numbers,
    described: Described,
    packed: Packed,
}

impl WordsScratch {
    /// An empty working area.
    pub(crate) const fn new() -> Self {
        Self {
            same: [0; RECENT_PLACES],
            alike: [0; RECENT_PLACES],
            symbols: [0; WORD_COUNT],
            stored: [0; WORD_COUNT],
            literals: [0; LITERALS_BYTES],
            codes: [0; CODES_BYTES],
            numbers: [0; WORDS_BEFORE + WORD_COUNT],
            described: Described::new(),
            packed: Packed::new(),
        }
    }

    /// Writes what `describe` found: the literals from `literals_start` on, the codes backwards from the end of theirs.
    /// Returns the end of the literals and the start of the codes.
    ///
    /// A loop of its own. Where a literal goes is known late, and in the loop that looks words up the processor would
    /// hold back each look-up until then, as it cannot know that the two do not touch the same memory.
    fn write_streams(&mut self, literals_start: usize, codes: &CodesOfClass) -> (usize, usize) {
        let mut literals_end = literals_start;
        let mut codes_start = CODES_BYTES;
        // Bits that wait, from the lowest; fewer than eight between two groups.
        let mut waiting = 0_u64;
        let mut waiting_bits = 0;
        let mut stream_end = codes_start;
        let (groups, _) = self.symbols[1..].as_chunks::<GROUP_WORDS>();
        let (stored_groups, _) = self.stored[1..].as_chunks::<GROUP_WORDS>();
        for (index, (group, stored_group)) in groups.iter().zip(stored_groups).enumerate() {
            let group_literals: &mut [u8; GROUP_LITERALS_BYTES] = self.literals[literals_end..]
                .first_chunk_mut()
                .expect("the literals have room for eight bytes of each word");
            let mut group_bytes = 0;
            for (symbol, stored) in group.iter().zip(stored_group) {
                let code = codes[*symbol as usize & (codes.len() - 1)];
                waiting |= (code as u64 >> 8) << (waiting_bits & 63);
                waiting_bits += code as u32 & 0xff;
                let at = group_bytes & 63;
                group_literals[at..at + 8].copy_from_slice(&stored.to_le_bytes());
                group_bytes += INFO[*symbol as usize & 0x3f].bytes as usize;
            }
            literals_end += group_bytes;
            self.codes[codes_start - 8..codes_start].copy_from_slice(&waiting.to_be_bytes());
            codes_start -= waiting_bits as usize / 8;
            waiting >>= waiting_bits & !7 & 63;
            waiting_bits %= 8;
            if starts_stream(index + 1) {
                codes_start -= (waiting_bits as usize).div_ceil(8);
                (waiting, waiting_bits) = (0, 0);
                self.literals[index.div_ceil(STREAM_GROUPS)] = (stream_end - codes_start) as u8;
                stream_end = codes_start;
            }
        }
        codes_start -= (waiting_bits as usize).div_ceil(8);
        self.fill_up(literals_end, codes_start)
    }

    /// Makes neither part shorter than what the decoder loads at once from the other. Returns where they meet.
    fn fill_up(&mut self, mut literals_end: usize, mut codes_start: usize) -> (usize, usize) {
        let codes_start_max = CODES_BYTES - CODES_BYTES_MIN;
        if codes_start > codes_start_max {
            self.codes[codes_start_max..codes_start].fill(0);
            codes_start = codes_start_max;
        }
        if literals_end < LITERALS_END_MIN {
            self.literals[literals_end..LITERALS_END_MIN].fill(0);
            literals_end = LITERALS_END_MIN;
        }
        (literals_end, codes_start)
    }
}

/// Compresses `page` into the start of `out` and returns the length of the blob. `None`: the page is not of our kind,
/// or the blob does not fit. A refused page may have cost a full run: only the look of its first quarter ends it early.
///
/// The length of `out` says what is worth it. Where LZ4 is asked next, give 2300 bytes: of the pages that need more
/// here, many are text among pointers, and LZ4 makes those smaller.
pub(crate) fn compress(
    page: &Page,
    out: &mut [u8],
    scratch: &mut WordsScratch,
    avx512: Option<Avx512>,
) -> Option<usize> {
    let words = words_of(page);
    if is_text(words) {
        return None;
    }
    let scale_index = decimal_scale(words);
    let first = word_at(words, 0);
    let first_bytes = 8 - first.leading_zeros() as usize / 8;
    scratch.literals[LITERALS_START..LITERALS_START + 8].copy_from_slice(&words[0]);
    let literals_start = LITERALS_START + first_bytes;
    let (class, (literals_end, codes_start)) = match avx512 {
        Some(avx512) => vectors::encode(avx512, words, literals_start, scale_index, scratch)?,
        None => {
            let bits_by_class = if scale_index == 0 {
                describe::<false>(words, scale_index, scratch)?
            } else {
                describe::<true>(words, scale_index, scratch)?
            };
            let class = (0..CLASS_COUNT).min_by_key(|class| bits_by_class >> (16 * class) & 0xffff)?;
            (class, scratch.write_streams(literals_start, &CODES[class]))
        }
    };
    scratch.literals[0] = (first_bytes << 4 | scale_index << 2 | class) as u8;

    let literals = &scratch.literals[..literals_end];
    let codes = &scratch.codes[codes_start..];
    let blob = out.get_mut(..literals.len() + codes.len())?;
    let (blob_literals, blob_codes) = blob.split_at_mut(literals.len());
    blob_literals.copy_from_slice(literals);
    blob_codes.copy_from_slice(codes);
    Some(literals.len() + codes.len())
}

/// Finds a symbol for each word and writes the literals.
#[inline(always)]
fn describe<const DECIMAL: bool>(
    words: &[[u8; 8]; WORD_COUNT],
    scale_index: usize,
    scratch: &mut WordsScratch,
) -> Option<u64> {
    let WordsScratch { same, alike, symbols, stored, .. } = scratch;
    // Index 0 is the first word, which every other word may refer to: an empty table needs no mark.
    same[..1 << RECENT_BITS].fill(0);
    alike[..1 << RECENT_BITS].fill(0);
    let scale = SCALES[scale_index];

    let mut distance_again = 1;
    let mut context = CONTEXT_START;
    let mut bits_by_class = 0;
    let mut literal_bytes = 0;
    let mut index = 1;
    for group in 0..GROUP_COUNT {
        if starts_stream(group) {
            context = CONTEXT_START;
        }
        for _ in 0..GROUP_WORDS {
            let word = word_at(words, index);
            let laid_over_again = word ^ word_at(words, index - distance_again);
            // Half of the words of a heap, often many in a row: worth a branch.
            let best = if word == 0 {
                Choice { symbol: SYMBOL_ZERO, literal: 0, distance: 0 }
            } else if laid_over_again == 0 {
                same[recent_place(word)] = index as u16;
                alike[recent_place(word >> REGION_BITS)] = index as u16;
                Choice { symbol: SYMBOL_AGAIN, literal: 0, distance: 0 }
            } else {
                let same_place = &mut same[recent_place(word)];
                let same_at = *same_place as usize;
                *same_place = index as u16;
                let alike_place = &mut alike[recent_place(word >> REGION_BITS)];
                let alike_at = *alike_place as usize;
                *alike_place = index as u16;

                // No branches from here on: which way a word goes is hard to predict, and a wrong guess costs more than
                // looking at all ways.
                let same_distance = index - same_at;
                let is_copy =
                    (word_at(words, same_at) == word) & (word > COPY_ABOVE) & (same_distance <= DISTANCE_MAX);
                let alike_distance = index - alike_at;
                let laid_over_alike = word ^ word_at(words, alike_at);

                let mut best = Choice { symbol: ZERO.choose(word) as usize, literal: word, distance: 0 };
                best = best.or(Choice {
                    symbol: AGAIN.choose(laid_over_again) as usize,
                    literal: laid_over_again,
                    distance: 0,
                });
                let family = usize::from(alike_distance > DISTANCE_NEAR_MAX)
                    + usize::from(alike_distance > DISTANCE_MAX);
                best = best.or(Choice {
                    symbol: ALIKE[family].choose(laid_over_alike) as usize,
                    literal: laid_over_alike,
                    distance: alike_distance,
                });
                if DECIMAL {
                    best = best.or(decimal_choice(word, scale));
                }
                let copy = COPY[same_distance & (WORD_COUNT - 1)] as usize;
                best = best.replace_if(is_copy, Choice { symbol: copy, literal: 0, distance: same_distance });
                distance_again = select(is_copy, same_distance, distance_again);

                best
            };

            let symbol = best.symbol & 0x3f;
            let info = &INFO[symbol];
            let value = best.literal.rotate_right(info.rotate as u32)
                | (best.distance.wrapping_sub(1) as u64 & info.distance_mask as u64);
            stored[index & (WORD_COUNT - 1)] = value;
            literal_bytes += info.bytes as usize;
            let code = code_index(context, symbol);
            symbols[index & (WORD_COUNT - 1)] = code as u16;
            bits_by_class += BITS[code & (BITS.len() - 1)];
            context = info.context as usize;
            index += 1;
            if GIVE_UP.iter().any(|limit| index == limit.words && literal_bytes > limit.literal_bytes) {
                return None;
            }
        }
    }
    Some(bits_by_class)
}

/// Is this group the first one of a stream of codes?
#[inline(always)]
const fn starts_stream(group: usize) -> bool {
    group.is_multiple_of(STREAM_GROUPS) && group < STREAM_COUNT * STREAM_GROUPS
}

/// The first word of a stream of codes; that of the one behind the last is the end of the page.
const fn stream_start(stream: usize) -> usize {
    if stream == STREAM_COUNT { WORD_COUNT } else { 1 + stream * STREAM_GROUPS * GROUP_WORDS }
}

/// One way to write a word.
#[derive(Clone, Copy)]
struct Choice {
    /// `cost << 8 | symbol`.
    symbol: usize,
    literal: u64,
    distance: usize,
}

impl Choice {
    /// The cheaper one.
    #[inline(always)]
    fn or(self, other: Choice) -> Choice {
        self.replace_if(other.symbol < self.symbol, other)
    }

    // Field by field: a choice between two places in memory would be slow.
    #[inline(always)]
    fn replace_if(self, condition: bool, other: Choice) -> Choice {
        Choice {
            symbol: select(condition, other.symbol, self.symbol),
            literal: select(condition, other.literal, self.literal),
            distance: select(condition, other.distance, self.distance),
        }
    }
}

/// `if condition { yes } else { no }`, said such that the compiler makes it a move and not a branch.
#[inline(always)]
fn select<T>(condition: bool, yes: T, no: T) -> T {
    core::hint::select_unpredictable(condition, yes, no)
}

/// Turns a blob back into the page.
///
/// # Errors
/// [`Corrupt`] when the bytes do not follow the format. The content of `page` is then undefined. `Ok` does not prove
/// that the bytes are unchanged.
pub(crate) fn decompress(blob: &[u8], page: &mut Page, avx512: Option<Avx512>) -> Result<(), Corrupt> {
    let header = *blob.first().ok_or(Corrupt)?;
    let scale_index = header as usize >> 2 & 3;
    if let Some(avx512) = avx512 {
        return vectors::restore(avx512, blob, page, SCALES[scale_index]);
    }
    if scale_index == 0 { restore::<false>(blob, page, 0) } else { restore::<true>(blob, page, scale_index) }
}

/// Decodes the symbols of the words behind the first one. Returns the bytes of all codes.
#[inline(always)]
fn decode_symbols(blob: &[u8], symbols: &mut [u8; WORD_COUNT]) -> Result<usize, Corrupt> {
    let [header, sizes @ ..]: [u8; LITERALS_START] = *blob.first_chunk().ok_or(Corrupt)?;
    let meanings = &MEANINGS[header as usize & (CLASS_COUNT - 1)];
    let mut readers = [CodeReader::new(blob.len()); STREAM_COUNT];
    for (stream, size) in sizes.into_iter().enumerate() {
        readers[stream + 1] = CodeReader::new(readers[stream].end.checked_sub(size as usize).ok_or(Corrupt)?);
    }
    let (groups, _) = symbols[1..].as_chunks_mut::<GROUP_WORDS>();
    for index in 0..STREAM_GROUPS {
        let mut windows = [0; STREAM_COUNT];
        for (window, reader) in windows.iter_mut().zip(&readers) {
            *window = reader.window(blob)?;
        }
        let mut sums = [0; STREAM_COUNT];
        let mut decoded = [[0; GROUP_WORDS]; STREAM_COUNT];
        for word in 0..GROUP_WORDS {
            let places = windows.iter_mut().zip(&mut sums).zip(&mut decoded);
            for (reader, ((window, sum), decoded)) in readers.iter_mut().zip(places) {
                decoded[word] = reader.next(meanings, window, sum);
            }
        }
        for stream in 0..STREAM_COUNT {
            groups[stream * STREAM_GROUPS + index] = decoded[stream];
            readers[stream].at_bits += sums[stream] as usize & 0xff;
        }
    }
    let last = &mut readers[STREAM_COUNT - 1];
    for group in &mut groups[STREAM_COUNT * STREAM_GROUPS..] {
        let (mut window, mut sum) = (last.window(blob)?, 0);
        *group = core::array::from_fn(|_| last.next(meanings, &mut window, &mut sum));
        last.at_bits += sum as usize & 0xff;
    }
    if readers.iter().zip(sizes).any(|(reader, size)| reader.at_bits.div_ceil(8) != size as usize) {
        return Err(Corrupt);
    }
    Ok(blob.len() - readers[STREAM_COUNT - 1].end + readers[STREAM_COUNT - 1].at_bits.div_ceil(8))
}

/// Reads codes backwards.
#[derive(Clone, Copy)]
struct CodeReader {
    /// Behind the first byte of the codes, which is the last one of the stream.
    end: usize,
    at_bits: usize,
    /// As [`MEANINGS`] has it.
    context: usize,
}

impl CodeReader {
    fn new(end: usize) -> Self {
        Self { end, at_bits: 0, context: CONTEXT_START << 8 }
    }

    /// The next [`WINDOW_BITS`] or more, the first one lowest.
    #[inline(always)]
    fn window(&self, blob: &[u8]) -> Result<u64, Corrupt> {
        let at = self.end.wrapping_sub(8 + self.at_bits / 8);
        Ok(load(blob, at)?.swap_bytes() >> (self.at_bits % 8))
    }

    /// The next symbol. Its bits are added to the lowest byte of `sum`.
    #[inline(always)]
    fn next(&mut self, meanings: &MeaningsOfClass, window: &mut u64, sum: &mut u32) -> u8 {
        let meaning = meanings[self.context | (*window & 0xff) as usize];
        self.context = (meaning & 0x700) as usize;
        *window >>= meaning & 0x3f;
        *sum = sum.wrapping_add(meaning);
        (meaning >> 26) as u8
    }
}

/// Lays the literals over their bases.
#[inline(always)]
fn restore<const DECIMAL: bool>(blob: &[u8], page: &mut Page, scale_index: usize) -> Result<(), Corrupt> {
    let words = words_of_mut(page);
    let scale = SCALES[scale_index];
    let mut symbols = [0; WORD_COUNT];
    let codes_bytes = decode_symbols(blob, &mut symbols)?;
    let (first, mut literals_at) = first_word(blob)?;
    words[0] = first;

    let mut distance_again = 1;
    // Its highest bit says that one was before the page.
    let mut base_indexes = 0;
    let (groups, _) = symbols[1..].as_chunks::<GROUP_WORDS>();
    let mut index = 1_usize;
    for group in groups {
        let group_literals: &[u8; GROUP_LITERALS_BYTES] =
            blob.get(literals_at..).and_then(|rest| rest.first_chunk()).ok_or(Corrupt)?;
        let mut group_bytes = 0;
        for symbol in group {
            let info = &INFO[*symbol as usize];
            let at = group_bytes & 63;
            let stored =
                u64::from_le_bytes(*group_literals[at..].first_chunk().expect("8 bytes after the mask"));
            group_bytes += info.bytes as usize;
            let explicit = (stored as u8 & info.distance_mask) as usize + info.distance_add as usize;
            let distance = if explicit == 0 { distance_again } else { explicit };
            distance_again = if info.keeps_distance { distance_again } else { distance };
            let base_index = index.wrapping_sub(distance);
            base_indexes |= base_index;
            let base = word_at(words, base_index);
            let literal = stored.rotate_left(info.rotate as u32) & info.literal_mask;
            let mut word = (base & info.base_mask) ^ literal;
            if DECIMAL {
                // Looked at for each word: a division costs less than a branch that is hard to predict.
                word = select(info.decimal, decimal_word(literal as u32, scale), word);
            }
            words[index & (WORD_COUNT - 1)] = word.to_le_bytes();
            index += 1;
        }
        literals_at += group_bytes;
    }
    let is_too_far = base_indexes > usize::MAX / 2;
    if is_too_far || !has_length(blob, literals_at, codes_bytes) {
        return Err(Corrupt);
    }
    Ok(())
}

/// The first word, and where the other literals begin.
#[inline(always)]
fn first_word(blob: &[u8]) -> Result<([u8; 8], usize), Corrupt> {
    let first_bytes = *blob.first().ok_or(Corrupt)? as usize >> 4;
    if first_bytes > 8 {
        return Err(Corrupt);
    }
    let first = load(blob, LITERALS_START)? & !(u64::MAX << (first_bytes * 4) << (first_bytes * 4));
    Ok((first.to_le_bytes(), LITERALS_START + first_bytes))
}

/// Does a blob whose literals end there, and which has as many bytes of codes, end where this one does?
#[inline(always)]
fn has_length(blob: &[u8], literals_end: usize, codes_bytes: usize) -> bool {
    literals_end.max(LITERALS_END_MIN) + codes_bytes.max(CODES_BYTES_MIN) == blob.len()
}

/// Eight bytes from `at`.
#[inline(always)]
fn load(blob: &[u8], at: usize) -> Result<u64, Corrupt> {
    match blob.get(at..).and_then(|rest| rest.first_chunk()) {
        Some(bytes) => Ok(u64::from_le_bytes(*bytes)),
        None => Err(Corrupt),
    }
}

/// A word of the page. The index has to be less than 512, or a word that is not meant comes out.
#[inline(always)]
fn word_at(words: &[[u8; 8]; WORD_COUNT], index: usize) -> u64 {
    u64::from_le_bytes(words[index & (WORD_COUNT - 1)])
}

/// The symbol for a decimal fraction, or [`NEVER`].
#[inline(always)]
fn decimal_choice(word: u64, scale: f64) -> Choice {
    let (number, is_exact) = decimal_number(word, scale);
    let bytes = (4 - (number | 0x100).leading_zeros() / 8) as u16;
    let symbol = decimal_cost(bytes) << 8 | (DECIMAL_16 as u16 + bytes - 2);
    Choice { symbol: select(is_exact, symbol, NEVER) as usize, literal: number as u64, distance: 0 }
}

/// Words that are looked at to tell what a page is: every sixteenth.
const SAMPLE_EVERY: usize = 16;
/// A page with as many words of text among them is not one for us. Of 20,000 pages of five programs that have so many,
/// a fifth of all, it would have taken five.
const SAMPLE_TEXT_MIN: usize = WORD_COUNT / SAMPLE_EVERY * 3 / 4;

/// Are most words made of eight printable ASCII characters? Costs a tenth of what it takes to find that out by trying.
fn is_text(words: &[[u8; 8]; WORD_COUNT]) -> bool {
    const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
    const SPACES: u64 = 0x2020_2020_2020_2020;
    let is_text_word = |word: &&[u8; 8]| {
        let word = u64::from_le_bytes(**word);
        // The subtraction borrows, and so sets a high bit, at the first byte below a space.
        (word | word.wrapping_sub(SPACES)) & HIGH_BITS == 0
    };
    words.iter().skip(4).step_by(SAMPLE_EVERY).filter(is_text_word).count() >= SAMPLE_TEXT_MIN
}

/// Which scale most of the floats of this page have, as an index into [`SCALES`]. 0: few are decimal fractions.
fn decimal_scale(words: &[[u8; 8]; WORD_COUNT]) -> usize {
    let sample = || words.iter().skip(8).step_by(SAMPLE_EVERY).map(|word| u64::from_le_bytes(*word));
    // Most pages have no floats: seen without a multiplication.
    if sample().filter(|word| is_moderate(*word)).count() < DECIMALS_MIN {
        return 0;
    }
    let mut best = (DECIMALS_MIN - 1, 0);
    for scale_index in [1, 2] {
        let count = sample().filter(|word| decimal_number(*word, SCALES[scale_index]).1).count();
        if count > best.0 {
            best = (count, scale_index);
        }
    }
    best.1
}

/// As many floats of the sample are decimal fractions on a page that is written with them.
const DECIMALS_MIN: usize = 8;

/// From 2^-17 to 2^24. What is outside is no float, or gives no number of 31 bits.
#[inline(always)]
fn is_moderate(word: u64) -> bool {
    (word >> 52 & 0x7ff).wrapping_sub(1006) <= 41
}

/// The number that, divided by `scale`, should give this float, its sign in the lowest bit; and whether it does
/// exactly. A zero is not one.
#[inline(always)]
fn decimal_number(word: u64, scale: f64) -> (u32, bool) {
    // What is not must not get into the multiplication: a pointer is a denormal float, and the processor takes 100
    // times as long for those.
    let is_moderate = is_moderate(word);
    let scaled = f64::from_bits(select(is_moderate, word, 0)) * scale;
    // The sum has the rounded number in its lowest bits. A number of more than 32 bits comes out wrong, and is found
    // out below.
    let number = (scaled + ROUNDS_TO_INTEGER).to_bits() as i32;
    let zigzag = (number << 1 ^ number >> 31) as u32;
    (zigzag, is_moderate & (decimal_word(zigzag, scale) == word))
}

/// The float that [`decimal_number`] was made from.
#[inline(always)]
fn decimal_word(zigzag: u32, scale: f64) -> u64 {
    let number = (zigzag >> 1) as i32 ^ -((zigzag & 1) as i32);
    // One division of two exact numbers: IEEE 754 gives the same bits everywhere.
    (f64::from(number) / scale).to_bits()
}

fn words_of(page: &Page) -> &[[u8; 8]; WORD_COUNT] {
    page.as_chunks().0.try_into().expect("a page is 512 words")
}

fn words_of_mut(page: &mut Page) -> &mut [[u8; 8]; WORD_COUNT] {
    page.as_chunks_mut().0.try_into().expect("a page is 512 words")
}
