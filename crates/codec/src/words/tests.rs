//! Round trips of pages of every kind, blobs that are no blobs, and each symbol at its limits.

extern crate std;

use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::symbols::{SPECS, SYMBOL_COUNT};
use super::*;

pub(super) type Words = [u64; WORD_COUNT];

pub(super) fn page_of(words: &Words) -> Page {
    let mut page = [0; PAGE_BYTES];
    for (bytes, word) in page.as_chunks_mut().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    page
}

/// By portable code and, where there are some, by vectors: both give the same bytes, whatever was in the working area.
pub(super) fn compress(page: &Page, out: &mut [u8], scratch: &mut WordsScratch) -> Option<usize> {
    if let Some(avx512) = Avx512::get() {
        let mut by_vectors = vec![7; out.len()];
        let expected = super::compress(page, out, scratch, None);
        assert_eq!(super::compress(page, &mut by_vectors, scratch, Some(avx512)), expected);
        assert!(expected.is_none_or(|length| by_vectors[..length] == out[..length]), "another blob");
    }
    super::compress(page, out, scratch, None)
}

/// The same for the way back.
pub(super) fn decompress(blob: &[u8], page: &mut Page) -> Result<(), Corrupt> {
    let result = super::decompress(blob, page, None);
    let mut by_vectors = [0x5a; PAGE_BYTES];
    if let Some(avx512) = Avx512::get() {
        assert_eq!(super::decompress(blob, &mut by_vectors, Some(avx512)), result);
        assert!(result.is_err() || by_vectors == *page, "the kernels made another page");
    }
    result
}

/// Compresses and compares; returns the blob, or `None` for a page that was not taken.
fn round_trip(words: &Words, scratch: &mut WordsScratch) -> Option<Vec<u8>> {
    let page = page_of(words);
    let mut out = [0; PAGE_BYTES];
    let length = compress(&page, &mut out, scratch)?;
    // What was in the page must not matter.
    let mut back = [0xa5; PAGE_BYTES];
    assert_eq!(decompress(&out[..length], &mut back), Ok(()));
    assert!(back == page, "the page that came back differs");
    Some(out[..length].to_vec())
}

/// As [`round_trip`], for a page that has to be taken.
fn blob_of(words: &Words) -> Vec<u8> {
    round_trip(words, &mut WordsScratch::new()).expect("the page is taken")
}

/// Which symbols a page was written with. The working area still holds them.
fn symbols_of(scratch: &WordsScratch) -> impl Iterator<Item = usize> + '_ {
    scratch.symbols[1..].iter().map(|code| *code as usize & 0x3f)
}

/// Numbers from a seed (xorshift).
pub(super) struct Random(pub u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// One run of words of one kind.
fn run(kind: u64, words: &mut [u64], random: &mut Random) {
    let base = random.next();
    let few: [u64; 4] = core::array::from_fn(|_| random.next());
    let scale = SCALES[1 + random.below(2) as usize];
    for (index, word) in words.iter_mut().enumerate() {
        *word = match kind {
            0 => 0,
            1 => 0x7f12_3400_0000 + random.below(1 << 20) * 16,
            2 => random.below(300),
            3 => base.wrapping_add(index as u64 * 24),
            4 => few[random.below(4) as usize],
            5 => ((random.below(100_000) as f64 - 50_000.0) / scale).to_bits(),
            6 => (1.0 + random.below(1000) as f64 / 1000.0).to_bits(),
            7 => random.next() << random.below(64),
            8 => random.next() >> random.below(64),
            9 => base ^ random.next() >> (8 + random.below(56)),
            10 => few[index % 3] & 0xffff_ffff | (index as u64 / 3) << 40,
            11 => random.below(200) << 32,
            _ => random.next(),
        };
    }
}

const RUN_KIND_COUNT: u64 = 13;

pub(super) fn mixture(seed: u64) -> Words {
    let mut random = Random(seed.wrapping_mul(2).wrapping_add(1));
    let mut words = [0; WORD_COUNT];
    let mut start = 0;
    while start < WORD_COUNT {
        let end = (start + 1 + random.below(120) as usize).min(WORD_COUNT);
        let kind = random.below(RUN_KIND_COUNT);
        run(kind, &mut words[start..end], &mut random);
        start = end;
    }
    words
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_page_that_is_taken_comes_back(words in any::<[u64; 32]>(), shift in 0_u32..64) {
        // Random words are not taken as they are: shifted ones are.
        let page = core::array::from_fn(|index| words[index % 32].wrapping_mul(index as u64 | 1) >> shift);
        let taken = round_trip(&page, &mut WordsScratch::new()).is_some();
        prop_assert!(taken || shift < 24, "{shift} bits of each word are zero");
    }

    #[test]
    fn mixtures_come_back(seed in any::<u64>()) {
        round_trip(&mixture(seed), &mut WordsScratch::new());
    }

    #[test]
    fn the_working_area_does_not_show_in_the_blob(seed in any::<u64>(), before in any::<u64>()) {
        let mut used = WordsScratch::new();
        round_trip(&mixture(before), &mut used);
        prop_assert_eq!(round_trip(&mixture(seed), &mut used), round_trip(&mixture(seed), &mut WordsScratch::new()));
    }

    #[test]
    fn random_bytes_do_no_harm(mut blob in proptest::collection::vec(any::<u8>(), 0..1500), first in 0_u8..9) {
        let mut page = [0; PAGE_BYTES];
        let _ = decompress(&blob, &mut page);
        // Again with a header that gets past the first check.
        if let Some(header) = blob.first_mut() {
            *header = *header & 0xf | first << 4;
        }
        let _ = decompress(&blob, &mut page);
    }

    #[test]
    fn damaged_blobs_do_no_harm(seed in any::<u64>(), at in any::<usize>(), bit in 0_u32..8, cut in any::<usize>()) {
        let Some(mut blob) = round_trip(&mixture(seed), &mut WordsScratch::new()) else { return Ok(()) };
        let mut page = [0; PAGE_BYTES];
        let length = cut % blob.len();
        let _ = decompress(&blob[..length], &mut page);
        let _ = decompress(&blob[length..], &mut page);
        let at = at % blob.len();
        blob[at] ^= 1 << bit;
        let _ = decompress(&blob, &mut page);
    }
}

#[test]
fn each_kind_of_word_is_taken_and_gets_small() {
    // Bytes that a page of one kind may need at most.
    let limits = [88, 2000, 1100, 1200, 1100, 2000, 2000, 4096, 4096, 4096, 2700, 1100];
    for kind in 0..RUN_KIND_COUNT - 1 {
        let mut words = [0; WORD_COUNT];
        run(kind, &mut words, &mut Random(77));
        let Some(blob) = round_trip(&words, &mut WordsScratch::new()) else {
            assert_eq!(limits[kind as usize], 4096, "kind {kind} is taken");
            continue;
        };
        assert!(blob.len() <= limits[kind as usize], "kind {kind} takes {} bytes", blob.len());
    }
}

#[test]
fn text_is_told_by_a_look() {
    let text = |last: u8| {
        page_of(&[u64::from_le_bytes([b' ', b'a', b'~', b'0', b'{', b'Z', b'!', last]); WORD_COUNT])
    };
    assert!(is_text(words_of(&text(b'x'))));
    // Its words repeat, and would get small; but there is no such text.
    assert_eq!(compress(&text(b'x'), &mut [0; PAGE_BYTES], &mut WordsScratch::new()), None);
    // A byte that is no printable character, wherever it is in the words.
    for byte in (0..b' ').chain(0x80..=u8::MAX) {
        assert!(!is_text(words_of(&text(byte))), "{byte}");
        let mut first = text(b'x');
        first.iter_mut().step_by(8).for_each(|place| *place = byte);
        assert!(!is_text(words_of(&first)), "{byte}");
    }
    // Up to three quarters of the page are text: it is looked at in earnest.
    let mut words = [0; WORD_COUNT];
    words[..WORD_COUNT * 3 / 4 - SAMPLE_EVERY].fill(0x2020_2020_2020_2020);
    assert!(!is_text(words_of(&page_of(&words))));
    blob_of(&words);
}

#[test]
fn random_words_are_refused() {
    let mut words = [0; WORD_COUNT];
    run(RUN_KIND_COUNT - 1, &mut words, &mut Random(5));
    assert_eq!(round_trip(&words, &mut WordsScratch::new()), None);
}

#[test]
fn a_page_that_is_random_from_the_middle_on_comes_back_or_is_refused() {
    for start in 0..WORD_COUNT {
        let mut words = [0; WORD_COUNT];
        run(RUN_KIND_COUNT - 1, &mut words[start..], &mut Random(start as u64 + 1));
        let taken = round_trip(&words, &mut WordsScratch::new()).is_some();
        assert_eq!(taken, start > 128 || taken, "{start} zero words");
    }
}

#[test]
fn literals_of_every_length_and_place_come_back() {
    // Highest bit `length - 1`, lowest bit `zeros`, alone and laid over words that came before.
    for zeros in 0..64 {
        for length in zeros + 1..=64 {
            let literal = 1_u64 << (length - 1) | 1 << zeros;
            let mut words = [0; WORD_COUNT];
            for (index, word) in words.iter_mut().enumerate().skip(200) {
                *word = match index % 4 {
                    0 => literal,
                    1 => 0x7f12_3456_7890_abcd ^ literal.rotate_left(index as u32 / 64),
                    2 => 0x7f12_3456_7890_abcd,
                    _ => literal - 1,
                };
            }
            round_trip(&words, &mut WordsScratch::new()).expect("the first 200 words are zero");
        }
    }
}

#[test]
fn copies_from_every_distance_come_back() {
    for distance in 1..WORD_COUNT {
        for change in
            [0, 1, 0x80, 0x100, 0x7ff8, 0x8000, 0xff_fff0, 0xfff_ffff, 0x1000_0000, 0xffff_ffff_ffff]
        {
            let mut words = [0; WORD_COUNT];
            let word = 0x5555_6666_7777_8880;
            words[WORD_COUNT - 1 - distance] = word;
            words[WORD_COUNT - 1] = word ^ change;
            blob_of(&words);
        }
    }
}

#[test]
fn pages_of_many_codes_and_few_literals_come_back() {
    // The decoder loads codes ahead, and here there is next to nothing in front of them.
    for first in [0, 7, 0x1234_5678, u64::MAX] {
        for period in 1..=8 {
            for copies in 1..=8 {
                let words =
                    core::array::from_fn(|index| if index % period % copies == 0 { first } else { 0 });
                blob_of(&words);
            }
        }
    }
}

#[test]
fn every_symbol_is_used() {
    let mut used = [false; SYMBOL_COUNT];
    let mut scratch = WordsScratch::new();
    for seed in 0..3000 {
        if round_trip(&mixture(seed), &mut scratch).is_some() {
            symbols_of(&scratch).for_each(|symbol| used[symbol] = true);
        }
    }
    let unused: Vec<usize> = (0..SYMBOL_COUNT).filter(|symbol| !used[*symbol]).collect();
    assert!(unused.is_empty(), "symbols {unused:?} of {} are never chosen", SPECS.len());
}

#[test]
fn decimal_fractions_keep_their_sign_and_their_last_bit() {
    let mut scratch = WordsScratch::new();
    for scale in [100.0, 1000.0] {
        let words: Words = core::array::from_fn(|index| match index % 7 {
            0 => (-0.0_f64).to_bits(),
            1 => f64::NAN.to_bits(),
            2 => (index as f64 / scale).to_bits() + 1,
            3 => (-(index as f64) / scale).to_bits(),
            4 => (f64::from(i32::MAX - index as i32) / scale).to_bits(),
            5 => (f64::from(i32::MIN + index as i32) / scale).to_bits(),
            _ => (index as f64 / scale).to_bits(),
        });
        round_trip(&words, &mut scratch);
        let column: Words = core::array::from_fn(|index| ((index * index % 7919) as f64 / scale).to_bits());
        let blob = round_trip(&column, &mut scratch).expect("a column of decimal fractions is taken");
        assert!(blob.len() < 1500, "{} bytes", blob.len());
        assert!(symbols_of(&scratch).any(|symbol| symbol >= DECIMAL_16 as usize));
    }
}

#[test]
fn a_blob_fits_exactly_or_not_at_all() {
    let words = mixture(3);
    let blob = blob_of(&words);
    let mut out = vec![0; blob.len()];
    let mut scratch = WordsScratch::new();
    assert_eq!(compress(&page_of(&words), &mut out, &mut scratch), Some(blob.len()));
    assert_eq!(out, blob);
    out.pop();
    out.fill(7);
    assert_eq!(compress(&page_of(&words), &mut out, &mut scratch), None);
    assert!(out.iter().all(|byte| *byte == 7), "nothing was written");
}

#[test]
fn every_blob_that_is_cut_or_longer_is_corrupt() {
    let blob = blob_of(&mixture(3));
    let mut page = [0; PAGE_BYTES];
    for length in 0..blob.len() {
        assert_eq!(decompress(&blob[..length], &mut page), Err(Corrupt), "{length} of {} bytes", blob.len());
    }
    let mut longer = blob;
    longer.insert(20, 0);
    assert_eq!(decompress(&longer, &mut page), Err(Corrupt));
}

#[test]
fn sizes_of_streams_that_are_not_those_are_corrupt() {
    let blob = blob_of(&mixture(3));
    let mut page = [0; PAGE_BYTES];
    for at in 1..=SIZES_BYTES {
        for size in (0..=u8::MAX).filter(|&size| size != blob[at]) {
            let mut damaged = blob.clone();
            damaged[at] = size;
            assert_eq!(decompress(&damaged, &mut page), Err(Corrupt), "size {at} is {size}");
        }
    }
}

#[test]
fn a_distance_before_the_page_is_corrupt() {
    let mut words = [0; WORD_COUNT];
    words[0] = 0x1122_3344_5566_7788;
    words[20] = words[0];
    let mut blob = blob_of(&words);
    // Behind the header, the sizes and the first word: the only literal byte, the distance less one.
    let at = LITERALS_START + 8;
    assert_eq!(blob[at], 19);
    let mut page = [0; PAGE_BYTES];
    blob[at] = 20;
    assert_eq!(decompress(&blob, &mut page), Err(Corrupt));
    blob[at] = 18;
    assert_eq!(decompress(&blob, &mut page), Ok(()));
    words[20] = 0;
    assert!(page == page_of(&words), "the word was copied from a place that is zero");
}
