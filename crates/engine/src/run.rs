//! A run: pages next to each other that one task has locked and fills together, with one call into the kernel.
//!
//! Its first page is the one that a thread waits for. The others come along when faults come in order: see
//! [`crate::streams`].

use crate::engine::Engine;
use crate::fault::FaultOutcome;
use crate::load::Load;
use crate::platform::{Filled, Install, Platform, Touch, Wake};
use crate::streams::Window;
use crate::workspace::Workspace;
use core::ops::Range;
use core::sync::atomic::Ordering;
use uswap_core::counters::{Counter, FaultSource};
use uswap_core::page_table::Leaf;
use uswap_core::page_word::{Commit, PageSlot, PageWord, Place, TryLock};
use uswap_core::reuse::Back;
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
    /// What the thread that waits for the first page does to it.
    touch: Touch,
}

impl<'a> Run<'a> {
    /// The same, for a thread that does that to the first page.
    pub(crate) fn for_touch(self, touch: Touch) -> Run<'a> {
        Run { touch, ..self }
    }
    /// Pages in it.
    pub(crate) fn length(&self) -> u32 {
        self.length
    }
    /// The first one.
    pub(crate) fn first(&self) -> PageId {
        self.first
    }
    /// The page behind it.
    pub(crate) fn end(&self) -> PageId {
        self.page(self.length)
    }
    fn page(&self, index: u32) -> PageId {
        self.first.plus(u64::from(index))
    }
    /// A part of a block of which the caller has locked all words.
    pub(crate) fn of_locked(leaf: Leaf<'a>, first: PageId, length: u32) -> Run<'a> {
        let word = leaf.slot(first).load();
        let mut run = Run { leaf, first, words: [word; RUN_PAGES_MAX], length, touch: Touch::Read };
        for index in 1..length {
            run.words[index as usize] = run.slot(index).load();
        }
        run
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

impl FilledRun {
    /// There is no room yet.
    pub(crate) const PUT_OFF: FilledRun = FilledRun { outcome: FaultOutcome::Retry, pages: 0 };
}

impl<P: Platform> Engine<'_, P> {
    /// Adds pages behind `first`, which the caller has locked, while they are at the same kind of place and nobody
    /// works on them; at most `window` in all. In a shared section.
    pub(crate) fn lock_run<'a>(&self, leaf: Leaf<'a>, first: PageId, word: PageWord, window: u32) -> Run<'a> {
        let mut run = Run { leaf, first, words: [word; RUN_PAGES_MAX], length: 1, touch: Touch::Read };
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

    /// Gives the locks from `from` on back, the words unchanged. In a shared section; the pages may have been removed
    /// since they were locked.
    pub(crate) fn unlock_rest(&self, run: &Run<'_>, from: u32) {
        for index in from..run.length {
            let word = run.word(index);
            if let Commit::Removed(_) = run.slot(index).commit(word.place(), word.swap()) {
                self.give_up_removed(run.slot(index), word);
                self.platform.wake(run.page(index), 1);
            }
        }
    }

    /// Fills a run of pages that hold nothing of ours with zeros. In the shared section in which it was locked.
    pub(crate) fn fill_zeros(&self, run: &Run<'_>, window: Window) -> FilledRun {
        self.expect_next(run.end(), 0, window);
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

    /// Loads and fills a run of stored pages, in parts as large as the buffers may be. The thread that waits for the
    /// first page goes on when all are there: waking it costs as much as filling several. Without the gate.
    pub(crate) async fn swap_in(
        &self,
        run: &Run<'_>,
        window: Window,
        workspace: &mut Workspace,
    ) -> FilledRun {
        let reuse = self.segment.reuse();
        for index in 0..run.length {
            let how = if index == 0 { Back::ByFault } else { Back::Along };
            reuse.note_back(run.word(index).left_at(), how);
        }
        self.ask_ahead(run, window.depth);
        let ahead = self.take_ahead(run).await;
        let load = self.load_start(run, &ahead, workspace).await;
        let wake = if run.length > self.part_pages { Wake::Later } else { Wake::Now };
        let mut filled = FilledRun { outcome: FaultOutcome::Retry, pages: 0 };
        let (mut start, mut loaded) = (0, 1);
        while start < run.length {
            let end = run.length.min(start + self.part_pages);
            if load != Load::Lost {
                loaded = self.load_part(run, &ahead, start..end, loaded, workspace).await;
            }
            if end == run.length {
                self.expect_next(run.end(), run.length - 1, window);
            }
            self.platform.lock_shared().await;
            let reached = self.fill_part(run, start..start + loaded, load, wake, workspace, &mut filled);
            let goes_on = reached == end && load != Load::Lost;
            if !goes_on {
                // This page could not be filled now; what is behind it waits for a fault of its own.
                self.unlock_rest(run, reached);
            }
            self.platform.unlock_shared();
            if !goes_on {
                break;
            }
            (start, loaded) = (end, 0);
        }
        if wake == Wake::Later && filled.pages > 0 {
            self.platform.wake(run.first, run.length);
        }
        filled
    }

    /// In a shared section: nothing can be removed between the look at the words and the commits. The index behind the
    /// last page that is done with.
    fn fill_part(
        &self,
        run: &Run<'_>,
        part: Range<u32>,
        load: Load,
        wake: Wake,
        workspace: &Workspace,
        filled: &mut FilledRun,
    ) -> u32 {
        if self.event_in_progress.load(Ordering::Acquire) {
            // Words are being carried to where mremap moved their pages: what we hold may belong elsewhere by now. The
            // mover waits for our locks.
            return part.start;
        }
        let Load::Done(source) = load else {
            filled.outcome = self.fill_lost(run);
            return 1;
        };
        let came = if run.length == 1 { Came::Alone } else { Came::InRun };
        let mut index = part.start;
        while index < part.end {
            if run.is_removed(index) {
                self.give_up_removed(run.slot(index), run.word(index));
                self.platform.wake(run.page(index), 1);
                index += 1;
                continue;
            }
            let end = (index..part.end).find(|&other| run.is_removed(other)).unwrap_or(part.end);
            let contents = &workspace.pages[(index - part.start) as usize..(end - part.start) as usize];
            let copied = self.platform.copy_in(run.page(index), contents, wake);
            for done in index..index + copied.pages {
                let touch = if done == 0 { run.touch } else { Touch::Read };
                self.commit_loaded(run.slot(done), touch, run.swap(done), came);
            }
            if index == 0 {
                filled.outcome = match copied.pages {
                    0 => self.not_done(copied.last),
                    _ => FaultOutcome::Served(source),
                };
            }
            filled.pages += copied.pages;
            self.note_resident(copied.pages);
            index += copied.pages;
            if index < end {
                break;
            }
        }
        index
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
