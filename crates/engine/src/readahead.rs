//! Brings the next pages along when a program goes through its memory in order.
//!
//! A fault costs two switches of threads; a page that is loaded before it is asked for costs none. A stream is a block of the address space with the page that
//! is expected next: when the fault is there, the window grows up to 16 pages, and else it is closed. So random accesses bring nothing along.

use crate::engine::Engine;
use crate::platform::Platform;
use crate::reclaim::Patience;
use crate::workspace::Workspace;
use core::sync::atomic::{AtomicU64, Ordering};
use uswap_core::counters::Counter;
use uswap_core::page_word::Place;
use uswap_units::{BLOCK_PAGES, PageId};

/// Streams that are followed at once; blocks share them by number.
const STREAMS: usize = 16;

/// Pages brought along at most: 16 * 5 us is what a thread may wait for its own page without noticing.
const WINDOW_MAX: u64 = 16;

const WINDOW_SHIFT: u32 = 48;

/// For each stream the page expected next (low 48 bits) and the window. Lost updates only close a window.
pub(crate) struct Streams([AtomicU64; STREAMS]);

impl Streams {
    pub(crate) const fn new() -> Streams {
        Streams([const { AtomicU64::new(0) }; STREAMS])
    }

    /// A fault on `page` was served: how many pages behind it to bring along.
    fn window(&self, page: PageId) -> u64 {
        let stream = &self.0[(page.0 / BLOCK_PAGES) as usize % STREAMS];
        let seen = stream.load(Ordering::Relaxed);
        let expected = seen & ((1 << WINDOW_SHIFT) - 1) == page.0;
        let window = if expected { ((seen >> WINDOW_SHIFT) * 2).clamp(2, WINDOW_MAX) } else { 0 };
        stream.store((window << WINDOW_SHIFT) | (page.0 + window + 1), Ordering::Relaxed);
        window
    }
}

impl<P: Platform> Engine<'_, P> {
    /// After a fault on a stored page was served: loads what the program will ask for next, while memory is not short. Stops at the end of the block and at the first
    /// page that is not stored.
    pub(crate) async fn read_ahead(&self, page: PageId, workspace: &mut Workspace) {
        for ahead in 1..=self.streams.window(page) {
            let next = page.plus(ahead);
            let same_block = next.0 / BLOCK_PAGES == page.0 / BLOCK_PAGES;
            if !same_block
                || self.segment.budget().used() > self.watermarks().min
                || !self.is_stored(next).await
            {
                return;
            }
            self.counters.add(Counter::ReadAhead, 1);
            let _served_or_someone_works_on_it = self.serve_fault(next, Patience::Over, workspace).await;
        }
    }

    async fn is_stored(&self, page: PageId) -> bool {
        self.platform.lock_shared().await;
        let place = self.table.slot(page).map(|slot| slot.load().place());
        self.platform.unlock_shared();
        place == Some(Place::Swapped)
    }
}
