//! Same-filled pages: pages that are one 32-bit word, 1024 times.
//!
//! Must hold: `same_filled(page) == Some(value)` exactly when `fill(_, value)` makes that page again. Called by
//! `engine` before it compresses a page, by `sim` and by `fuzz`. Most pages that are asked are not same-filled, so the
//! common answer has to be quick.

use crate::Page;

/// The word that fills the page, when all its 1024 words are equal. Native byte order: pages never leave the machine.
#[must_use]
pub fn same_filled(page: &Page) -> Option<u32> {
    let (words, rest) = page.as_chunks::<8>();
    debug_assert!(rest.is_empty());
    let first = u64::from_ne_bytes(words[0]);
    // Ordinary pages differ in their ends: one compare instead of a walk over the page.
    if u64::from_ne_bytes(words[words.len() - 1]) != first {
        return None;
    }
    let value = first as u32;
    if (first >> 32) as u32 != value {
        return None;
    }
    // 64 bytes at once without a branch between them, so that the compiler uses vectors.
    let (lines, _) = words.as_chunks::<8>();
    let all_equal = lines.iter().all(|line| {
        line.iter().fold(0, |difference, word| difference | (u64::from_ne_bytes(*word) ^ first)) == 0
    });
    all_equal.then_some(value)
}

/// Fills the page with one word: what [`same_filled`] found, put back.
pub fn fill(page: &mut Page, value: u32) {
    let (words, _) = page.as_chunks_mut::<4>();
    words.fill(value.to_ne_bytes());
}
