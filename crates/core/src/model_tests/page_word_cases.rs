//! Cases of the page word that random lists reach too seldom, or that they do not ask for. Each kills a mutant: see
//! docs/experiments/mutants.md.

use crate::page_word::{
    Commit, EVICTORS_MAX, EvictableChunks, EvictedContent, EvictorId, PageWord, PageWordRef, Place, TryLock,
    Warmth,
};
use crate::reuse::StoreTime;
use uswap_sync::AtomicU64;
use uswap_units::SwapId;

/// Runs `test` with the word of a page that is managed.
fn with_word_ref(test: impl FnOnce(PageWordRef<'_>)) {
    let (word, chunks) = (AtomicU64::new(0), AtomicU64::new(0));
    let word_ref = PageWordRef { word: &word, evictable: EvictableChunks(&chunks), chunk_in_block: 0 };
    assert!(word_ref.adopt());
    test(word_ref);
}

/// Locks the word and changes it.
fn change(word_ref: PageWordRef<'_>, commit: impl FnOnce(PageWordRef<'_>) -> Commit) -> PageWord {
    assert!(matches!(word_ref.try_lock(), TryLock::Locked(_)));
    assert_eq!(commit(word_ref), Commit::Done);
    word_ref.load()
}

fn evict(word_ref: PageWordRef<'_>, swap: u32, time: u64, content: EvictedContent) -> Commit {
    word_ref.commit_evicted(SwapId::new(swap), StoreTime::new(time), content)
}

#[test]
fn an_evictor_keeps_its_number_and_a_word_tells_evictors_apart() {
    for index in 0..EVICTORS_MAX {
        assert_eq!(EvictorId::new(index).index(), index);
        with_word_ref(|word_ref| {
            assert!(matches!(word_ref.try_lock(), TryLock::Locked(_)));
            let word = word_ref.commit_isolated(EvictorId::new(index)).expect("nobody drops it");
            assert_eq!(word.isolated_by().map(EvictorId::index), Some(index));
        });
    }
}

#[test]
fn a_page_is_missing_while_it_is_swapped_and_nobody_works_on_it() {
    with_word_ref(|word_ref| {
        assert!(!word_ref.load().is_missing(), "fresh");
        assert!(
            !change(word_ref, |word_ref| word_ref.commit_present(None, Warmth::Cold)).is_missing(),
            "present"
        );
        let swapped = change(word_ref, |word_ref| evict(word_ref, 1, 5, EvictedContent::StoredAnew));
        assert!(swapped.is_missing());
        assert!(matches!(word_ref.try_lock(), TryLock::Locked(_)));
        assert!(!word_ref.load().is_missing(), "locked");
        let managed = 1 << 63;
        assert!(!PageWord::from_raw(swapped.raw() & !managed).is_missing(), "not ours");
    });
}

#[test]
fn that_a_page_was_rewritten_outlives_its_eviction_unless_it_stayed_unchanged() {
    for (content, is_rewritten) in [(EvictedContent::StoredAnew, true), (EvictedContent::Unchanged, false)] {
        with_word_ref(|word_ref| {
            change(word_ref, |word_ref| evict(word_ref, 1, 5, EvictedContent::Unchanged));
            assert!(change(word_ref, |word_ref| word_ref.commit_rewritten(Warmth::Cold)).is_rewritten());
            let swapped = change(word_ref, |word_ref| evict(word_ref, 2, 9, content));
            assert_eq!((swapped.place(), swapped.evicted_at()), (Place::Swapped, StoreTime::new(9)));
            assert_eq!(swapped.is_rewritten(), is_rewritten);
            let clean =
                change(word_ref, |word_ref| word_ref.commit_present(Some(SwapId::new(2)), Warmth::Cold));
            assert_eq!((clean.is_clean(), clean.is_rewritten()), (true, is_rewritten));
        });
    }
}
