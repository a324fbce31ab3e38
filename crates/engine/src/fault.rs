//! Serves one fault.

use crate::copies::takes_room;
use crate::engine::Engine;
use crate::platform::{Install, Platform, Touch, Wake};
use crate::run::FilledRun;
use crate::streams::Window;
use crate::throttle::{Patience, Room, Throttle};
use crate::workspace::Workspace;
use core::sync::atomic::Ordering;
use uswap_core::counters::{Counter, FaultSource};
use uswap_core::page_word::{Commit, PageSlot, PageWord, Place, TryLock};
use uswap_core::swap_table::Came;
use uswap_units::{BLOCK_PAGES, FrameId, PAGE_BYTES, PageId, SwapId};

/// What came of a fault.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultOutcome {
    /// The waiters run.
    Served(FaultSource),
    /// Someone works on the page, or an event must be read first: try again after the next look at the messages.
    Retry,
    /// The process is gone.
    Gone,
}

impl<P: Platform> Engine<'_, P> {
    /// Serves a fault on `page`, and brings the next pages along if faults come in order.
    ///
    /// The locks on the words keep everyone else from the pages; content is fetched without the gate; the pages are
    /// filled and their words changed in one shared section of the gate.
    pub async fn serve_fault(
        &self,
        page: PageId,
        touch: Touch,
        patience: Patience,
        workspace: &mut Workspace,
    ) -> FaultOutcome {
        let seen = self.streams.window(page);
        let filled = match self.fill_huge(page, seen, patience, workspace).await {
            Some(filled) => filled,
            None => self.fill_pages(page, touch, seen, patience, workspace).await,
        };
        if filled.pages > 0 {
            if seen.hits > 0 {
                self.counters.add(Counter::ReadAheadHit, u64::from(seen.hits));
            }
            if filled.outcome != FaultOutcome::Served(FaultSource::Zero) {
                self.counters.add(Counter::ReadAhead, u64::from(filled.pages - 1));
                if seen.pages == self.streams.window_max() {
                    self.note_passed(page, filled.pages);
                } else {
                    self.came_otherwise.fetch_add(filled.pages, Ordering::Relaxed);
                }
            }
        }
        filled.outcome
    }

    /// Brings in a page, and those that the window says.
    async fn fill_pages(
        &self,
        page: PageId,
        touch: Touch,
        seen: Window,
        patience: Patience,
        workspace: &mut Workspace,
    ) -> FilledRun {
        if self.needs_memory(page).await
            && self.throttle(patience, Room::Pages, workspace).await == Throttle::PutOff
        {
            return FilledRun::PUT_OFF;
        }
        let window = Window { pages: seen.pages.min(self.pages_free()), ..seen };
        self.fill(page, touch, window, workspace).await
    }

    /// Pages that may be brought along while memory is not short; at least the one that is asked for.
    pub(crate) fn pages_free(&self) -> u32 {
        let free = self.watermarks().min.0.saturating_sub(self.segment.budget().used().0);
        (free / PAGE_BYTES as u64).clamp(1, u64::from(u32::MAX)) as u32
    }

    async fn fill(&self, page: PageId, touch: Touch, window: Window, workspace: &mut Workspace) -> FilledRun {
        let alone = |outcome| FilledRun { outcome, pages: 0 };
        self.platform.lock_shared().await;
        if self.event_in_progress.load(Ordering::Acquire) {
            // Words are being carried to where mremap moved their pages: this one may be on its way.
            self.platform.unlock_shared();
            return alone(FaultOutcome::Retry);
        }
        let leaf = self.table.leaf(page);
        let locked = leaf.map_or(TryLock::Unmanaged, |leaf| leaf.slot(page).try_lock());
        let (leaf, word) = match (leaf, locked) {
            (Some(leaf), TryLock::Locked(word)) => (leaf, word),
            (_, TryLock::Busy) => {
                self.platform.unlock_shared();
                return alone(FaultOutcome::Retry);
            }
            _ => {
                let filled = self.fill_unmanaged(page, window);
                self.platform.unlock_shared();
                return filled;
            }
        };
        match word.place() {
            Place::Fresh | Place::Present => {
                let pages = if word.place() == Place::Fresh { window.pages } else { 1 };
                let filled = self.fill_zeros(&self.lock_run(leaf, page, word, pages), window);
                self.platform.unlock_shared();
                filled
            }
            Place::Staged(frame) => {
                self.platform.step().await;
                if window.pages > 1 {
                    // What is staged behind it is met next, or it comes back with it.
                    self.expect_next(page.plus(1), 0, window);
                }
                let outcome = match self.map_huge_back(&leaf, page, touch, word, frame).await {
                    Some(outcome) => outcome,
                    None => self.map_back(page, touch, leaf.slot(page), word, frame, workspace).await,
                };
                self.platform.unlock_shared();
                alone(outcome)
            }
            Place::Swapped => {
                let run = self.lock_run(leaf, page, word, self.window_of_job(page, window.pages));
                let run = run.for_touch(touch);
                self.platform.unlock_shared();
                let filled = self.swap_in(&run, window, workspace).await;
                self.note_came_back(word, filled.pages);
                filled
            }
        }
    }

    /// Memory that we know nothing of yet: zeros, as far as there is nothing of ours. In a shared section, so nothing
    /// is taken under management meanwhile.
    fn fill_unmanaged(&self, page: PageId, window: Window) -> FilledRun {
        let in_block = (BLOCK_PAGES - page.0 % BLOCK_PAGES) as u32;
        let unknown = |ahead: &u32| {
            let slot = self.table.slot(page.plus(u64::from(*ahead)));
            slot.is_none_or(|slot| slot.load().raw() == 0)
        };
        let count = 1 + (1..window.pages.min(in_block)).take_while(unknown).count() as u32;
        self.expect_next(page.plus(u64::from(count)), 0, window);
        self.filled_with_zeros(self.platform.zero_in(page, count))
    }

    /// False when memory is not short, or when the page is staged: then it takes none.
    async fn needs_memory(&self, page: PageId) -> bool {
        if self.segment.budget().used() <= self.watermarks().min {
            return false;
        }
        self.platform.lock_shared().await;
        let staged =
            self.table.slot(page).is_some_and(|slot| matches!(slot.load().place(), Place::Staged(_)));
        self.platform.unlock_shared();
        !staged
    }

    pub(crate) fn not_done(&self, install: Install) -> FaultOutcome {
        match install {
            Install::EventPending => FaultOutcome::Retry,
            Install::Gone => FaultOutcome::Gone,
            _ => FaultOutcome::Served(FaultSource::Woken),
        }
    }

    async fn map_back(
        &self,
        page: PageId,
        touch: Touch,
        slot: PageSlot<'_>,
        word: PageWord,
        frame: FrameId,
        workspace: &mut Workspace,
    ) -> FaultOutcome {
        // A child that still reads our frames needs this one too. The kernel refuses to move what a fork left shared,
        // but what was being read when it forked was copied, and is not.
        let child_reads = self.handovers.any();
        // Moving a part out of a huge page would split it, which takes 100 times as long.
        let in_huge = self.is_in_huge(frame);
        let mut install =
            if child_reads || in_huge { Install::CannotMove } else { self.platform.move_in(frame, page) };
        if install == Install::CannotMove {
            // The frame stays behind and is dropped with its chunk.
            self.platform.read_frame(frame, &mut workspace.page);
            install = self.platform.copy_in(page, core::slice::from_ref(&workspace.page), Wake::Now).last;
        }
        self.platform.step().await;
        match install {
            Install::Done => {
                self.counters.add(Counter::HugeBackFallback, u64::from(in_huge));
                self.commit_touched(slot, touch, word);
                FaultOutcome::Served(FaultSource::Staged)
            }
            other => {
                self.commit(slot, word.place(), word.swap());
                self.not_done(other)
            }
        }
    }

    /// A staged page was touched, and is in the program again.
    pub(crate) fn commit_touched(&self, slot: PageSlot<'_>, touch: Touch, word: PageWord) {
        self.counters.add(Counter::StagedBack, 1);
        match word.swap() {
            Some(swap) if self.gives_copy_up(swap, touch, Came::Alone) => {
                self.commit(slot, Place::Present, None);
                self.put_entry(swap);
            }
            kept => self.commit(slot, Place::Present, kept),
        }
    }

    /// A stored page is in the program again.
    pub(crate) fn commit_loaded(&self, slot: PageSlot<'_>, touch: Touch, swap: SwapId, came: Came) {
        if self.gives_copy_up(swap, touch, came) {
            self.commit(slot, Place::Present, None);
            self.put_entry(swap);
        } else {
            self.segment.swap_table().note_loaded(swap, came);
            self.commit(slot, Place::Present, Some(swap));
        }
    }

    /// Whether the copy of a page that was touched is of no use, or takes room in a pool that is short of it: then it
    /// goes before anything else has to go to the file. What comes back in order with others keeps its copy: it is gone
    /// past once, and goes again unchanged.
    fn gives_copy_up(&self, swap: SwapId, touch: Touch, came: Came) -> bool {
        if touch == Touch::Write {
            self.counters.add(Counter::CopyWritten, 1);
            return true;
        }
        let moves = came == Came::Alone && takes_room(self.segment, swap) && self.pool_is_tight();
        if moves {
            self.counters.add(Counter::CopyMoved, 1);
        }
        moves
    }

    /// Gives the lock on a word back with this place; the caller is in a shared section, so it cannot have been removed
    /// since it was checked.
    pub(crate) fn commit(&self, slot: PageSlot<'_>, place: Place, swap: Option<SwapId>) {
        self.must_be_done(slot.commit(place, swap));
    }

    pub(crate) fn must_be_done(&self, commit: Commit) {
        match commit {
            Commit::Done => (),
            Commit::Removed(_) => {
                unreachable!("events are processed with the gate exclusive, and we hold it shared")
            }
        }
    }

    /// The holder of a lock finds that an event dropped the page: releases what it had.
    pub(crate) fn give_up_removed(&self, slot: PageSlot<'_>, word: PageWord) {
        slot.finish_removed();
        if let Some(swap) = word.swap() {
            self.put_entry(swap);
        }
    }
}
