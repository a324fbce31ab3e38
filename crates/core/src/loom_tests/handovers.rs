//! A page is stored anew while its word is copied for a child: the child gets an entry that somebody refers to.

use crate::handovers::Handovers;
use loom::sync::{Arc, RwLock};
use loom::thread;
use std::sync::atomic::{AtomicU32, Ordering as Std};
use uswap_sync::{AtomicU64, Ordering};

/// The entry that the word names at first, and the one it names afterwards.
const OLD: u64 = 0;
const NEW: u64 = 1;

#[derive(Default)]
struct Page {
    handovers: Handovers,
    /// The copier is inside alone; who wants to know that it is done goes in and out.
    gate: RwLock<()>,
    word: AtomicU64,
    counts: [AtomicU64; 2],
}

/// Which entry the child shares.
fn copy_for_child(page: &Page) -> u64 {
    let exclusive = page.gate.write().expect("no panic inside");
    page.handovers.begin();
    let entry = page.word.load(Ordering::Acquire);
    let before = page.counts[entry as usize].fetch_add(1, Ordering::AcqRel);
    assert!(before > 0, "an entry that is shared is one that a page refers to");
    drop(exclusive);
    page.handovers.end();
    entry
}

fn store_anew(page: &Page) {
    page.word.swap(NEW, Ordering::AcqRel);
    if !page.handovers.is_seen_by_all() {
        drop(page.gate.read().expect("no panic inside"));
    }
    page.counts[OLD as usize].fetch_sub(1, Ordering::AcqRel);
}

#[test]
pub(super) fn a_page_is_stored_anew_while_its_word_is_copied_for_a_child() {
    let seen = std::sync::Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
    let outside = std::sync::Arc::clone(&seen);
    loom::model(move || {
        let page = Page { counts: [AtomicU64::new(1), AtomicU64::new(1)], ..Page::default() };
        let page = Arc::new(page);
        let other = Arc::clone(&page);
        let storing = thread::spawn(move || store_anew(&other));
        let entry = copy_for_child(&page);
        storing.join().expect("no panic");
        seen[entry as usize].fetch_add(1, Std::Relaxed);
        let counts = page.counts.each_ref().map(|count| count.load(Ordering::Acquire));
        assert_eq!(counts, if entry == OLD { [1, 1] } else { [0, 2] }, "the child has what it shares");
    });
    assert!(outside.iter().all(|count| count.load(Std::Relaxed) > 0), "{outside:?}");
}
