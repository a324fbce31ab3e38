//! Reuse distances: how many pages were stored between the time a page was stored and the time its program came for it.
//!
//! With room for so many pages more it would still have been there. That is the refault distance of Linux ("workingset"); here the distances of all faults on stored pages are counted, so that one can see what
//! any other division of RAM would have cost: [`crate::pool_share`].
//!
//! Callers: the engine notes pages that go and come; the supervisor reads the distances.

use crate::histogram::Histogram;
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::SwapId;

/// Distances are counted in parts of the budget, of which it has so many.
pub const BUDGET_PARTS: u64 = 256;

/// Stamps in one word, of 16 bits.
const STAMPS: usize = 4;
const STAMP_BITS: usize = 16;
const STAMP_MASK: u64 = (1 << STAMP_BITS) - 1;

/// Words for the stamps of so many entries.
pub(crate) const fn stamp_words(entries: usize) -> usize {
    entries.div_ceil(STAMPS)
}

/// How a stored page comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Back {
    /// Its program waits for it.
    ByFault,
    /// With another that its program waits for.
    Along,
}

/// View of the clock and the stamps in the segment. Lost updates only miscount.
#[derive(Clone, Copy)]
pub struct Reuse<'a> {
    /// Pages stored so far.
    pub(crate) clock: &'a AtomicU64,
    /// For each swap entry the time when a page was stored there last, in parts of the budget. A page that nobody comes for in 256 budgets seems young again.
    pub(crate) stamps: &'a [AtomicU64],
    /// Of pages that came by a fault of their own, and of others.
    pub(crate) distances: [Histogram<'a>; 2],
    /// Pages in a part of the budget, at least one.
    pub(crate) part_pages: u64,
}

impl<'a> Reuse<'a> {
    fn stamp(&self, id: SwapId) -> (&'a AtomicU64, usize) {
        let index = id.0 as usize;
        (&self.stamps[index / STAMPS], index % STAMPS * STAMP_BITS)
    }

    /// A page was stored, and its frame is free.
    pub fn note_stored(&self, id: SwapId) {
        let now = (self.clock.fetch_add(1, Ordering::Relaxed) / self.part_pages) & STAMP_MASK;
        let (word, shift) = self.stamp(id);
        let others = word.load(Ordering::Relaxed) & !(STAMP_MASK << shift);
        word.store(others | now << shift, Ordering::Relaxed);
    }

    /// A stored page comes back: by a fault of its own, or along with another.
    pub fn note_back(&self, id: SwapId, how: Back) {
        let now = self.clock.load(Ordering::Relaxed) / self.part_pages;
        let (word, shift) = self.stamp(id);
        let stored = word.load(Ordering::Relaxed) >> shift;
        self.distances[how as usize].record(now.wrapping_sub(stored) & STAMP_MASK);
    }

    /// Pages stored so far.
    pub fn stored(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// Distances of all stored pages that came back so far, in parts of the budget.
    pub fn distances(&self, how: Back) -> Histogram<'a> {
        self.distances[how as usize]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::segment::{Geometry, Segment};
    use std::vec::Vec;
    use uswap_units::Bytes;

    #[test]
    fn distances_are_pages_stored_meanwhile_in_parts_of_the_budget() {
        let geometry = Geometry { mms: 4, tables: 1, entries: 512, zspages: 1, slots: 0 };
        let words: Vec<AtomicU64> = (0..geometry.layout().total_words()).map(|_| AtomicU64::new(0)).collect();
        let segment = Segment::create(&words, geometry);
        // Ten pages a part.
        segment.budget().set_ram(Bytes(10 * 256 * 4096));
        let reuse = segment.reuse();
        let counted = |distance: u64| {
            let found =
                reuse.distances(Back::ByFault).counts().find(|(values, _)| values.contains(&distance));
            found.expect("in some bucket").1
        };
        for id in 1..=100 {
            reuse.note_stored(SwapId(id));
        }
        reuse.note_back(SwapId(100), Back::ByFault);
        assert_eq!((counted(0), counted(1)), (0, 1), "the page before the last began the part before");
        reuse.note_back(SwapId(1), Back::ByFault);
        assert_eq!(counted(10), 1);
        // Its neighbours in the word keep their stamps.
        reuse.note_stored(SwapId(2));
        reuse.note_back(SwapId(2), Back::ByFault);
        reuse.note_back(SwapId(3), Back::ByFault);
        assert_eq!((counted(0), counted(10)), (1, 2));
        // The stamps wrap.
        for _ in 0..10 * 65_536 {
            reuse.note_stored(SwapId(4));
        }
        reuse.note_back(SwapId(3), Back::ByFault);
        assert_eq!(counted(10), 3);
    }
}
