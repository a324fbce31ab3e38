//! Follows the program's mappings: what its messages mean for the page words.
//!
//! Every function here runs with the gate exclusive, in the order in which the messages were read. That is not always the order of the changes: a thread queues its event
//! only after its change, and another thread may be faster. So a remap onto pages that still have words waits ([`Removal::Postponed`]) for the event that takes them away, and
//! an unmapping where something was moved to a moment ago waits ([`Removal::Disputed`]) until no event is unread, and the kernel is asked what is there. Any other
//! unmapping waits too ([`Removal::Unmapped`]): what it seems to unmap may have been moved away before, by a thread whose event comes later.

use crate::engine::Engine;
use crate::late_unmaps::Move;
use crate::load::Load;
use crate::platform::{Install, Platform};
use crate::workspace::Workspace;
use core::sync::atomic::Ordering;
use uswap_core::counters::Counter;
use uswap_core::page_table::{Leaf, TICK_NS};
use uswap_core::page_word::{Afterwards, PageSlot, PageWord, Place, Remove};
use uswap_units::{BLOCK_PAGES, CHUNK_PAGES, PageId, PageRange};

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

/// What is left to do of an event, because another event is unread.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Removal {
    /// All done.
    Done,
    /// There is no table page for the new place of moved pages. Their words are still at the old place; their content must be copied to the new one.
    Homeless {
        /// The old place.
        from: PageRange,
        /// First page of the new place.
        to: PageId,
    },
    /// The new place of moved pages still has words of what was there before: the event that takes them away is older, and unread. Their own words are still at the old place.
    Postponed {
        /// The old place.
        from: PageRange,
        /// First page of the new place.
        to: PageId,
    },
    /// The words of a range that MADV_DONTNEED or MADV_FREE drops have not all arrived there yet.
    DropAgain(PageRange),
    /// An unmapping that may be older than what was moved to the same place meanwhile.
    Disputed(PageRange),
    /// An unmapping; of words there that were moved away before, the event may still come.
    Unmapped(PageRange),
    /// A fork, named by the child's descriptor: the events of changes that came before it may still be unread.
    Fork(i32),
}

/// Whether the table must still be cloned for a child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forks {
    /// No.
    None,
    /// Words may not be dropped before.
    Waiting,
}

impl Removal {
    /// The place that moved pages have not reached yet.
    pub(crate) fn target(self) -> Option<PageRange> {
        match self {
            Removal::Postponed { from, to } => Some(PageRange { start: to, end: to.plus(from.pages()) }),
            Removal::Done
            | Removal::Homeless { .. }
            | Removal::DropAgain(_)
            | Removal::Disputed(_)
            | Removal::Unmapped(_)
            | Removal::Fork(_) => None,
        }
    }
}

pub(crate) fn overlap(one: PageRange, other: PageRange) -> bool {
    one.start.0 < other.end.0 && other.start.0 < one.end.0
}

/// Pages of the largest dropped range for which leaves are made: 1 GiB takes 512 leaves.
const HELD_PAGES_MAX: u64 = 1 << 18;

impl<P: Platform> Engine<'_, P> {
    /// Processes one event. The gate is exclusive (it may be given back and taken again inside).
    pub async fn process_event(&self, event: Event, forks: Forks) -> Removal {
        match event {
            Event::Remove(range) => {
                self.counters.add(Counter::EventRemove, 1);
                self.hold_range(range);
                self.remove_words(range, Afterwards::StillManaged);
                Removal::Done
            }
            Event::Unmap(range) => {
                self.counters.add(Counter::EventUnmap, 1);
                let left = self.unmap(range, forks);
                self.table.free_empty_leaves(range);
                left
            }
            Event::Remap { from, to, pages } => {
                self.counters.add(Counter::EventRemap, 1);
                let from = PageRange { start: from, end: from.plus(pages) };
                // The old place is unmapped by an event of its own, always, which may come after something else was moved there.
                self.private.lock().late_unmaps.note(from);
                self.remap_or_wait(from, to).await
            }
        }
    }

    /// Drops the words of what is surely unmapped.
    fn unmap(&self, range: PageRange, forks: Forks) -> Removal {
        // The kernel lets the thread that unmaps count its change down after it woke up, so that an event is pending is the ordinary case.
        let wait = self.table.first_managed(range).is_some()
            && (forks == Forks::Waiting || self.platform.event_pending());
        if wait && !self.private.lock().late_unmaps.is_noted(range) {
            return Removal::Unmapped(range);
        }
        let (mut disputed, mut rest) = (false, range);
        while rest.start.0 < rest.end.0 {
            let late = self.private.lock().late_unmaps.take_first(rest);
            let part = PageRange { start: rest.start, end: late.map_or(rest.end, |late| late.start) };
            if part.start < part.end && (wait || self.private.lock().late_unmaps.is_disputed(part)) {
                disputed = true;
            } else {
                self.remove_words(part, Afterwards::Unmanaged);
            }
            rest.start = late.map_or(rest.end, |late| late.end);
        }
        if disputed { Removal::Disputed(range) } else { Removal::Done }
    }

    /// No event is unread: whatever was moved away is away.
    pub(crate) fn settle_unmapped(&self, range: PageRange, at_once: bool) -> Removal {
        if !at_once && self.platform.event_pending() {
            return Removal::Unmapped(range);
        }
        if self.private.lock().late_unmaps.is_disputed(range) {
            return self.settle_disputed(range, at_once);
        }
        self.remove_words(range, Afterwards::Unmanaged);
        self.table.free_empty_leaves(range);
        Removal::Done
    }

    /// Words that were moved to a part of the range a moment ago may be of what is there now: the kernel is asked. All other words of the range are of the past. The answer is
    /// about the moment of the words only once no event is unread; `at_once` asks for the best that can be said before.
    pub(crate) fn settle_disputed(&self, range: PageRange, at_once: bool) -> Removal {
        let mut rest = range;
        while rest.start.0 < rest.end.0 {
            let disputed = self.private.lock().late_unmaps.first_disputed(rest);
            let part = disputed.and_then(|disputed| self.platform.registered_part(disputed));
            // Looked at after the question: a change that the answer shows was counted before.
            if !at_once && self.platform.event_pending() {
                return Removal::Disputed(rest);
            }
            let (end, next) = match (disputed, part) {
                (_, Some(part)) => (part.start, part.end),
                (Some(disputed), None) => (disputed.end, disputed.end),
                (None, _) => (rest.end, rest.end),
            };
            self.remove_words(PageRange { start: rest.start, end }, Afterwards::Unmanaged);
            rest.start = next;
        }
        self.table.free_empty_leaves(range);
        Removal::Done
    }

    /// Moves words, unless there are others at the new place. Normally an unmap event of the new place came before; if not, it or a remap event from there is late.
    pub(crate) async fn remap_or_wait(&self, from: PageRange, to: PageId) -> Removal {
        let target = PageRange { start: to, end: to.plus(from.pages()) };
        if self.table.first_managed(target).is_some() && self.platform.event_pending() {
            return Removal::Postponed { from, to };
        }
        self.event_in_progress.store(true, Ordering::Release);
        let left = self.remap(from, to).await;
        self.event_in_progress.store(false, Ordering::Release);
        let mut private = self.private.lock();
        private.late_unmaps.dispute(target);
        private.late_unmaps.note_move(Move { from, to });
        drop(private);
        self.table.free_empty_leaves(from);
        left
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

    /// The kernel drops the pages of the range only after its event was read, at a time that it does not tell. Until then they may hold old content, which must not be
    /// evicted: it would come back. So the chunks are not staged for a while. (Moving the pages out at once instead meets the kernel's own dropping: pages that the
    /// program has written again after MADV_FREE would be lost, and MOVE against MADV_DONTNEED of the same pages does not end on Linux 6.18.)
    fn hold_range(&self, range: PageRange) {
        if self.platform.drops_followed(range) {
            // Held until the call returns.
            return;
        }
        let now_tick = self.platform.now_ns() / TICK_NS;
        if range.pages() > HELD_PAGES_MAX {
            // Only leaves that are there: of a range this large most was never touched.
            self.table.leaves(range).for_each(|leaf| Self::hold_in_leaf(&leaf, range, now_tick));
            return;
        }
        let mut at = range.start;
        while at.0 < range.end.0 {
            // Pages without words may get some, and be staged, too early.
            let Ok(leaf) = self.table.leaf_or_allocate(at) else { return };
            Self::hold_in_leaf(&leaf, range, now_tick);
            at = leaf.first_page().plus(BLOCK_PAGES);
        }
    }

    fn hold_in_leaf(leaf: &Leaf<'_>, range: PageRange, now_tick: u64) {
        for chunk in 0..(BLOCK_PAGES / CHUNK_PAGES) {
            let first = leaf.first_page().plus(chunk * CHUNK_PAGES);
            if first.0 < range.end.0 && range.start.0 < first.0 + CHUNK_PAGES {
                leaf.hold(chunk as u32, now_tick);
            }
        }
    }

    async fn remap(&self, range: PageRange, to: PageId) -> Removal {
        let (from, target) = (range.start, PageRange { start: to, end: to.plus(range.pages()) });
        self.remove_words(target, Afterwards::Unmanaged);
        if !self.has_leaves(range, to) {
            return Removal::Homeless { from: range, to };
        }
        for leaf in self.table.leaves(range) {
            for (page, slot) in leaf.slots_in(range) {
                let word = self.take_word(slot).await;
                if word.is_managed() {
                    let target = to.plus(page.0 - from.0);
                    self.put_at(target, word).await;
                }
            }
        }
        Removal::Done
    }

    /// Makes the leaves of the new place of each managed page. False: a table page is missing.
    fn has_leaves(&self, from: PageRange, to: PageId) -> bool {
        let pages = self
            .table
            .leaves(from)
            .flat_map(|leaf| leaf.slots_in(from))
            .filter(|(_, slot)| slot.load().raw() != 0);
        pages
            .map(|(page, _)| to.plus(page.0 - from.start.0))
            .all(|target| self.table.leaf_or_allocate(target).is_ok())
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
    async fn put_at(&self, target: PageId, word: PageWord) {
        // Looked up anew each time: an empty leaf may be freed while the gate is given back.
        while !self
            .table
            .leaf_or_allocate(target)
            .expect("the leaf was made before")
            .slot(target)
            .put_back(word)
        {
            self.platform.unlock_exclusive();
            self.platform.pause().await;
            self.platform.lock_exclusive().await;
        }
        if let Place::Staged(frame) = word.place() {
            self.private.lock().arena.set_page_of(frame, target);
        }
    }

    /// Copies the content of moved pages to their new place, where they are not managed any more.
    pub(crate) async fn bring_home(&self, from: PageRange, to: PageId, workspace: &mut Workspace) -> Removal {
        self.event_in_progress.store(true, Ordering::Release);
        let mut left = Removal::Done;
        'pages: for leaf in self.table.leaves(from) {
            for (page, slot) in leaf.slots_in(from) {
                let word = self.take_word(slot).await;
                if word.is_managed()
                    && !self.bring_page_home(word, to.plus(page.0 - from.start.0), workspace).await
                {
                    let put = slot.put_back(word);
                    assert!(put, "nothing is adopted while an event is in progress");
                    left = Removal::Homeless {
                        from: PageRange { start: page, end: from.end },
                        to: to.plus(page.0 - from.start.0),
                    };
                    break 'pages;
                }
            }
        }
        self.event_in_progress.store(false, Ordering::Release);
        left
    }

    /// False: an event is unread.
    async fn bring_page_home(&self, word: PageWord, target: PageId, workspace: &mut Workspace) -> bool {
        let install = match word.place() {
            Place::Fresh | Place::Present => Install::AlreadyMapped,
            Place::Staged(frame) => {
                self.platform.read_frame(frame, &mut workspace.page);
                self.platform.copy_in(target, core::slice::from_ref(&workspace.page)).last
            }
            Place::Swapped => {
                match self.load(word.swap().expect("a swapped page names its entry"), workspace).await {
                    Load::Done(_) => self.platform.copy_in(target, &workspace.pages[..1]).last,
                    Load::Lost => self.platform.poison(target),
                }
            }
        };
        if install == Install::EventPending {
            return false;
        }
        if let Some(swap) = word.swap() {
            self.put_entry(swap);
        }
        true
    }
}
