//! Serves a fault, in the thread that met it.
//!
//! Must hold: a word is locked from before its content is looked for until after the page is filled, so that whoever
//! sees *present* sees the content. A thread that waits, for a lock, a file or a queue, is outside of the gate.
//!
//! Called by `host` for a SIGBUS and for memory that a system call will touch, likewise by `sim`. How one fault is
//! served is told in docs/internals/fault.md.

pub mod load;
mod readahead;

pub use readahead::serve_readahead;

use self::load::{Load, Source};
use crate::evict::copies::Purpose;
use crate::plant::{Plant, is_planted};
use crate::pool::release::put_entry;
use crate::space::AddressSpace;
use crate::space::readahead::Window;
use crate::workspace::Workspace;
use crate::world::{FillAs, Install, Touch, World};
use core::ops::Range;
use uswap_core::counters::{Counter, FaultSource};
use uswap_core::page_table::Leaf;
use uswap_core::page_word::{Commit, PageWord, PageWordRef, Place, TryLock, Warmth};
use uswap_core::reuse::RefaultKind;
use uswap_core::swap_table::LoadKind;
use uswap_units::limits::RUN_PAGES_MAX;
use uswap_units::{BLOCK_PAGES, PageId, PageRange, SwapId, SwapOffset};

/// The outcome of a fault.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultOutcome {
    /// The thread goes on.
    Served(FaultSource),
    /// The address is not ours: the signal is the program's.
    NotOurs,
    /// No attempt gave the right content of the page: the signal is the program's, and it should be told.
    Lost,
}

/// Pages next to each other, stored or never touched, that one fault has locked.
struct FaultBatch<'a> {
    leaf: Leaf<'a>,
    first: PageId,
    words: [PageWord; RUN_PAGES_MAX],
    length: u32,
    /// The one of the fault: the first, or the last.
    met: u32,
}

impl<'a> FaultBatch<'a> {
    fn page(&self, index: u32) -> PageId {
        self.first.plus(u64::from(index))
    }
    fn word_ref(&self, index: u32) -> PageWordRef<'a> {
        self.leaf.word_ref(self.page(index))
    }
    fn swap(&self, index: u32) -> SwapId {
        self.words[index as usize].swap().expect("a swapped page names its entry")
    }
}

/// The pages of a batch that one call fills: one that is written is alone, since its copy is given up; the others come
/// together, as far as none of them was dropped, and all of them or none were rewritten.
fn part_of(batch: &FaultBatch<'_>, mut indices: Range<u32>, touch: Touch) -> Range<u32> {
    let start = indices.start;
    let is_rewritten = |index: u32| batch.words[index as usize].is_rewritten();
    let is_written = |index: u32| touch == Touch::Write && index == batch.met;
    let is_alike = |index: u32| is_rewritten(index) == is_rewritten(start) && !is_written(index);
    let goes_along =
        |index: &u32| *index == start || is_alike(*index) && !batch.word_ref(*index).load().is_removed();
    let most = if is_written(start) { 1 } else { batch.length };
    let length = indices.by_ref().take(most as usize).take_while(goes_along).count();
    start..start + length as u32
}

impl<'a, W: World> AddressSpace<'a, W> {
    /// Serves the fault of a thread that wants to do this to the page, which is missing or protected. It may wait for
    /// the lock on the word, and for the file.
    pub async fn fault(&self, page: PageId, touch: Touch, workspace: &mut Workspace) -> FaultOutcome {
        loop {
            self.world.lock_shared().await;
            let Some(leaf) = self.table.leaf(page) else {
                self.world.unlock_shared();
                return FaultOutcome::NotOurs;
            };
            match leaf.word_ref(page).try_lock() {
                TryLock::Unmanaged => {
                    self.world.unlock_shared();
                    return FaultOutcome::NotOurs;
                }
                TryLock::Busy => {
                    self.world.unlock_shared();
                    self.asleep(self.queues.wait(&self.world, page, leaf.word_ref(page))).await;
                }
                TryLock::Locked(word) => {
                    match self.serve(&leaf, page, word, touch, workspace).await {
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
        workspace: &mut Workspace,
    ) -> Option<FaultOutcome> {
        self.world.step().await;
        match word.place() {
            Place::Present => {
                let fault = self.touch_present(leaf, page, word, touch).await;
                self.world.unlock_shared();
                Some(fault)
            }
            Place::Fresh => {
                let (window, batch) = self.lock_window(leaf, page, word, touch);
                self.readahead.note(batch.page(0)..batch.page(batch.length), window);
                let fault = self.fill_zeros(&batch, touch).await;
                self.world.unlock_shared();
                Some(fault)
            }
            Place::Swapped => {
                let (window, batch) = self.lock_window(leaf, page, word, touch);
                if self.readahead.is_largest(window) {
                    self.ask_for_next(PageRange::new(batch.page(0), batch.page(batch.length)), window);
                }
                self.world.unlock_shared();
                self.swap_in(&batch, touch, window, workspace).await
            }
        }
    }

    /// A present page: its first write since it was protected, or somebody was faster. Writes in order take the
    /// protection of what comes next away too. Inside the gate.
    async fn touch_present(
        &self,
        leaf: &Leaf<'a>,
        page: PageId,
        word: PageWord,
        touch: Touch,
    ) -> FaultOutcome {
        if touch == Touch::Read || !word.is_protected() {
            self.must_be_done(leaf.word_ref(page).unlock_unchanged());
            self.unlocked(core::iter::once(page));
            return FaultOutcome::Served(FaultSource::Woken);
        }
        let is_protected = |word: PageWord| word.place() == Place::Present && word.is_protected();
        let was_written = |page: PageId| {
            let word = leaf.word_ref(page).load();
            word.place() == Place::Present && !word.is_protected()
        };
        let window = self.first_writes.take(page, touch, |pages| PageId::each(pages).all(was_written));
        let batch = self.lock_batch(*leaf, page, word, window, is_protected);
        let range = PageRange::new(batch.page(0), batch.page(batch.length));
        self.first_writes.note(range.start()..range.end(), window);
        let maybe_protected = self.protecting.covers_some(range);
        self.world.step().await;
        self.world.unprotect(range);
        self.world.step().await;
        for index in 0..batch.length {
            let (word, word_ref) = (batch.words[index as usize], batch.word_ref(index));
            if is_planted(Plant::StaleCleanCopy) && word.is_clean() {
                self.must_be_done(word_ref.unlock_unchanged());
                continue;
            }
            self.must_be_done(match maybe_protected {
                // It came back after an evictor had seen that it was missing.
                true => word_ref.commit_protected(None),
                false => word_ref.commit_written(),
            });
            if let Some(copy) = word.swap() {
                self.counters().add(Counter::CopyWritten, 1);
                if word.is_rewritten() {
                    self.rewritten.note_happened();
                }
                put_entry(self.segment, &self.world, copy);
            } else if word.isolated_by().is_none() {
                self.covered_written.note_happened();
            }
        }
        self.unlocked((0..batch.length).map(|index| batch.page(index)));
        // The kernel's page of zeros is copied by the kernel, when it is written.
        let zero_pages =
            batch.words[..batch.length as usize].iter().filter(|word| word.is_zero_page()).count();
        if zero_pages > 0 {
            self.note_resident(zero_pages as u32);
        }
        FaultOutcome::Served(FaultSource::Woken)
    }

    /// Locks what comes along with a page that is not there, and that the caller has locked: no more than there is room
    /// for while memory is short. In a shared section.
    fn lock_window(
        &self,
        leaf: &Leaf<'a>,
        page: PageId,
        word: PageWord,
        touch: Touch,
    ) -> (Window, FaultBatch<'a>) {
        let is_present = |page: PageId| leaf.word_ref(page).load().place() == Place::Present;
        let window = self.readahead.take(page, touch, |pages| PageId::each(pages).all(is_present));
        let now = window.at_most(self.pages_free());
        (window, self.lock_batch(*leaf, page, word, now, |next| next.place() == word.place()))
    }

    /// Adds the pages of a window to the one of the fault, which the caller has locked, while they are like this and
    /// nobody works on them. In a shared section.
    fn lock_batch(
        &self,
        leaf: Leaf<'a>,
        met: PageId,
        word: PageWord,
        window: Window,
        is_alike: impl Fn(PageWord) -> bool,
    ) -> FaultBatch<'a> {
        let mut words = [word; RUN_PAGES_MAX];
        let in_block = match window.is_down {
            true => met.since(leaf.first_page()) + 1,
            false => leaf.first_page().plus(BLOCK_PAGES).since(met),
        };
        let most = in_block.min(u64::from(window.pages)).min(RUN_PAGES_MAX as u64);
        let at = |distance: u64| if window.is_down { met.minus(distance) } else { met.plus(distance) };
        let mut length = 1;
        while length < most {
            let word_ref = leaf.word_ref(at(length));
            if !is_alike(word_ref.load()) {
                break;
            }
            let TryLock::Locked(next) = word_ref.try_lock() else { break };
            if !is_alike(next) {
                self.must_be_done(word_ref.unlock_unchanged());
                self.unlocked(core::iter::once(at(length)));
                break;
            }
            words[length as usize] = next;
            length += 1;
        }
        let (length, last) = (length as u32, length - 1);
        match window.is_down {
            true => {
                words[..length as usize].reverse();
                FaultBatch { leaf, first: at(last), words, length, met: length - 1 }
            }
            false => FaultBatch { leaf, first: met, words, length, met: 0 },
        }
    }

    /// Pages that hold nothing of ours: zeros, or what the program had there before they were managed. In the shared
    /// section in which they were locked.
    ///
    /// What is read first takes no memory until it is written: it is the kernel's page of zeros, and protected, so that
    /// its first write comes to us as any other growth does.
    async fn fill_zeros(&self, batch: &FaultBatch<'_>, touch: Touch) -> FaultOutcome {
        // What must stay resident, and writable, is filled with memory of its own.
        let stays = batch.words[..batch.length as usize].iter().any(|word| word.is_pinned());
        let touch = if stays { Touch::Write } else { touch };
        let filled = self.world.zero(batch.first, batch.length, touch);
        self.world.step().await;
        let range = PageRange::of_pages(batch.first, u64::from(filled.pages));
        let protection = match touch {
            Touch::Read if filled.pages > 0 => Some(self.world.protect(range)),
            _ => None,
        };
        let zero_pages = match protection {
            // What another thread wrote between the two is memory.
            Some(true) if is_planted(Plant::WrittenTakenForZeros) => u64::MAX,
            Some(true) => self.world.zero_pages(batch.first, filled.pages),
            _ => 0,
        };
        let mut without_memory = 0;
        // Behind the filled ones one may be there already: then it is the program's.
        let known = filled.pages + u32::from(filled.last == Install::AlreadyMapped);
        for index in 0..batch.length {
            let word_ref = batch.word_ref(index);
            self.must_be_done(match protection {
                _ if index >= known => word_ref.unlock_unchanged(),
                Some(_) if index < filled.pages && zero_pages & 1 << index != 0 => {
                    without_memory += 1;
                    word_ref.commit_zero_page()
                }
                // A part of it may be protected, whatever the kernel says.
                Some(_) if index < filled.pages => word_ref.commit_protected(None),
                _ => word_ref.commit_present(None, Warmth::Cold),
            });
        }
        self.unlocked((0..batch.length).map(|index| batch.page(index)));
        self.note_resident(filled.pages - without_memory);
        self.counters().add(Counter::ZeroFilled, u64::from(filled.pages));
        FaultOutcome::Served(match filled.pages {
            // It is there already; or unmapped, or out of memory: the program meets that when it tries again.
            0 => FaultSource::Woken,
            _ => FaultSource::Zero,
        })
    }

    /// Loads and fills a batch of stored pages. Outside of the gate. None: the first page was dropped meanwhile.
    async fn swap_in(
        &self,
        batch: &FaultBatch<'_>,
        touch: Touch,
        window: Window,
        workspace: &mut Workspace,
    ) -> Option<FaultOutcome> {
        let reuse = self.segment.reuse();
        for index in 0..batch.length {
            let how = if index == batch.met { RefaultKind::Demanded } else { RefaultKind::Prefetched };
            reuse.note_refault(batch.words[index as usize].evicted_at(), how);
        }
        let (loaded, load) = self.load_batch(batch, workspace).await;
        let loaded_pages = PageRange::new(batch.page(loaded.start), batch.page(loaded.end));
        self.world.lock_shared().await;
        match window.is_down {
            false if self.readahead.is_largest(window) => {
                self.readahead.note_next(self.skip_present(loaded_pages.end()), window);
            }
            _ => self.readahead.note(loaded_pages.start()..loaded_pages.end(), window),
        }
        let fault = self.fill_batch(batch, loaded, load, (touch, window), workspace).await;
        self.note_passed(loaded_pages, window);
        self.world.unlock_shared();
        fault
    }

    /// Loads the page of the fault, and of the others those between which and that one all could be loaded.
    async fn load_batch(&self, batch: &FaultBatch<'_>, workspace: &mut Workspace) -> (Range<u32>, Load) {
        let (segment, backing, cipher) = (self.segment, &self.world, &self.cipher);
        let source = Source { segment, backing, cipher, record: self.record() };
        let table = self.segment.swap_table();
        workspace.file_holds = SwapOffset::NOTHING;
        let (mut loaded, mut load) = (0..0, Load::Lost);
        for index in 0..batch.length {
            let id = batch.swap(index);
            let reach = source.reach(|index| batch.swap(index), index..batch.length);
            if index == batch.met {
                load = source.load(id, index as usize, reach, workspace).await;
                if load == Load::Lost {
                    return (index..index + 1, load);
                }
            } else {
                let (word, hash) = (table.load(id), table.hash(id));
                if source.attempt((id, hash), word, index as usize, reach, workspace).await.is_err() {
                    if index > batch.met {
                        break;
                    }
                    loaded = index + 1..index + 1;
                    continue;
                }
            }
            loaded.end = index + 1;
        }
        (loaded, load)
    }

    /// In a shared section: nothing is dropped between the look at the words and the commits.
    async fn fill_batch(
        &self,
        batch: &FaultBatch<'_>,
        loaded: Range<u32>,
        load: Load,
        (touch, window): (Touch, Window),
        workspace: &Workspace,
    ) -> Option<FaultOutcome> {
        let mut fault = None;
        let (mut index, mut filled_count) = (0, 0);
        while index < batch.length {
            if batch.word_ref(index).load().is_removed() {
                batch.word_ref(index).finish_removed();
                put_entry(self.segment, &self.world, batch.swap(index));
                index += 1;
                continue;
            }
            let is_here = load != Load::Lost && loaded.contains(&index);
            let part = if is_here { part_of(batch, index..loaded.end, touch) } else { index..index + 1 };
            let purpose = match touch {
                _ if part.start == batch.met => Purpose::For(touch),
                Touch::Write if window.is_written() => Purpose::ProbablyToWrite,
                _ => Purpose::For(Touch::Read),
            };
            let filled = match is_here {
                true => self.fill_part(batch, part.clone(), purpose, workspace).await,
                false => 0,
            };
            for left in index + filled..part.end {
                self.must_be_done(batch.word_ref(left).unlock_unchanged());
            }
            filled_count += filled;
            if part.contains(&batch.met) {
                fault = Some(match load {
                    Load::Lost => FaultOutcome::Lost,
                    // Unmapped, or no memory: the program tries again, and finds out.
                    Load::Done(_) if part.start + filled <= batch.met => {
                        FaultOutcome::Served(FaultSource::Woken)
                    }
                    Load::Done(source) => FaultOutcome::Served(source),
                });
            }
            index = part.end;
        }
        self.unlocked((0..batch.length).map(|index| batch.page(index)));
        self.note_resident(filled_count);
        self.counters().add(Counter::ReadAhead, u64::from(filled_count.saturating_sub(1)));
        fault
    }

    /// Pages of a batch that are wanted for the same, with their contents; how many could be filled, from the front.
    async fn fill_part(
        &self,
        batch: &FaultBatch<'_>,
        part: Range<u32>,
        purpose: Purpose,
        workspace: &Workspace,
    ) -> u32 {
        let kind = if batch.length == 1 { LoadKind::Alone } else { LoadKind::InBatch };
        let first = batch.page(part.start);
        let gives_up = self.gives_copies_up(part.len(), batch.words[part.start as usize], purpose, kind);
        let access = if gives_up { FillAs::Writable } else { FillAs::Protected };
        let maybe_protected = self.protecting.covers_some(PageRange::new(first, batch.page(part.end)))
            && !is_planted(Plant::UnseenProtection);
        self.world.step().await;
        let contents = &workspace.pages[part.start as usize..part.end as usize];
        let filled = self.world.fill(first, contents, access);
        assert_ne!(filled.last, Install::AlreadyMapped, "a page that is stored is in the program too");
        for index in part.start..part.start + filled.pages {
            let (word, swap, word_ref) =
                (batch.words[index as usize], batch.swap(index), batch.word_ref(index));
            let warmth = match self.fairness().note_came_back(word).is_soon() {
                true => Warmth::Warmer { round: self.hand.round_of(first) },
                false => Warmth::Cold,
            };
            if gives_up && !is_planted(Plant::LostDirty) {
                if maybe_protected {
                    self.covered_written.note_case();
                }
                self.must_be_done(match maybe_protected {
                    true => word_ref.commit_protected(None),
                    false if purpose == Purpose::For(Touch::Write) => word_ref.commit_rewritten(warmth),
                    false => word_ref.commit_present(None, warmth),
                });
                put_entry(self.segment, &self.world, swap);
            } else {
                if word.is_rewritten() {
                    self.rewritten.note_case();
                }
                self.segment.swap_table().note_loaded(swap, kind);
                self.must_be_done(word_ref.commit_present(Some(swap), warmth));
            }
        }
        filled.pages
    }

    /// What `look` finds of a page whose word says that it is present, while nobody else works on it. None: it is
    /// elsewhere by now, or somebody is at work on it.
    pub async fn look_at_present<T>(&self, page: PageId, look: impl FnOnce(PageWord) -> T) -> Option<T> {
        self.world.lock_shared().await;
        let found = self.table.word_ref(page).and_then(|word_ref| match word_ref.try_lock() {
            TryLock::Locked(word) => {
                let found = (word.place() == Place::Present).then(|| look(word));
                self.must_be_done(word_ref.unlock_unchanged());
                self.unlocked(core::iter::once(page));
                found
            }
            TryLock::Busy | TryLock::Unmanaged => None,
        });
        self.world.unlock_shared();
        found
    }

    /// What was locked in a shared section cannot have been dropped in it.
    pub(super) fn must_be_done(&self, commit: Commit) {
        match commit {
            Commit::Done => (),
            Commit::Removed(_) => unreachable!("words are dropped with the gate exclusive, and it is shared"),
        }
    }

    /// True when the kernel may do this to the page now: nothing is missing or protected, as far as the word knows.
    /// Whoever asks has published a hazard before.
    pub fn is_ready(&self, page: PageId, touch: Touch) -> bool {
        let Some(word_ref) = self.table.word_ref(page) else { return true };
        let word = word_ref.load();
        if !word.is_managed() {
            return true;
        }
        let present = word.place() == Place::Present && !word.is_locked();
        present && (touch == Touch::Read || !word.is_protected())
    }
}
