//! First touches in order get huge pages: where a program that asked for them goes through new memory, 2 MiB come with
//! one MOVE of a zeroed huge frame of the arena instead of 32 copies of zeros.
//!
//! Must hold: a program gets no memory this way that it is not about to use. So the first page of a block must be
//! touched, in order behind at least half of the longest run; random accesses never get there. And nothing relies on
//! the page staying huge.
//!
//! The kernel splits what is moved to where it has a page table already, as it has where the program's mapping asks for
//! no huge pages: that costs more than it spares. So what came of a huge page is looked at, and after each that was
//! split four times as many chances are passed over. One huge frame that was used before may be kept for the next such
//! touch: it is warm, and costs a tenth of one that the kernel must find and clear. It is counted in the budget, and
//! goes when memory is short.

use crate::engine::{Engine, HugePages};
use crate::fault::FaultOutcome;
use crate::huge::block_at;
use crate::platform::{Install, Platform};
use crate::run::FilledRun;
use crate::streams::Window;
use crate::throttle::{Patience, Room, Throttle};
use crate::workspace::Workspace;
use core::sync::atomic::{AtomicU32, Ordering};
use uswap_core::counters::{Counter, FaultSource};
use uswap_core::page_table::Leaf;
use uswap_core::page_word::Place;
use uswap_units::{BLOCK_PAGES, FrameId, PAGE_BYTES, PageId};

/// Chances passed over at most after one that failed.
const PASSED_OVER_MAX: u32 = 1 << 12;

/// Whether it is worth trying. Lost updates only change when it is tried.
#[derive(Default)]
pub(crate) struct Chances {
    /// So many are still passed over.
    left: AtomicU32,
    /// How many were after the last failure.
    last: AtomicU32,
    /// 1 when the last chance that was taken came off, or a stored huge page was to come back: a huge frame that
    /// becomes free is kept for the next.
    wants_frame: AtomicU32,
}

impl Chances {
    /// True when this one should be taken.
    fn take(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        left == 0
    }
    fn came_off(&self) {
        self.last.store(0, Ordering::Relaxed);
        self.want_frame();
    }
    /// A huge frame that becomes free will be of use.
    pub(crate) fn want_frame(&self) {
        self.wants_frame.store(1, Ordering::Relaxed);
    }
    fn failed(&self) {
        let next = (self.last.load(Ordering::Relaxed) * 4).clamp(4, PASSED_OVER_MAX);
        self.last.store(next, Ordering::Relaxed);
        self.left.store(next, Ordering::Relaxed);
        self.wants_frame.store(0, Ordering::Relaxed);
    }
    fn wants_frame(&self) -> bool {
        self.wants_frame.load(Ordering::Relaxed) != 0
    }
}

/// What came of a request for a huge frame.
#[must_use]
pub(crate) enum HugeFrame {
    /// It is the caller's: `give_back_block` or `give_up_block` it.
    Taken(FrameId, FrameContent),
    /// The fault is put off: there will be room.
    PutOff,
    /// There is no room, or no huge page.
    None,
}

/// What a huge frame holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameContent {
    /// Zeros.
    Zeros,
    /// Something of before.
    Any,
}

/// The words of a block that was never touched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FreshBlock {
    /// There are none.
    Unmanaged,
    /// All say "fresh".
    Managed,
}

impl<P: Platform> Engine<'_, P> {
    /// Serves a fault with a huge page, where there is reason to: on the first page of a block, in order, behind at
    /// least half of the longest run. None: it is served page by page.
    pub(crate) async fn fill_huge(
        &self,
        page: PageId,
        window: Window,
        patience: Patience,
        workspace: &mut Workspace,
    ) -> Option<FilledRun> {
        let is_wanted =
            self.huge_pages == HugePages::StayWhole && page.0.is_multiple_of(BLOCK_PAGES) && window.depth > 0;
        if !is_wanted {
            return None;
        }
        match self.swap_in_block(page, window, patience, workspace).await {
            Some(filled) => Some(filled),
            None => self.fill_block(page, window, patience, workspace).await,
        }
    }

    /// Serves a first touch of the first page of a block with a huge page. None: there is no reason to, or no room; it
    /// is served page by page.
    async fn fill_block(
        &self,
        page: PageId,
        window: Window,
        patience: Patience,
        workspace: &mut Workspace,
    ) -> Option<FilledRun> {
        if !self.platform.wants_huge_pages() {
            return None;
        }
        self.platform.lock_shared().await;
        let is_fresh = !self.event_in_progress.load(Ordering::Acquire)
            && self.fresh_block(self.table.leaf(page).as_ref()).is_some();
        self.platform.unlock_shared();
        if !is_fresh || !self.chances.take() {
            return None;
        }
        let frames = match self.huge_frame(self.huge_room_pages, patience, workspace).await {
            HugeFrame::Taken(frames, content) => {
                if content == FrameContent::Any {
                    self.platform.clear_huge_frame(frames);
                }
                frames
            }
            HugeFrame::PutOff => return Some(FilledRun::PUT_OFF),
            HugeFrame::None => {
                self.counters.add(Counter::HugeFaultFallback, 1);
                return None;
            }
        };
        self.platform.step().await;
        self.platform.lock_shared().await;
        self.expect_next(block_at(page).end, 0, window);
        let filled = self.map_fresh_block(page, frames).await;
        self.platform.unlock_shared();
        filled
    }

    /// A huge frame, which is counted in the budget: the one that is kept, or a new one for which so many pages must be
    /// free. What is missing is reclaimed first, as for any fault.
    pub(crate) async fn huge_frame(
        &self,
        room_pages: u32,
        patience: Patience,
        workspace: &mut Workspace,
    ) -> HugeFrame {
        self.block_requests.fetch_add(1, Ordering::Relaxed);
        let throttle = self.throttle(patience, Room::Block(room_pages), workspace).await;
        self.block_requests.fetch_sub(1, Ordering::Relaxed);
        if throttle == Throttle::PutOff {
            return HugeFrame::PutOff;
        }
        if let Some(kept) = self.private.lock().arena.take_kept() {
            return HugeFrame::Taken(kept, FrameContent::Any);
        }
        if self.pages_free() < room_pages {
            return HugeFrame::None;
        }
        self.new_huge_frame().map_or(HugeFrame::None, |frames| HugeFrame::Taken(frames, FrameContent::Zeros))
    }

    fn new_huge_frame(&self) -> Option<FrameId> {
        let taken = self.private.lock().arena.take_block().ok()?;
        if taken.must_be_cleared && !self.platform.clear_block(taken.first) {
            // These frames stay taken for ever.
            return None;
        }
        // Before it is there: who measures used memory takes what was not counted for growth.
        self.note_resident(BLOCK_PAGES as u32);
        if !self.platform.make_huge_frame(taken.first) {
            self.give_up_block(taken.first, 0);
            self.chances.failed();
            return None;
        }
        Some(taken.first)
    }

    /// In a shared section. None: the block is not as it was any more.
    async fn map_fresh_block(&self, page: PageId, frames: FrameId) -> Option<FilledRun> {
        let leaf = self.table.leaf(page);
        let block = match self.fresh_block(leaf.as_ref()) {
            Some(block) if !self.event_in_progress.load(Ordering::Acquire) => block,
            _ => {
                self.give_up_block(frames, 0);
                return None;
            }
        };
        let managed = leaf.filter(|_| block == FreshBlock::Managed);
        if managed.is_some_and(|leaf| !self.lock_block(&leaf, |word| word.place() == Place::Fresh)) {
            self.give_up_block(frames, 0);
            return None;
        }
        self.platform.step().await;
        let filled = self.platform.move_block_in(frames, page);
        self.platform.step().await;
        // All of it is zeros: where it is not known whether a page came, it makes no difference but to who may stage
        // it.
        let came = |index: u64| {
            index < u64::from(filled.pages) || self.platform.held(FrameId(frames.0 + index as u32), 1) == 0
        };
        let (mut pages, first_came) = (filled.pages, came(0));
        if let Some(leaf) = managed {
            pages = 0;
            for ((_, slot), index) in leaf.slots_in(block_at(page)).zip(0..) {
                let came = came(index);
                pages += u32::from(came);
                let place = if came { Place::Present } else { Place::Fresh };
                self.commit(slot, place, slot.load().swap());
            }
        }
        self.counters.add(Counter::ZeroFilled, u64::from(pages));
        if filled.last != Install::Done {
            // The kernel wakes only those that wait for what it counted.
            self.platform.wake(page, BLOCK_PAGES as u32);
            // Part of the block may lie in another mapping, or the fork of a process left the huge frame shared.
            self.give_up_block(frames, pages);
            self.chances.failed();
        } else {
            self.private.lock().arena.give_back_block(frames);
            if self.platform.is_huge(page) {
                self.counters.add(Counter::HugeFault, 1);
                self.chances.came_off();
            } else {
                self.counters.add(Counter::HugeSplit, 1);
                self.chances.failed();
            }
        }
        // A page that did not come is served as any other.
        first_came.then_some(FilledRun { outcome: FaultOutcome::Served(FaultSource::Zero), pages })
    }

    /// What is left of a block that was to be moved to the program is dropped; so many of its pages are in the program.
    pub(crate) fn give_up_block(&self, frames: FrameId, pages: u32) {
        self.platform.drop_block(frames);
        self.private.lock().arena.give_back_block(frames);
        self.segment.budget().subtract((BLOCK_PAGES - u64::from(pages)) * PAGE_BYTES as u64);
    }

    /// Whether nothing of a block was ever touched. In a shared section.
    fn fresh_block(&self, leaf: Option<&Leaf<'_>>) -> Option<FreshBlock> {
        let Some(leaf) = leaf else { return Some(FreshBlock::Unmanaged) };
        let words = || (0..BLOCK_PAGES as usize).map(|index| leaf.word(index));
        if words().all(|word| word.raw() == 0) {
            return Some(FreshBlock::Unmanaged);
        }
        let is_fresh = words().all(|word| {
            word.is_managed() && word.place() == Place::Fresh && !word.is_locked() && !word.is_removed()
        });
        is_fresh.then_some(FreshBlock::Managed)
    }

    /// All of a block of the arena is stored. If it is still a huge frame, and a fault waits for one, or the program
    /// goes through its memory in order, it is kept for that. False: it is to be dropped.
    pub(crate) fn keep_block(&self, frames: FrameId) -> bool {
        let is_short = self.segment.budget().used() > self.watermarks().min;
        let is_wanted = self.block_requests.load(Ordering::Relaxed) > 0;
        (is_wanted || !is_short && self.chances.wants_frame())
            && self.platform.is_huge_frame(frames)
            && self.private.lock().arena.keep(frames)
    }

    /// Memory is short: what is kept goes. Returns its pages.
    pub(crate) fn drop_kept_block(&self) -> u64 {
        let Some(frames) = self.private.lock().arena.take_kept() else { return 0 };
        self.give_up_block(frames, 0);
        BLOCK_PAGES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_huge_page_that_was_split_makes_the_next_try_rarer() {
        let chances = Chances::default();
        let passed_over = || (0..).take_while(|_| !chances.take()).count();
        assert_eq!(passed_over(), 0);
        chances.failed();
        assert_eq!(passed_over(), 4);
        chances.failed();
        assert_eq!(passed_over(), 16);
        chances.came_off();
        assert!(chances.wants_frame() && chances.take() && chances.take());
        chances.failed();
        assert_eq!(passed_over(), 4);
        (0..20).for_each(|_| chances.failed());
        assert_eq!(passed_over(), PASSED_OVER_MAX as usize);
    }
}
