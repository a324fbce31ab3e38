//! Notices when a program goes through its memory in order.
//!
//! A fault costs two switches of threads; a page that comes along with the one before costs none. A stream is a place where the next fault is expected: when
//! it comes, the window grows up to `balance::run_pages_max` pages, and else it is closed. So random accesses bring nothing along.

use core::sync::atomic::{AtomicU64, Ordering};
use uswap_units::{BLOCK_PAGES, PageId};

/// Streams that are followed at once; blocks share them by number.
const STREAMS: usize = 16;

const WINDOW_SHIFT: u32 = 48;
const PAGE_MASK: u64 = (1 << WINDOW_SHIFT) - 1;

/// For each stream the page expected next (low 48 bits) and how many pages came together last. Lost updates only close a window.
pub(crate) struct Streams {
    streams: [AtomicU64; STREAMS],
    window_max: u32,
}

impl Streams {
    pub(crate) const fn new(window_max: u32) -> Streams {
        Streams { streams: [const { AtomicU64::new(0) }; STREAMS], window_max }
    }

    fn stream(&self, page: PageId) -> &AtomicU64 {
        &self.streams[(page.0 / BLOCK_PAGES) as usize % STREAMS]
    }

    /// The most pages that one fault brings in.
    pub(crate) fn window_max(&self) -> u32 {
        self.window_max
    }

    /// Pages to bring in for a fault on `page`, itself included.
    pub(crate) fn window(&self, page: PageId) -> u32 {
        let seen = self.stream(page).load(Ordering::Relaxed);
        let together = (seen >> WINDOW_SHIFT) as u32;
        if seen & PAGE_MASK == page.0 { (together * 2).clamp(2, self.window_max) } else { 1 }
    }

    /// A fault on `page` brought in so many pages, of a window of so many.
    pub(crate) fn note(&self, page: PageId, pages: u32, window: u32) {
        let next = page.plus(u64::from(pages));
        self.stream(next).store((u64::from(window) << WINDOW_SHIFT) | next.0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use alloc::vec::Vec;

    fn fault(streams: &Streams, page: u64) -> u32 {
        let window = streams.window(PageId(page));
        streams.note(PageId(page), window, window);
        window
    }

    #[test]
    fn windows_grow_while_faults_come_in_order_also_into_the_next_block() {
        let streams = Streams::new(32);
        let (mut page, mut windows) = (BLOCK_PAGES - 20, Vec::new());
        for _ in 0..7 {
            windows.push(fault(&streams, page));
            page += u64::from(windows[windows.len() - 1]);
        }
        assert_eq!(windows, [1, 2, 4, 8, 16, 32, 32]);
    }

    #[test]
    fn a_jump_closes_the_window() {
        let streams = Streams::new(32);
        fault(&streams, 10);
        assert_eq!(fault(&streams, 11), 2);
        assert_eq!(fault(&streams, 20), 1);
        assert_eq!(fault(&streams, 13), 1);
        assert_eq!(fault(&streams, 15), 1);
    }

    #[test]
    fn two_streams_do_not_disturb_each_other() {
        let streams = Streams::new(32);
        for step in 0..3 {
            let at = [8, 9, 11][step];
            assert_eq!(fault(&streams, at), 1 << step);
            assert_eq!(fault(&streams, BLOCK_PAGES + at), 1 << step);
        }
    }
}
