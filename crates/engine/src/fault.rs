//! Serves one fault.

use crate::engine::Engine;
use crate::load::Load;
use crate::platform::{Install, Platform};
use crate::reclaim::{Patience, Throttle};
use crate::workspace::Workspace;
use core::sync::atomic::Ordering;
use uswap_core::counters::{Counter, FaultSource};
use uswap_core::page_word::{Commit, PageSlot, PageWord, Place, TryLock};
use uswap_units::{FrameId, PageId, SwapId};

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
    /// Serves a fault on `page`.
    ///
    /// The lock on the page's word keeps everyone else from it; the content is fetched without the gate; the page is filled and its word changed in
    /// one shared section of the gate.
    pub async fn serve_fault(
        &self,
        page: PageId,
        patience: Patience,
        workspace: &mut Workspace,
    ) -> FaultOutcome {
        if self.needs_memory(page).await && self.throttle(patience, workspace).await == Throttle::PutOff {
            return FaultOutcome::Retry;
        }
        self.platform.lock_shared().await;
        if self.event_in_progress.load(Ordering::Acquire) {
            // Words are being carried to where mremap moved their pages: this one may be on its way.
            self.platform.unlock_shared();
            return FaultOutcome::Retry;
        }
        let slot = self.table.slot(page);
        let locked = slot.map_or(TryLock::Unmanaged, PageSlot::try_lock);
        let (slot, word) = match (slot, locked) {
            (Some(slot), TryLock::Locked(word)) => (slot, word),
            (_, TryLock::Busy) => {
                self.platform.unlock_shared();
                return FaultOutcome::Retry;
            }
            _ => {
                let install = self.platform.zero_in(page);
                self.platform.unlock_shared();
                return self.after_unmanaged(install);
            }
        };
        match word.place() {
            Place::Fresh | Place::Present => {
                let outcome = self.fill_zeros(page, slot, word);
                self.platform.unlock_shared();
                outcome
            }
            Place::Staged(frame) => {
                self.platform.step().await;
                let outcome = self.map_back(page, slot, word, frame, workspace).await;
                self.platform.unlock_shared();
                outcome
            }
            Place::Swapped => {
                self.platform.unlock_shared();
                let swap = word.swap().expect("a swapped page names its entry");
                self.swap_in(page, slot, word, swap, workspace).await
            }
        }
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

    fn after_unmanaged(&self, install: Install) -> FaultOutcome {
        match install {
            Install::Done => {
                self.note_resident();
                self.counters.add(Counter::ZeroFilled, 1);
                FaultOutcome::Served(FaultSource::Zero)
            }
            Install::EventPending => FaultOutcome::Retry,
            Install::Gone => FaultOutcome::Gone,
            Install::AlreadyMapped | Install::NotMapped | Install::CannotMove => {
                FaultOutcome::Served(FaultSource::Woken)
            }
        }
    }

    fn note_resident(&self) {
        self.segment.budget().add(4096);
    }

    /// Nothing of ours, or a page that the program dropped, or a second fault on a page that is there by now.
    fn fill_zeros(&self, page: PageId, slot: PageSlot<'_>, word: PageWord) -> FaultOutcome {
        match self.platform.zero_in(page) {
            Install::Done => {
                self.note_resident();
                self.counters.add(Counter::ZeroFilled, 1);
                self.commit(slot, Place::Present, word.swap());
                FaultOutcome::Served(FaultSource::Zero)
            }
            other => {
                self.commit(slot, word.place(), word.swap());
                self.not_done(other)
            }
        }
    }

    fn not_done(&self, install: Install) -> FaultOutcome {
        match install {
            Install::EventPending => FaultOutcome::Retry,
            Install::Gone => FaultOutcome::Gone,
            _ => FaultOutcome::Served(FaultSource::Woken),
        }
    }

    async fn map_back(
        &self,
        page: PageId,
        slot: PageSlot<'_>,
        word: PageWord,
        frame: FrameId,
        workspace: &mut Workspace,
    ) -> FaultOutcome {
        let mut install = self.platform.move_in(frame, page);
        if install == Install::CannotMove {
            // The frame stays behind and is dropped with its chunk.
            self.platform.read_frame(frame, &mut workspace.page);
            install = self.platform.copy_in(page, &workspace.page);
        }
        self.platform.step().await;
        match install {
            Install::Done => {
                self.counters.add(Counter::StagedBack, 1);
                self.commit(slot, Place::Present, word.swap());
                FaultOutcome::Served(FaultSource::Staged)
            }
            other => {
                self.commit(slot, word.place(), word.swap());
                self.not_done(other)
            }
        }
    }

    async fn swap_in(
        &self,
        page: PageId,
        slot: PageSlot<'_>,
        word: PageWord,
        swap: SwapId,
        workspace: &mut Workspace,
    ) -> FaultOutcome {
        let load = self.load(swap, workspace).await;
        self.platform.lock_shared().await;
        let outcome = self.fill_loaded(page, slot, word, swap, load, workspace);
        self.platform.unlock_shared();
        outcome
    }

    /// In a shared section: nothing can be removed between the look at the word and the commit.
    fn fill_loaded(
        &self,
        page: PageId,
        slot: PageSlot<'_>,
        word: PageWord,
        swap: SwapId,
        load: Load,
        workspace: &Workspace,
    ) -> FaultOutcome {
        if self.event_in_progress.load(Ordering::Acquire) {
            // The same: what we hold may belong elsewhere by now. The mover waits for our lock.
            match slot.commit(Place::Swapped, Some(swap)) {
                Commit::Done => return FaultOutcome::Retry,
                Commit::Removed(_) => (),
            }
        }
        let now = slot.load();
        if now.is_removed() {
            self.give_up_removed(slot, word);
            self.platform.wake(page);
            return FaultOutcome::Retry;
        }
        let (install, source) = match load {
            Load::Done(source) => (self.platform.copy_in(page, &workspace.page), source),
            Load::Lost => (self.platform.poison(page), FaultSource::File),
        };
        match install {
            Install::Done => {
                self.note_resident();
                if load != Load::Lost {
                    self.segment.swap_table().note_loaded(swap);
                }
                self.commit(slot, Place::Present, Some(swap));
                FaultOutcome::Served(source)
            }
            other => {
                self.commit(slot, Place::Swapped, Some(swap));
                self.not_done(other)
            }
        }
    }

    /// Gives the lock on a word back with this place; the caller is in a shared section, so it cannot have been removed since it was checked.
    fn commit(&self, slot: PageSlot<'_>, place: Place, swap: Option<SwapId>) {
        match slot.commit(place, swap) {
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
