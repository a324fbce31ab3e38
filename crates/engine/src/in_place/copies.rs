//! Which pages keep the copies that they came from, and how well what is stored is compressed.
//!
//! A page that keeps its copy goes again for nothing as long as nobody writes it: a fault that is spared costs less
//! than compressing, so copies are kept while the pool has room for them, at the cost of pages that are mapped. But
//! when the pool is nearly at its limit, each copy would push something into the file. Then those that come back give
//! theirs up, and what is stored takes their cells. Only when that is not enough is more work spent on compression, and
//! only then is something written.

use super::space::AddressSpace;
use super::world::World;
use crate::platform::Touch;
use crate::storer::pool_is_above;
use uswap_codec::Effort;
use uswap_core::counters::Counter;
use uswap_core::swap_table::Came;
use uswap_core::swap_word::Content;
use uswap_sync::Ordering;
use uswap_units::{PAGE_BYTES, SwapId};

/// Copies are given up while the pool holds more sixteenths of its limit than this.
const GIVE_UP_SIXTEENTHS: u64 = 14;

/// The dense codec is used while the pool holds more sixteenths of its limit than this: what is stored then would push
/// something else into the file, which begins at 95 %.
const DENSE_SIXTEENTHS: u64 = 15;

/// See [`AddressSpace::should_promote`].
const PROMOTE_ONE_OF: u32 = 4;

impl<W: World> AddressSpace<'_, W> {
    /// Whether the copy of a page that has come back is of no use, or takes room that the pool needs. What comes back
    /// in order with others keeps its copy: it is gone past once, and goes again unchanged.
    pub(super) fn gives_copy_up(&self, swap: SwapId, touch: Touch, came: Came) -> bool {
        if touch == Touch::Write {
            self.counters().add(Counter::CopyWritten, 1);
            return true;
        }
        let word = self.segment.swap_table().load(swap);
        let takes_room = matches!(word.content(), Content::Blob { .. }) && word.is_alone();
        let moves = came == Came::Alone && takes_room && pool_is_above(self.segment, GIVE_UP_SIXTEENTHS);
        if moves {
            self.counters().add(Counter::CopyMoved, 1);
        }
        moves
    }

    /// A page that came from the file by a fault of its own and goes again, unchanged: one in four gets a copy in the
    /// pool, and while the pool has room, all of them. So what comes often is soon in the pool, and what comes once
    /// hardly pushes anything else out. Nothing is promoted that others depend on, and nothing that does not get
    /// smaller: it would be written again at once. Nor while the file is nearly full: what is written anew leaves holes
    /// where it was.
    pub(super) fn should_promote(&self, copy: SwapId) -> bool {
        let word = self.segment.swap_table().load(copy);
        matches!(word.content(), Content::Slot { length, .. } if length < PAGE_BYTES as u32)
            && word.is_referenced()
            && word.is_alone()
            && !self.segment.budget().file_is_nearly_full()
            && (!pool_is_above(self.segment, DENSE_SIXTEENTHS)
                || self.back_to_file.fetch_add(1, Ordering::Relaxed).is_multiple_of(PROMOTE_ONE_OF))
    }

    /// How well a page is compressed that is stored now.
    pub(super) fn effort(&self) -> Effort {
        if pool_is_above(self.segment, DENSE_SIXTEENTHS) { Effort::Dense } else { Effort::Quick }
    }
}
