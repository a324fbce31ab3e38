//! Follows the program's mappings: what its messages mean for the page words.
//!
//! Every function here runs with the gate exclusive, in the order in which the messages were read.

use crate::engine::Engine;
use crate::load::Load;
use crate::platform::{MoveStop, Platform};
use crate::workspace::Workspace;
use core::sync::atomic::Ordering;
use uswap_core::counters::Counter;
use uswap_core::page_word::{Afterwards, PageSlot, PageWord, Place, Remove};
use uswap_units::{CHUNK_PAGES, PageId, PageRange};

/// A change of the program's mappings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// MADV_DONTNEED, MADV_FREE: the pages will be dropped, the range stays.
    Remove(PageRange),
    /// The range is unmapped.
    Unmap(PageRange),
    /// Pages moved: `pages` of them from `from` to `to`.
    Remap {
        /// First page of the old place.
        from: PageId,
        /// First page of the new place.
        to: PageId,
        /// How many.
        pages: u64,
    },
}

/// Part of a removed range whose present pages could not be moved out yet, because another event is unread.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Removal {
    /// All done.
    Done,
    /// Read more messages, and then go on here.
    Unfinished(PageRange),
}

/// A page that could not be moved out when its range was dropped may not be evicted for this long: by then the kernel has dropped it.
const QUARANTINE_NS: u64 = 2_000_000_000;

impl<P: Platform> Engine<'_, P> {
    /// Processes one event. The gate is exclusive (it may be given back and taken again inside).
    pub async fn process_event(&self, event: Event, workspace: &mut Workspace) -> Removal {
        match event {
            Event::Remove(range) => {
                self.counters.add(Counter::EventRemove, 1);
                self.remove_words(range, Afterwards::StillManaged);
                self.remove_present(range)
            }
            Event::Unmap(range) => {
                self.counters.add(Counter::EventUnmap, 1);
                self.remove_words(range, Afterwards::Unmanaged);
                self.table.free_empty_leaves(range);
                Removal::Done
            }
            Event::Remap { from, to, pages } => {
                self.counters.add(Counter::EventRemap, 1);
                self.event_in_progress.store(true, Ordering::Release);
                self.remap(from, to, pages, workspace).await;
                self.event_in_progress.store(false, Ordering::Release);
                self.table.free_empty_leaves(PageRange { start: from, end: from.plus(pages) });
                Removal::Done
            }
        }
    }

    pub(crate) fn remove_words(&self, range: PageRange, afterwards: Afterwards) {
        for leaf in self.table.leaves(range) {
            for (_, slot) in leaf.slots_in(range) {
                if let Remove::Was(word) = slot.remove(afterwards)
                    && let Some(swap) = word.swap()
                {
                    self.put_entry(swap);
                }
            }
        }
    }

    /// Moves what is present in a dropped range out and throws it away: the kernel will drop it only later, and we might evict the old content before.
    pub fn remove_present(&self, range: PageRange) -> Removal {
        let spare = self.private.lock().arena.spare();
        for leaf in self.table.leaves(range) {
            let mut run: Option<(PageId, u32)> = None;
            for (page, slot) in leaf.slots_in(range) {
                let movable = slot.load().may_be_staged();
                run = match run {
                    Some((start, count)) if movable && u64::from(count) < CHUNK_PAGES => {
                        Some((start, count + 1))
                    }
                    earlier => {
                        if let Some(unfinished) = earlier.and_then(|run| self.throw_away(run, spare, range)) {
                            return unfinished;
                        }
                        movable.then_some((page, 1))
                    }
                };
            }
            if let Some(unfinished) = run.and_then(|run| self.throw_away(run, spare, range)) {
                return unfinished;
            }
        }
        Removal::Done
    }

    fn throw_away(
        &self,
        run: (PageId, u32),
        spare: crate::arena::ArenaChunk,
        range: PageRange,
    ) -> Option<Removal> {
        let (mut page, mut left) = run;
        while left > 0 {
            let out = self.platform.move_out(page, spare.first_frame(), left);
            if out.pages > 0 {
                let mask = if out.pages == 64 { u64::MAX } else { (1 << out.pages) - 1 };
                self.platform.drop_frames(spare.first_frame(), mask);
            }
            page = page.plus(u64::from(out.pages));
            left -= out.pages;
            match out.stop {
                None => (),
                Some(MoveStop::EventPending) => {
                    return Some(Removal::Unfinished(PageRange { start: page, end: range.end }));
                }
                Some(MoveStop::Busy | MoveStop::Refused) => {
                    self.quarantine(PageRange { start: page, end: page.plus(1) });
                    page = page.plus(1);
                    left -= 1;
                }
            }
        }
        None
    }

    /// The page may not be evicted before the kernel has dropped it.
    fn quarantine(&self, range: PageRange) {
        let until = self.platform.now_ns() + QUARANTINE_NS;
        let Some(slot) = self.table.slot(range.start) else { return };
        slot.deactivate();
        let mut private = self.private.lock();
        let last = private
            .quarantine
            .iter_mut()
            .find(|entry| entry.is_some_and(|(r, _)| r.end == range.start || r.contains(range.start)));
        if let Some(Some((earlier, time))) = last {
            (earlier.end, *time) = (range.end.max(earlier.end), until);
        } else if let Some(entry) = private.quarantine.iter_mut().find(|entry| entry.is_none()) {
            *entry = Some((range, until));
        }
        // Without a free entry the page simply stays out of reach of eviction.
    }

    /// Lets quarantined pages be evicted again when their time is over.
    pub fn end_quarantines(&self) {
        let now = self.platform.now_ns();
        for index in 0.. {
            let over = match self.private.lock().quarantine.get_mut(index) {
                None => return,
                Some(entry) => entry.take_if(|(_, until)| *until <= now),
            };
            let Some((range, _)) = over else { continue };
            for leaf in self.table.leaves(range) {
                leaf.slots_in(range).for_each(|(_, slot)| slot.activate());
            }
        }
    }

    async fn remap(&self, from: PageId, to: PageId, pages: u64, workspace: &mut Workspace) {
        let range = PageRange { start: from, end: from.plus(pages) };
        // What was at the new place is gone; normally an unmap event came before.
        self.remove_words(PageRange { start: to, end: to.plus(pages) }, Afterwards::Unmanaged);
        let mut at = from;
        while let Some(leaf) = self.table.next_leaf(at) {
            if leaf.first_page().0 >= range.end.0 {
                return;
            }
            for (page, slot) in leaf.slots_in(range) {
                let word = self.take_word(slot).await;
                if word.is_managed() {
                    let target = to.plus(page.0 - from.0);
                    self.put_at(target, word, workspace).await;
                }
            }
            at = leaf.first_page().plus(uswap_units::BLOCK_PAGES);
        }
    }

    /// Takes a word; if a task works on the page, lets it finish first. Evictions are held off meanwhile (`event_in_progress`), and nobody else reads
    /// messages, because the reader's turn is ours.
    async fn take_word(&self, slot: PageSlot<'_>) -> PageWord {
        loop {
            if let Some(word) = slot.take() {
                return word;
            }
            self.platform.unlock_exclusive();
            self.platform.pause().await;
            self.platform.lock_exclusive().await;
        }
    }

    /// Puts a moved word at its new place, once a task that still holds the lock of what was there before is done.
    async fn put_at(&self, target: PageId, word: PageWord, workspace: &mut Workspace) {
        loop {
            match self.table.leaf_or_allocate(target) {
                Ok(leaf) if leaf.slot(target).put_back(word) => {
                    if let Place::Staged(frame) = word.place() {
                        self.private.lock().arena.set_page_of(frame, target);
                    }
                    return;
                }
                Ok(_) => {
                    self.platform.unlock_exclusive();
                    self.platform.pause().await;
                    self.platform.lock_exclusive().await;
                }
                Err(_) => return self.bring_home(word, target, workspace).await,
            }
        }
    }

    /// There is no table page for the new place: its content goes there at once and is not managed any more.
    async fn bring_home(&self, word: PageWord, target: PageId, workspace: &mut Workspace) {
        match word.place() {
            Place::Fresh | Place::Present => (),
            Place::Staged(frame) => {
                self.platform.read_frame(frame, &mut workspace.page);
                let _already_there_or_unmapped = self.platform.copy_in(target, &workspace.page);
            }
            Place::Swapped => {
                let swap = word.swap().expect("a swapped page names its entry");
                match self.load(swap, workspace).await {
                    Load::Done(_) => _ = self.platform.copy_in(target, &workspace.page),
                    Load::Lost => _ = self.platform.poison(target),
                }
            }
        }
        if let Some(swap) = word.swap() {
            self.put_entry(swap);
        }
    }
}
