//! Cases of the page word that random lists reach too seldom, or that they do not ask for. Each kills a mutant: see
//! docs/experiments/mutants.md.

use crate::page_word::{
    Commit, EvictableChunks, EvictedContent, LANES, Lane, PageSlot, PageWord, Place, TryLock, Warmth,
};
use crate::reuse::StoreTime;
use uswap_sync::AtomicU64;
use uswap_units::SwapId;

/// Runs `test` with the word of a page that is managed.
fn with_slot(test: impl FnOnce(PageSlot<'_>)) {
    let (word, chunks) = (AtomicU64::new(0), AtomicU64::new(0));
    let slot = PageSlot { word: &word, evictable: EvictableChunks(&chunks), chunk_in_block: 0 };
    assert!(slot.adopt());
    test(slot);
}

/// Locks the word and changes it.
fn change(slot: PageSlot<'_>, commit: impl FnOnce(PageSlot<'_>) -> Commit) -> PageWord {
    assert!(matches!(slot.try_lock(), TryLock::Locked(_)));
    assert_eq!(commit(slot), Commit::Done);
    slot.load()
}

fn evict(slot: PageSlot<'_>, swap: u32, time: u64, content: EvictedContent) -> Commit {
    slot.commit_evicted(SwapId::new(swap), StoreTime::new(time), content)
}

#[test]
fn a_lane_keeps_its_number_and_a_word_tells_lanes_apart() {
    for index in 0..LANES {
        assert_eq!(Lane::new(index).index(), index);
        with_slot(|slot| {
            assert!(matches!(slot.try_lock(), TryLock::Locked(_)));
            let word = slot.commit_isolated(Lane::new(index)).expect("nobody drops it");
            assert_eq!(word.isolated_by().map(Lane::index), Some(index));
        });
    }
}

#[test]
fn a_page_is_missing_while_it_is_swapped_and_nobody_works_on_it() {
    with_slot(|slot| {
        assert!(!slot.load().is_missing(), "fresh");
        assert!(!change(slot, |slot| slot.commit_present(None, Warmth::Cold)).is_missing(), "present");
        let swapped = change(slot, |slot| evict(slot, 1, 5, EvictedContent::StoredAnew));
        assert!(swapped.is_missing());
        assert!(matches!(slot.try_lock(), TryLock::Locked(_)));
        assert!(!slot.load().is_missing(), "locked");
        let managed = 1 << 63;
        assert!(!PageWord::from_raw(swapped.raw() & !managed).is_missing(), "not ours");
    });
}

#[test]
fn that_a_page_was_rewritten_outlives_its_eviction_unless_it_stayed_unchanged() {
    for (content, is_rewritten) in [(EvictedContent::StoredAnew, true), (EvictedContent::Unchanged, false)] {
        with_slot(|slot| {
            change(slot, |slot| evict(slot, 1, 5, EvictedContent::Unchanged));
            assert!(change(slot, |slot| slot.commit_rewritten(Warmth::Cold)).is_rewritten());
            let swapped = change(slot, |slot| evict(slot, 2, 9, content));
            assert_eq!((swapped.place(), swapped.evicted_at()), (Place::Swapped, StoreTime::new(9)));
            assert_eq!(swapped.is_rewritten(), is_rewritten);
            let clean = change(slot, |slot| slot.commit_present(Some(SwapId::new(2)), Warmth::Cold));
            assert_eq!((clean.is_clean(), clean.is_rewritten()), (true, is_rewritten));
        });
    }
}
