//! Takes memory under management.

use crate::engine::Engine;
use crate::platform::{Platform, Register};
use core::sync::atomic::Ordering;
use uswap_core::counters::Counter;
use uswap_core::page_table::TICK_NS;
use uswap_core::page_word::{PageWord, Place};
use uswap_units::{BLOCK_PAGES, PageId, PageRange};

/// There are no table pages left: the rest of the memory stays unmanaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TablesFull;

impl<P: Platform> Engine<'_, P> {
    /// Makes words for the pages of `ranges`, while no event is unread: a remap event still to come must find words
    /// only where something was unmapped. They cannot be evicted yet: the caller registers the ranges next, checks that
    /// registering reached every page, and then calls `activate`, or else `abandon`. Words that hold something are left
    /// alone.
    pub async fn adopt(&self, ranges: &[PageRange]) -> Result<u64, TablesFull> {
        self.lock_exclusive_settled().await;
        let result = self.adopt_words(ranges);
        self.platform.unlock_exclusive();
        if let Ok(pages) = result {
            let record = self.record();
            record.set_managed_pages(record.managed_pages() + pages);
            self.counters.add(Counter::Registered, pages);
        }
        result
    }

    /// Takes the gate exclusive while all events that were read are processed: who had to give the gate back in the
    /// middle of one may hold others that it read with it.
    async fn lock_exclusive_between_events(&self) {
        loop {
            self.platform.lock_exclusive().await;
            if !self.event_in_progress.load(Ordering::Acquire) {
                return;
            }
            self.platform.unlock_exclusive();
            self.platform.pause().await;
        }
    }

    /// And while no event is unread: the words are exactly what is mapped, and no unmap event is late any more.
    async fn lock_exclusive_settled(&self) {
        loop {
            self.lock_exclusive_between_events().await;
            if !self.platform.event_pending() {
                // A note that no event took (MREMAP_DONTUNMAP sends none) would keep a later one from dropping the
                // words that are made now.
                self.private.lock().late_unmaps.clear();
                return;
            }
            self.platform.unlock_exclusive();
            self.platform.pause().await;
        }
    }

    /// Registers the mapped part of `range` while no event is unread. One that is would be of what was there before,
    /// and what it says of the words would be taken for the new mapping: a page that comes from there would come with
    /// the content of the old one.
    pub async fn register(&self, range: PageRange) -> Register {
        self.lock_exclusive_settled().await;
        let registered = self.platform.register(range);
        self.platform.unlock_exclusive();
        registered
    }

    /// How many events have said that something was unmapped or moved, in all processes of the run. A call of the
    /// program that has returned is counted: who reads its event wakes it before the event is processed, and that is
    /// waited for.
    pub async fn mappings_gone(&self) -> u64 {
        self.lock_exclusive_between_events().await;
        let gone = self.counters.get(Counter::EventUnmap) + self.counters.get(Counter::EventRemap);
        self.platform.unlock_exclusive();
        gone
    }

    fn adopt_words(&self, ranges: &[PageRange]) -> Result<u64, TablesFull> {
        let mut adopted = 0;
        for range in ranges {
            let mut at = range.start;
            while at.0 < range.end.0 {
                let leaf = self.table.leaf_or_allocate(at).map_err(|_| TablesFull)?;
                adopted += leaf.slots_in(*range).filter(|(_, slot)| slot.adopt()).count() as u64;
                at = leaf.first_page().plus(BLOCK_PAGES);
            }
        }
        Ok(adopted)
    }

    /// Takes back what `adopt` did, where registering did not reach every page of a range: registering skips holes
    /// without a word, and memory that is mapped into a hole later is not registered, though its word would say so.
    /// Such a range must not be activated.
    pub async fn abandon(&self, ranges: &[PageRange]) {
        self.platform.lock_exclusive().await;
        let now_tick = self.platform.now_ns() / TICK_NS;
        for range in ranges {
            for leaf in self.table.leaves(*range) {
                leaf.slots_in(*range).for_each(|(_, slot)| slot.abandon());
            }
            self.table.free_empty_leaves(*range, |leaf| leaf.is_held_anywhere(now_tick));
        }
        self.platform.unlock_exclusive();
    }

    /// Lets the pages of `ranges` be evicted. With the gate exclusive and no event unread, nothing stale can be on its
    /// way to these words.
    pub async fn activate(&self, ranges: &[PageRange]) {
        self.lock_exclusive_settled().await;
        for range in ranges {
            for leaf in self.table.leaves(*range) {
                leaf.slots_in(*range).for_each(|(_, slot)| slot.activate());
            }
        }
        self.platform.unlock_exclusive();
    }

    /// The page must stay resident.
    pub fn pin(&self, page: PageId) {
        if let Some(slot) = self.table.slot(page) {
            slot.pin();
        }
    }

    /// The managed pages of a range must stay resident once they are.
    pub fn pin_range(&self, range: PageRange) {
        for leaf in self.table.leaves(range) {
            leaf.slots_in(range).for_each(|(_, slot)| slot.pin());
        }
    }

    /// The first row of pages in `range` of which not all are where the program left them, within a block. A locked one
    /// may be leaving.
    pub fn first_away(&self, range: PageRange) -> Option<PageRange> {
        let is_away = |word: PageWord| word.place() != Place::Fresh || word.is_locked();
        for leaf in self.table.leaves(range) {
            let mut pages = leaf.slots_in(range).skip_while(|(_, slot)| !is_away(slot.load()));
            if let Some((start, _)) = pages.next() {
                let after = pages.find(|(_, slot)| !is_away(slot.load())).map(|(page, _)| page);
                let block_end = leaf.first_page().plus(BLOCK_PAGES);
                return Some(PageRange { start, end: after.unwrap_or(block_end.min(range.end)) });
            }
        }
        None
    }

    /// True when the page has a word.
    pub fn is_managed(&self, page: PageId) -> bool {
        self.table.slot(page).is_some_and(|slot| slot.load().is_managed())
    }
}
