//! What a program asks for by advice: that pages go now (MADV_PAGEOUT), or before others (MADV_COLD).
//!
//! Must hold: no evictor is kept while room is waited for, and that wait has an end. Whoever calls `cool` is in a
//! shared section of the gate; `evict_range` enters its own. Called by `host` and `sim`, when a program says that it
//! will not need memory for a while.

use crate::evict::choose::Wanted;
use crate::evict::{BATCH_PAGES, Evictor};
use crate::space::AddressSpace;
use crate::world::World;
use core::ops::DerefMut;
use uswap_core::budget::Signal;
use uswap_units::limits::{ROOM_WAIT_NS, WRITE_PATIENCE_NS};
use uswap_units::{BLOCK_PAGES, CHUNK_PAGES, PageId, PageRange};

/// How long a program that has asked for it waits for room before the shrinker says that it comes: between two of its
/// batches, and where others have the processors.
pub(crate) const PATIENCE_NS: u64 = 1_000_000_000;

impl<W: World> AddressSpace<'_, W> {
    /// Evicts a range, however warm its pages are, with evictors that `borrow` gives; how many pages. What may not be
    /// evicted is passed over, and so is what somebody touches meanwhile. It ends early if there is no room, and none
    /// comes.
    pub async fn evict_range<E, F>(&self, range: PageRange, mut borrow: impl FnMut() -> F) -> u64
    where
        E: DerefMut<Target = Evictor>,
        F: Future<Output = E>,
    {
        let (mut rest, mut count) = (range, 0);
        let mut progress_ns = self.world.now_ns();
        while !rest.is_empty() {
            let mut evictor = borrow().await;
            let next = self.isolate(&mut evictor, |evictor| self.choose_in(evictor, rest)).await;
            let evicted = self.evict_isolated(&mut evictor).await;
            count += evicted.pages;
            let now_ns = self.world.now_ns();
            if evicted.pages > 0 {
                progress_ns = now_ns;
            }
            if !evicted.no_room {
                rest = rest.rest_from(next);
            }
            if evicted.no_room || rest.is_empty() {
                self.disown_zspages(&evictor);
            }
            drop(evictor);
            if evicted.no_room && !self.has_room_later(now_ns - progress_ns).await {
                break;
            }
        }
        count
    }

    /// Waits for room in the pool. False: it has been waited for long enough, or none comes.
    async fn has_room_later(&self, waited_ns: u64) -> bool {
        let budget = self.segment.budget();
        let patience =
            if budget.is_room_coming(self.world.now_ns()) { WRITE_PATIENCE_NS } else { PATIENCE_NS };
        if waited_ns >= patience || budget.is_full() || budget.is_ending() {
            return false;
        }
        let seen = budget.signal_count(Signal::Room);
        self.world.wait(Signal::Room, seen, ROOM_WAIT_NS).await;
        true
    }

    /// Pages of a range are not warm any more, and the hand looks at the range next.
    pub fn cool(&self, range: PageRange) {
        self.word_refs_of(range).for_each(|(_, word_ref)| word_ref.cool());
        if let Some(first) = self.table.first_managed(range) {
            self.hand.move_to(first);
        }
    }

    /// Locks pages of a range until the batch is full. The first page that was not looked at.
    fn choose_in(&self, evictor: &mut Evictor, range: PageRange) -> PageId {
        evictor.chosen = None;
        let mut at = range.start();
        while at < range.end() && evictor.length + CHUNK_PAGES as usize <= BATCH_PAGES && self.may_evict() {
            let Some(leaf) = self.table.next_leaf(at).filter(|leaf| leaf.first_page() < range.end()) else {
                return range.end();
            };
            let chunks = leaf.evictable_from(at);
            if chunks == 0 {
                at = leaf.first_page().plus(BLOCK_PAGES);
                continue;
            }
            let in_block = chunks.trailing_zeros();
            let chunk = leaf.chunk(in_block);
            if chunk.start() < range.end() {
                let wanted = Wanted { chosen: None, goes_max: CHUNK_PAGES as usize, within: range };
                self.lock_chunk(&leaf, in_block, evictor, wanted);
            }
            at = chunk.end();
        }
        if self.may_evict() { at.min(range.end()) } else { range.end() }
    }
}
