//! Reuse distances: how many pages were stored between the time a page was stored and the time its program came for it.
//!
//! With room for so many pages more it would still have been there. That is the refault distance of Linux
//! ("workingset"); here the distances of all faults on stored pages are counted, so that one can see what any other
//! division of RAM would have cost: [`crate::pool_share`].
//!
//! Must hold: the clock only grows. A distance is wrong by less than 1/4096 of the budget, as long as that stays the
//! same and fewer pages are stored in between than 256 budgets hold. Called by `engine`, which notes pages that go and
//! come, and by the supervisor, which reads.

use crate::histogram::Histogram;
use core::fmt;
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::{Bytes, PAGE_BYTES};

/// Distances are counted in parts of the budget, of which it has so many.
pub const BUDGET_PARTS: u64 = 256;

/// When a page was stored, on the clock of [`Reuse`], as the word of the page keeps it. It goes round: a page that
/// nobody comes for while 256 budgets are stored seems young again. So no time is before another.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StoreTime(u32);

impl StoreTime {
    /// Bits of it.
    pub const BITS: u32 = 20;
    const MASK: u64 = (1 << StoreTime::BITS) - 1;

    /// When so many units of time have passed.
    pub const fn new(units: u64) -> StoreTime {
        StoreTime((units & StoreTime::MASK) as u32)
    }
    /// Its bits.
    pub const fn bits(self) -> u64 {
        self.0 as u64
    }
    /// Units of time from `earlier` to this one, if the clock has not gone round in between.
    pub const fn since(self, earlier: StoreTime) -> u64 {
        self.bits().wrapping_sub(earlier.bits()) & StoreTime::MASK
    }
}

impl fmt::Debug for StoreTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}

/// Units of that time in a part of the budget.
const PART_UNITS: u64 = 1 << (StoreTime::BITS - 16);

/// How a stored page comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefaultKind {
    /// Its program waits for it.
    Demanded,
    /// With another that its program waits for.
    Prefetched,
}

/// View of the clock and the counts in the segment. Lost updates only miscount.
#[derive(Clone, Copy)]
pub struct Reuse<'a> {
    /// Pages stored so far.
    pub(crate) clock: &'a AtomicU64,
    /// Of pages that came by a fault of their own, and of others.
    pub(crate) distances: [Histogram<'a>; 2],
    /// Pages in the budget.
    pub(crate) ram_pages: u64,
}

impl<'a> Reuse<'a> {
    pub(crate) fn new(clock: &'a AtomicU64, distances: [Histogram<'a>; 2], ram: Bytes) -> Reuse<'a> {
        Reuse { clock, distances, ram_pages: ram.bytes() / PAGE_BYTES as u64 }
    }

    /// Pages in the budget.
    pub const fn ram_pages(&self) -> u64 {
        self.ram_pages
    }

    fn unit_pages(&self) -> u64 {
        (self.ram_pages / (BUDGET_PARTS * PART_UNITS)).max(1)
    }

    fn part_pages(&self) -> u64 {
        (self.ram_pages / BUDGET_PARTS).max(1)
    }

    /// A page is stored; the time, for its word.
    pub fn note_stored(&self) -> StoreTime {
        StoreTime::new(self.clock.fetch_add(1, Ordering::Relaxed) / self.unit_pages())
    }

    /// The distance of a page that comes back now, in pages, with an error of 1/4096 of the budget.
    pub fn distance(&self, stored_at: StoreTime) -> u64 {
        let now = StoreTime::new(self.stored() / self.unit_pages());
        now.since(stored_at) * self.unit_pages()
    }

    /// A stored page comes back: by a fault of its own, or along with another.
    pub fn note_refault(&self, stored_at: StoreTime, kind: RefaultKind) {
        self.distances[kind as usize].record(self.distance(stored_at) / self.part_pages());
    }

    /// Pages stored so far.
    pub fn stored(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// Distances of all stored pages that came back so far, in parts of the budget.
    pub fn distances(&self, kind: RefaultKind) -> Histogram<'a> {
        self.distances[kind as usize]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::segment::{Geometry, Segment};
    use std::vec::Vec;

    #[test]
    fn distances_are_pages_stored_meanwhile_in_parts_of_the_budget() {
        let geometry = Geometry { mms: 4, tables: 1, entries: 512, zspages: 1, slots: 0, readahead: 0 };
        let words: Vec<AtomicU64> = (0..geometry.layout().total_words()).map(|_| AtomicU64::new(0)).collect();
        let segment = Segment::create(&words, geometry);
        // 64 pages a part, 4 a unit of time.
        segment.budget().set_ram(Bytes::new(64 * 256 * 4096));
        let reuse = segment.reuse();
        let counted = |distance: u64| {
            let found = reuse
                .distances(RefaultKind::Demanded)
                .counts()
                .find(|(values, _)| values.contains(&distance));
            found.expect("in some bucket").1
        };
        let times: Vec<StoreTime> = (0..640).map(|_| reuse.note_stored()).collect();
        assert_eq!(
            times.iter().map(|&time| reuse.distance(time)).collect::<Vec<_>>()[..5],
            [640, 640, 640, 640, 636]
        );
        reuse.note_refault(times[639], RefaultKind::Demanded);
        assert_eq!((counted(0), counted(10)), (1, 0));
        reuse.note_refault(times[0], RefaultKind::Demanded);
        assert_eq!((counted(0), counted(10)), (1, 1));
        // The clock goes round.
        segment.reuse().clock.fetch_add((4 << StoreTime::BITS) - 640, Ordering::Relaxed);
        let late = reuse.note_stored();
        assert_eq!((late, reuse.distance(times[0])), (StoreTime::new(0), 0));
        (0..7).for_each(|_| _ = reuse.note_stored());
        assert_eq!(reuse.distance(late), 8);
    }
}
