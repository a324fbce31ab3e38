//! Serves a fault, in the thread that met it.

use super::space::AddressSpace;
use super::world::{FillAs, World};
use crate::load::{Load, Source};
use crate::platform::{Install, Touch};
use crate::release::put_entry;
use crate::streams::Window;
use crate::workspace::Workspace;
use core::ops::Range;
use uswap_core::counters::{Counter, FaultSource};
use uswap_core::page_table::Leaf;
use uswap_core::page_word::{Commit, PageSlot, PageWord, Place, TryLock, Warmth};
use uswap_core::reuse::Back;
use uswap_core::swap_table::Came;
use uswap_units::limits::RUN_PAGES_MAX;
use uswap_units::{BLOCK_PAGES, PageId, PageRange, SwapId};

/// What came of a fault.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The thread goes on.
    Served(FaultSource),
    /// The address is not ours: the signal is the program's.
    NotOurs,
    /// No attempt gave the right content of the page: the signal is the program's, and it should be told.
    Lost,
}

/// Pages next to each other, stored or never touched, that one fault has locked.
struct Run<'a> {
    leaf: Leaf<'a>,
    first: PageId,
    words: [PageWord; RUN_PAGES_MAX],
    length: u32,
}

impl<'a> Run<'a> {
    fn page(&self, index: u32) -> PageId {
        self.first.plus(u64::from(index))
    }
    fn slot(&self, index: u32) -> PageSlot<'a> {
        self.leaf.slot(self.page(index))
    }
    fn swap(&self, index: u32) -> SwapId {
        self.words[index as usize].swap().expect("a swapped page names its entry")
    }
}

/// The pages of a run that one call fills: one that is written is alone, since its copy is given up; the others come
/// together, as far as none of them was dropped, and all of them or none were rewritten.
fn part_of(run: &Run<'_>, mut indices: Range<u32>, touch: Touch) -> Range<u32> {
    let start = indices.start;
    let is_rewritten = |index: u32| run.words[index as usize].is_rewritten();
    let is_alike = |index: u32| is_rewritten(index) == is_rewritten(start);
    let goes_along =
        |index: &u32| *index == start || is_alike(*index) && !run.slot(*index).load().is_removed();
    let most = if touch == Touch::Write { 1 } else { run.length };
    let length = indices.by_ref().take(most as usize).take_while(goes_along).count();
    start..start + length as u32
}

impl<'a, W: World> AddressSpace<'a, W> {
    /// Serves the fault of a thread that wants to do this to the page, which is missing or protected. It may wait for
    /// the lock on the word, and for the file.
    pub async fn fault(&self, page: PageId, touch: Touch, workspace: &mut Workspace) -> Fault {
        let window = self.streams.window(page);
        loop {
            self.world.lock_shared().await;
            let Some(leaf) = self.table.leaf(page) else {
                self.world.unlock_shared();
                return Fault::NotOurs;
            };
            match leaf.slot(page).try_lock() {
                TryLock::Unmanaged => {
                    self.world.unlock_shared();
                    return Fault::NotOurs;
                }
                TryLock::Busy => {
                    self.world.unlock_shared();
                    self.queues.wait(&self.world, page, leaf.slot(page)).await;
                }
                TryLock::Locked(word) => {
                    match self.serve(&leaf, page, word, touch, window, workspace).await {
                        Some(fault) => return fault,
                        // Dropped meanwhile: what it is now is looked at anew.
                        None => continue,
                    }
                }
            }
        }
    }

    /// With the word locked and inside the gate, which is left.
    async fn serve(
        &self,
        leaf: &Leaf<'a>,
        page: PageId,
        word: PageWord,
        touch: Touch,
        window: Window,
        workspace: &mut Workspace,
    ) -> Option<Fault> {
        self.world.step().await;
        match word.place() {
            Place::Present => {
                let fault = self.touch_present(leaf.slot(page), page, word, touch).await;
                self.world.unlock_shared();
                Some(fault)
            }
            Place::Fresh => {
                let run = self.lock_run(*leaf, page, word, window.pages.min(self.pages_free()));
                self.expect_next(&run, 0, window);
                let fault = self.fill_zeros(&run, touch);
                self.world.unlock_shared();
                Some(fault)
            }
            Place::Swapped => {
                let run = self.lock_run(*leaf, page, word, window.pages.min(self.pages_free()));
                self.world.unlock_shared();
                self.swap_in(&run, touch, window, workspace).await
            }
            Place::Staged(_) => unreachable!("nothing is staged in place"),
        }
    }

    /// A present page: its first write since it was protected, or somebody was faster.
    async fn touch_present(&self, slot: PageSlot<'a>, page: PageId, word: PageWord, touch: Touch) -> Fault {
        if touch == Touch::Read || !word.is_protected() {
            self.must_be_done(slot.unlock_unchanged());
            self.unlocked(core::iter::once(page));
            return Fault::Served(FaultSource::Woken);
        }
        let maybe_protected = self.protecting.covers(page);
        self.world.step().await;
        self.world.unprotect(PageRange::of_pages(page, 1));
        self.world.step().await;
        self.must_be_done(match maybe_protected {
            // It came back after an evictor had seen that it was missing.
            true => slot.commit_protected(None),
            false => slot.commit_written(),
        });
        self.unlocked(core::iter::once(page));
        if let Some(copy) = word.swap() {
            self.counters().add(Counter::CopyWritten, 1);
            if word.is_rewritten() {
                self.rewritten.note_happened();
            }
            put_entry(self.segment, &self.world, copy);
        } else if word.isolated_by().is_none() {
            self.covered_written.note_happened();
        }
        Fault::Served(FaultSource::Woken)
    }

    /// Adds pages behind the first, which the caller has locked, while they are at the same kind of place and nobody
    /// works on them; at most `pages` in all. In a shared section.
    fn lock_run(&self, leaf: Leaf<'a>, first: PageId, word: PageWord, pages: u32) -> Run<'a> {
        let mut run = Run { leaf, first, words: [word; RUN_PAGES_MAX], length: 1 };
        let block_end = leaf.first_page().plus(BLOCK_PAGES);
        while run.length < pages.min(RUN_PAGES_MAX as u32) && run.page(run.length) < block_end {
            let slot = run.slot(run.length);
            if slot.load().place() != word.place() {
                break;
            }
            let TryLock::Locked(next) = slot.try_lock() else { break };
            if next.place() != word.place() {
                self.must_be_done(slot.unlock_unchanged());
                self.unlocked(core::iter::once(run.page(run.length)));
                break;
            }
            run.words[run.length as usize] = next;
            run.length += 1;
        }
        run
    }

    /// The next fault of the stream is expected behind the run.
    fn expect_next(&self, run: &Run<'_>, along: u32, window: Window) {
        let behind = run.page(run.length);
        self.streams.note(behind, behind, along, window);
    }

    /// Pages that hold nothing of ours: zeros, or what the program had there before they were managed. In the shared
    /// section in which they were locked.
    fn fill_zeros(&self, run: &Run<'_>, touch: Touch) -> Fault {
        let filled = self.world.zero(run.first, run.length, touch);
        // Behind the filled ones one may be there already: then it is the program's.
        let known = filled.pages + u32::from(filled.last == Install::AlreadyMapped);
        for index in 0..run.length {
            let slot = run.slot(index);
            self.must_be_done(match index < known {
                true => slot.commit_present(None, Warmth::Cold),
                false => slot.unlock_unchanged(),
            });
        }
        self.unlocked((0..run.length).map(|index| run.page(index)));
        self.note_resident(filled.pages);
        self.counters().add(Counter::ZeroFilled, u64::from(filled.pages));
        match filled.last {
            _ if filled.pages > 0 => Fault::Served(FaultSource::Zero),
            Install::AlreadyMapped => Fault::Served(FaultSource::Woken),
            // Unmapped or out of memory: the program meets that when it tries again.
            _ => Fault::Served(FaultSource::Woken),
        }
    }

    /// Loads and fills a run of stored pages. Outside of the gate. None: the first page was dropped meanwhile.
    async fn swap_in(
        &self,
        run: &Run<'_>,
        touch: Touch,
        window: Window,
        workspace: &mut Workspace,
    ) -> Option<Fault> {
        let reuse = self.segment.reuse();
        for index in 0..run.length {
            let how = if index == 0 { Back::ByFault } else { Back::Along };
            reuse.note_back(run.words[index as usize].left_at(), how);
        }
        let source = Source { segment: self.segment, backing: &self.world };
        let reach = source.reach(|index| run.swap(index), 0..run.length);
        let load = source.load(run.swap(0), reach, workspace).await;
        let mut loaded = 1;
        while load != Load::Lost && loaded < run.length {
            let id = run.swap(loaded);
            let (word, hash) = (self.segment.swap_table().load(id), self.segment.swap_table().hash(id));
            let reach = source.reach(|index| run.swap(index), loaded..run.length);
            if source.attempt((id, hash), word, loaded as usize, reach, workspace).await.is_none() {
                break;
            }
            loaded += 1;
        }
        self.expect_next(run, loaded - 1, window);
        self.world.lock_shared().await;
        let fault = self.fill_run(run, loaded, load, touch, workspace).await;
        self.world.unlock_shared();
        fault
    }

    /// In a shared section: nothing is dropped between the look at the words and the commits.
    async fn fill_run(
        &self,
        run: &Run<'_>,
        loaded: u32,
        load: Load,
        touch: Touch,
        workspace: &Workspace,
    ) -> Option<Fault> {
        let mut fault = None;
        let (mut index, mut came) = (0, 0);
        while index < run.length {
            if run.slot(index).load().is_removed() {
                run.slot(index).finish_removed();
                put_entry(self.segment, &self.world, run.swap(index));
                index += 1;
                continue;
            }
            let touch = if index == 0 { touch } else { Touch::Read };
            let is_here = index < loaded && load != Load::Lost && (index == 0 || fault.is_some());
            let part = if is_here { part_of(run, index..loaded, touch) } else { index..index + 1 };
            let filled = match is_here {
                true => self.fill_part(run, part.clone(), touch, workspace).await,
                false => 0,
            };
            for left in index + filled..part.end {
                self.must_be_done(run.slot(left).unlock_unchanged());
            }
            came += filled;
            if index == 0 {
                fault = Some(match load {
                    Load::Lost => Fault::Lost,
                    // Unmapped, or no memory: the program tries again, and finds out.
                    Load::Done(_) if filled == 0 => Fault::Served(FaultSource::Woken),
                    Load::Done(source) => Fault::Served(source),
                });
            }
            index = part.end;
        }
        self.unlocked((0..run.length).map(|index| run.page(index)));
        self.note_resident(came);
        if came > 0 {
            self.counters().add(Counter::ReadAhead, u64::from(came - 1));
        }
        fault
    }

    /// Pages of a run that are wanted for the same, with their contents; how many could be filled, from the front.
    async fn fill_part(&self, run: &Run<'_>, part: Range<u32>, touch: Touch, workspace: &Workspace) -> u32 {
        let came = if run.length == 1 { Came::Alone } else { Came::InRun };
        let first = run.page(part.start);
        let gives_up = self.gives_copies_up(part.len(), run.words[part.start as usize], touch, came);
        let access = if gives_up { FillAs::Writable } else { FillAs::Protected };
        let maybe_protected = self.protecting.covers(first);
        self.world.step().await;
        let contents = &workspace.pages[part.start as usize..part.end as usize];
        let filled = self.world.fill(first, contents, access);
        assert_ne!(filled.last, Install::AlreadyMapped, "a page that is stored is in the program too");
        for index in part.start..part.start + filled.pages {
            let (word, swap, slot) = (run.words[index as usize], run.swap(index), run.slot(index));
            let (distance, resident) = self.sharer().note_came_back(word, 1);
            let warmth = if distance <= resident { Warmth::Warmer } else { Warmth::Cold };
            if gives_up {
                self.must_be_done(match maybe_protected {
                    true => slot.commit_protected(None),
                    false if touch == Touch::Write => slot.commit_rewritten(warmth),
                    false => slot.commit_present(None, warmth),
                });
                put_entry(self.segment, &self.world, swap);
            } else {
                if word.is_rewritten() {
                    self.rewritten.note_case();
                }
                self.segment.swap_table().note_loaded(swap, came);
                self.must_be_done(slot.commit_present(Some(swap), warmth));
            }
        }
        filled.pages
    }

    /// What was locked in a shared section cannot have been dropped in it.
    pub(super) fn must_be_done(&self, commit: Commit) {
        match commit {
            Commit::Done => (),
            Commit::Removed(_) => unreachable!("words are dropped with the gate exclusive, and it is shared"),
        }
    }

    /// True when the kernel may do this to the page now: nothing is missing or protected, as far as the word knows. Who
    /// asks has published a hazard before.
    pub fn is_ready(&self, page: PageId, touch: Touch) -> bool {
        let Some(slot) = self.table.slot(page) else { return true };
        let word = slot.load();
        if !word.is_managed() {
            return true;
        }
        let present = word.place() == Place::Present && !word.is_locked();
        present && (touch == Touch::Read || !word.is_protected())
    }
}
