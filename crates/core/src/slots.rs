//! Room of the swap file: how many live blobs touch each 4 KiB slot.
//!
//! Blobs are packed, so a slot may hold parts of many blobs and a blob may cross a slot border. Only the supervisor takes slots (counts 0 -> n, before
//! the words name them); anyone who frees a blob counts its slots down. A slot with count 0 is free; `clusters` finds runs of them.
//!
//! Must hold: a slot is taken only when no swap word names it and no write to it is in flight; the batch that is being written counts as one user.

use crate::clusters::lock::Locker;
use crate::clusters::{CLUSTER_SLOTS, Clusters, Space, Truth};
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::{MmId, PAGE_BYTES};

const SLOTS_PER_WORD: u64 = 8;

/// View of the slot map in the segment: one byte a slot.
#[derive(Clone, Copy)]
pub struct SlotMap<'a> {
    pub(crate) counts: &'a [AtomicU64],
    /// State of the clusters.
    pub(crate) clusters: &'a [AtomicU64],
    pub(crate) locker: Locker<'a>,
}

/// What says that a slot is used: its count.
#[derive(Clone, Copy)]
struct Counts<'a> {
    counts: &'a [AtomicU64],
}

const fn shift_of(slot: u64) -> u64 {
    slot % SLOTS_PER_WORD * 8
}

impl Counts<'_> {
    fn word(&self, slot: u64) -> &AtomicU64 {
        &self.counts[(slot / SLOTS_PER_WORD) as usize]
    }
    fn count(&self, slot: u64) -> u8 {
        (self.word(slot).load(Ordering::Acquire) >> shift_of(slot)) as u8
    }
    fn add(&self, slot: u64) {
        // AcqRel pairs with `subtract`: the last user's reads are done before the slot is written again.
        let before = self.word(slot).fetch_add(1 << shift_of(slot), Ordering::AcqRel);
        assert!((before >> shift_of(slot)) as u8 != u8::MAX, "a slot has room for 64 blobs and one batch");
    }
}

impl Truth for Counts<'_> {
    fn is_used(&self, slot: u32) -> bool {
        self.count(u64::from(slot)) != 0
    }
    fn claim(&self, slot: u32, _: MmId) {
        self.add(u64::from(slot));
    }
}

/// The clusters of a file of so many slots.
pub(crate) const fn slot_space(slots: u64) -> Space {
    Space { first: 0, end: slots as u32, is_discarding: true }
}

/// A run of free slots that the supervisor has taken for a batch.
#[must_use]
#[derive(Debug)]
pub struct TakenRun {
    first: u64,
    count: u64,
}

impl TakenRun {
    /// Byte offset in the file.
    pub fn offset_bytes(&self) -> u64 {
        self.first * PAGE_BYTES as u64
    }
    /// Bytes of the run.
    pub fn bytes(&self) -> u64 {
        self.count * PAGE_BYTES as u64
    }
}

/// A cluster of slots, none of which is used: nobody gets it before `discarded`.
#[must_use]
#[derive(Debug)]
pub struct EmptyCluster {
    cluster: u32,
    /// Its bytes in the file.
    pub bytes: core::ops::Range<u64>,
}

fn slots_of(offset: u64, bytes: u64) -> core::ops::Range<u64> {
    let page = PAGE_BYTES as u64;
    offset / page..(offset + bytes).div_ceil(page)
}

impl<'a> SlotMap<'a> {
    fn truth(&self) -> Counts<'a> {
        Counts { counts: self.counts }
    }
    fn clusters(&self) -> Clusters<'a, impl Truth + use<'a>> {
        Clusters::new(self.clusters, slot_space(self.capacity()), self.truth(), self.locker)
    }
    /// Slots that there are.
    pub fn capacity(&self) -> u64 {
        self.counts.len() as u64 * SLOTS_PER_WORD
    }
    /// Slots in use.
    pub fn used(&self) -> u64 {
        self.clusters().used()
    }
    /// Live blobs that touch `slot`.
    pub fn count(&self, slot: u64) -> u8 {
        self.truth().count(slot)
    }

    /// One user of a slot less. True if it was the last.
    fn subtract(&self, slot: u64) -> bool {
        let shift = shift_of(slot);
        let before = self.truth().word(slot).fetch_sub(1 << shift, Ordering::AcqRel);
        let count = (before >> shift) as u8;
        assert!(count > 0, "a slot is released as often as it was taken");
        count == 1
    }

    /// Takes a run of up to `wanted` free slots, at most a cluster: the largest power of two that is to be had. None: all are used.
    pub fn take_run(&self, wanted: u64) -> Option<TakenRun> {
        let most = wanted.clamp(1, u64::from(CLUSTER_SLOTS)).ilog2();
        let clusters = self.clusters();
        let mut orders = (0..=most).rev();
        orders.find_map(|order| {
            clusters.allocate(order).map(|first| TakenRun { first: u64::from(first), count: 1 << order })
        })
    }

    /// A cluster whose blocks can be given back to the file system. Those that wait for it may be taken again meanwhile.
    pub fn take_discard(&self) -> Option<EmptyCluster> {
        let cluster = self.clusters().take_discard()?;
        let first = u64::from(cluster) * u64::from(CLUSTER_SLOTS);
        let end = self.capacity().min(first + u64::from(CLUSTER_SLOTS));
        Some(EmptyCluster { cluster, bytes: first * PAGE_BYTES as u64..end * PAGE_BYTES as u64 })
    }

    /// Its blocks are given back.
    pub fn discarded(&self, empty: EmptyCluster) {
        self.clusters().discarded(empty.cluster);
    }

    /// A blob at `offset` (bytes) uses the slots it touches.
    pub fn add_blob(&self, offset: u64, bytes: u64) {
        slots_of(offset, bytes).for_each(|slot| self.truth().add(slot));
    }

    /// A blob is freed.
    pub fn remove_blob(&self, offset: u64, bytes: u64) {
        self.remove(slots_of(offset, bytes));
    }

    /// The batch is written, or given up: its own use of the slots ends.
    pub fn end_run(&self, run: TakenRun) {
        self.remove(run.first..run.first + run.count);
    }

    /// One user of each of these slots less.
    fn remove(&self, slots: core::ops::Range<u64>) {
        self.locker.begin();
        let clusters = self.clusters();
        let mut freed = clusters.freed();
        slots.filter(|&slot| self.subtract(slot)).for_each(|slot| freed.add(slot as u32));
        freed.give_back();
        self.locker.end();
    }

    /// Gives up the locks that a dead process holds.
    pub fn break_locks(&self, dead: MmId) {
        self.clusters().break_locks(dead);
    }

    /// Frees what a dead process had not freed to the end.
    pub fn audit(&self) -> u64 {
        self.clusters().audit()
    }
}
