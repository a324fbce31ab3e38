//! The content must compress as real programs' memory does, and be the same for the same seed.

use super::*;
use std::collections::HashSet;
use uswap_codec::{COMPRESSED_BYTES_MAX, Compressed, Effort, Scratch, compress, same_filled};

/// Bytes that a pool needs for the page: none for one that is the same all over, all of it for one that does not
/// compress.
fn compressed_bytes(words: &PageWords) -> usize {
    let mut page = [0; PAGE_BYTES];
    for (place, word) in page.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    if same_filled(&page).is_some() {
        return 0;
    }
    let mut blob = [0; COMPRESSED_BYTES_MAX];
    match compress(&page, &mut blob, Effort::Quick, &mut Scratch::new()) {
        Compressed::Bytes(bytes) => bytes,
        Compressed::Incompressible => PAGE_BYTES,
    }
}

#[test]
fn mix_compresses_as_real_programs_do() {
    for seed in [1, 2, 77] {
        let content = Content::new(seed).unwrap();
        let mut of_kind = MIX.map(|(kind, _)| (kind, 0, 0));
        for number in 0..20_000 {
            let page = content.page(number);
            let entry = of_kind.iter_mut().find(|(kind, ..)| *kind == page.kind).unwrap();
            entry.1 += PAGE_BYTES;
            entry.2 += compressed_bytes(&page.to_words());
        }
        for (kind, raw, compressed) in of_kind {
            println!(
                "seed {seed} {kind:?}: {:.2} : 1, {} pages",
                raw as f64 / compressed as f64,
                raw / PAGE_BYTES
            );
            assert!(
                kind == Kind::Zero || raw as f64 / compressed as f64 > 1.15,
                "{kind:?} does not compress"
            );
        }
        let (raw, compressed) =
            of_kind.iter().fold((0, 0), |sum, (_, raw, compressed)| (sum.0 + raw, sum.1 + compressed));
        let ratio = raw as f64 / compressed as f64;
        println!("seed {seed}, all: {ratio:.2} : 1");
        assert!((2.2..=3.0).contains(&ratio), "the mix compresses {ratio:.2} : 1");
    }
}

#[test]
fn shares_are_those_of_the_mix() {
    assert_eq!(MIX.iter().map(|(_, percent)| percent).sum::<u64>(), 100);
    let content = Content::new(5).unwrap();
    for (kind, percent) in MIX {
        let found = (0..50_000).filter(|number| content.page(*number).kind == kind).count() as f64 / 500.0;
        assert!((found - percent as f64).abs() < 0.8, "{kind:?}: {found} of 100");
    }
}

#[test]
fn pages_differ_and_follow_from_seed_and_number() {
    let (content, same, other) =
        (Content::new(9).unwrap(), Content::new(9).unwrap(), Content::new(10).unwrap());
    let mut seen = HashSet::new();
    let mut zeros = 0;
    for number in 0..20_000 {
        let page = content.page(number).to_words();
        assert_eq!(page, same.page(number).to_words());
        if page.iter().all(|word| *word == 0) {
            zeros += 1;
        } else {
            assert!(seen.insert(page), "page {number} is there twice");
            assert_ne!(page, other.page(number).to_words());
        }
    }
    assert!((400..800).contains(&zeros), "{zeros} pages of zeros");
}

#[test]
fn filled_memory_is_the_page_and_counters_are_zero() {
    let content = Content::new(3).unwrap();
    let words: Vec<AtomicU64> = (0..PAGE_WORDS).map(|_| AtomicU64::new(1)).collect();
    for number in 0..100 {
        content.fill(number, &words);
        for (index, wanted) in content.page(number).to_words().into_iter().enumerate() {
            assert_eq!(words[index].load(Relaxed), wanted);
            assert!(!is_counter(index) || wanted == 0);
        }
    }
}

#[test]
fn sum_changes_with_every_word_and_with_the_order() {
    let words: Vec<AtomicU64> = (0..PAGE_WORDS as u64).map(AtomicU64::new).collect();
    let sum = Sum::of_words(1, &words);
    assert_ne!(sum, Sum::of_words(2, &words));
    for index in 0..PAGE_WORDS {
        words[index].store(index as u64 ^ 4, Relaxed);
        assert_ne!(sum, Sum::of_words(1, &words), "word {index}");
        words[index].store(index as u64, Relaxed);
    }
    words[8].store(12, Relaxed);
    words[12].store(8, Relaxed);
    assert_ne!(sum, Sum::of_words(1, &words));
}

#[test]
fn bank_is_small() {
    let content = Content::new(3).unwrap();
    assert!(content.bank.len() * PAGE_BYTES < 4 << 20);
}

#[test]
fn numbers_that_count_up_compress_too() {
    // What usemem writes: much of a word is like the word before, which codecs for words see.
    let bytes: usize = (0..1000u64)
        .map(|number| {
            compressed_bytes(&std::array::from_fn(|index| (number << 16) * PAGE_WORDS as u64 + index as u64))
        })
        .sum();
    let ratio = (1000 * PAGE_BYTES) as f64 / bytes as f64;
    println!("usemem: {ratio:.2} : 1");
    assert!((1.1..8.0).contains(&ratio), "{ratio:.2} : 1");
}
