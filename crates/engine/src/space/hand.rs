//! The clock hand of a process: where the search for pages to evict goes on, and how often it went round.
//!
//! Must hold: nothing depends on where it is. Several threads may move it at once, and then a part is looked at twice,
//! or a round later. Called by [`crate::evict`], which follows it, and by [`crate::space`], which has it.

use uswap_sync::{AtomicU32, AtomicU64, Ordering};
use uswap_units::PageId;

/// Begins at the first page.
#[derive(Default)]
pub(crate) struct ClockHand {
    page: AtomicU64,
    round: AtomicU32,
}

impl ClockHand {
    /// The page at which the search goes on.
    #[inline]
    pub(crate) fn page(&self) -> PageId {
        PageId::new(self.page.load(Ordering::Relaxed))
    }
    /// The search goes on there.
    #[inline]
    pub(crate) fn move_to(&self, page: PageId) {
        self.page.store(page.number(), Ordering::Relaxed);
    }
    /// It was at the end, and begins again.
    #[inline]
    pub(crate) fn begin_round(&self) {
        self.round.fetch_add(1, Ordering::Relaxed);
    }
    /// The round, as the pages of this one's chunk count it: each chunk is ahead of the one before.
    #[inline]
    pub(crate) fn round_of(&self, page: PageId) -> u32 {
        self.round.load(Ordering::Relaxed).wrapping_add(page.chunk().number() as u32)
    }
}
