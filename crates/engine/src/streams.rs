//! Notices when a program goes through its memory in order.
//!
//! A fault costs two switches of threads; a page that comes along with the one before costs none. A stream is a place where the next fault is expected: when
//! it comes, the window grows up to `balance::run_pages_max` pages, and else it is closed. So random accesses bring nothing along.

use core::sync::atomic::{AtomicU64, Ordering};
use uswap_units::limits::RUN_PAGES_MAX;
use uswap_units::{BLOCK_PAGES, PageId};

/// Streams that are followed at once; blocks share them by number.
const STREAMS: usize = 16;

const WINDOW_SHIFT: u32 = 45;
const ALONG_SHIFT: u32 = 51;
const DEPTH_SHIFT: u32 = 57;
const PAGE_MASK: u64 = (1 << WINDOW_SHIFT) - 1;
const COUNT_MASK: u64 = (1 << (ALONG_SHIFT - WINDOW_SHIFT)) - 1;

// Pages of 57 bits of address; counts of pages of a run.
const _: () = assert!(57 - 12 <= WINDOW_SHIFT);
const _: () = assert!((RUN_PAGES_MAX as u64) <= COUNT_MASK);

/// Runs ahead at most that are read and decoded for one stream: 6 * 128 KiB in flight, and two of eight jobs for others.
const DEPTH_MAX: u32 = 6;

/// For each stream, from bit 0: the page expected next, how large the window was, how many stored pages came along in it, how many runs are asked for ahead. Lost updates only close a window, or miscount.
pub(crate) struct Streams {
    streams: [AtomicU64; STREAMS],
    window_max: u32,
}

/// What a fault should bring in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    /// Pages, the faulting one included; one if it was not expected.
    pub(crate) pages: u32,
    /// Stored pages that came along with the fault before, and that the program has gone past.
    pub(crate) hits: u32,
    /// Runs behind this one that may be asked for.
    pub(crate) depth: u32,
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

    /// What to bring in for a fault on `page`. The window grows with each fault that was expected, and once it is half as large as it gets, so does what is asked for ahead.
    pub(crate) fn window(&self, page: PageId) -> Window {
        let seen = self.stream(page).load(Ordering::Relaxed);
        let count = |shift: u32| (seen >> shift & COUNT_MASK) as u32;
        if seen & PAGE_MASK != page.0 {
            return Window { pages: 1, hits: 0, depth: 0 };
        }
        let pages = (count(WINDOW_SHIFT) * 2).clamp(2, self.window_max);
        let depth =
            if pages * 2 < self.window_max { 0 } else { (count(DEPTH_SHIFT) * 2).clamp(1, DEPTH_MAX) };
        Window { pages, hits: count(ALONG_SHIFT), depth }
    }

    /// A fault brought in pages, of this window; `along` of them were stored and not asked for. The next one is expected at `next`.
    pub(crate) fn note(&self, next: PageId, along: u32, window: Window) {
        let counts = [(window.pages, WINDOW_SHIFT), (along, ALONG_SHIFT), (window.depth, DEPTH_SHIFT)];
        let word =
            counts.iter().fold(next.0 & PAGE_MASK, |word, &(count, shift)| word | u64::from(count) << shift);
        self.stream(next).store(word, Ordering::Relaxed);
    }

    /// Nobody came for what was asked for from `page` on: less is asked for ahead there.
    pub(crate) fn note_unused(&self, page: PageId) {
        let stream = self.stream(page);
        let seen = stream.load(Ordering::Relaxed);
        let depth = (seen >> DEPTH_SHIFT & COUNT_MASK) / 4;
        stream.store(seen & !(COUNT_MASK << DEPTH_SHIFT) | depth << DEPTH_SHIFT, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use alloc::vec::Vec;

    fn fault(streams: &Streams, page: u64) -> u32 {
        let window = streams.window(PageId(page));
        streams.note(PageId(page).plus(u64::from(window.pages)), window.pages - 1, window);
        window.pages
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

    #[test]
    fn what_is_asked_for_ahead_grows_with_what_was_used_and_shrinks_with_what_was_not() {
        let streams = Streams::new(8);
        let (mut page, mut depths, mut hits) = (BLOCK_PAGES, Vec::new(), 0);
        for _ in 0..7 {
            let window = streams.window(PageId(page));
            depths.push(window.depth);
            hits += window.hits;
            page += u64::from(fault(&streams, page));
        }
        assert_eq!(depths, [0, 0, 1, 2, 4, 6, 6]);
        // 1, 2, 4, 8, 8, 8 and 8 pages came; of all but the last, each but the first page was brought along and passed.
        assert_eq!(hits, 1 + 3 + 7 + 7 + 7);
        streams.note_unused(PageId(page));
        assert_eq!(streams.window(PageId(page)).depth, 2, "a quarter, and twice that with the next hit");
        assert_eq!(streams.window(PageId(page + 1)), Window { pages: 1, hits: 0, depth: 0 });
    }
}
