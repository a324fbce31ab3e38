//! What must not be evicted for a while: everything, or a few ranges that are coming home to be moved or left alone.
//!
//! Must hold: whoever needs a range to be there looks again, with the gate exclusive, before it relies on that. A hold
//! keeps evictors from beginning, but what they have begun may still drop pages.
//!
//! Called by [`crate::space`], when memory comes home or is moved, and by [`crate::evict`], which asks.
//!
//! Memory order: `hold` writes the start of a range behind its end (Release), for `overlaps` (Acquire). `release` pairs
//! with `is_all` and `overlaps`: whoever finds nothing held sees what was done while it was; and with the next `hold`
//! of the same place. That an evictor sees a hold in time does not come from these orders but from the gate: whoever
//! has been alone inside after the hold is followed only by evictors that see it.

use uswap_sync::{AtomicU32, AtomicU64, Ordering};
use uswap_units::{PageId, PageRange};

/// Threads that hold a range of their own at a time. Others hold everything.
const RANGES: usize = 4;

/// Page 0 is never managed.
const FREE: u64 = 0;
/// Somebody is writing the range.
const CLAIMED: u64 = u64::MAX;

struct Range {
    start: AtomicU64,
    end: AtomicU64,
}

/// What is held of one address space.
pub(crate) struct Held {
    /// Holds of everything.
    all: AtomicU32,
    ranges: [Range; RANGES],
}

/// Which hold it is, to be given back.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hold {
    All,
    Range(usize),
}

impl Held {
    pub(crate) const fn new() -> Held {
        let ranges = [const { Range { start: AtomicU64::new(FREE), end: AtomicU64::new(0) } }; RANGES];
        Held { all: AtomicU32::new(0), ranges }
    }

    pub(crate) fn hold_all(&self) -> Hold {
        self.all.fetch_add(1, Ordering::AcqRel);
        Hold::All
    }

    /// Holds a range; everything, if too many ranges are held.
    pub(crate) fn hold(&self, range: PageRange) -> Hold {
        let claim = |entry: &Range| {
            entry.start.compare_exchange(FREE, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let Some(index) = self.ranges.iter().position(claim) else { return self.hold_all() };
        let entry = &self.ranges[index];
        entry.end.store(range.end().number(), Ordering::Relaxed);
        entry.start.store(range.start().number(), Ordering::Release);
        Hold::Range(index)
    }

    pub(crate) fn release(&self, hold: Hold) {
        match hold {
            Hold::All => {
                self.all.fetch_sub(1, Ordering::AcqRel);
            }
            Hold::Range(index) => self.ranges[index].start.store(FREE, Ordering::Release),
        }
    }

    pub(crate) fn is_all(&self) -> bool {
        self.all.load(Ordering::Acquire) != 0
    }

    /// Whether a page of this range is held by itself.
    pub(crate) fn overlaps(&self, range: PageRange) -> bool {
        self.ranges.iter().any(|entry| {
            let start = entry.start.load(Ordering::Acquire);
            start != FREE
                && start != CLAIMED
                && start < range.end().number()
                && range.start().number() < entry.end.load(Ordering::Relaxed)
        })
    }

    pub(crate) fn covers(&self, page: PageId) -> bool {
        self.overlaps(PageRange::of_pages(page, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn range(start: u64, end: u64) -> PageRange {
        PageRange::new(PageId::new(start), PageId::new(end))
    }

    #[test]
    fn ranges_are_held_by_themselves_and_everything_when_there_are_too_many() {
        let held = Held::new();
        let holds: Vec<Hold> =
            (1..=RANGES as u64).map(|at| held.hold(range(at * 100, at * 100 + 10))).collect();
        assert!(!held.is_all());
        assert!(
            held.overlaps(range(90, 101)) && held.overlaps(range(109, 200)) && held.covers(PageId::new(405))
        );
        assert!(!held.overlaps(range(110, 200)) && !held.covers(PageId::new(99)));
        let one_more = held.hold(range(1000, 1001));
        assert_eq!((one_more, held.is_all()), (Hold::All, true));
        held.release(one_more);
        holds.into_iter().for_each(|hold| held.release(hold));
        assert!(!held.is_all() && !held.overlaps(range(1, u64::MAX)));
        assert_eq!(held.hold(range(1, 2)), Hold::Range(0), "they are free again");
    }
}
