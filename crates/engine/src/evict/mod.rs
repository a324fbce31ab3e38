//! Takes pages away where they lie, a batch at a time: a batch costs two flushes of the processors' page table caches,
//! and not one a page.
//!
//! Pages are chosen by a clock hand over the page table. What lies between two pages that go is protected with them, if
//! it may be, so that there are fewer calls: whoever writes such a page meets one more fault. Where that is seen to
//! happen often, pages that stay are left out, and there are more calls (docs/adr/0026).
//!
//! Must hold: no page is protected before its word is locked and the hazards were looked at, and none is dropped before
//! that was done once more, with a complete copy whose entry the word names. What a batch has begun and cannot end is
//! given back before it ends. Called by [`crate::reclaim`] and [`asked`], and by `host` and `sim`, whose kswapd evicts.
//! The walk is in docs/internals/evict.md.

pub(crate) mod asked;
pub(crate) mod behind;
mod candidate;
mod choose;
pub mod copies;
pub mod store;

use self::candidate::{Candidate, Fate, NO_RANGE, NOTHING, range_to_protect};
use crate::evict::store::{NotStored, Owners, StoreBuffers, disown_zspages, store_anew};
use crate::plant::{Plant, is_planted};
use crate::pool::release::put_entry;
use crate::space::AddressSpace;
use crate::workspace::Workspace;
use crate::world::World;
use core::cell::RefCell;
use uswap_codec as codec;
use uswap_core::budget::Signal;
use uswap_core::counters::Counter;
use uswap_core::drop_behind::Chosen;
use uswap_core::page_word::{EVICTORS_MAX, EvictedContent, EvictorId, PageWord, PageWordRef, Place, TryLock};
use uswap_core::pool::ZspageOwner;
use uswap_core::swap_table::LoadKind;
use uswap_units::{MmId, PAGE_BYTES, PageId, PageRange, SwapId};

/// Pages that one batch looks at: at 256 the flushes of a batch are 0.2 us a page where another processor runs the
/// program.
pub const BATCH_PAGES: usize = 256;

/// Pages without anything that are protected with what lies on both sides: to look at each costs some 3 ns, a call for
/// each side some microseconds.
const GAP_PAGES_MAX: u64 = 1024;

/// Between two pages that go, pages are protected for their neighbours' sake while fewer faults than this are expected
/// on them, in percent of one. Such a fault takes the program some 14 us with its signal, since it mostly waits for the
/// lock. A call more takes the evictor 9, for which the program does not wait.
const COVERED_PERCENT_MAX: u32 = 28;

/// What one batch brought.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Evicted {
    /// Pages that were dropped.
    pub pages: u64,
    /// Pages that were looked at.
    pub looked: u64,
    /// The pool had no room for a page.
    pub no_room: bool,
    /// The batch stopped at its limit: there is more to look at.
    pub looks_on: bool,
}

/// What one evictor works with: 280 KiB, of which a batch touches about 30.
pub struct Evictor {
    id: EvictorId,
    zspages: Zspages,
    /// Who chose the pages of the batch; `None`: the program.
    chosen: Option<Chosen>,
    batch: [Candidate; BATCH_PAGES],
    length: usize,
    ranges: [PageRange; BATCH_PAGES],
    workspace: Workspace,
}

/// The zspages in which an evictor may allocate.
struct Zspages {
    mm: MmId,
    owned: RefCell<ZspageOwner>,
}

impl Owners for Zspages {
    fn mm(&self) -> MmId {
        self.mm
    }
    fn with<T>(&self, change: impl FnOnce(&mut ZspageOwner) -> T) -> T {
        change(&mut self.owned.borrow_mut())
    }
}

impl Evictor {
    /// Evictor number `index` of [`EVICTORS_MAX`] of a process. `const`, so that it can be in a `static`.
    pub const fn new(index: u32) -> Evictor {
        assert!(index < EVICTORS_MAX);
        Evictor {
            id: EvictorId::new(index),
            zspages: Zspages { mm: MmId::new(0), owned: RefCell::new(ZspageOwner::new()) },
            chosen: None,
            batch: [NOTHING; BATCH_PAGES],
            length: 0,
            ranges: [NO_RANGE; BATCH_PAGES],
            workspace: Workspace::new(),
        }
    }

    /// Which of the evictors of its process it is.
    pub fn id(&self) -> EvictorId {
        self.id
    }

    /// In a forked child: what it owned is the parent's, one of whose threads may be at work with it for ever, as it
    /// looks here.
    pub fn reset(&mut self) {
        self.zspages.owned = RefCell::new(ZspageOwner::new());
        self.length = 0;
    }

    fn batch(&self) -> &[Candidate] {
        &self.batch[..self.length]
    }
}

impl<W: World> AddressSpace<'_, W> {
    /// Evicts one batch, of at most `pages_max` pages. Between two of its steps everything may go on: whoever touches
    /// one of the pages keeps it.
    pub async fn evict(&self, evictor: &mut Evictor, pages_max: u32) -> Evicted {
        let choose = |evictor: &mut Evictor| self.choose(evictor, pages_max as usize);
        let (looked, looks_on) = self.isolate(evictor, choose).await;
        Evicted { looked: looked as u64, looks_on, ..self.evict_isolated(evictor).await }
    }

    /// What became of the pages that are isolated; how they were looked for is the caller's to say.
    pub(crate) async fn evict_isolated(&self, evictor: &mut Evictor) -> Evicted {
        self.world.step().await;
        let no_room = self.store(evictor).await;
        self.world.step().await;
        let pages = self.drop_stored(evictor).await;
        if pages > 0 {
            self.world.raise(Signal::Room);
        }
        Evicted { pages, no_room, ..Evicted::default() }
    }

    /// The evictor has ended for now: others may allocate in what it has begun.
    pub fn disown_zspages(&self, evictor: &Evictor) {
        disown_zspages(self.segment, &self.world, &evictor.zspages);
    }

    /// Protects the pages that `choose` locks.
    pub(crate) async fn isolate<T>(
        &self,
        evictor: &mut Evictor,
        choose: impl FnOnce(&mut Evictor) -> T,
    ) -> T {
        evictor.zspages.mm = self.mm;
        self.world.lock_shared().await;
        evictor.length = 0;
        let chosen = choose(evictor);
        self.world.step().await;
        if evictor.length > 0 {
            // From here on, whoever publishes a hazard sees the locks; whoever has published one is seen.
            self.world.membarrier();
            self.world.step().await;
            self.protect(evictor).await;
            self.protecting.end(evictor.id);
        }
        self.world.unlock_shared();
        chosen
    }

    /// Protects the locked pages of a batch and gives their locks back: those that go are isolated then.
    async fn protect(&self, evictor: &mut Evictor) {
        let Evictor { batch, length, id, .. } = evictor;
        let batch = &mut batch[..*length];
        for candidate in batch.iter_mut().filter(|candidate| candidate.fate != Fate::Hole) {
            if self.world.names(candidate.page) && !is_planted(Plant::ProtectedUnderCall) {
                self.unlock(candidate);
            }
        }
        self.leave_out_written(batch);
        let mut rest = &mut batch[..];
        while !rest.is_empty() {
            let length = self.run_at(rest, *id).await;
            let (run, behind) = core::mem::take(&mut rest).split_at_mut(length);
            rest = behind;
            let protected = match range_to_protect(run) {
                Some(range) => {
                    self.world.step().await;
                    if !self.world.protect(range) && !is_planted(Plant::RefusedProtectForgotten) {
                        // Part of it may be protected now: the words must not say less.
                        run.iter_mut().for_each(|candidate| self.unlock_unprotected(candidate, range));
                        continue;
                    }
                    range
                }
                None => NO_RANGE,
            };
            for candidate in run.iter_mut() {
                self.commit_protected(candidate, *id, protected);
            }
        }
        let pages = batch.iter().map(|candidate| candidate.page);
        self.unlocked(pages);
    }

    /// How many of the first candidates can be protected with one call. What that covers beside them is said to those
    /// who fill pages ([`uswap_core::protecting`]).
    async fn run_at(&self, candidates: &[Candidate], id: EvictorId) -> usize {
        let follows = |pair: &[Candidate]| {
            let (before, next) = (&pair[0], &pair[1]);
            before.fate != Fate::Done
                && next.fate != Fate::Done
                && before.page < next.page
                && self.are_missing(PageRange::new(before.page.plus(1), next.page))
        };
        let length_of =
            |candidates: &[Candidate]| 1 + candidates.windows(2).take_while(|pair| follows(pair)).count();
        let length = length_of(candidates);
        if candidates[0].page.plus(length as u64 - 1) == candidates[length - 1].page {
            return length;
        }
        let Some(range) = range_to_protect(&candidates[..length]) else { return length };
        self.protecting.begin(id, range);
        self.world.step().await;
        // From here on, whoever fills a page sees the range; what was filled before is seen.
        length_of(&candidates[..length])
    }

    /// Gives the locks back of pages between two that go, where it is cheaper to protect these with a call each: what
    /// stays and was written lately may be written again soon.
    fn leave_out_written(&self, batch: &mut [Candidate]) {
        let goes = |candidate: &Candidate| candidate.fate == Fate::Chosen;
        let stays =
            |candidate: &&mut Candidate| candidate.fate == Fate::Stays && !candidate.word.is_protected();
        for between in batch.split_mut(goes) {
            let written = between.iter_mut().filter(stays).count() as u32;
            if written > 0 && self.covered_written.exceeds_among(written, COVERED_PERCENT_MAX) {
                between.iter_mut().filter(stays).for_each(|candidate| self.unlock(candidate));
            }
        }
    }

    fn unlock(&self, candidate: &mut Candidate) {
        if candidate.fate != Fate::Done {
            self.must_be_done(self.word_ref(candidate.page).unlock_unchanged());
            candidate.fate = Fate::Done;
        }
    }

    /// Whether all pages of a range are stored, so that protecting it changes nothing, but for what comes back
    /// meanwhile ([`uswap_core::protecting`]). What was never touched does not count: whoever fills that asks nobody.
    fn are_missing(&self, range: PageRange) -> bool {
        if range.pages() > GAP_PAGES_MAX {
            return false;
        }
        let mut next = range.start();
        for (page, word_ref) in self.word_refs_of(range) {
            if page != next || !word_ref.load().is_missing() {
                return false;
            }
            next = page.plus(1);
        }
        next == range.end()
    }

    /// Takes the protection away that a page of a range may have, and gives its copy up. Another evictor, which found
    /// the page missing, may be about to protect it with others: then its word goes on saying so.
    fn unlock_unprotected(&self, candidate: &mut Candidate, range: PageRange) {
        let is_there = matches!(candidate.fate, Fate::Chosen | Fate::Stays) && range.contains(candidate.page);
        if is_there {
            self.world.unprotect(PageRange::of_pages(candidate.page, 1));
        }
        if is_there && candidate.word.place() == Place::Present {
            let word_ref = self.word_ref(candidate.page);
            self.must_be_done(match self.protecting.covers(candidate.page) {
                true => word_ref.commit_protected(None),
                false => word_ref.commit_written(),
            });
            candidate.fate = Fate::Done;
            if let Some(copy) = candidate.word.swap() {
                put_entry(self.segment, &self.world, copy);
            }
        }
        self.unlock(candidate);
    }

    fn commit_protected(&self, candidate: &mut Candidate, id: EvictorId, protected: PageRange) {
        let word_ref = self.word_ref(candidate.page);
        match candidate.fate {
            Fate::Hole => self.must_be_done(word_ref.commit_hole()),
            Fate::Stays if protected.contains(candidate.page) => {
                if !candidate.word.is_protected() {
                    self.covered_written.note_case();
                }
                self.must_be_done(word_ref.commit_protected(candidate.word.swap()));
            }
            Fate::Stays => self.must_be_done(word_ref.unlock_unchanged()),
            Fate::Chosen => {
                candidate.word =
                    word_ref.commit_isolated(id).expect("nothing is dropped in a shared section");
                return;
            }
            Fate::LockedForDrop | Fate::Done => (),
        }
        candidate.fate = Fate::Done;
    }

    fn word_ref(&self, page: PageId) -> PageWordRef<'_> {
        self.table.word_ref(page).expect("tables of words that are not 0 stay")
    }

    /// Stores what is isolated, while there is room. True if there was none.
    async fn store(&self, evictor: &mut Evictor) -> bool {
        for index in 0..evictor.length {
            if evictor.batch[index].fate != Fate::Chosen {
                continue;
            }
            match self.store_one(evictor, index).await {
                StoreOutcome::Stored { entry, is_new: false } => evictor.batch[index].stored = Some(entry),
                StoreOutcome::Stored { entry, is_new: true } => {
                    self.name_copy(&mut evictor.batch[index], entry).await;
                }
                StoreOutcome::Changed => (),
                StoreOutcome::Incompressible => evictor.batch[index].rests = true,
                StoreOutcome::NoRoom => return true,
            }
            self.world.step().await;
        }
        false
    }

    /// The word of a page that was stored names its new entry from here on, and no longer an old one.
    async fn name_copy(&self, candidate: &mut Candidate, entry: SwapId) {
        if is_planted(Plant::CopyUnnamed) {
            (candidate.stored, candidate.is_stored_anew) = (Some(entry), true);
            return;
        }
        self.world.lock_shared().await;
        let word_ref = self.table.word_ref(candidate.page);
        let unneeded = match word_ref.and_then(|word_ref| word_ref.keep_copy(candidate.word, entry)) {
            Some(word) => {
                let old = candidate.word.swap();
                (candidate.word, candidate.stored, candidate.is_stored_anew) = (word, Some(entry), true);
                old
            }
            // Somebody has written or dropped the page meanwhile.
            None => Some(entry),
        };
        if let Some(unneeded) = unneeded {
            put_entry(self.segment, &self.world, unneeded);
        }
        self.world.unlock_shared();
    }

    async fn store_one(&self, evictor: &mut Evictor, index: usize) -> StoreOutcome {
        let Candidate { page, word, .. } = evictor.batch[index];
        let copy = word.swap().filter(|_| word.is_clean());
        let promoted = copy.filter(|&copy| self.should_promote(copy));
        let recompressed = copy.filter(|&copy| promoted.is_none() && self.should_recompress(copy));
        let replaced = promoted.or(recompressed);
        if let (Some(copy), None) = (copy, replaced)
            && self.may_rely_on(copy, page, word).await
        {
            self.incompressible.note_case();
            return StoreOutcome::Stored { entry: copy, is_new: false };
        }
        // While it is being read it stays: the program could write it else, and another evictor drop it.
        self.world.lock_shared().await;
        let word_ref = self.table.word_ref(page).filter(|word_ref| word_ref.lock_isolated(word));
        if let Some(word_ref) = word_ref {
            self.world.step().await;
            self.world.read(page, &mut evictor.workspace.page);
            let isolated = word_ref.commit_isolated(evictor.id);
            evictor.batch[index].word = isolated.expect("nothing is dropped in a shared section");
            self.unlocked(core::iter::once(page));
        }
        self.world.unlock_shared();
        if word_ref.is_none() {
            return StoreOutcome::Changed;
        }
        self.world.step().await;
        let Evictor { workspace, zspages, .. } = evictor;
        let Workspace { page: content, blob, scratch, .. } = workspace;
        let hash = codec::hash(content).0;
        let (effort, is_trial) = (self.effort(), self.is_trial());
        let incompressible = Some(&self.incompressible);
        let mut buffers = StoreBuffers { page: content, blob, scratch, effort, is_trial, incompressible };
        match store_anew(self.segment, &self.world, zspages, hash, &mut buffers).await {
            Ok(swap) => {
                self.counters().add(Counter::Promoted, u64::from(promoted.is_some()));
                self.counters().add(Counter::Recompressed, u64::from(recompressed.is_some()));
                StoreOutcome::Stored { entry: swap, is_new: true }
            }
            Err(why) => match replaced {
                // It goes back to where it came from.
                Some(copy) if self.may_rely_on(copy, page, evictor.batch[index].word).await => {
                    StoreOutcome::Stored { entry: copy, is_new: false }
                }
                _ if why == NotStored::Incompressible => StoreOutcome::Incompressible,
                _ => StoreOutcome::NoRoom,
            },
        }
    }

    /// Locks what is stored and unchanged, drops it, and says so; how many pages. What is not dropped stays as it is.
    async fn drop_stored(&self, evictor: &mut Evictor) -> u64 {
        self.world.lock_shared().await;
        let may_drop = self.may_evict();
        let batch = &mut evictor.batch[..evictor.length];
        for candidate in batch.iter_mut().filter(|candidate| candidate.fate == Fate::Chosen) {
            let word_ref = self.table.word_ref(candidate.page);
            let stored = candidate.stored.filter(|_| may_drop && !self.held.covers(candidate.page));
            let is_locked =
                stored.is_some() && word_ref.is_some_and(|word_ref| locks(word_ref, candidate.word));
            candidate.fate = if is_locked { Fate::LockedForDrop } else { Fate::Done };
            if !is_locked {
                self.give_up(candidate);
            }
        }
        self.world.step().await;
        self.world.membarrier();
        self.world.step().await;
        for candidate in batch.iter_mut().filter(|candidate| candidate.fate == Fate::LockedForDrop) {
            if self.world.names(candidate.page) && !is_planted(Plant::HazardIgnored) {
                self.keep_clean(candidate);
                candidate.fate = Fate::Done;
            }
        }
        let mut ranges = 0;
        for candidate in batch.iter().filter(|candidate| candidate.fate == Fate::LockedForDrop) {
            match evictor.ranges[..ranges].last_mut() {
                Some(last) if last.end() == candidate.page => *last = last.with_next(),
                _ => {
                    evictor.ranges[ranges] = PageRange::of_pages(candidate.page, 1);
                    ranges += 1;
                }
            }
        }
        if is_planted(Plant::UnlockedBeforeDrop) {
            let count = self.commit_dropped(evictor);
            self.world.step().await;
            let ranges = &evictor.ranges[..ranges];
            let _as_if_all_were = if ranges.is_empty() { 0 } else { self.world.drop_pages(ranges) };
            self.world.unlock_shared();
            return count;
        }
        let dropped = if ranges > 0 { self.world.drop_pages(&evictor.ranges[..ranges]) } else { 0 };
        if let Some(left) = evictor.ranges[..ranges].get(dropped)
            && !is_planted(Plant::RefusedDropForgotten)
        {
            // The kernel refuses: locked in memory, for instance.
            let from = left.start();
            let kept = |candidate: &&mut Candidate| candidate.fate == Fate::LockedForDrop;
            for candidate in batch.iter_mut().filter(kept).skip_while(|candidate| candidate.page != from) {
                self.keep_clean(candidate);
                candidate.fate = Fate::Done;
            }
        }
        self.world.step().await;
        let count = self.commit_dropped(evictor);
        self.world.unlock_shared();
        count
    }

    /// How many there were.
    fn commit_dropped(&self, evictor: &Evictor) -> u64 {
        let leaving = || evictor.batch().iter().filter(|candidate| candidate.fate == Fate::LockedForDrop);
        let (mut count, mut unchanged) = (0, 0);
        for candidate in leaving() {
            let stored = candidate.stored.expect("only what is stored is locked");
            let time = self.segment.reuse().note_stored();
            let content = match candidate.is_stored_anew {
                true => EvictedContent::StoredAnew,
                false => EvictedContent::Unchanged,
            };
            self.must_be_done(self.word_ref(candidate.page).commit_evicted(stored, time, content));
            count += 1;
            unchanged += u64::from(content == EvictedContent::Unchanged);
        }
        self.unlocked(leaving().map(|candidate| candidate.page));
        if let (Some(chosen), Some(first)) = (evictor.chosen, leaving().next()) {
            self.note_chosen(chosen, count, first.page);
        }
        self.counters().add(Counter::Unchanged, unchanged);
        self.record().refault_stats().note_taken(count);
        self.segment.budget().subtract(count * PAGE_BYTES as u64);
        count
    }

    /// The page is not dropped. If its word is as it was, nobody stores it any more; else somebody has it in hand.
    fn give_up(&self, candidate: &Candidate) {
        let word_ref = self.table.word_ref(candidate.page);
        let old = candidate.word.swap();
        let Some(word_ref) = word_ref.filter(|word_ref| word_ref.lock_isolated(candidate.word)) else {
            return;
        };
        if candidate.stored.is_some() {
            return self.keep_clean(candidate);
        }
        let page = PageRange::of_pages(candidate.page, 1);
        // Most of what rests is written before it is looked at again, and has no copy to lose.
        let rests = candidate.rests && old.is_none() && !self.protecting.covers_some(page);
        if rests {
            self.world.unprotect(page);
        }
        self.must_be_done(match rests {
            true => word_ref.commit_written_at_rest(),
            false => word_ref.commit_protected(old),
        });
        self.unlocked(core::iter::once(candidate.page));
    }

    /// A page that is stored and locked stays, with a clean copy.
    fn keep_clean(&self, candidate: &Candidate) {
        let stored = candidate.stored.expect("only what is stored is locked");
        self.segment.swap_table().note_loaded(stored, LoadKind::Alone);
        self.must_be_done(self.word_ref(candidate.page).commit_protected(Some(stored)));
        self.unlocked(core::iter::once(candidate.page));
    }

    /// Whether the page may go with the copy that its word names. If nobody has touched the word since it had this
    /// value, the copy is not given up by others.
    async fn may_rely_on(&self, copy: SwapId, page: PageId, word: PageWord) -> bool {
        self.world.lock_shared().await;
        let is_same = self.table.word_ref(page).is_some_and(|word_ref| word_ref.load() == word);
        self.world.unlock_shared();
        is_same && (self.segment.swap_table().rely_on(copy) || is_planted(Plant::DiscardedCopyTrusted))
    }
}

/// Locks a page that is isolated and stored, if nobody has touched its word since.
fn locks(word_ref: PageWordRef<'_>, isolated: PageWord) -> bool {
    if is_planted(Plant::DroppedAlthoughWritten) && word_ref.load().place() == Place::Present {
        return matches!(word_ref.try_lock(), TryLock::Locked(_));
    }
    word_ref.lock_isolated(isolated)
}

/// The outcome of storing a page.
enum StoreOutcome {
    Stored {
        entry: SwapId,
        is_new: bool,
    },
    /// Somebody has written or dropped the page.
    Changed,
    /// It would take as much room as now: it stays, while there is enough else.
    Incompressible,
    NoRoom,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_uses_an_evictor_that_its_parent_was_using_when_it_forked() {
        let mut evictor = std::boxed::Box::new(Evictor::new(0));
        // The thread that has it does not exist in the child.
        core::mem::forget(evictor.zspages.owned.borrow_mut());
        evictor.reset();
        evictor.zspages.with(|owned| assert_eq!(owned.take_all().count(), 0));
    }
}
