//! Ranges that the program's `madvise` is dropping just now.
//!
//! The kernel tells us before it drops pages, and does not tell when it has done so; until then they may not be staged, because their old content would come back. A call
//! that comes through [`crate::hooks`] is known from its beginning to its end, so its pages are held for exactly so long. Drops by other ways (libc's own, raw system
//! calls) are held for a time: `uswap_core::page_table::HOLD_TICKS`.

use core::sync::atomic::{AtomicU64, Ordering};
use uswap_units::{PageId, PageRange};

/// Calls that are followed at once: threads in `madvise` in one moment. Others are held for a time, as the unknown ones are.
const UNDER_WAY_MAX: usize = 64;

const PAGES_BITS: u32 = 28;

/// For each call the number of its first page, and in the low 28 bits how many pages (1 TiB); 0: none. One word, so that a range is never seen half.
static UNDER_WAY: [AtomicU64; UNDER_WAY_MAX] = [const { AtomicU64::new(0) }; UNDER_WAY_MAX];

/// A call that is under way; ended by drop.
pub struct UnderWay(&'static AtomicU64);

impl Drop for UnderWay {
    fn drop(&mut self) {
        // Release: who finds the place empty finds the pages dropped.
        self.0.store(0, Ordering::Release);
    }
}

/// A call is about to drop `range`. None: there is no place for it, or the range is too large or none at all.
pub fn begin(range: PageRange) -> Option<UnderWay> {
    if range.end.0 <= range.start.0 || range.pages() >> PAGES_BITS != 0 || range.end.0 >> 36 != 0 {
        return None;
    }
    let word = (range.start.0 << PAGES_BITS) | range.pages();
    let is_free =
        |place: &&AtomicU64| place.compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    UNDER_WAY.iter().find(is_free).map(UnderWay)
}

fn ranges() -> impl Iterator<Item = PageRange> {
    UNDER_WAY.iter().map(|place| place.load(Ordering::Acquire)).filter(|&word| word != 0).map(|word| {
        let start = PageId(word >> PAGES_BITS);
        PageRange { start, end: start.plus(word & ((1 << PAGES_BITS) - 1)) }
    })
}

/// True when the drop of `range` that the kernel tells of is one that is followed here. (The kernel tells of each mapping apart, so it may be a part.)
pub fn are_followed(range: PageRange) -> bool {
    ranges().any(|under_way| under_way.start.0 <= range.start.0 && range.end.0 <= under_way.end.0)
}

/// True when pages of `range` may be about to be dropped.
pub fn are_under_way(range: PageRange) -> bool {
    ranges().any(|under_way| under_way.start.0 < range.end.0 && range.start.0 < under_way.end.0)
}

/// In a forked child: the other threads are not there, and their calls neither.
pub fn reset_after_fork() {
    UNDER_WAY.iter().for_each(|place| place.store(0, Ordering::Relaxed));
}
