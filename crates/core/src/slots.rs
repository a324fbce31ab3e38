//! Room of the swap file: how many live blobs touch each 4 KiB slot.
//!
//! Blobs are packed, so a slot may hold parts of many blobs and a blob may cross a slot border. Only the supervisor takes slots (counts 0 -> n, before
//! the words name them); anyone who frees a blob counts its slots down. A slot with count 0 is free.
//!
//! Must hold: a slot is taken only when no swap word names it and no write to it is in flight; the batch that is being written counts as one user.

use uswap_sync::{AtomicU64, Ordering};
use uswap_units::PAGE_BYTES;

const SLOTS_PER_WORD: u64 = 8;

/// View of the slot map in the segment: one byte a slot.
#[derive(Clone, Copy)]
pub struct SlotMap<'a> {
    pub(crate) counts: &'a [AtomicU64],
    /// Slots that may be used; grows up to the size of the map.
    pub(crate) limit: &'a AtomicU64,
    /// Slots with a count above 0.
    pub(crate) used: &'a AtomicU64,
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

/// Where the search for free slots goes on. Private to the supervisor.
#[derive(Debug, Default)]
pub struct SlotCursor {
    next: u64,
}

fn slots_of(offset: u64, bytes: u64) -> core::ops::Range<u64> {
    let page = PAGE_BYTES as u64;
    offset / page..(offset + bytes).div_ceil(page)
}

impl SlotMap<'_> {
    /// Slots that the map can describe.
    pub fn capacity(&self) -> u64 {
        self.counts.len() as u64 * SLOTS_PER_WORD
    }
    /// Slots that may be used.
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }
    /// Sets the slots that may be used.
    pub fn set_limit(&self, slots: u64) {
        self.limit.store(slots.min(self.capacity()), Ordering::Relaxed);
    }
    /// Slots in use.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
    /// Live blobs that touch `slot`.
    pub fn count(&self, slot: u64) -> u8 {
        (self.counts[(slot / SLOTS_PER_WORD) as usize].load(Ordering::Acquire) >> (slot % SLOTS_PER_WORD * 8))
            as u8
    }

    fn add(&self, slot: u64) {
        let shift = slot % SLOTS_PER_WORD * 8;
        // AcqRel pairs with `subtract`: the last user's reads are done before the slot is written again.
        let before = self.counts[(slot / SLOTS_PER_WORD) as usize].fetch_add(1 << shift, Ordering::AcqRel);
        let count = (before >> shift) as u8;
        assert!(count < u8::MAX, "a slot has room for 64 blobs and one batch");
        if count == 0 {
            self.used.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// True if the slot became free.
    fn subtract(&self, slot: u64) -> bool {
        let shift = slot % SLOTS_PER_WORD * 8;
        let before = self.counts[(slot / SLOTS_PER_WORD) as usize].fetch_sub(1 << shift, Ordering::AcqRel);
        let count = (before >> shift) as u8;
        assert!(count > 0, "a slot is released as often as it was taken");
        if count == 1 {
            self.used.fetch_sub(1, Ordering::Relaxed);
        }
        count == 1
    }

    /// Takes a run of up to `wanted` free slots, the longest of the first ones found that has at least `least`. None: no such run.
    pub fn take_run(&self, cursor: &mut SlotCursor, wanted: u64, least: u64) -> Option<TakenRun> {
        let limit = self.limit();
        let mut best: Option<(u64, u64)> = None;
        let (mut length, mut searched, mut slot) = (0, 0, if cursor.next < limit { cursor.next } else { 0 });
        while searched < limit + wanted && limit > 0 {
            if slot == limit {
                (slot, length) = (0, 0);
            }
            if self.count(slot) == 0 {
                length += 1;
            } else {
                length = 0;
            }
            slot += 1;
            searched += 1;
            if length > best.map_or(0, |(_, count)| count) {
                best = Some((slot - length, length));
            }
            // After 64 K slots (256 MiB of file) a shorter run is better than more search.
            let enough = searched >= 65_536 && best.is_some_and(|(_, count)| count >= least);
            if length == wanted || enough {
                break;
            }
        }
        let (first, count) = best.filter(|&(_, count)| count >= least)?;
        for slot in first..first + count {
            self.add(slot);
        }
        cursor.next = first + count;
        Some(TakenRun { first, count })
    }

    /// A blob at `offset` (bytes) uses the slots it touches.
    pub fn add_blob(&self, offset: u64, bytes: u64) {
        slots_of(offset, bytes).for_each(|slot| self.add(slot));
    }

    /// A blob is freed. `freed` gets each slot that nobody uses any more.
    pub fn remove_blob(&self, offset: u64, bytes: u64, mut freed: impl FnMut(u64)) {
        slots_of(offset, bytes).for_each(|slot| {
            if self.subtract(slot) {
                freed(slot);
            }
        });
    }

    /// The batch is written, or given up: its own use of the slots ends.
    pub fn end_run(&self, run: TakenRun) {
        for slot in run.first..run.first + run.count {
            self.subtract(slot);
        }
    }
}
