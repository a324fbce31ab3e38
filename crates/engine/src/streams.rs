//! Notices when a program goes through its memory in order.
//!
//! A fault costs two switches of threads; a page that comes along with the one before costs none. A stream is a place
//! where the next fault is expected: when it comes, the window grows up to `balance::run_pages_max` pages, and else it
//! is closed. So random accesses bring nothing along.
//!
//! The next fault is expected behind what is in the program already. What goes from there in the meantime is met
//! before: a fault there is in order too, once.

use core::sync::atomic::{AtomicU64, Ordering};
use uswap_units::limits::RUN_PAGES_MAX;
use uswap_units::{BLOCK_PAGES, PageId};

/// Streams that are followed at once; blocks share them by number.
const STREAMS: usize = 16;

const WINDOW_SHIFT: u32 = 45;
const ALONG_SHIFT: u32 = 51;
const DEPTH_SHIFT: u32 = 61;
const PAGE_MASK: u64 = (1 << WINDOW_SHIFT) - 1;
const WINDOW_MASK: u64 = (1 << (ALONG_SHIFT - WINDOW_SHIFT)) - 1;
const ALONG_MASK: u64 = (1 << (DEPTH_SHIFT - ALONG_SHIFT)) - 1;
const DEPTH_MASK: u64 = (1 << (u64::BITS - DEPTH_SHIFT)) - 1;

// Pages of 57 bits of address; pages of a run; pages that come along with one, in a block at most.
const _: () = assert!(57 - 12 <= WINDOW_SHIFT);
const _: () = assert!((RUN_PAGES_MAX as u64) <= WINDOW_MASK);
const _: () = assert!(BLOCK_PAGES <= ALONG_MASK);
const _: () = assert!((DEPTH_MAX as u64) <= DEPTH_MASK);

/// Runs ahead at most that are read and decoded for one stream: 6 * 128 KiB in flight, and two of eight jobs for
/// others.
const DEPTH_MAX: u32 = 6;

/// One stream. Lost updates only close a window, or miscount.
struct Stream {
    /// From bit 0: the page expected next, how large the window was, how many stored pages came along in it, how many
    /// runs are asked for ahead.
    word: AtomicU64,
    /// The page behind those that came with the last fault: what is between it and the page expected next was in the
    /// program.
    behind: AtomicU64,
}

impl Stream {
    const fn new() -> Stream {
        Stream { word: AtomicU64::new(0), behind: AtomicU64::new(0) }
    }
}

/// The streams of a process.
pub(crate) struct Streams {
    streams: [Stream; STREAMS],
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
    /// The stream that expected a later page, if the fault is in what it passed over.
    pub(crate) passed_over_by: Option<usize>,
}

impl Streams {
    pub(crate) const fn new(window_max: u32) -> Streams {
        Streams { streams: [const { Stream::new() }; STREAMS], window_max }
    }

    fn stream(&self, page: PageId) -> &Stream {
        &self.streams[(page.0 / BLOCK_PAGES) as usize % STREAMS]
    }

    /// The most pages that one fault brings in.
    pub(crate) fn window_max(&self) -> u32 {
        self.window_max
    }

    /// What to bring in for a fault on `page`. The window grows with each fault that was expected, and once it is half
    /// as large as it gets, so does what is asked for ahead.
    pub(crate) fn window(&self, page: PageId) -> Window {
        let seen = self.stream(page).word.load(Ordering::Relaxed);
        if seen & PAGE_MASK == page.0 {
            return self.next_window(seen, None);
        }
        let passed_over = |stream: &Stream| {
            let end = stream.word.load(Ordering::Relaxed) & PAGE_MASK;
            (stream.behind.load(Ordering::Relaxed)..end).contains(&page.0)
        };
        match self.streams.iter().position(passed_over) {
            Some(index) => {
                let seen = self.streams[index].word.load(Ordering::Relaxed);
                self.next_window(seen, Some(index))
            }
            None => Window { pages: 1, hits: 0, depth: 0, passed_over_by: None },
        }
    }

    fn next_window(&self, seen: u64, passed_over_by: Option<usize>) -> Window {
        let count = |shift: u32, mask: u64| (seen >> shift & mask) as u32;
        let pages = (count(WINDOW_SHIFT, WINDOW_MASK) * 2).clamp(2, self.window_max);
        let asked = count(DEPTH_SHIFT, DEPTH_MASK);
        let depth = if pages * 2 < self.window_max { 0 } else { (asked * 2).clamp(1, DEPTH_MAX) };
        Window { pages, hits: count(ALONG_SHIFT, ALONG_MASK), depth, passed_over_by }
    }

    /// A fault brought in pages up to `behind`, of this window; `along` of them were stored and not asked for. The next
    /// one is expected at `next`, or before.
    pub(crate) fn note(&self, behind: PageId, next: PageId, along: u32, window: Window) {
        if let Some(index) = window.passed_over_by {
            // Once: else all that a program does there at random would look like being in order.
            self.streams[index].word.store(0, Ordering::Relaxed);
        }
        let counts = [(window.pages, WINDOW_SHIFT), (along, ALONG_SHIFT), (window.depth, DEPTH_SHIFT)];
        let word =
            counts.iter().fold(next.0 & PAGE_MASK, |word, &(count, shift)| word | u64::from(count) << shift);
        let stream = self.stream(next);
        stream.behind.store(behind.0, Ordering::Relaxed);
        stream.word.store(word, Ordering::Relaxed);
    }

    /// Nobody came for what was asked for from `page` on: less is asked for ahead there.
    pub(crate) fn note_unused(&self, page: PageId) {
        let stream = &self.stream(page).word;
        let seen = stream.load(Ordering::Relaxed);
        let depth = (seen >> DEPTH_SHIFT) / 4;
        stream.store(seen & !(DEPTH_MASK << DEPTH_SHIFT) | depth << DEPTH_SHIFT, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use alloc::vec::Vec;

    fn fault(streams: &Streams, page: u64) -> u32 {
        let window = streams.window(PageId(page));
        let behind = PageId(page).plus(u64::from(window.pages));
        streams.note(behind, behind, window.pages - 1, window);
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
    fn what_a_stream_passed_over_is_in_order_once() {
        let streams = Streams::new(8);
        let window = |page| streams.window(PageId(page));
        [10, 11, 13].into_iter().for_each(|page| _ = fault(&streams, page));
        let before = window(17);
        assert_eq!(before.pages, 8);
        streams.note(PageId(25), PageId(2000), 7, before);
        assert_eq!(
            [window(24).pages, window(25).pages, window(1999).pages, window(2000).pages],
            [1, 8, 8, 8]
        );
        let met = window(700);
        assert_eq!(met.pages, 8);
        streams.note(PageId(708), PageId(708), 7, met);
        assert_eq!([window(701).pages, window(708).pages, window(2000).pages], [1, 8, 1]);
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
        let closed = Window { pages: 1, hits: 0, depth: 0, passed_over_by: None };
        assert_eq!(streams.window(PageId(page + 1)), closed);
    }
}
