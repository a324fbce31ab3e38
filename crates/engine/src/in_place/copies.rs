//! Which pages keep the copies that they came from, and how well what is stored is compressed.
//!
//! A page that keeps its copy goes again for nothing as long as nobody writes it: a fault that is spared costs less
//! than compressing, so copies are kept while the pool has room for them, at the cost of pages that are mapped. But
//! when the pool is nearly at its limit, each copy would push something into the file. Then those that come back give
//! theirs up, and what is stored takes their cells. Only when that is not enough is more work spent on compression, and
//! only then is something written.
//!
//! A page that is read and then written costs two faults. One that was written the last time it was here comes back
//! writable at once, if such pages are mostly written again ([`Rewrites`]).

use super::space::AddressSpace;
use super::world::World;
use crate::copies::{self, PROMOTE_ONE_OF, pool_has_room, pool_is_above, takes_room};
use crate::platform::Touch;
use uswap_codec::Effort;
use uswap_core::counters::Counter;
use uswap_core::page_word::PageWord;
use uswap_core::swap_table::Came;
use uswap_sync::{AtomicU32, Ordering};
use uswap_units::SwapId;

/// Copies are given up while the pool holds more sixteenths of its limit than this.
const GIVE_UP_SIXTEENTHS: u64 = 14;

/// Of the pages that were rewritten, those that are written the next time too, in [`ALL`]ths: of the last some thirty
/// that came back protected. Several threads may count at once, and lose one another's.
pub(super) struct Rewrites {
    again: AtomicU32,
    came: AtomicU32,
}

const ALL: u32 = 1 << 16;
const COUNTS_PART: u32 = 32;

/// So many must be written again. A first write's fault costs some 4 us, and compressing a page that was not written
/// about 10.
const AGAIN_MIN: u32 = ALL / 4 * 3;

/// One in so many comes back protected nevertheless, to be counted.
const COUNTED_ONE_OF: u32 = 16;

impl Rewrites {
    pub(super) const fn new() -> Rewrites {
        Rewrites { again: AtomicU32::new(0), came: AtomicU32::new(0) }
    }

    /// A page that came back protected is written, or goes unchanged.
    pub(super) fn note(&self, word: PageWord, is_written: bool) {
        if !word.is_rewritten() {
            return;
        }
        let again = self.again.load(Ordering::Relaxed);
        let one = if is_written { ALL / COUNTS_PART } else { 0 };
        self.again.store(again - again / COUNTS_PART + one, Ordering::Relaxed);
    }

    /// Whether a page that comes back for a thread that reads is filled writable.
    fn expect(&self, word: PageWord) -> bool {
        word.is_rewritten()
            && self.again.load(Ordering::Relaxed) >= AGAIN_MIN
            && !self.came.fetch_add(1, Ordering::Relaxed).is_multiple_of(COUNTED_ONE_OF)
    }
}

impl<W: World> AddressSpace<'_, W> {
    /// Whether the copies of so many pages that have come back, whose words are like this one, are of no use, or take
    /// room that the pool needs. What comes back in order with others keeps its copy: it is gone past once, and goes
    /// again unchanged.
    pub(super) fn gives_copies_up(&self, pages: usize, word: PageWord, touch: Touch, came: Came) -> bool {
        if touch == Touch::Write {
            self.counters().add(Counter::CopyWritten, 1);
            return true;
        }
        if self.rewrites.expect(word) {
            self.counters().add(Counter::CopyExpected, pages as u64);
            return true;
        }
        let Some(swap) = word.swap() else { return false };
        let moves = came == Came::Alone
            && pool_is_above(self.segment, GIVE_UP_SIXTEENTHS)
            && takes_room(self.segment, swap);
        if moves {
            self.counters().add(Counter::CopyMoved, 1);
        }
        moves
    }

    /// Whether a clean page that goes gets a copy in the pool ([`copies::may_be_promoted`]).
    pub(super) fn should_promote(&self, copy: SwapId) -> bool {
        copies::may_be_promoted(self.segment, copy)
            && (pool_has_room(self.segment)
                || self.back_to_file.fetch_add(1, Ordering::Relaxed).is_multiple_of(PROMOTE_ONE_OF))
    }

    /// How well a page is compressed that is stored now. Quick, until what is stored would push something else into the
    /// file.
    pub(super) fn effort(&self) -> Effort {
        if pool_has_room(self.segment) { Effort::Quick } else { Effort::Dense }
    }
}
