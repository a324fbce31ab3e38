//! What holds for every page, tried on many.

mod pages;

use proptest::prelude::*;
use uswap_codec::{
    COMPRESSED_BYTES_MAX, Compressed, ContentHash, Corrupt, PAGE_BYTES, Page, Scratch, compress, decompress,
    fill, hash, same_filled,
};

/// The blob of a page, if it has one.
fn blob_of(page: &Page, scratch: &mut Scratch) -> Option<Vec<u8>> {
    let mut out = [0xee; COMPRESSED_BYTES_MAX];
    match compress(page, &mut out, scratch) {
        Compressed::Bytes(length) => Some(out[..length].to_vec()),
        Compressed::Incompressible => {
            assert!(out.iter().all(|byte| *byte == 0xee), "the output is untouched");
            None
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_page_comes_back_as_it_was(kind in 0_usize..6, seed: u64) {
        let page = pages::page(kind, seed);
        if let Some(blob) = blob_of(&page, &mut Scratch::new()) {
            prop_assert!((1..=COMPRESSED_BYTES_MAX).contains(&blob.len()));
            let mut back = [0xaa; PAGE_BYTES];
            prop_assert_eq!(decompress(&blob, &mut back), Ok(()));
            prop_assert!(back == page);
        }
    }

    #[test]
    fn a_used_scratch_gives_the_same_bytes_as_a_new_one(before in 0_usize..6, kind in 0_usize..6, seed: u64) {
        let mut used = Scratch::new();
        blob_of(&pages::page(before, !seed), &mut used);
        let page = pages::page(kind, seed);
        prop_assert_eq!(blob_of(&page, &mut used), blob_of(&page, &mut Scratch::new()));
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..COMPRESSED_BYTES_MAX + 600)) {
        let mut page = [0; PAGE_BYTES];
        let _ = decompress(&bytes, &mut page);
    }

    #[test]
    fn flipped_bits_never_panic_and_never_look_like_the_page(
        kind in 1_usize..5, seed: u64, flips in prop::collection::vec(any::<u32>(), 1..6)
    ) {
        let page = pages::page(kind, seed);
        let blob = blob_of(&page, &mut Scratch::new()).expect("these kinds compress");
        let mut damaged = blob.clone();
        for flip in flips {
            let bit = flip as usize % (damaged.len() * 8);
            damaged[bit / 8] ^= 1 << (bit % 8);
        }
        let mut back = [0; PAGE_BYTES];
        if decompress(&damaged, &mut back).is_ok() && back != page {
            prop_assert_ne!(hash(&back), hash(&page));
        }
    }

    #[test]
    fn a_blob_that_was_cut_is_corrupt(kind in 1_usize..5, seed: u64, cut: u32) {
        let blob = blob_of(&pages::page(kind, seed), &mut Scratch::new()).expect("these kinds compress");
        let kept = cut as usize % blob.len();
        prop_assert_eq!(decompress(&blob[..kept], &mut [0; PAGE_BYTES]), Err(Corrupt));
    }

    #[test]
    fn a_blob_with_more_behind_it_is_corrupt(kind in 1_usize..5, seed: u64, more in prop::collection::vec(any::<u8>(), 1..40)) {
        let mut blob = blob_of(&pages::page(kind, seed), &mut Scratch::new()).expect("these kinds compress");
        blob.extend(&more);
        // The page is full: whatever follows would write more.
        prop_assert_eq!(decompress(&blob, &mut [0; PAGE_BYTES]), Err(Corrupt));
    }

    #[test]
    fn same_filled_agrees_with_a_child(value: u32, at in 0_usize..PAGE_BYTES, flip: u8) {
        let mut page = [0; PAGE_BYTES];
        fill(&mut page, value);
        prop_assert!(page.chunks(4).all(|word| word == value.to_ne_bytes()));
        prop_assert_eq!(same_filled(&page), Some(value));
        page[at] ^= flip;
        prop_assert_eq!(same_filled(&page), if flip == 0 { Some(value) } else { None });
    }

    #[test]
    fn the_hash_sees_every_byte(kind in 0_usize..6, seed: u64, at in 0_usize..PAGE_BYTES, flip in 1_u8..) {
        let mut page = pages::page(kind, seed);
        let before = hash(&page);
        prop_assert_eq!(hash(&page), before);
        page[at] ^= flip;
        prop_assert_ne!(hash(&page), before);
    }
}

#[test]
fn two_words_in_turn_are_not_same_filled() {
    let mut page = [0; PAGE_BYTES];
    for (index, word) in page.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        *word = (index as u32 % 2).to_ne_bytes();
    }
    assert_eq!(same_filled(&page), None);
}

#[test]
fn the_hash_is_xxh3_with_128_bits() {
    // The value of 4096 zero bytes, as `xxhsum -H2` prints it.
    assert_eq!(hash(&[0; PAGE_BYTES]), ContentHash(0x3ee8_dc4f_9e7e_e495_93d7_6fe1_48c6_89ba));
    assert_eq!(format!("{:?}", ContentHash(0x2f)), "H0000000000000000000000000000002f");
}

#[test]
fn the_edge_between_blob_and_incompressible_is_where_it_says() {
    let mut scratch = Scratch::new();
    let mut lengths = Vec::new();
    let mut state = 7;
    let random: Page = core::array::from_fn(|_| pages::next(&mut state) as u8);
    for random_bytes in 3500..3700 {
        let mut page = random;
        page[random_bytes..].fill(0);
        lengths.push(blob_of(&page, &mut scratch).map(|blob| blob.len()));
    }
    let kept = lengths.iter().take_while(|length| length.is_some()).count();
    assert_eq!(lengths[kept - 1], Some(COMPRESSED_BYTES_MAX), "the largest blob that is kept");
    assert!(lengths[kept..].iter().all(Option::is_none), "nothing above it is kept");
}

#[test]
fn a_short_output_is_incompressible_and_untouched() {
    let page = pages::page(1, 5);
    let mut scratch = Scratch::new();
    let length = blob_of(&page, &mut scratch).expect("text compresses").len();
    let mut exact = vec![0xee; length];
    assert_eq!(compress(&page, &mut exact, &mut scratch), Compressed::Bytes(length));
    let mut short = vec![0xee; length - 1];
    assert_eq!(compress(&page, &mut short, &mut scratch), Compressed::Incompressible);
    assert!(short.iter().all(|byte| *byte == 0xee));
    assert_eq!(compress(&page, &mut [], &mut scratch), Compressed::Incompressible);
}

#[test]
fn nothing_is_corrupt() {
    assert_eq!(decompress(&[], &mut [0; PAGE_BYTES]), Err(Corrupt));
}

#[test]
fn a_blob_of_more_than_a_page_is_corrupt() {
    // A literal, then a match of 4 + 15 + 255 * 40 + 0 bytes: far more than a page.
    let mut blob = vec![0x1f, b'x', 1, 0];
    blob.extend([255; 40]);
    blob.extend([0, 0x50, 1, 2, 3, 4, 5]);
    assert_eq!(decompress(&blob, &mut [0; PAGE_BYTES]), Err(Corrupt));
}
