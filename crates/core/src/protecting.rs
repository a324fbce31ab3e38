//! Ranges that the evictors of a process are write-protecting, so that one call of the kernel covers what lies between
//! their pages.
//!
//! Write-protecting costs a flush of the processors' page table caches a call, whatever it covers. So a range goes from
//! one page of a batch to another, over pages that are missing. One of those may be filled meanwhile, and then it is
//! protected, or not. Whoever fills it finds its range here, and its word says *protected*, without a copy: that
//! is always safe to say ([`PageWord::is_protected`]), since nobody relies on it.
//!
//! ```text
//! evictor   begin: publish the range, fence | look: is the word unlocked and swapped? | protect | end
//! fault     lock the word | covers: fence, look at the ranges | fill, or unprotect | commit
//! ```
//!
//! Either the evictor sees the lock, and its call leaves the page out; or the fault sees the range. If the range is
//! gone again by then, so is the call. A model checker goes through all orders (`loom_tests::protecting`).
//!
//! Must hold: an evictor publishes its range before it looks at the words for the last time, and takes it out after its
//! last call. A fault that fills a stored page or unprotects a page asks before that, with the word locked. Called by
//! `engine`, when it evicts and when a fault writes.
//!
//! [`PageWord::is_protected`]: crate::page_word::PageWord::is_protected

use crate::page_word::{EVICTORS_MAX, EvictorId};
use crate::plant::{Plant, is_planted};
use uswap_sync::{AtomicU64, Ordering, fence};
use uswap_units::{PageId, PageRange};

/// The range of each evictor of a process.
pub struct Protecting {
    /// First page and end of each.
    ranges: [[AtomicU64; 2]; EVICTORS_MAX as usize],
}

impl Default for Protecting {
    fn default() -> Protecting {
        Protecting { ranges: core::array::from_fn(|_| [AtomicU64::new(0), AtomicU64::new(0)]) }
    }
}

impl Protecting {
    /// Said before the words are looked at. In the range before all is protected that will be.
    pub fn begin(&self, evictor: EvictorId, range: PageRange) {
        let [start, end] = &self.ranges[evictor.index() as usize];
        // Pairs with the `Acquire` of whoever looks, as that in `end`: it may see this start with the end of before.
        start.store(range.start().number(), Ordering::Release);
        // Pairs with the `Acquire` of whoever looks: an end comes with its start.
        end.store(range.end().number(), Ordering::Release);
        // Pairs with the fence of `covers`.
        fence(Ordering::SeqCst);
    }

    /// All is protected that will be.
    pub fn end(&self, evictor: EvictorId) {
        // Pairs with the `Acquire` of whoever looks: what it fills then is not protected any more.
        self.ranges[evictor.index() as usize][1].store(0, Ordering::Release);
    }

    /// Whether an evictor may be protecting the page; asked with its word locked, before it is filled or no longer
    /// protected.
    pub fn covers(&self, page: PageId) -> bool {
        self.covers_some(PageRange::of_pages(page, 1))
    }

    /// Whether an evictor may be protecting one of these pages; asked with their words locked.
    pub fn covers_some(&self, pages: PageRange) -> bool {
        if !is_planted(Plant::NoBarrier) {
            // Pairs with the fence of `begin`: between the lock and the look.
            fence(Ordering::SeqCst);
        }
        self.ranges.iter().any(|[start, end]| {
            pages.start().number() < end.load(Ordering::Acquire)
                && start.load(Ordering::Acquire) < pages.end().number()
        })
    }
}
