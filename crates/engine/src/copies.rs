//! What the copies of pages that are back in the program cost, and what they are worth: facts that both ways to evict
//! decide from.

use uswap_core::pool_share::QUICK_SIXTEENTHS;
use uswap_core::segment::Segment;
use uswap_core::swap_word::Content;
use uswap_units::{PAGE_BYTES, SwapId};

/// One in so many pages is promoted while the pool has no room.
pub(crate) const PROMOTE_ONE_OF: u32 = 4;

/// The pool holds more than so many sixteenths of its limit.
pub(crate) fn pool_is_above(segment: Segment<'_>, sixteenths: u64) -> bool {
    let pool = segment.pool();
    pool.resident_bytes() > pool.limit_bytes() / 16 * sixteenths
}

/// Nothing is written for what is stored next.
pub(crate) fn pool_has_room(segment: Segment<'_>) -> bool {
    !pool_is_above(segment, QUICK_SIXTEENTHS)
}

/// The pool has room again if the copy is given up.
pub(crate) fn takes_room(segment: Segment<'_>, copy: SwapId) -> bool {
    let word = segment.swap_table().load(copy);
    matches!(word.content(), Content::Blob { .. }) && word.is_alone()
}

/// A page that came from the file by a fault of its own and goes again, unchanged, may get a copy in the pool: one in
/// [`PROMOTE_ONE_OF`], and while the pool has room, all of them. So what comes often is soon in the pool, and what
/// comes once hardly pushes anything else out. Nothing is promoted that others depend on, and nothing that does not get
/// smaller: it would be written again at once. Nor while the file is nearly full: what is written anew leaves holes
/// where it was.
pub(crate) fn may_be_promoted(segment: Segment<'_>, copy: SwapId) -> bool {
    let word = segment.swap_table().load(copy);
    matches!(word.content(), Content::Slot { length, .. } if length < PAGE_BYTES as u32)
        && !segment.budget().file_is_nearly_full()
        && word.is_referenced()
        && word.is_alone()
}
