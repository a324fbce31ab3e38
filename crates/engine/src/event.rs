//! Follows the program's mappings: what its messages mean for the page words.
//!
//! Every function here runs with the gate exclusive, in the order in which the messages were read. That is not always
//! the order of the changes: a thread queues its event only after its change, and another thread may be faster. So a
//! remap onto pages that still have words waits ([`Removal::Postponed`]) for the event that takes them away, and an
//! unmapping waits ([`Removal::Unmapped`]), and so does MADV_DONTNEED where something is evicted
//! ([`Removal::DropAgain`]): what it seems to take away may have been moved away before, by a thread whose event comes
//! later. It leaves alone what arrives meanwhile: see [`crate::arrivals`]. What waits is kept in order: see
//! [`crate::order`].

use crate::arrivals::{Arrival, LeftBy, Move, NOTHING};
use crate::engine::Engine;
use crate::later::{Later, Next};
use crate::platform::Platform;
use core::sync::atomic::Ordering;
use uswap_core::counters::Counter;
use uswap_core::page_table::{HOLD_TICKS, Leaf, TICK_NS};
use uswap_core::page_word::{Afterwards, Remove};
use uswap_units::{BLOCK_PAGES, CHUNK_PAGES, PageId, PageRange};

/// A change of the program's mappings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// MADV_DONTNEED, MADV_FREE: the pages will be dropped, the range stays.
    Remove(PageRange),
    /// The range is unmapped.
    Unmap(PageRange),
    /// Pages moved: `pages` of them from `from` to `to`, behind which `added` empty ones are new.
    Remap {
        /// First page of the old place.
        from: PageId,
        /// First page of the new place.
        to: PageId,
        /// How many.
        pages: u64,
        /// By how many the mapping became longer, as far as that is known.
        added: u64,
        /// The old place stays mapped, and empty (MREMAP_DONTUNMAP): no event will tell of its unmapping.
        stays: bool,
    },
}

/// What is left to do of an event, because another event is unread.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Removal {
    /// All done.
    Done,
    /// There is no table page for the new place of moved pages. Their words are still at the old place; their content
    /// must be copied to the new one.
    Homeless {
        /// The old place.
        from: PageRange,
        /// First page of the new place.
        to: PageId,
    },
    /// The new place of moved pages still has words of what was there before: the event that takes them away is older,
    /// and unread. Their own words are still at the old place.
    Postponed {
        /// The old place.
        from: PageRange,
        /// The new place, which may be longer.
        to: PageRange,
        /// The old place stays mapped.
        stays: bool,
    },
    /// MADV_DONTNEED or MADV_FREE, of a range whose words have not all arrived there yet, or where words are that have
    /// not left yet or may have left, or that children need which were made before.
    DropAgain(PageRange),
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

/// Whether an event must wait for others that were read before it and are not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// No.
    Free,
    /// It is put behind moves of the same pages, or a fork that came before it.
    Behind,
}

/// What an event must know of those that were read before it and are not done.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'m> {
    /// Its place among them.
    pub order: Order,
    /// It is older than what is at this position of the list.
    pub before: Option<usize>,
    /// Children that wait.
    pub forks: Forks,
    /// Messages that were read with it, behind it.
    pub later: Later<'m>,
}

impl Removal {
    /// True when words of a part of `range` are those of pages that were moved away from there, or to there: they must
    /// leave or arrive before anything else is done there.
    pub(crate) fn moves_through(self, range: PageRange) -> bool {
        let leave = match self {
            Removal::Postponed { from, .. } | Removal::Homeless { from, .. } => overlap(from, range),
            _ => false,
        };
        leave || self.target().is_some_and(|target| overlap(target, range))
    }
    /// True when what is in a part of `range` must first be dropped.
    pub(crate) fn drops_in(self, range: PageRange) -> bool {
        matches!(self, Removal::DropAgain(dropped) if overlap(dropped, range))
    }
    /// The place that moved pages have not reached yet.
    pub(crate) fn target(self) -> Option<PageRange> {
        match self {
            Removal::Postponed { to, .. } => Some(to),
            Removal::Done
            | Removal::Homeless { .. }
            | Removal::DropAgain(_)
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
    pub async fn process_event(&self, event: Event, turn: &Turn<'_>) -> Removal {
        match event {
            Event::Remove(range) => {
                self.counters.add(Counter::EventRemove, 1);
                self.hold_range(range);
                if turn.order == Order::Behind || turn.forks == Forks::Waiting {
                    return Removal::DropAgain(range);
                }
                self.remove_words(range, Afterwards::StillManaged);
                Removal::Done
            }
            Event::Unmap(range) => {
                self.counters.add(Counter::EventUnmap, 1);
                let left = self.unmap(range, turn);
                self.free_leaves_of_unmapped(range);
                left
            }
            Event::Remap { from, to, pages, added, stays } => {
                self.counters.add(Counter::EventRemap, 1);
                let from = PageRange { start: from, end: from.plus(pages) };
                if !stays {
                    // The old place is unmapped by an event of its own, which may come after something else was moved
                    // there.
                    self.private.lock().late_unmaps.note(from);
                }
                let moved = Move { from, to };
                let to = PageRange { start: to, end: to.plus(pages + added) };
                self.private.lock().late_unmaps.arrivals.add(moved, to);
                match turn.order {
                    Order::Free => self.remap_or_wait(from, to, stays).await,
                    Order::Behind => Removal::Postponed { from, to, stays },
                }
            }
        }
    }

    /// Drops the words of what is surely unmapped.
    fn unmap(&self, range: PageRange, turn: &Turn<'_>) -> Removal {
        // The kernel lets the thread that unmaps count its change down after it woke up, so that an event is pending is
        // the ordinary case.
        let wait = turn.order == Order::Behind
            || self.table.first_managed(range).is_some()
                && (turn.forks == Forks::Waiting || self.platform.event_pending());
        let (mut left, mut rest) = (Removal::Done, range);
        while rest.start.0 < rest.end.0 {
            let late = self.private.lock().late_unmaps.take_first(rest);
            let part = PageRange { start: rest.start, end: late.map_or(rest.end, |late| late.start) };
            if part.start < part.end {
                self.look_for_arrivals(part, LeftBy::Unmapping, turn.later);
                if wait {
                    left = Removal::Unmapped(range);
                } else {
                    self.remove_older_words(part);
                }
            }
            rest.start = late.map_or(rest.end, |late| late.end);
        }
        left
    }

    /// An event was read just now that takes away what was in `range`. If pages had arrived there that are not there
    /// now, it is the younger one.
    pub(crate) fn look_for_arrivals(&self, range: PageRange, event: LeftBy, later: Later<'_>) {
        let mut rest = range;
        while let Some(arrival) = self.first_arrival(rest) {
            let (place, next) = later.next_in(arrival.place);
            let (gone, looked_at) = match next {
                Next::Replaced => (place, place.end),
                Next::MovedOn => (NOTHING, place.end),
                Next::Untold => self.gone_from(Arrival { place, ..arrival }),
            };
            self.private.lock().late_unmaps.arrivals.leave(gone, event);
            rest.start = looked_at;
        }
    }

    /// The kernel is asked whether what arrived is still there. Which pages are gone, at the front of its place, and up
    /// to where that is known.
    fn gone_from(&self, Arrival { place, begins, ends, .. }: Arrival) -> (PageRange, PageId) {
        let Some(there) = self.platform.registered_mapping(place) else { return (place, place.end) };
        let (start, end) = (there.start.max(place.start), there.end.min(place.end));
        let is_another = there.start != begins && there.end != ends;
        (PageRange { start: place.start, end: if is_another { end } else { start } }, end)
    }

    pub(crate) fn first_arrival(&self, range: PageRange) -> Option<Arrival> {
        self.private.lock().late_unmaps.arrivals.first_in(range)
    }

    /// No event is unread: whatever was moved away is away.
    pub(crate) fn settle_unmapped(&self, range: PageRange, at_once: bool) -> Removal {
        if !at_once && self.platform.event_pending() {
            return Removal::Unmapped(range);
        }
        self.remove_older_words(range);
        self.free_leaves_of_unmapped(range);
        Removal::Done
    }

    /// Removes the words of an unmapped range, but those of pages that arrived there since.
    fn remove_older_words(&self, range: PageRange) {
        let mut rest = range;
        while rest.start.0 < rest.end.0 {
            let (older, behind) = self.private.lock().late_unmaps.arrivals.first_without(rest);
            self.remove_words(older, Afterwards::Unmanaged);
            rest = behind;
        }
    }

    pub(crate) fn remove_words(&self, range: PageRange, afterwards: Afterwards) {
        let slots = self.table.leaves(range).flat_map(|leaf| leaf.slots_in(range));
        self.put_entries(slots.filter_map(|(_, slot)| match slot.remove(afterwards) {
            Remove::Was(word) => word.swap(),
            Remove::Deferred | Remove::Unmanaged => None,
        }));
    }

    /// The kernel drops the pages of the range only after its event was read, at a time that it does not tell. Until
    /// then they may hold old content, which must not be evicted: it would come back. So the chunks are not staged for
    /// a while. (Moving the pages out at once instead meets the kernel's own dropping: pages that the program has
    /// written again after MADV_FREE would be lost, and MOVE against MADV_DONTNEED of the same pages does not end on
    /// Linux 6.18.)
    fn hold_range(&self, range: PageRange) {
        if self.platform.drops_followed(range) {
            // Held until the call returns.
            return;
        }
        let now_tick = self.platform.now_ns() / TICK_NS;
        if range.pages() > HELD_PAGES_MAX {
            // Of a range this large most was never touched: no leaves for it.
            return self.hold_everything(now_tick);
        }
        let mut at = range.start;
        while at.0 < range.end.0 {
            // Pages without words may get some, and be staged, too early.
            let Ok(leaf) = self.table.leaf_or_allocate(at) else { return self.hold_everything(now_tick) };
            Self::hold_in_leaf(&leaf, range, now_tick);
            at = leaf.first_page().plus(BLOCK_PAGES);
        }
    }

    /// For what has no leaf to note it in.
    fn hold_everything(&self, now_tick: u64) {
        self.held_until_tick.store(now_tick + HOLD_TICKS, Ordering::Release);
    }

    fn hold_in_leaf(leaf: &Leaf<'_>, range: PageRange, now_tick: u64) {
        for chunk in 0..(BLOCK_PAGES / CHUNK_PAGES) {
            let first = leaf.first_page().plus(chunk * CHUNK_PAGES);
            if first.0 < range.end.0 && range.start.0 < first.0 + CHUNK_PAGES {
                leaf.hold(chunk as u32, now_tick);
            }
        }
    }

    /// Of a block that is only unmapped in part, the rest may be held.
    pub(crate) fn free_leaves_of_unmapped(&self, range: PageRange) {
        let now_tick = self.platform.now_ns() / TICK_NS;
        self.table.free_empty_leaves(range, |leaf| {
            let whole = range.start <= leaf.first_page() && leaf.first_page().plus(BLOCK_PAGES) <= range.end;
            !whole && leaf.is_held_anywhere(now_tick)
        });
    }
}
