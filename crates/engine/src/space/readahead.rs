//! Notices when a program goes through its memory in order, up or down, in many places at once.
//!
//! A fault costs a signal, and for a page in the file the latency of a disk; a page that comes along with another costs
//! neither. A *stream* is a place where the next fault is expected. When it comes, the window doubles; a fault that
//! nobody expected brings its page alone, and begins a stream that may go either way. So random accesses bring nothing
//! along. A merge sort follows as many streams as it has runs, and some of them go down.
//!
//! What is between the end of a stream and the fault was in RAM when the program went past it, so a fault is in order
//! if only such pages are between.
//!
//! Must hold: what is noted here are hints. Threads change it without a lock, and the worst that comes of it is a
//! window that is too large or too small. Called by [`crate::fault`].

use crate::world::Touch;
use core::array;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use uswap_units::limits::RUN_PAGES_MAX;
use uswap_units::{BLOCK_PAGES, PageId};

/// Blocks of pages share the sets by their numbers.
const SETS: usize = 128;

/// Streams that are followed in the blocks of a set: a merge has two that go in and one that goes out, in one block.
const WAYS: usize = 4;

/// Pages at most that a program may have gone past since the fault before in the stream.
const PASSED_MAX: u64 = 64;

const PAGES_SHIFT: u32 = 45;
const DOWN_SHIFT: u32 = 51;
const WRITES_SHIFT: u32 = 52;
const WRITES_MASK: u64 = 3;
const PAGE_MASK: u64 = (1 << PAGES_SHIFT) - 1;
const PAGES_MASK: u64 = (1 << (DOWN_SHIFT - PAGES_SHIFT)) - 1;

// Pages of 57 bits of address; pages of a window.
const _: () = assert!(57 - 12 <= PAGES_SHIFT);
const _: () = assert!((RUN_PAGES_MAX as u64) <= PAGES_MASK);

/// What a fault should bring in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    /// Pages, the one of the fault included; one if it was not expected.
    pub(crate) pages: u32,
    /// They lie below the one of the fault, and not above it.
    pub(crate) is_down: bool,
    /// Faults of the stream, this one and those right before it, that were writes: 0 to [`WRITES_MAX`].
    writes: u64,
}

/// After so many faults in a row that were writes, the pages that come along are expected to be written.
const WRITES_MAX: u64 = 3;
const _: () = assert!(WRITES_MAX <= WRITES_MASK);

impl Window {
    /// The page alone.
    const CLOSED: Window = Window { pages: 1, is_down: false, writes: 0 };

    /// Whether the pages that come along are expected to be written.
    pub(crate) fn is_written(self) -> bool {
        self.writes == WRITES_MAX
    }

    /// The same with no more pages than that.
    pub(crate) fn at_most(self, pages: u32) -> Window {
        Window { pages: self.pages.min(pages), ..self }
    }

    fn and(self, touch: Touch) -> Window {
        let writes = if touch == Touch::Write { (self.writes + 1).min(WRITES_MAX) } else { 0 };
        Window { writes, ..self }
    }
}

/// A stream as a word: the page at which it goes on, or the one with which it began; the last window.
///
/// Lost updates only close a window.
fn to_word(at: PageId, window: Window) -> u64 {
    let fields = [
        (u64::from(window.pages), PAGES_SHIFT),
        (u64::from(window.is_down), DOWN_SHIFT),
        (window.writes, WRITES_SHIFT),
    ];
    fields.iter().fold(at.number() & PAGE_MASK, |word, &(field, shift)| word | field << shift)
}

fn from_word(word: u64) -> (PageId, Window) {
    let pages = (word >> PAGES_SHIFT & PAGES_MASK) as u32;
    let (is_down, writes) = (word >> DOWN_SHIFT & 1 != 0, word >> WRITES_SHIFT & WRITES_MASK);
    (PageId::new(word & PAGE_MASK), Window { pages, is_down, writes })
}

/// The streams of a process. A word is 0 where there is none.
pub(crate) struct Readahead {
    sets: [[AtomicU64; WAYS]; SETS],
    pages_max: u32,
}

impl Readahead {
    /// A window has at most so many pages.
    pub(crate) fn new(pages_max: u32) -> Readahead {
        Readahead { sets: array::from_fn(|_| array::from_fn(|_| AtomicU64::new(0))), pages_max }
    }

    /// Windows of a stream that has lasted: they do not grow any more.
    pub(crate) fn is_largest(&self, window: Window) -> bool {
        window.pages > 1 && window.pages == self.pages_max
    }

    fn set(&self, page: PageId) -> &[AtomicU64; WAYS] {
        &self.sets[(page.number() / BLOCK_PAGES) as usize % SETS]
    }

    /// What to bring in for a fault on `page`; the stream that expected it is taken. `are_present` tells whether all
    /// of these pages of its block are in RAM.
    pub(crate) fn take(
        &self,
        page: PageId,
        touch: Touch,
        are_present: impl Fn(Range<PageId>) -> bool,
    ) -> Window {
        for way in self.set(page) {
            let word = way.load(Ordering::Relaxed);
            let (at, before) = from_word(word);
            let is_down = match before.pages {
                0 => continue,
                1 if page == at.plus(1) => false,
                1 if page.plus(1) == at => true,
                1 => continue,
                _ => before.is_down,
            };
            let passed = match is_down {
                _ if before.pages == 1 => page..page,
                false => at..page,
                true => page.plus(1)..at.plus(1),
            };
            let is_near = passed.start <= passed.end && passed.end.since(passed.start) <= PASSED_MAX;
            if is_near && are_present(passed) {
                way.store(0, Ordering::Relaxed);
                let pages = (before.pages * 2).clamp(2, self.pages_max);
                return Window { pages, is_down, ..before }.and(touch);
            }
        }
        Window::CLOSED.and(touch)
    }

    /// A fault has brought in `came`, of this window: the stream goes on behind.
    pub(crate) fn note(&self, came: Range<PageId>, window: Window) {
        self.note_next(
            match window {
                Window { pages: 1, .. } => came.start,
                Window { is_down: false, .. } => came.end,
                Window { is_down: true, .. } => PageId::new(came.start.number().saturating_sub(1)),
            },
            window,
        );
    }

    /// A stream that had this window goes on at `at`.
    pub(crate) fn note_next(&self, at: PageId, window: Window) {
        let mut word = to_word(at, window);
        for way in self.set(at) {
            let before = way.load(Ordering::Relaxed);
            way.store(word, Ordering::Relaxed);
            if before == 0 {
                break;
            }
            word = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const START: u64 = 10 * BLOCK_PAGES;

    /// A fault after which all of its window is in RAM; its window.
    fn fault(readahead: &Readahead, page: u64, touch: Touch) -> Window {
        fault_past(readahead, page, touch, |_| false)
    }

    fn fault_past(
        readahead: &Readahead,
        page: u64,
        touch: Touch,
        is_present: impl Fn(u64) -> bool,
    ) -> Window {
        let window = readahead
            .take(PageId::new(page), touch, |pages| PageId::each(pages).map(PageId::number).all(&is_present));
        let more = u64::from(window.pages) - 1;
        let came = if window.is_down { page - more..page + 1 } else { page..page + more + 1 };
        readahead.note(PageId::new(came.start)..PageId::new(came.end), window);
        window
    }

    #[test]
    fn windows_grow_while_faults_come_in_order_up_and_down_and_into_the_next_block() {
        for is_down in [false, true] {
            let readahead = Readahead::new(32);
            let mut page = if is_down { START + 20 } else { START + BLOCK_PAGES - 20 };
            let mut windows = Vec::new();
            for _ in 0..7 {
                let window = fault(&readahead, page, Touch::Read);
                windows.push(window.pages);
                assert!(window.pages == 1 || window.is_down == is_down);
                let pages = u64::from(window.pages);
                page = if is_down { page - pages } else { page + pages };
            }
            assert_eq!(windows, [1, 2, 4, 8, 16, 32, 32]);
        }
    }

    #[test]
    fn who_jumps_about_brings_nothing_along() {
        let readahead = Readahead::new(32);
        fault(&readahead, START, Touch::Read);
        assert_eq!(fault(&readahead, START + 1, Touch::Read).pages, 2);
        for page in [20, 13, 40, 15, 300, 42, 38] {
            assert_eq!(fault(&readahead, START + page, Touch::Read).pages, 1);
        }
        // The page below the one at which a stream that goes up goes on.
        assert_eq!(fault(&readahead, START + 2, Touch::Read).pages, 1);
    }

    #[test]
    fn what_was_in_ram_is_gone_past_and_what_was_not_ends_the_order() {
        let readahead = Readahead::new(32);
        fault(&readahead, START, Touch::Read);
        fault(&readahead, START + 1, Touch::Read);
        // It goes on at page 3.
        let is_present = |page| page != START + 5;
        assert_eq!(fault_past(&readahead, START + 8, Touch::Read, is_present).pages, 1, "5 was not in RAM");
        assert_eq!(fault(&readahead, START + 3, Touch::Read).pages, 4, "the stream is still there");
        // It goes on at page 7.
        let window = fault_past(&readahead, START + 37, Touch::Read, |_| true);
        assert_eq!((window.pages, window.is_down), (8, false));
        let far = START + 45 + PASSED_MAX;
        assert_eq!(fault_past(&readahead, far, Touch::Read, |_| true).pages, 16);
        let too_far = far + 16 + PASSED_MAX + 1;
        assert_eq!(fault_past(&readahead, too_far, Touch::Read, |_| true).pages, 1);
    }

    #[test]
    fn a_stream_that_has_lasted_goes_on_as_far_away_as_is_said() {
        let readahead = Readahead::new(4);
        let windows = [START, START + 1, START + 3].map(|page| fault(&readahead, page, Touch::Read));
        assert_eq!(
            windows.map(|window| (window.pages, readahead.is_largest(window))),
            [(1, false), (2, false), (4, true)]
        );
        let far = START + 100 * BLOCK_PAGES + 7;
        readahead.note_next(PageId::new(far), windows[2]);
        assert_eq!(fault(&readahead, far, Touch::Read).pages, 4);
        assert_eq!(fault(&readahead, far + 100, Touch::Read).pages, 1);
    }

    #[test]
    fn a_merge_goes_on_in_many_places_and_in_several_of_one_block() {
        let readahead = Readahead::new(32);
        for step in 0..6 {
            // Two that go up and one that goes down, in each of as many blocks as there are sets.
            for block in 0..SETS as u64 {
                let start = START + block * BLOCK_PAGES;
                let gone = (1 << step) - 1;
                for page in [start + gone, start + 200 + gone, start + 400 - gone] {
                    let window = fault(&readahead, page, Touch::Read);
                    assert_eq!(window.pages, 1 << step, "page {} in step {step}", page - start);
                }
            }
        }
    }

    #[test]
    fn pages_are_expected_to_be_written_after_three_faults_in_order_that_were() {
        let readahead = Readahead::new(32);
        let mut page = START;
        let mut go_on = |touch| {
            let window = fault(&readahead, page, touch);
            page += u64::from(window.pages);
            window.is_written()
        };
        let touches = [Touch::Write, Touch::Write, Touch::Write, Touch::Read, Touch::Write, Touch::Write];
        assert_eq!(touches.map(&mut go_on), [false, false, true, false, false, false]);
        assert!(go_on(Touch::Write));
    }

    #[test]
    fn more_streams_than_there_is_room_for_forget_the_oldest() {
        let readahead = Readahead::new(32);
        for stream in 0..=WAYS as u64 {
            fault(&readahead, START + 50 * stream, Touch::Read);
        }
        assert_eq!(fault(&readahead, START + 1, Touch::Read).pages, 1, "it was the first");
        assert_eq!(fault(&readahead, START + 50 * WAYS as u64 + 1, Touch::Read).pages, 2);
    }
}
