//! In which order events take effect that were read while others are unread.
//!
//! The order in which events are read is that of the changes, unless a thread was stopped between its change and its
//! event. Then three things tell which was first:
//! * no thread of a sound program uses a place before the call that put pages there has returned, and that call's
//!   events were read by then;
//! * of pages that came to a place and others that left it, the kernel shows which are there now;
//! * a child of fork has what was mapped in the moment of the fork.

use crate::arrivals::{LeftBy, Move};
use crate::engine::Engine;
use crate::event::{Event, Forks, Order, Removal, Turn, overlap};
use crate::later::Later;
use crate::platform::Platform;
use crate::unfinished::{UNFINISHED_MAX, Unfinished};
use crate::workspace::Workspace;
use uswap_core::page_table::PageTable;
use uswap_core::page_word::Afterwards;
use uswap_units::{PageId, PageRange};

/// True when mremap told so of its new place: it unmaps what is there, in one step with the move, and tells of that
/// first. (It may also have been another thread's unmapping.)
fn is_room(left: Removal, place: PageRange) -> bool {
    left == Removal::Unmapped(place)
}

impl<P: Platform> Engine<'_, P> {
    /// An event was read after a fork. What it tells of may have happened before or after the fork; where that matters
    /// the child is asked. A move that the child does not know waits behind the fork, for which all changes must be
    /// known that came before it.
    pub(crate) async fn settle_forks_before(&self, unfinished: &mut Unfinished, event: Event) -> Order {
        let mut order = Order::Free;
        match event {
            // What they drop waits.
            Event::Remove(_) | Event::Unmap(_) => (),
            // A child that has the old place was made before the move. Where the place stays (MREMAP_DONTUNMAP) that
            // shows nothing, but such a call waits for forks, and they for it.
            Event::Remap { from, to, pages, added, stays } => {
                let from = PageRange { start: from, end: from.plus(pages) };
                let target = PageRange { start: to, end: to.plus(pages + added) };
                let Some(page) = self.page_to_ask_for(self.table, from) else { return order };
                let is_before = |child| stays || self.platform.child_has(child, page);
                for position in 0..unfinished.len() {
                    let room = unfinished.position(|left| is_room(left, target) && !stays);
                    let fork = unfinished.iter().nth(position);
                    if let (Some(room), Some(Removal::Fork(child))) = (room, fork)
                        && room < position
                        && is_before(child)
                    {
                        // What made way for the move was read before the fork, and came after it.
                        unfinished.put_behind(room, position);
                    }
                }
                if unfinished.places() < UNFINISHED_MAX / 2 {
                    self.finish_forks_if(unfinished, |child, _| is_before(child)).await;
                } else if unfinished
                    .iter()
                    .any(|left| matches!(left, Removal::Fork(child) if is_before(child)))
                {
                    order = Order::Behind;
                }
            }
        }
        order
    }

    /// The page of what was moved from `from` that shows whether a child has it: not one where others have arrived
    /// since. None: nothing was moved that is managed.
    pub(crate) fn page_to_ask_for(&self, table: PageTable<'_>, from: PageRange) -> Option<PageId> {
        let managed = table.first_managed(from)?;
        let mut rest = from;
        while rest.start < rest.end {
            let (without, behind) = self.private.lock().late_unmaps.arrivals.first_without(rest);
            if without.start < without.end {
                return Some(table.first_managed(without).unwrap_or(without.start));
            }
            rest = behind;
        }
        Some(managed)
    }

    /// The turn of an event among the moves that were read before it and are not done. Of a move is known which of what
    /// had arrived left by it. `among_forks`: its place among forks.
    pub(crate) fn turn_of<'m>(
        &self,
        unfinished: &mut Unfinished,
        event: Event,
        among_forks: Order,
        later: Later<'m>,
    ) -> Turn<'m> {
        let forks = unfinished.forks();
        let turn = |behind, before| {
            let order = if behind { Order::Behind } else { among_forks };
            Turn { order, before, forks, later }
        };
        match event {
            Event::Remove(range) => {
                // As an unmapping, it may find words of what was moved away before, by a thread whose event comes
                // later.
                let waits = unfinished.places() >= UNFINISHED_MAX / 2
                    && self.holds_content(range)
                    && self.platform.event_pending();
                turn(waits || unfinished.moves_through(range), None)
            }
            Event::Unmap(range) => turn(unfinished.moves_to(range), None),
            Event::Remap { from, to, pages, added, stays } => {
                let from = PageRange { start: from, end: from.plus(pages) };
                let room = PageRange { start: to, end: to.plus(pages + added) };
                let told_at = Self::take_room(unfinished, room);
                let made_way = |left| match left {
                    Removal::Postponed { from: came_from, to: came, .. } if !stays => {
                        self.came_later(came, Move { from: came_from, to: came.start }, Move { from, to })
                    }
                    _ => false,
                };
                let made_way_at = unfinished.iter().position(made_way);
                // What was moved away from its new place had left before it came, or another thread would have used a
                // place to which a call that has not returned had put something.
                let behind_those_that_left = unfinished.behind_moves_from(room);
                // What came to its old place, and is not there any more, goes along.
                let takes_on =
                    |left: Removal| left.target().is_some_and(|came| overlap(came, from)) && !made_way(left);
                let behind_those_that_came = unfinished.behind_last(takes_on);
                let told_at =
                    told_at.map(|told_at| told_at.max(behind_those_that_left).max(behind_those_that_came));
                // Where a drop waits that was read before, the kernel shows whether the place was in use again by then:
                // what was moved had left it.
                let dropped_at = unfinished.position(|left| left.drops_in(from));
                let was_dropped =
                    dropped_at.is_some() && (stays || self.platform.registered_mapping(from).is_none());
                let drop_at = dropped_at.filter(|_| !was_dropped);
                let before = [made_way_at, told_at, drop_at].into_iter().flatten().min();
                // No other thread of a sound program uses what a call that has not returned moves: of all others the
                // first that was read is the older one.
                let earlier = before.unwrap_or(unfinished.len());
                let behind = unfinished
                    .iter()
                    .take(earlier)
                    .any(|left| left.moves_through(from) || left.moves_through(room));
                turn(behind || was_dropped || unfinished.drops_in(room), before)
            }
        }
    }

    /// An event was read just now. If it is a move: which of what arrived in its old place came before it, and goes
    /// along?
    pub(crate) fn look_for_arrivals_moved_on(&self, event: Event, later: Later<'_>) {
        let Event::Remap { from, to, pages, added, stays: false } = event else { return };
        let by = Move { from: PageRange { start: from, end: from.plus(pages) }, to };
        let room = PageRange { start: to, end: to.plus(pages + added) };
        // What came from where this move goes had left before it, or another thread would have used a place to which a
        // call that has not returned had put something.
        let mut rest = by.from;
        while let Some(arrival) = self.first_arrival(rest) {
            if overlap(arrival.by.from, room) {
                self.private.lock().late_unmaps.arrivals.leave(arrival.place, LeftBy::Move(by));
            }
            rest.start = arrival.place.end;
        }
        self.look_for_arrivals(by.from, LeftBy::Move(by), later);
    }

    /// Pages that came to a part of `came` by a move came after the move that `leaves` from there: they are still
    /// there, or left by another one.
    fn came_later(&self, came: PageRange, by: Move, leaves: Move) -> bool {
        let from = leaves.from;
        let part = PageRange { start: from.start.max(came.start), end: from.end.min(came.end) };
        self.private.lock().late_unmaps.arrivals.has_any_by(by, part, leaves)
    }

    /// Where among the unfinished the unmapping of a move's new place stood. That is part of the move, and taken out;
    /// but not while a child waits, who may need it by itself: it may have been another thread's unmapping, before the
    /// move.
    fn take_room(unfinished: &mut Unfinished, room: PageRange) -> Option<usize> {
        let first = unfinished.position(|left| is_room(left, room));
        if unfinished.forks() == Forks::None {
            while unfinished.take_first(|left| is_room(left, room)).is_some() {}
        }
        first
    }

    /// Goes on with what is left of events, the oldest first; with `force` also where it would be better to wait for
    /// others. True while something still is.
    pub(crate) async fn finish_removals(
        &self,
        unfinished: &mut Unfinished,
        force: bool,
        workspace: &mut Workspace,
    ) -> bool {
        if unfinished.len() == 0 {
            return false;
        }
        if unfinished.forks() == Forks::Waiting && (force || !self.platform.event_pending()) {
            self.finish_forks(unfinished).await;
        }
        // Words that were moved away are taken from a place before what else is there is dropped.
        let looked_at = core::mem::replace(unfinished, Unfinished::new());
        let (mut left, mut parts) = ([Removal::Done; UNFINISHED_MAX], Unfinished::new());
        for drops in [false, true] {
            for (position, removal) in looked_at.iter().enumerate() {
                if matches!(removal, Removal::Unmapped(_)) != drops {
                    continue;
                }
                let mut stays = self.go_on_with(removal, unfinished, force, workspace).await;
                if let (Removal::Postponed { .. }, Removal::Homeless { .. }) = (removal, stays) {
                    let mut now = self.follow_what_waits(stays, looked_at.iter().skip(position + 1));
                    stays = now.take_first(|_| true).unwrap_or(Removal::Done);
                    for part in now.iter() {
                        parts.leave(part);
                        unfinished.leave(part);
                    }
                }
                left[position] = stays;
                unfinished.leave(stays);
            }
        }
        // Those that stay, in the order in which they were.
        *unfinished = Unfinished::new();
        left.into_iter().chain(parts.iter()).for_each(|left| unfinished.leave(left));
        unfinished.len() > 0
    }

    /// Goes on with one. `before`: those that were looked at before it and stay.
    async fn go_on_with(
        &self,
        removal: Removal,
        before: &Unfinished,
        force: bool,
        workspace: &mut Workspace,
    ) -> Removal {
        match removal {
            Removal::Done => Removal::Done,
            Removal::Homeless { from, to } => self.bring_home(from, to, workspace).await,
            // What it moves is dropped first.
            Removal::Postponed { from, .. } if before.drops_in(from) => removal,
            // What was read before it has not arrived, or not left yet.
            Removal::Postponed { from: range, .. } | Removal::DropAgain(range) | Removal::Unmapped(range)
                if before.moves_through(range)
                    || removal
                        .target()
                        .is_some_and(|target| before.moves_through(target) || before.drops_in(target)) =>
            {
                removal
            }
            // A fork that waits needs the words, where they were.
            Removal::Fork(_) => removal,
            Removal::Postponed { .. } | Removal::DropAgain(_) | Removal::Unmapped(_)
                if before.forks() == Forks::Waiting =>
            {
                removal
            }
            Removal::Postponed { from, to, stays } => self.remap_or_wait(from, to, stays).await,
            Removal::DropAgain(_) if !force && self.platform.event_pending() => removal,
            Removal::DropAgain(range) => {
                self.remove_words(range, Afterwards::StillManaged);
                Removal::Done
            }
            Removal::Unmapped(range) => self.settle_unmapped(range, force),
        }
    }
}
