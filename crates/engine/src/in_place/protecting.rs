//! Ranges that evictors are protecting, so that one call of the kernel covers what lies between their pages.
//!
//! Protecting costs a flush of the processors' page table caches a call, whatever it covers. So a range goes from the
//! first page of a batch to the last, over pages that are missing. One of those may be filled meanwhile, and then it is
//! protected, or not. Whoever fills it finds its range here, and its word says *protected*, without a copy: that is
//! always safe to say ([`PageWord::is_protected`]), since nobody relies on it.
//!
//! Why it is found: the evictor tells its range, lets every thread see it ([`Hazards::settle`]), and only then looks
//! whether the words of the missing pages are unlocked. Who locks one of them later looks here later, before it fills
//! the page, and before it takes the protection away from one that was filled. If the range is gone again by then, so
//! is the call.
//!
//! [`PageWord::is_protected`]: uswap_core::page_word::PageWord::is_protected
//! [`Hazards::settle`]: super::world::Hazards::settle

use uswap_core::page_word::{LANES, Lane};
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::{PageId, PageRange};

/// The range of each evictor of a process.
pub(super) struct Protecting {
    /// First page and end of each.
    ranges: [[AtomicU64; 2]; LANES as usize],
}

impl Protecting {
    pub(super) fn new() -> Protecting {
        Protecting { ranges: core::array::from_fn(|_| [AtomicU64::new(0), AtomicU64::new(0)]) }
    }

    /// Said before the words are looked at, with `settle` between.
    pub(super) fn begin(&self, lane: Lane, range: PageRange) {
        let [start, end] = &self.ranges[lane.index() as usize];
        start.store(range.start.0, Ordering::Relaxed);
        end.store(range.end.0, Ordering::Release);
    }

    /// All is protected that will be.
    pub(super) fn end(&self, lane: Lane) {
        self.ranges[lane.index() as usize][1].store(0, Ordering::Release);
    }

    /// Whether an evictor may be protecting the page; asked with its word locked, before it is filled or
    /// no longer protected.
    pub(super) fn covers(&self, page: PageId) -> bool {
        self.ranges.iter().any(|[start, end]| {
            page.0 < end.load(Ordering::Acquire) && start.load(Ordering::Relaxed) <= page.0
        })
    }
}
