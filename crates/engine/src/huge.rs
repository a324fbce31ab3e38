//! Huge pages of the program: 512 pages that the kernel maps as one. One whose pages are all cold leaves as one, in
//! some 2 us instead of 300, and comes back as one when a page of it is touched before it is stored.
//!
//! Must hold: nothing relies on a huge page being one. It may be split at any time; then the same calls move page by
//! page.
//!
//! A huge page that was touched while it was staged is left alone for one round of the hand, as a page is. The kernel
//! tells which page was touched, but not which others are used: if it happens again with the same page, the cold part
//! is staged without the rest, which splits it. Otherwise one hot page would hold 511 cold ones. Called by `reclaim`
//! and `fault`.

use crate::arena::{BLOCK_CHUNKS, NoBlock, TakenBlock};
use crate::engine::{Engine, HugePages};
use crate::evict::{Moved, Stage, mask_of};
use crate::fault::FaultOutcome;
use crate::platform::{Filled, Install, MoveStop, Platform, Touch};
use uswap_core::counters::{Counter, FaultSource};
use uswap_core::page_table::{Leaf, TICK_NS};
use uswap_core::page_word::{PageSlot, PageWord, Place, TryLock};
use uswap_units::{BLOCK_PAGES, CHUNK_PAGES, ChunkId, FrameId, PageId, PageRange};

/// A page that was touched so often in a row while it was staged splits the huge page that it is part of.
const HEAT_THAT_SPLITS: u32 = 2;

pub(crate) const fn block_at(first: PageId) -> PageRange {
    PageRange { start: first, end: first.plus(BLOCK_PAGES) }
}

/// What the words of a huge page say.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Warmth {
    /// No page of it rests.
    Cold,
    /// One was touched while it was staged.
    Rests,
    /// One is, again and again.
    PartlyHot,
}

impl<P: Platform> Engine<'_, P> {
    /// Stages a huge page as one, if the chunk is part of one. None: it is no huge page, or cannot stay one; its chunks
    /// are staged one by one.
    pub(crate) async fn stage_huge(&self, chunk: ChunkId) -> Option<Stage> {
        let first = PageId(chunk.first_page().0 & !(BLOCK_PAGES - 1));
        if self.huge_pages == HugePages::AreSplit {
            return None;
        }
        self.platform.lock_shared().await;
        let staged = if self.may_evict() { self.stage_block(first).await } else { Some(Stage::EventPending) };
        self.platform.unlock_shared();
        staged
    }

    /// In a shared section.
    async fn stage_block(&self, first: PageId) -> Option<Stage> {
        let leaf = self.table.leaf(first)?;
        let block = block_at(first);
        if !leaf.slots_in(block).all(|(_, slot)| slot.load().may_be_staged()) || !self.platform.is_huge(first)
        {
            return None;
        }
        // Looked at in the shared section, since events are processed in exclusive ones.
        let held = leaf.is_held_anywhere(self.platform.now_ns() / TICK_NS);
        if held || self.platform.drops_under_way(block) {
            return Some(Stage::Nothing);
        }
        match warmth_of(&leaf, block) {
            Warmth::Cold => (),
            Warmth::Rests => {
                leaf.slots_in(block).for_each(|(_, slot)| _ = slot.pass_by());
                return Some(Stage::Rests);
            }
            Warmth::PartlyHot => {
                self.counters.add(Counter::HugeSplit, 1);
                return None;
            }
        }
        let target = self.private.lock().arena.take_block();
        let target = match target {
            Ok(target) => target,
            Err(NoBlock::Full) => return Some(Stage::NoRoom),
            Err(NoBlock::Scattered) => {
                self.counters.add(Counter::HugeOutFallback, 1);
                self.counters.add(Counter::HugeSplit, 1);
                return None;
            }
        };
        let staged = self.move_block_out(&leaf, first, target).await;
        Some(staged)
    }

    /// Moves a block of the program, page words and all, to frames that were taken for it.
    async fn move_block_out(&self, leaf: &Leaf<'_>, first: PageId, target: TakenBlock) -> Stage {
        let chunks = || (0..BLOCK_CHUNKS).map(|chunk| u64::from(chunk) * CHUNK_PAGES);
        let is_empty = || {
            chunks()
                .all(|at| self.platform.held(FrameId(target.first.0 + at as u32), CHUNK_PAGES as u32) == 0)
        };
        if (target.must_be_cleared || !is_empty()) && !self.platform.clear_block(target.first) {
            // These frames stay taken for ever.
            return Stage::Nothing;
        }
        let mut locked = [0; BLOCK_CHUNKS as usize];
        for (locked, at) in locked.iter_mut().zip(chunks()) {
            *locked = self.lock_movable(leaf, first.plus(at));
        }
        if locked != [u64::MAX; BLOCK_CHUNKS as usize] {
            // Somebody works on a page.
            for (locked, at) in locked.into_iter().zip(chunks()) {
                self.unlock(leaf, first.plus(at), locked);
            }
            self.private.lock().arena.give_back_block(target.first);
            return Stage::Nothing;
        }
        {
            // Before the words name the frames: a move of the mapping may change it from then on.
            let mut private = self.private.lock();
            for index in 0..BLOCK_PAGES {
                private.arena.set_page_of(FrameId(target.first.0 + index as u32), first.plus(index));
            }
        }
        self.platform.step().await;
        let out = self.platform.move_out(first, target.first, BLOCK_PAGES as u32);
        self.platform.step().await;
        let (mut pages, mut any_held) = ([0; BLOCK_CHUNKS as usize], false);
        for (pages, at) in pages.iter_mut().zip(chunks()) {
            let frame = FrameId(target.first.0 + at as u32);
            let passed = mask_of(out.pages.saturating_sub(at as u32).min(CHUNK_PAGES as u32));
            let held = self.platform.held(frame, CHUNK_PAGES as u32);
            any_held |= held != 0;
            *pages = self.commit_moved(&Moved {
                leaf,
                first: first.plus(at),
                frame,
                part: u64::MAX,
                passed,
                held,
            });
        }
        let moved = pages.iter().sum();
        self.counters.add(Counter::Staged, u64::from(moved));
        if moved == BLOCK_PAGES as u32 {
            let stays_one = self.platform.is_huge_frame(target.first);
            self.counters.add(if stays_one { Counter::HugeOut } else { Counter::HugeSplit }, 1);
            if stays_one {
                leaf.stageable().note_left_as_one();
            }
        }
        if moved > 0 {
            self.private.lock().arena.push_block(target.first, pages);
        } else if !any_held || self.platform.clear_block(target.first) {
            self.private.lock().arena.give_back_block(target.first);
        }
        match out.stop {
            Some(MoveStop::EventPending) => Stage::EventPending,
            Some(MoveStop::Busy) => {
                self.counters.add(Counter::MoveBusy, 1);
                let at = u64::from(out.pages) & !(CHUNK_PAGES - 1);
                Stage::Shared(first.plus(at), 1 << (u64::from(out.pages) - at))
            }
            Some(MoveStop::Refused) if moved == 0 => {
                self.counters.add(Counter::MoveRefused, 1);
                Stage::Nothing
            }
            Some(MoveStop::Refused) | None => Stage::Staged(moved),
        }
    }

    /// True when a staged frame is part of a huge page that was not split.
    pub(crate) fn is_in_huge(&self, frame: FrameId) -> bool {
        self.block_with(frame).is_some_and(|(first, _)| self.platform.is_huge_frame(first))
    }

    /// As the arena says. Nothing is asked where no huge page stays whole: this is on the way of each fault on a staged
    /// page.
    fn block_with(&self, frame: FrameId) -> Option<(FrameId, PageId)> {
        match self.huge_pages {
            HugePages::AreSplit => None,
            HugePages::StayWhole => self.private.lock().arena.block_with(frame),
        }
    }

    /// A page of a staged huge page was touched: all of it moves back, if all of it is still there. None: the page
    /// comes alone. In a shared section; the caller has locked the word of the page.
    pub(crate) async fn map_huge_back(
        &self,
        leaf: &Leaf<'_>,
        page: PageId,
        touch: Touch,
        word: PageWord,
        frame: FrameId,
    ) -> Option<FaultOutcome> {
        let (frames, first) = self.block_with(frame)?;
        let is_there = |index: u64, word: PageWord| {
            word.place() == Place::Staged(FrameId(frames.0 + index as u32)) && !word.is_removed()
        };
        let words = || leaf.slots_in(block_at(leaf.first_page())).zip(0..);
        let all_there = first == leaf.first_page()
            && words().all(|((_, slot), index)| is_there(index, slot.load()))
            && !self.handovers.any()
            && self.platform.is_huge_frame(frames);
        if !all_there {
            return None;
        }
        let mut locked = 0;
        for ((other, slot), index) in words() {
            if other == page {
                locked += 1;
                continue;
            }
            match slot.try_lock() {
                TryLock::Locked(word) if is_there(index, word) => locked += 1,
                TryLock::Locked(word) => {
                    self.commit(slot, word.place(), word.swap());
                    break;
                }
                TryLock::Busy | TryLock::Unmanaged => break,
            }
        }
        let others = || words().filter(|((other, _), _)| *other != page);
        if locked < BLOCK_PAGES {
            let taken = words().take(locked as usize).filter(|((other, _), _)| *other != page);
            for ((_, slot), _) in taken {
                let word = slot.load();
                self.commit(slot, word.place(), word.swap());
            }
            return None;
        }
        self.platform.step().await;
        let filled = self.platform.move_block_in(frames, first);
        self.platform.step().await;
        for ((_, slot), index) in others() {
            let word = slot.load();
            match self.back(frames, filled, index) {
                Back::Came => self.must_be_done(slot.commit_along()),
                Back::Stayed => self.commit(slot, word.place(), word.swap()),
                Back::ZerosOrCame => self.commit_fresh(slot, word),
            }
        }
        if filled.last != Install::Done {
            // The kernel wakes only those that wait for what it counted.
            self.platform.wake(first, BLOCK_PAGES as u32);
        }
        self.counters.add(Counter::HugeBack, u64::from(filled.last == Install::Done));
        let slot = leaf.slot(page);
        match self.back(frames, filled, page.0 - first.0) {
            Back::Came => {
                self.commit_touched(slot, touch, word);
                Some(FaultOutcome::Served(FaultSource::Staged))
            }
            Back::Stayed if filled.last == Install::CannotMove => None,
            Back::Stayed => {
                self.commit(slot, word.place(), word.swap());
                Some(self.not_done(filled.last))
            }
            Back::ZerosOrCame => {
                self.commit_fresh(slot, word);
                Some(FaultOutcome::Retry)
            }
        }
    }

    /// Locks all words of a block, if each is as it should be; or none. In a shared section.
    pub(crate) fn lock_block(&self, leaf: &Leaf<'_>, is_as_wanted: impl Fn(PageWord) -> bool) -> bool {
        let words = || leaf.slots_in(block_at(leaf.first_page()));
        let mut locked = 0;
        for (_, slot) in words() {
            match slot.try_lock() {
                TryLock::Locked(word) if is_as_wanted(word) => locked += 1,
                TryLock::Locked(word) => {
                    self.commit(slot, word.place(), word.swap());
                    break;
                }
                TryLock::Busy | TryLock::Unmanaged => break,
            }
        }
        if locked < BLOCK_PAGES {
            for (_, slot) in words().take(locked as usize) {
                let word = slot.load();
                self.commit(slot, word.place(), word.swap());
            }
        }
        locked == BLOCK_PAGES
    }

    /// What became of the page at this place of a block that was moved back.
    pub(crate) fn back(&self, frames: FrameId, filled: Filled, index: u64) -> Back {
        let frame = FrameId(frames.0 + index as u32);
        let came = index < u64::from(filled.pages) || self.platform.held(frame, 1) == 0;
        if came {
            Back::Came
        } else if self.holds_more_than_zeros(frame) {
            Back::Stayed
        } else {
            Back::ZerosOrCame
        }
    }

    /// What is there now is for the kernel to know: the page, or nothing, which reads as zeros.
    pub(crate) fn commit_fresh(&self, slot: PageSlot<'_>, word: PageWord) {
        self.commit(slot, Place::Fresh, None);
        if let Some(swap) = word.swap() {
            self.put_entry(swap);
        }
    }
}

/// What became of a page that was to be moved back, as `evict::moved` finds out for the other way. Its frame held it
/// before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Back {
    /// It is in the program.
    Came,
    /// It is in its frame.
    Stayed,
    /// Its frame holds zeros, and the kernel did not count it: they are its content, or it went, and somebody has
    /// looked at the frame since.
    ZerosOrCame,
}

fn warmth_of(leaf: &Leaf<'_>, block: PageRange) -> Warmth {
    let mut warmth = Warmth::Cold;
    for (_, slot) in leaf.slots_in(block) {
        let word = slot.load();
        if word.rest() > 0 {
            warmth = Warmth::Rests;
            if word.heat() >= HEAT_THAT_SPLITS {
                return Warmth::PartlyHot;
            }
        }
    }
    warmth
}
