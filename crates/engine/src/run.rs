//! A run: pages next to each other that one task has locked and fills together, with one call into the kernel.
//!
//! Its first page is the one that a thread waits for. The others come along when faults come in order: see [`crate::streams`].

use crate::engine::Engine;
use crate::fault::FaultOutcome;
use crate::load::Load;
use crate::platform::{Filled, Install, Platform};
use crate::workspace::Workspace;
use core::sync::atomic::Ordering;
use uswap_core::counters::{Counter, FaultSource};
use uswap_core::page_table::Leaf;
use uswap_core::page_word::{Commit, PageSlot, PageWord, Place, TryLock};
use uswap_core::swap_table::Came;
use uswap_units::limits::RUN_PAGES_MAX;
use uswap_units::{BLOCK_PAGES, PAGE_BYTES, PageId, SwapId};

/// Locked pages of one block, from `first` on.
pub(crate) struct Run<'a> {
    leaf: Leaf<'a>,
    first: PageId,
    /// As they were when they were locked.
    words: [PageWord; RUN_PAGES_MAX],
    length: u32,
}

impl<'a> Run<'a> {
    /// Pages in it.
    pub(crate) fn length(&self) -> u32 {
        self.length
    }
    fn page(&self, index: u32) -> PageId {
        self.first.plus(u64::from(index))
    }
    fn slot(&self, index: u32) -> PageSlot<'a> {
        self.leaf.slot(self.page(index))
    }
    fn word(&self, index: u32) -> PageWord {
        self.words[index as usize]
    }
    /// The entry of a page of a run that is stored.
    pub(crate) fn swap(&self, index: u32) -> SwapId {
        self.word(index).swap().expect("a swapped page names its entry")
    }
    fn is_removed(&self, index: u32) -> bool {
        self.slot(index).load().is_removed()
    }
}

/// What came of filling a run.
pub(crate) struct FilledRun {
    /// For the thread that waits for the first page.
    pub(crate) outcome: FaultOutcome,
    /// Pages that are there now.
    pub(crate) pages: u32,
}

impl<P: Platform> Engine<'_, P> {
    /// Adds pages behind `first`, which the caller has locked, while they are at the same kind of place and nobody works on them; at most `window` in all.
    /// In a shared section.
    pub(crate) fn lock_run<'a>(&self, leaf: Leaf<'a>, first: PageId, word: PageWord, window: u32) -> Run<'a> {
        let mut run = Run { leaf, first, words: [word; RUN_PAGES_MAX], length: 1 };
        let block_end = leaf.first_page().plus(BLOCK_PAGES);
        while run.length < window && run.page(run.length).0 < block_end.0 {
            let slot = run.slot(run.length);
            if slot.load().place() != word.place() {
                break;
            }
            let TryLock::Locked(next) = slot.try_lock() else { break };
            if next.place() != word.place() {
                self.commit(slot, next.place(), next.swap());
                break;
            }
            run.words[run.length as usize] = next;
            run.length += 1;
        }
        run
    }

    /// Gives the locks from `from` on back, the words unchanged. In a shared section; the pages may have been removed since they were locked.
    fn unlock_rest(&self, run: &Run<'_>, from: u32) {
        for index in from..run.length {
            let word = run.word(index);
            if let Commit::Removed(_) = run.slot(index).commit(word.place(), word.swap()) {
                self.give_up_removed(run.slot(index), word);
                self.platform.wake(run.page(index));
            }
        }
    }

    /// Fills a run of pages that hold nothing of ours with zeros. In the shared section in which it was locked.
    pub(crate) fn fill_zeros(&self, run: &Run<'_>) -> FilledRun {
        let filled = self.platform.zero_in(run.first, run.length);
        for index in 0..filled.pages {
            self.commit(run.slot(index), Place::Present, run.word(index).swap());
        }
        self.unlock_rest(run, filled.pages);
        self.filled_with_zeros(filled)
    }

    /// Counts pages that were filled with zeros.
    pub(crate) fn filled_with_zeros(&self, filled: Filled) -> FilledRun {
        self.note_resident(filled.pages);
        self.counters.add(Counter::ZeroFilled, u64::from(filled.pages));
        let outcome = match filled.pages {
            0 => self.not_done(filled.last),
            _ => FaultOutcome::Served(FaultSource::Zero),
        };
        FilledRun { outcome, pages: filled.pages }
    }

    /// Loads and fills a run of stored pages. Without the gate.
    pub(crate) async fn swap_in(&self, run: &Run<'_>, workspace: &mut Workspace) -> FilledRun {
        let first = self.load_run(run, workspace).await;
        self.platform.lock_shared().await;
        let filled = self.fill_loaded(run, first.load, first.pages, workspace);
        self.platform.unlock_shared();
        filled
    }

    /// In a shared section: nothing can be removed between the look at the words and the commits.
    fn fill_loaded(&self, run: &Run<'_>, load: Load, loaded: u32, workspace: &Workspace) -> FilledRun {
        let nothing = |outcome| FilledRun { outcome, pages: 0 };
        if self.event_in_progress.load(Ordering::Acquire) {
            // Words are being carried to where mremap moved their pages: what we hold may belong elsewhere by now. The mover waits for our locks.
            self.unlock_rest(run, 0);
            return nothing(FaultOutcome::Retry);
        }
        let source = match load {
            Load::Done(source) => source,
            Load::Lost => {
                let outcome = self.fill_lost(run);
                self.unlock_rest(run, 1);
                return nothing(outcome);
            }
        };
        let came = if run.length == 1 { Came::Alone } else { Came::InRun };
        let (mut outcome, mut pages, mut index) = (FaultOutcome::Retry, 0, 0);
        while index < loaded {
            if run.is_removed(index) {
                self.give_up_removed(run.slot(index), run.word(index));
                self.platform.wake(run.page(index));
                index += 1;
                continue;
            }
            let end = (index..loaded).find(|&other| run.is_removed(other)).unwrap_or(loaded);
            let contents = &workspace.pages[index as usize..end as usize];
            let filled = self.platform.copy_in(run.page(index), contents);
            for done in index..index + filled.pages {
                self.segment.swap_table().note_loaded(run.swap(done), came);
                self.commit(run.slot(done), Place::Present, Some(run.swap(done)));
            }
            if index == 0 {
                outcome = match filled.pages {
                    0 => self.not_done(filled.last),
                    _ => FaultOutcome::Served(source),
                };
            }
            pages += filled.pages;
            index += filled.pages;
            if index < end {
                // This page could not be filled now; what is behind it waits for a fault of its own.
                break;
            }
        }
        self.unlock_rest(run, index);
        self.note_resident(pages);
        FilledRun { outcome, pages }
    }

    /// No attempt gave the right content of the first page.
    fn fill_lost(&self, run: &Run<'_>) -> FaultOutcome {
        if run.is_removed(0) {
            self.unlock_rest(&Run { length: 1, ..*run }, 0);
            return FaultOutcome::Retry;
        }
        let install = self.platform.poison(run.first);
        let place = if install == Install::Done { Place::Present } else { Place::Swapped };
        self.commit(run.slot(0), place, Some(run.swap(0)));
        match install {
            Install::Done => FaultOutcome::Served(FaultSource::File),
            other => self.not_done(other),
        }
    }

    /// So many more pages are in RAM.
    pub(crate) fn note_resident(&self, pages: u32) {
        self.segment.budget().add(u64::from(pages) * PAGE_BYTES as u64);
    }
}
