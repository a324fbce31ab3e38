//! Ranges that the program's `madvise` is dropping just now.
//!
//! The kernel tells us before it drops pages, and does not tell when it has done so; until then they may not be staged,
//! because their old content would come back. A call that comes through [`crate::hooks`] is known from its beginning to
//! its end, so its pages are held for exactly so long. Drops by other ways (libc's own, raw system calls) are held for
//! a time: `uswap_core::page_table::HOLD_TICKS`.

use uswap_core::range_set::{Held, RangeSet};
use uswap_units::PageRange;

/// Of calls that are followed at once: threads in `madvise` in one moment. Others are held for a time, as the unknown
/// ones are.
static UNDER_WAY: RangeSet<64> = RangeSet::new();

/// A call is about to drop `range`. None: it cannot be followed.
pub fn begin(range: PageRange) -> Option<Held<'static>> {
    UNDER_WAY.hold(range)
}

/// True when the drop of `range` that the kernel tells of is one that is followed here. (The kernel tells of each
/// mapping apart, so it may be a part.)
pub fn are_followed(range: PageRange) -> bool {
    UNDER_WAY.iter().any(|under_way| under_way.start.0 <= range.start.0 && range.end.0 <= under_way.end.0)
}

/// True when pages of `range` may be about to be dropped.
pub fn are_under_way(range: PageRange) -> bool {
    UNDER_WAY.iter().any(|under_way| under_way.start.0 < range.end.0 && range.start.0 < under_way.end.0)
}

/// In a forked child: the other threads are not there, and their calls neither.
pub fn reset_after_fork() {
    UNDER_WAY.clear();
}
