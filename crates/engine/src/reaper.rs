//! Cleans up after a process that is gone. The supervisor calls it; nobody else touches the record any more.

use crate::platform::Backing;
use crate::release::put_entries;
use crate::storer::release_job;
use core::ops::Range;
use uswap_core::counters::Counter;
use uswap_core::jobs::JobState;
use uswap_core::load_jobs::LoadJob;
use uswap_core::mm::MmState;
use uswap_core::page_table::PAGES_MAX;
use uswap_core::page_word::{Afterwards, Remove};
use uswap_core::segment::Segment;
use uswap_units::{MmId, PageId, PageRange};

/// Nobody waits for its jobs any more.
fn reap_jobs(segment: Segment<'_>, backing: &impl Backing, mm: MmId) {
    for job in segment.store_jobs().all() {
        if let Some(reaped) = job.word().reap(mm) {
            release_job(segment, backing, job);
            let _nobody_else_changes_it = job.word().change(reaped, JobState::Free);
        }
    }
    for word in segment.load_jobs().all().map(LoadJob::word) {
        if let Some(reaped) = word.reap(mm) {
            let _nobody_else_changes_it = word.change(reaped, JobState::Free);
        }
    }
}

/// The supervisor's way to give back memory of the swap table, and blocks of the swap file.
pub trait GiveBack: Backing {
    /// Gives words and hashes of a cluster of entries, none of which is used, back to the system.
    fn release_cluster(&self, cluster: u32);
    /// Gives the blocks of a range of the swap file, in which nothing lives, back to the file system.
    fn release_file(&self, bytes: Range<u64>);
}

/// Clusters of the file (2 MiB each) whose blocks are given back at once: the file system does it in some 10 us each, but may write to its journal.
const FILE_CLUSTERS_MAX: usize = 64;

/// Gives the memory of clusters that hold no entry any more back to the system, and the blocks of clusters of the file that hold no blob.
pub fn give_back_clusters(segment: Segment<'_>, backing: &impl GiveBack) {
    let slots = segment.slots();
    for empty in core::iter::from_fn(|| slots.take_discard()).take(FILE_CLUSTERS_MAX) {
        backing.release_file(empty.bytes.clone());
        slots.discarded(empty);
    }
    let table = segment.swap_table();
    while let Some(cluster) = table.take_discard() {
        backing.release_cluster(cluster);
        table.discarded(cluster);
    }
}

/// Drops every reference that the process held, and gives its zspages, table pages and record to the others.
pub fn drop_mm(segment: Segment<'_>, backing: &impl Backing, mm: MmId) {
    let record = segment.mms().record(mm);
    record.set_state(MmState::Reaping, 0);
    let (swap_table, slots) = (segment.swap_table(), segment.slots());
    let was_in_the_middle = record.is_in_the_middle();
    if was_in_the_middle {
        // First: what is put below may need them.
        swap_table.break_locks(mm);
        slots.break_locks(mm);
    }
    if let Some(root) = record.root() {
        let everything = PageRange { start: PageId(0), end: PageId(PAGES_MAX) };
        let slots =
            segment.page_table(mm, root).leaves(everything).flat_map(|leaf| leaf.slots_in(everything));
        let entries = slots.filter_map(|(_, slot)| match slot.remove(Afterwards::Unmanaged) {
            Remove::Was(word) => word.swap(),
            // Its holder died with the process.
            Remove::Deferred => slot.load().swap(),
            Remove::Unmanaged => None,
        });
        put_entries(segment, backing, entries);
    }
    reap_jobs(segment, backing, mm);
    if was_in_the_middle {
        swap_table.reap(mm);
        slots.audit();
    }
    segment.pool().reap(mm, |zspage| backing.release_zspage(zspage));
    segment.tables().reap(mm);
    segment.counters().add(Counter::ReapedMms, 1);
    record.free();
}
