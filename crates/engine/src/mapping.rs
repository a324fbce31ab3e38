//! What mapping calls of the program do to the words.
//!
//! Must hold: the caller makes the call itself, and is inside the gate exclusively from before it until the words are
//! changed: so nobody sees one without the other.
//!
//! A word that is locked belongs to a fault that waits for its content outside of the gate. Dropping leaves it to that
//! fault to clean up; what carries words away has to wait for it first: see [`AddressSpace::first_locked`].
//!
//! Called by `host` for each mapping call, likewise by `sim`, and by [`crate::fork`].

use crate::plant::{Plant, is_planted};
use crate::pool::release::put_entries;
use crate::space::AddressSpace;
use crate::world::World;
use core::iter;
use uswap_core::counters::Counter;
use uswap_core::page_word::{Afterwards, PageWord, PageWordRef, Place, Remove};
use uswap_units::{BLOCK_PAGES, PageId, PageRange};

/// There are no table pages left: the rest of the memory stays unmanaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TablesFull;

/// Stored, protected, or being worked on.
fn is_away(word: PageWord) -> bool {
    word.is_managed() && (word.is_locked() || word.is_protected() || word.place() == Place::Swapped)
}

impl<'a, W: World> AddressSpace<'a, W> {
    pub(super) fn word_refs_of(
        &self,
        range: PageRange,
    ) -> impl Iterator<Item = (PageId, PageWordRef<'a>)> + use<'a, W> {
        self.table.leaves(range).flat_map(move |leaf| leaf.word_refs_in(range))
    }

    /// Takes a range under management that is registered: what is mapped there is the program's own, and a touch of the
    /// rest gets zeros. Pages that have a word keep it, also one that says that the page must not be evicted.
    pub fn adopt(&self, range: PageRange) -> Result<(), TablesFull> {
        let mut adopted = 0;
        let mut at = range.start();
        while at < range.end() {
            let leaf = self.table.leaf_or_allocate(at).map_err(|_| TablesFull)?;
            for (_, word_ref) in leaf.word_refs_in(range).filter(|(_, word_ref)| word_ref.adopt()) {
                adopted += 1;
                word_ref.activate();
            }
            at = leaf.first_page().plus(BLOCK_PAGES);
        }
        let record = self.record();
        record.set_managed_pages(record.managed_pages() + adopted);
        self.counters().add(Counter::Registered, adopted);
        Ok(())
    }

    /// The content of the range is gone (MADV_DONTNEED, MADV_FREE), or all of it (munmap).
    pub fn drop_words(&self, range: PageRange, afterwards: Afterwards) {
        let mut dropped = 0;
        let survives = |word_ref: PageWordRef<'_>| {
            is_planted(Plant::DropForgotten)
                && afterwards == Afterwards::StillManaged
                && word_ref.load().place() == Place::Swapped
        };
        let ends = self.word_refs_of(range).filter(|(_, word_ref)| !survives(*word_ref));
        let entries = ends.filter_map(|(_, word_ref)| match word_ref.remove(afterwards) {
            Remove::Was(word) => {
                dropped += 1;
                word.swap()
            }
            Remove::Deferred | Remove::Unmanaged => None,
        });
        put_entries(self.segment, &self.world, entries);
        if afterwards == Afterwards::Unmanaged {
            let record = self.record();
            record.set_managed_pages(record.managed_pages().saturating_sub(dropped));
            self.table.free_empty_leaves(range);
        }
    }

    /// A page of the range whose word somebody has locked: to be waited for outside of the gate, with
    /// [`wait_unlocked`](Self::wait_unlocked), before the range is moved.
    pub fn first_locked(&self, range: PageRange) -> Option<PageId> {
        self.word_refs_of(range).find(|(_, word_ref)| word_ref.load().is_locked()).map(|(page, _)| page)
    }

    /// Waits until the word of a page is unlocked, or for no reason.
    pub async fn wait_unlocked(&self, page: PageId) {
        if let Some(word_ref) = self.table.word_ref(page) {
            self.queues.wait(&self.world, page, word_ref).await;
        }
    }

    /// Makes room for the words of a range, so that [`carry`](Self::carry) to it cannot fail.
    pub fn reserve_words(&self, range: PageRange) -> Result<(), TablesFull> {
        let mut at = range.start();
        while at < range.end() {
            at = self.table.leaf_or_allocate(at).map_err(|_| TablesFull)?.first_page().plus(BLOCK_PAGES);
        }
        Ok(())
    }

    /// The pages of `from` are at `to` now, where nothing of ours was. No word of them is locked. What the kernel
    /// protected is not protected any more, so that is given up; an evictor that has isolated one finds that out.
    pub fn carry(&self, from: PageRange, to: PageId) -> Result<(), TablesFull> {
        for (page, word_ref) in self.word_refs_of(from) {
            let target = to.plus(page.since(from.start()));
            let leaf = self.table.leaf_or_allocate(target).map_err(|_| TablesFull)?;
            let word = word_ref.take().expect("the caller has waited for the locks, with the gate exclusive");
            if !word.is_managed() {
                continue;
            }
            if is_planted(Plant::CarriedClean) {
                let put = leaf.word_ref(target).put_back(word);
                assert!(put, "nothing of ours was there");
                continue;
            }
            let copy = word.swap().filter(|_| word.place() == Place::Present);
            // Nor is it known any more where nothing is mapped: see `filled`.
            let word = match word.place() {
                Place::Present => word.with(Place::Present, None),
                _ => word.without_hole(),
            };
            let put = leaf.word_ref(target).put_back(word);
            assert!(put, "nothing of ours was there");
            put_entries(self.segment, &self.world, copy);
        }
        self.table.free_empty_leaves(from);
        Ok(())
    }

    /// The range must not be evicted, because it cannot be read (PROT_NONE), or the kernel may keep it (mlock).
    pub fn deactivate(&self, range: PageRange) {
        self.word_refs_of(range).for_each(|(_, word_ref)| word_ref.deactivate());
    }

    /// The range may be evicted again.
    pub fn activate(&self, range: PageRange) {
        self.word_refs_of(range).for_each(|(_, word_ref)| word_ref.activate());
    }

    /// The managed pages of a range stay where they are from now on, once they are there.
    pub fn pin(&self, range: PageRange) {
        self.word_refs_of(range).for_each(|(_, word_ref)| word_ref.pin());
    }

    /// What [`pin`](Self::pin) has kept may be evicted again.
    pub fn unpin(&self, range: PageRange) {
        self.word_refs_of(range).for_each(|(_, word_ref)| word_ref.unpin());
    }

    /// The first page of the range that is not in the program as the kernel has it: stored, protected, or being worked
    /// on.
    pub fn first_away(&self, range: PageRange) -> Option<PageId> {
        self.word_refs_of(range).find(|(_, word_ref)| is_away(word_ref.load())).map(|(page, _)| page)
    }

    /// Calls `visit` with each such page; whether there was one.
    pub fn for_each_away_in(&self, range: PageRange, mut visit: impl FnMut(PageId)) -> bool {
        let away = self.word_refs_of(range).filter(|(_, word_ref)| is_away(word_ref.load()));
        away.map(|(page, _)| visit(page)).count() > 0
    }

    /// Runs of clean pages in the range, in order: what has to be protected again in a forked child.
    pub fn for_each_protected(&self, range: PageRange, mut visit: impl FnMut(PageRange)) {
        let mut run: Option<PageRange> = None;
        let nothing_more = iter::once((range.end(), false));
        let is_protected = |word_ref: PageWordRef<'_>| {
            word_ref.load().is_protected() && !is_planted(Plant::ForkWithoutProtection)
        };
        let pages = self.word_refs_of(range).map(|(page, word_ref)| (page, is_protected(word_ref)));
        for (page, is_protected) in pages.chain(nothing_more) {
            match &mut run {
                Some(open) if is_protected && open.end() == page => *open = open.with_next(),
                open => {
                    if let Some(ended) = open.take() {
                        visit(ended);
                    }
                    *open = is_protected.then_some(PageRange::new(page, page.plus(1)));
                }
            }
        }
    }

    /// True when a mapping may be evicted, by the first of its words. What cannot be read, or is locked, may not.
    pub fn is_active(&self, mapping: PageRange) -> bool {
        self.word_refs_of(mapping)
            .map(|(_, word_ref)| word_ref.load())
            .find(|word| word.is_managed())
            .is_some_and(|word| word.is_active())
    }

    /// True when the page has a word.
    pub fn is_managed(&self, page: PageId) -> bool {
        self.table.word_ref(page).is_some_and(|word_ref| word_ref.load().is_managed())
    }
}
