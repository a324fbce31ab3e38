//! Cleans up after a process that is gone.
//!
//! Must hold: nobody else touches the record any more; locks of the dead are broken before anything is put back that
//! may need them; the record is free last of all. Called by the supervisor and `sim`, and by [`crate::fork`] for a
//! child that never came to be.

use crate::pool::release::put_entries;
use crate::world::Backing;
use core::ops::Range;
use uswap_core::counters::Counter;
use uswap_core::mm::MmState;
use uswap_core::page_table::ALL_PAGES;
use uswap_core::page_word::{Afterwards, Remove};
use uswap_core::segment::Segment;
use uswap_units::{ClusterId, MmId, SwapOffset};

/// The supervisor's way to give back memory of the swap table, and blocks of the swap file.
pub trait Trim: Backing {
    /// Gives words and hashes of a cluster of entries, none of which is used, back to the system.
    fn release_cluster(&self, cluster: ClusterId);
    /// Gives the blocks of a range of the swap file, in which nothing lives, back to the file system.
    fn release_file(&self, bytes: Range<SwapOffset>);
}

/// Clusters of the file (2 MiB each) whose blocks are given back at once: the file system does it in some 10 us each,
/// but may write to its journal.
const FILE_CLUSTERS_MAX: usize = 64;

/// Gives the memory of clusters that hold no entry any more back to the system, and the blocks of clusters of the file
/// that hold no blob.
pub fn trim_clusters(segment: Segment<'_>, backing: &impl Trim) {
    let slots = segment.slots();
    for empty in core::iter::from_fn(|| slots.take_to_trim()).take(FILE_CLUSTERS_MAX) {
        backing.release_file(empty.bytes.clone());
        slots.trimmed(empty);
    }
    let table = segment.swap_table();
    while let Some(cluster) = table.take_to_trim() {
        backing.release_cluster(cluster);
        table.trimmed(cluster);
    }
}

/// Drops every reference that the process held, and gives its zspages, table pages and record to the others. Records
/// that it had in hand go with it: that of a child whose table it was making, or was dropping. Its forked children have
/// no parent from now on.
pub fn drop_mm(segment: Segment<'_>, backing: &impl Backing, mm: MmId) {
    for other in segment.mms().in_use() {
        if other.is_held_by(mm) {
            drop_one(segment, backing, other.id());
        } else if other.state() == MmState::Forked && other.parent() == Some(mm) {
            // Before the record of the parent is another process's.
            other.set_parent(None);
        }
    }
    drop_one(segment, backing, mm);
}

fn drop_one(segment: Segment<'_>, backing: &impl Backing, mm: MmId) {
    let record = segment.mms().record(mm);
    record.begin_reaping(segment.holder());
    let (swap_table, slots) = (segment.swap_table(), segment.slots());
    let was_in_the_middle = record.is_in_the_middle();
    if was_in_the_middle {
        // First: what is put below may need them.
        swap_table.break_locks(mm);
        slots.break_locks(mm);
    }
    if let Some(root) = record.root() {
        let word_refs =
            segment.page_table(mm, root).leaves(ALL_PAGES).flat_map(|leaf| leaf.word_refs_in(ALL_PAGES));
        let entries = word_refs.filter_map(|(_, word_ref)| match word_ref.remove(Afterwards::Unmanaged) {
            Remove::Was(word) => word.swap(),
            // Its holder died with the process.
            Remove::Deferred => word_ref.load().swap(),
            Remove::Unmanaged => None,
        });
        put_entries(segment, backing, entries);
    }
    if was_in_the_middle {
        swap_table.reap(mm);
        slots.audit();
    }
    segment.pool().reap(mm, |zspage| backing.release_zspage(zspage));
    segment.tables().reap(mm);
    segment.counters().add(Counter::ReapedMms, 1);
    record.free();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{FileBuffer, FileError};
    use std::vec::Vec;
    use uswap_core::budget::Signal;
    use uswap_core::mm::RecordHolder;
    use uswap_core::page_word::{Commit, Place, TryLock};
    use uswap_core::segment::Geometry;
    use uswap_core::swap_word::Content;
    use uswap_sync::AtomicU64;
    use uswap_units::{PageId, ZspageId};

    const GEOMETRY: Geometry =
        Geometry { mms: 6, tables: 8, entries: 512, zspages: 1, slots: 8, readahead: 0 };

    struct Nothing;
    impl Backing for Nothing {
        fn release_zspage(&self, _: ZspageId) {}
        async fn read_file(&self, _: SwapOffset, _: usize, _: &mut FileBuffer) -> Result<(), FileError> {
            unreachable!("nothing is in the file")
        }
        async fn pause(&self) {}
        async fn step(&self) {}
        fn now_ns(&self) -> u64 {
            0
        }
        fn raise(&self, _: Signal) {}
        async fn wait(&self, _: Signal, _: u32, _: u64) {}
    }

    /// A parent is killed while it copies its table for one child, and while it drops the table of another.
    #[test]
    fn what_a_dead_parent_had_in_hand_is_given_back() {
        let words: Vec<AtomicU64> = (0..GEOMETRY.layout().total_words()).map(|_| AtomicU64::new(0)).collect();
        let run = Segment::create(&words, GEOMETRY);
        let parent = run.mms().take(RecordHolder::Process).expect("room");
        let neighbour = run.mms().take(RecordHolder::Process).expect("room");
        let (own, page) = (run.acting_as(parent.id()), PageId::new(1000));
        let entry = own.swap_table().reserve().expect("room");
        own.swap_table().publish(entry, Content::Same(1));
        for begin in [true, false] {
            let child = run.mms().take(own.holder()).expect("room");
            let root = run.tables().allocate(child.id()).expect("room");
            if begin {
                // Killed before the record names its table.
                continue;
            }
            child.set_root(root);
            let leaf = run.page_table(child.id(), root).leaf_or_allocate(page).expect("room");
            let word_ref = leaf.word_ref(page);
            assert!(word_ref.adopt());
            word_ref.activate();
            assert!(matches!(word_ref.try_lock(), TryLock::Locked(_)));
            assert_eq!(word_ref.commit(Place::Swapped, Some(entry)), Commit::Done);
            child.begin_reaping(own.holder());
        }
        let forked = run.mms().take(own.holder()).expect("room");
        forked.set_parent(Some(parent.id()));
        forked.set_forked();
        assert_eq!(run.mms().in_use().count(), 5);

        drop_mm(run, &Nothing, parent.id());
        let left: Vec<MmId> = run.mms().in_use().map(|record| record.id()).collect();
        assert_eq!(left, [neighbour.id(), forked.id()]);
        assert_eq!(forked.parent(), None, "whoever has the record of its parent next is not its parent");
        drop_mm(run, &Nothing, forked.id());
        drop_mm(run, &Nothing, neighbour.id());
        assert_eq!((run.tables().used_count(), run.swap_table().used_count()), (0, 0));
    }
}
