//! Which pages keep the copies that they came from, and how well what is stored is compressed.
//!
//! A page that keeps its copy goes again for nothing as long as nobody writes it: a fault that is spared costs less
//! than compressing, so copies are kept while the pool has room for them, at the cost of pages that are mapped. But
//! when the pool is nearly at its limit, each copy would push something into the file. Then those that come back give
//! theirs up, and what is stored takes their cells. Only when that is not enough is more work spent on compression, and
//! only then is something written.
//!
//! A page that is read and then written costs two faults. One that was written the last time it was here comes back
//! writable at once, if such pages are mostly written again.
//!
//! Must hold: these are questions of cost. The words that are looked at may change behind the look, so no content may
//! depend on an answer. Called by [`crate::fault`] for what comes back, and by [`crate::evict`] for what goes.

use crate::space::AddressSpace;
use crate::world::Touch;
use crate::world::World;
use uswap_codec::{Codec, Effort};
use uswap_core::counters::Counter;
use uswap_core::page_word::PageWord;
use uswap_core::pool_share::{COPIES_SIXTEENTHS, QUICK_SIXTEENTHS};
use uswap_core::segment::Segment;
use uswap_core::swap_table::LoadKind;
use uswap_core::swap_word::Content;
use uswap_sync::Ordering;
use uswap_units::{PAGE_BYTES, SwapId};

/// One that comes back writable spares the fault of its first write, some 4 us; if it is not written, compressing it
/// again takes about 10.
const REWRITTEN_PERCENT_MIN: u32 = 75;

/// One page in so many is compressed in both ways, so that it is known what the dense one saves: some 0.2 us a page.
const TRIAL_ONE_OF: u32 = 64;

/// What pages come back for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// What a thread is about to do, or may do.
    For(Touch),
    /// They come along with one that is written, in a stream of writes.
    ProbablyToWrite,
}

/// One in so many pages is promoted while the pool has no room.
const PROMOTE_ONE_OF: u32 = 4;

/// The pool holds more than so many sixteenths of its limit.
fn pool_is_above(segment: Segment<'_>, sixteenths: u64) -> bool {
    let pool = segment.pool();
    pool.resident_bytes() > pool.limit_bytes() / 16 * sixteenths
}

/// Nothing is written for what is stored next.
fn pool_has_room(segment: Segment<'_>) -> bool {
    !pool_is_above(segment, QUICK_SIXTEENTHS)
}

/// The pool has room again if the copy is given up.
fn takes_room(segment: Segment<'_>, copy: SwapId) -> bool {
    let word = segment.swap_table().load(copy);
    matches!(word.content(), Content::Blob { .. }) && word.is_alone()
}

/// A page that came from the file by a fault of its own and goes again, unchanged, may get a copy in the pool: one in
/// [`PROMOTE_ONE_OF`], and while the pool has room, all of them. So what comes often is soon in the pool, and what
/// comes once hardly pushes anything else out. Nothing is promoted that others depend on, and nothing that does not get
/// smaller: it would be written again at once. Nor while the file is nearly full: what is written anew leaves holes
/// where it was.
fn may_be_promoted(segment: Segment<'_>, copy: SwapId) -> bool {
    let word = segment.swap_table().load(copy);
    matches!(word.content(), Content::Slot { length, .. } if length < PAGE_BYTES as u32)
        && !segment.budget().file_is_nearly_full()
        && word.is_referenced()
        && word.is_alone()
}

impl<W: World> AddressSpace<'_, W> {
    /// Whether a page that comes back for a thread that reads is filled writable, since it is expected to be written.
    fn expects_write(&self, word: PageWord) -> bool {
        word.is_rewritten() && self.rewritten.exceeds(REWRITTEN_PERCENT_MIN)
    }

    /// Whether the copies of so many pages that have come back, whose words are like this one, are of no use, or take
    /// room that the pool needs. What comes back in order with others keeps its copy: it is gone past once, and goes
    /// again unchanged.
    pub(crate) fn gives_copies_up(
        &self,
        pages: usize,
        word: PageWord,
        purpose: Purpose,
        kind: LoadKind,
    ) -> bool {
        if purpose == Purpose::For(Touch::Write) {
            self.counters().add(Counter::CopyWritten, 1);
            return true;
        }
        if purpose == Purpose::ProbablyToWrite || self.expects_write(word) {
            self.counters().add(Counter::CopyExpected, pages as u64);
            return true;
        }
        let Some(swap) = word.swap() else { return false };
        let moves = kind == LoadKind::Alone
            && pool_is_above(self.segment, COPIES_SIXTEENTHS)
            && takes_room(self.segment, swap);
        if moves {
            self.counters().add(Counter::CopyMoved, 1);
        }
        moves
    }

    /// Whether a clean page that goes gets a copy in the pool ([`may_be_promoted`]).
    pub(crate) fn should_promote(&self, copy: SwapId) -> bool {
        may_be_promoted(self.segment, copy)
            && (pool_has_room(self.segment)
                || self.back_to_file.fetch_add(1, Ordering::Relaxed).is_multiple_of(PROMOTE_ONE_OF))
    }

    /// Whether a clean page that goes is compressed again, densely, since its copy was made quickly. Not if others
    /// depend on the copy: it would stay, and the new one beside it.
    pub(crate) fn should_recompress(&self, copy: SwapId) -> bool {
        let pool = self.segment.pool();
        if !pool.compresses_densely() {
            return false;
        }
        let word = self.segment.swap_table().load(copy);
        let Content::Blob { blob, length } = word.content() else { return false };
        let mut first = [0];
        word.is_alone()
            && length as usize != PAGE_BYTES
            && pool.read(blob, 1, &mut first)
            && Codec::of(&first) == Some(Codec::Lz4)
    }

    /// How well a page is compressed that is stored now. Quick, until what is stored would push something else into the
    /// file, or the supervisor finds that the room is worth the work.
    pub(crate) fn effort(&self) -> Effort {
        let pool = self.segment.pool();
        if pool.compresses_densely() || !pool_has_room(self.segment) { Effort::Dense } else { Effort::Quick }
    }

    /// Whether the page that is stored now is compressed in both ways. Asked once for each.
    pub(crate) fn is_trial(&self) -> bool {
        self.stored_anew.fetch_add(1, Ordering::Relaxed).is_multiple_of(TRIAL_ONE_OF)
    }
}
