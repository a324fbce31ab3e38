//! Moves of the program whose old place stays mapped (`mremap` with MREMAP_DONTUNMAP).
//!
//! The kernel tells of a move the same way with and without that flag, and of the unmapping of the old place in an event of its own, which never comes if the place stays. So the calls
//! that come through [`crate::hooks`] are noted here from their beginning to their end. The same flag in a raw system call is not seen.

use uswap_core::range_set::{Held, RangeSet};
use uswap_units::PageRange;

/// Of calls that are followed at once: threads in such a call in one moment.
static STAYING: RangeSet<64> = RangeSet::new();

/// A call is about to move `from`, which stays. None: too many are under way.
pub fn begin(from: PageRange) -> Option<Held<'static>> {
    STAYING.hold(from)
}

/// True when the call that moves `from` leaves it mapped.
pub fn leaves_its_old_place(from: PageRange) -> bool {
    STAYING.iter().any(|staying| staying.start <= from.start && from.end <= staying.end)
}

/// In a forked child: the other threads are not there, and their calls neither.
pub fn reset_after_fork() {
    STAYING.clear();
}
