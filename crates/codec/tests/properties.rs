//! What holds for every page, tried on many.

mod pages;

use proptest::prelude::*;
use uswap_codec::{
    COMPRESSED_BYTES_MAX, Compressed, ContentHash, Corrupt, Effort, PAGE_BYTES, Page, Scratch, compress,
    decompress, fill, hash, same_filled,
};

/// The blob of a page, if it has one.
fn blob_of(page: &Page, effort: Effort, scratch: &mut Scratch) -> Option<Vec<u8>> {
    let mut out = [0xee; COMPRESSED_BYTES_MAX];
    match compress(page, &mut out, effort, scratch) {
        Compressed::Bytes(length) => {
            assert!(out[length..].iter().all(|byte| *byte == 0xee), "what is behind the blob is untouched");
            Some(out[..length].to_vec())
        }
        Compressed::Incompressible => None,
    }
}

fn effort() -> impl Strategy<Value = Effort> {
    prop_oneof![Just(Effort::Quick), Just(Effort::Dense)]
}

fn back(blob: &[u8]) -> Result<Page, Corrupt> {
    let mut page = [0xaa; PAGE_BYTES];
    decompress(blob, &mut page, &mut Scratch::new()).map(|()| page)
}

/// What a damaged blob gives is refused, or told by its hash. (By chance it is another way to write the same page: then
/// nothing is lost.)
fn check_damaged(damaged: &[u8], page: &Page) -> Result<(), TestCaseError> {
    if let Ok(back) = back(damaged)
        && back != *page
    {
        prop_assert_ne!(hash(&back), hash(page));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_page_comes_back_as_it_was(kind in 0_usize..6, seed: u64, effort in effort()) {
        let page = pages::page(kind, seed);
        if let Some(blob) = blob_of(&page, effort, &mut Scratch::new()) {
            prop_assert!((2..=COMPRESSED_BYTES_MAX).contains(&blob.len()));
            prop_assert!(back(&blob) == Ok(page));
        }
    }

    #[test]
    fn a_used_scratch_gives_the_same_bytes_as_a_new_one(
        before in 0_usize..6,
        kind in 0_usize..6,
        seed: u64,
        effort in effort(),
    ) {
        let mut used = Scratch::new();
        if let Some(blob) = blob_of(&pages::page(before, !seed), effort, &mut used) {
            prop_assert_eq!(decompress(&blob, &mut [0; PAGE_BYTES], &mut used), Ok(()));
        }
        let page = pages::page(kind, seed);
        let blob = blob_of(&page, effort, &mut used);
        prop_assert_eq!(&blob, &blob_of(&page, effort, &mut Scratch::new()));
        if let Some(blob) = blob {
            let mut back = [0; PAGE_BYTES];
            prop_assert_eq!(decompress(&blob, &mut back, &mut used), Ok(()));
            prop_assert!(back == page);
        }
    }

    #[test]
    fn portable_code_makes_the_same_bytes(kind in 0_usize..6, seed: u64, effort in effort()) {
        let page = pages::page(kind, seed);
        let blob = blob_of(&page, effort, &mut Scratch::portable());
        prop_assert_eq!(&blob, &blob_of(&page, effort, &mut Scratch::new()));
        if let Some(blob) = blob {
            let mut back = [0xaa; PAGE_BYTES];
            prop_assert_eq!(decompress(&blob, &mut back, &mut Scratch::portable()), Ok(()));
            prop_assert!(back == page);
        }
    }

    #[test]
    fn random_bytes_never_panic(
        codec in 0_u8..5,
        bytes in prop::collection::vec(any::<u8>(), 1..2 * PAGE_BYTES + 600),
    ) {
        let mut bytes = bytes;
        bytes[0] = codec;
        let _ = back(&bytes);
    }

    #[test]
    fn flipped_bits_never_panic_and_never_pass_for_the_page(
        kind in 1_usize..5, seed: u64, effort in effort(), flips in prop::collection::vec(any::<u32>(), 1..6)
    ) {
        let page = pages::page(kind, seed);
        let blob = blob_of(&page, effort, &mut Scratch::new()).expect("these kinds compress");
        let mut damaged = blob.clone();
        for flip in flips {
            let bit = flip as usize % (damaged.len() * 8);
            damaged[bit / 8] ^= 1 << (bit % 8);
        }
        check_damaged(&damaged, &page)?;
    }

    #[test]
    fn a_blob_that_was_cut_never_passes_for_the_page(kind in 1_usize..5, seed: u64, effort in effort(), cut: u32) {
        let page = pages::page(kind, seed);
        let blob = blob_of(&page, effort, &mut Scratch::new()).expect("these kinds compress");
        let kept = cut as usize % blob.len();
        check_damaged(&blob[..kept], &page)?;
    }

    #[test]
    fn a_blob_with_more_behind_it_never_passes_for_the_page(
        kind in 1_usize..5,
        seed: u64,
        effort in effort(),
        more in prop::collection::vec(any::<u8>(), 1..40),
    ) {
        let page = pages::page(kind, seed);
        let mut blob = blob_of(&page, effort, &mut Scratch::new()).expect("these kinds compress");
        blob.extend(&more);
        check_damaged(&blob, &page)?;
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
        lengths.push(blob_of(&page, Effort::Quick, &mut scratch).map(|blob| blob.len()));
        if let Some(blob) = blob_of(&page, Effort::Dense, &mut scratch) {
            assert!(back(&blob) == Ok(page), "{random_bytes} random bytes");
        }
    }
    let kept = lengths.iter().take_while(|length| length.is_some()).count();
    assert_eq!(lengths[kept - 1], Some(COMPRESSED_BYTES_MAX), "the largest blob that is kept");
    assert!(lengths[kept..].iter().all(Option::is_none), "nothing above it is kept");
}

#[test]
fn a_short_output_is_incompressible() {
    let page = pages::page(1, 5);
    let mut scratch = Scratch::new();
    for effort in [Effort::Quick, Effort::Dense] {
        let length = blob_of(&page, effort, &mut scratch).expect("text compresses").len();
        let mut exact = vec![0xee; length];
        assert_eq!(compress(&page, &mut exact, effort, &mut scratch), Compressed::Bytes(length));
        let mut short = vec![0xee; length - 1];
        assert_eq!(compress(&page, &mut short, effort, &mut scratch), Compressed::Incompressible);
        assert_eq!(compress(&page, &mut [], effort, &mut scratch), Compressed::Incompressible);
    }
}

#[test]
fn dense_blobs_of_text_are_smaller() {
    let mut scratch = Scratch::new();
    let mut state = 7;
    let mut text = String::new();
    while text.len() < PAGE_BYTES {
        let word = pages::next(&mut state) as usize % 40;
        text.push_str(&"fault page table memory swap reclaim frame"[word % 36..][..2 + word / 8]);
        text.push(' ');
    }
    let page: &Page = text.as_bytes()[..PAGE_BYTES].try_into().expect("it is a page");
    let [quick, dense] = [Effort::Quick, Effort::Dense]
        .map(|effort| blob_of(page, effort, &mut scratch).expect("text compresses").len());
    assert!(dense * 10 < quick * 8, "{dense} {quick}");
}

#[test]
fn nothing_is_corrupt() {
    assert!(back(&[]) == Err(Corrupt));
}

#[test]
fn a_blob_of_more_than_a_page_is_corrupt() {
    // A literal, then a match of 4 + 15 + 255 * 40 + 0 bytes: far more than a page.
    let mut blob = vec![1, 0x1f, b'x', 1, 0];
    blob.extend([255; 40]);
    blob.extend([0, 0x50, 1, 2, 3, 4, 5]);
    assert!(back(&blob) == Err(Corrupt));
}
