//! Where pages arrived by mremap a moment ago, and so what an event means that takes pages away from there.
//!
//! Such an event (an unmapping, or a move from there) may be older than the move that brought the pages, although it is
//! read later. Four things tell:
//! * No thread of a sound program uses the new place of a move before the move returned, and by then its event was
//!   read. So an event that was *read before* the move is older.
//! * For one that is *read after* the move, the next move that was read with it may tell what it left behind: see
//!   `later`.
//! * Else the kernel is asked in the moment in which it is read: is the mapping that arrived still there, one that
//!   begins or ends where the move put it (others may have cut off a part)? If so, the event is older. If not, it is
//!   the younger one, and the pages have left: with it.
//! * Pages leave a place once. What arrived and has left again notes which event it was (`left_by`). A move from there
//!   that is read later did not take them: it took what was there before they came, and is older, also when others have
//!   arrived there meanwhile (`Words::Replaced`). (Between two moves from one place something comes there, and who uses
//!   that waits until it was told of.)
//!
//! A move with MREMAP_DONTUNMAP takes the pages and leaves the mapping. Nothing comes to its old place before it has
//! returned: all that arrived there and was read before came before it, and what it leaves is still the mapping that
//! arrived, which shows of events that are read later that they are older.
//!
//! What an older event takes away are the words of its range but for those of arrivals. (The kernel's answer is wrong
//! if another mapping begins or ends at the very page at which the first one did, and the event that tells of it is not
//! queued yet; or if what arrived loses both ends, is protected otherwise at both, or is joined with others at both, as
//! where it comes back to the place from which it was cut.)
//!
//! Must hold: emptied when no event is unread, and no two overlap but those that others have replaced. Private to the
//! process, behind its lock.

use crate::event::overlap;
use uswap_units::{PageId, PageRange};

/// Arrivals kept apart: each thread in mremap makes one, and it may be cut in two. When there are more, one that was
/// replaced is forgotten, or the oldest: an event that is still unread after so many moves is not expected of any
/// program. 128 * 96 B = 12 KiB.
const ARRIVALS_MAX: usize = 128;

/// A move of pages that a remap event told of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// The old place.
    pub from: PageRange,
    /// First page of the new place.
    pub to: PageId,
}

impl Move {
    /// The new place.
    pub fn target(self) -> PageRange {
        PageRange { start: self.to, end: self.to.plus(self.from.pages()) }
    }
}

/// Pages that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Where they are, or will be, with what their mapping grew by: a part of the new place.
    pub place: PageRange,
    /// The first page of their mapping.
    pub begins: PageId,
    /// The page behind it.
    pub ends: PageId,
    /// The move that brought them.
    pub by: Move,
    /// Whether their words are there.
    pub words: Words,
    /// What took them away again, if they are not there any more.
    pub left_by: Option<LeftBy>,
}

/// The event with which pages left that had arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeftBy {
    /// A move to another place.
    Move(Move),
    /// An unmapping.
    Unmapping,
}

/// Where the words of pages are that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Words {
    /// At the old place still.
    OnTheirWay,
    /// At the new place.
    There,
    /// Others have arrived in their place, after they had left.
    Replaced,
}

/// What arrived since no event was unread, the oldest first.
#[derive(Debug)]
pub struct Arrivals {
    arrivals: [Arrival; ARRIVALS_MAX],
    count: usize,
}

/// No pages.
pub(crate) const NOTHING: PageRange = PageRange { start: PageId(0), end: PageId(0) };
/// No move.
pub(crate) const NO_MOVE: Move = Move { from: NOTHING, to: PageId(0) };
const NO_ARRIVAL: Arrival = Arrival {
    place: NOTHING,
    begins: PageId(0),
    ends: PageId(0),
    by: NO_MOVE,
    words: Words::OnTheirWay,
    left_by: None,
};

impl Arrivals {
    /// Nothing arrived.
    pub const fn new() -> Arrivals {
        Arrivals { arrivals: [NO_ARRIVAL; ARRIVALS_MAX], count: 0 }
    }
    /// Nothing arrived.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
    /// No event is unread: none is older than what is there.
    pub fn clear(&mut self) {
        self.count = 0;
    }
    /// A move brought pages, to the start of `place`: the mapping may have grown by the move, and its new pages are no
    /// older. It unmapped what was there, in one step: what had arrived there is gone. Of what had left before it is
    /// still known how: an event that is older than it may come yet.
    pub fn add(&mut self, by: Move, place: PageRange) {
        // A move that comes again is not told apart from the first one.
        self.change(|arrival| arrival.left_by.is_none() || arrival.by == by, place, |_| None);
        let replaced = |arrival| Some(Arrival { words: Words::Replaced, ..arrival });
        self.change(|arrival| arrival.words != Words::Replaced, place, replaced);
        self.push(Arrival { place, begins: by.to, ends: place.end, by, ..NO_ARRIVAL });
    }
    fn push(&mut self, arrival: Arrival) {
        if self.count == ARRIVALS_MAX {
            let replaced = self.arrivals.iter().position(|arrival| arrival.words == Words::Replaced);
            self.remove(replaced.unwrap_or(0));
        }
        self.arrivals[self.count] = arrival;
        self.count += 1;
    }
    fn remove(&mut self, index: usize) {
        self.arrivals.copy_within(index + 1..self.count, index);
        self.count -= 1;
    }
    /// What arrived in `gone`, and was still there, is not there any more.
    pub fn leave(&mut self, gone: PageRange, left_by: LeftBy) {
        let leave = |arrival| Some(Arrival { left_by: Some(left_by), ..arrival });
        self.change(|arrival| arrival.left_by.is_none(), gone, leave);
    }
    /// Changes, or takes out, the part in `range` of each of those that are chosen. What was changed must not be chosen
    /// again.
    fn change(
        &mut self,
        chosen: impl Fn(&Arrival) -> bool,
        range: PageRange,
        changed: impl Fn(Arrival) -> Option<Arrival>,
    ) {
        let is_next = |arrival: &Arrival| chosen(arrival) && overlap(arrival.place, range);
        while let Some(index) = self.arrivals[..self.count].iter().position(is_next) {
            let arrival @ Arrival { place, .. } = self.arrivals[index];
            self.remove(index);
            let before = PageRange { start: place.start, end: range.start.max(place.start) };
            let behind = PageRange { start: range.end.min(place.end), end: place.end };
            let inside = PageRange { start: before.end, end: behind.start };
            let parts = [
                Some(Arrival { place: before, ends: before.end, ..arrival }),
                changed(Arrival { place: inside, ..arrival }),
                Some(Arrival { place: behind, begins: behind.start, ..arrival }),
            ];
            let parts = parts.into_iter().flatten().filter(|part| part.place.start < part.place.end);
            parts.for_each(|part| self.push(part));
        }
    }
    fn are_there(&self) -> impl Iterator<Item = &Arrival> {
        self.arrivals[..self.count].iter().filter(|arrival| arrival.left_by.is_none())
    }
    /// The first part of `range` where something arrived and is there.
    pub fn first_in(&self, range: PageRange) -> Option<Arrival> {
        let is_in = |arrival: &&Arrival| range.start < range.end && overlap(arrival.place, range);
        let arrivals = self.are_there().filter(is_in);
        let first = arrivals.min_by_key(|arrival| arrival.place.start)?;
        let place =
            PageRange { start: first.place.start.max(range.start), end: first.place.end.min(range.end) };
        Some(Arrival { place, ..*first })
    }
    /// The first part of `range`, up to its end, where nothing arrived, and what is behind it.
    pub fn first_without(&self, range: PageRange) -> (PageRange, PageRange) {
        match self.first_in(range) {
            Some(Arrival { place, .. }) => (
                PageRange { start: range.start, end: place.start },
                PageRange { start: place.end, end: range.end },
            ),
            None => (range, PageRange { start: range.end, end: range.end }),
        }
    }
    /// The words that a move brought are at their new place.
    pub fn words_are_there(&mut self, by: Move) {
        let brought = self.arrivals[..self.count]
            .iter_mut()
            .filter(|arrival| arrival.by == by && arrival.words == Words::OnTheirWay);
        brought.for_each(|arrival| arrival.words = Words::There);
    }
    /// True when the word of the page is that of a page that arrived, and did not leave by this move.
    pub fn has_word_not_of(&self, by: Move, page: PageId) -> bool {
        let is_word = |arrival: &Arrival| {
            arrival.words == Words::There
                && arrival.place.contains(page)
                && arrival.left_by != Some(LeftBy::Move(by))
        };
        self.arrivals[..self.count].iter().any(is_word)
    }
    /// The first part of `range` from which what had arrived there left by this move, and where nothing else has
    /// arrived since.
    pub fn first_left_by(&self, by: Move, range: PageRange) -> Option<PageRange> {
        let left = self.arrivals[..self.count].iter().filter(|arrival| {
            arrival.left_by == Some(LeftBy::Move(by))
                && arrival.words != Words::Replaced
                && range.start < range.end
                && overlap(arrival.place, range)
        });
        let first = left.map(|arrival| arrival.place).min_by_key(|place| place.start)?;
        Some(PageRange { start: first.start.max(range.start), end: first.end.min(range.end) })
    }
    /// True when something in `range` was brought by this move, and did not leave by the other. Where the other took
    /// along what others brought since, it came after them all.
    pub fn has_any_by(&self, by: Move, range: PageRange, other: Move) -> bool {
        let stayed = |arrival: &Arrival| {
            let place = PageRange {
                start: arrival.place.start.max(range.start),
                end: arrival.place.end.min(range.end),
            };
            arrival.by == by
                && overlap(arrival.place, range)
                && arrival.left_by != Some(LeftBy::Move(other))
                && (arrival.words != Words::Replaced || self.first_left_by(other, place).is_none())
        };
        self.arrivals[..self.count].iter().any(stayed)
    }
    /// True when the page arrived, and is there.
    pub fn contains(&self, page: PageId) -> bool {
        self.are_there().any(|arrival| arrival.place.contains(page))
    }
}

impl Default for Arrivals {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(start: u64, end: u64) -> PageRange {
        PageRange { start: PageId(start), end: PageId(end) }
    }
    fn moved(from: u64, to: u64, pages: u64) -> Move {
        Move { from: range(from, from + pages), to: PageId(to) }
    }

    #[test]
    fn an_arrival_is_there_until_it_leaves_and_knows_its_move() {
        let mut arrivals = Arrivals::new();
        arrivals.add(moved(100, 10, 10), range(10, 20));
        arrivals.add(moved(200, 30, 2), range(30, 35));
        arrivals.leave(range(12, 16), LeftBy::Unmapping);
        let first = arrivals.first_in(range(0, 100)).expect("the front of the first");
        assert_eq!((first.place, first.by), (range(10, 12), moved(100, 10, 10)));
        let second = arrivals.first_in(range(13, 18)).expect("what is behind the hole");
        assert_eq!((second.place, second.begins), (range(16, 18), PageId(16)));
        assert_eq!(arrivals.first_without(range(12, 40)), (range(12, 16), range(20, 40)));
        assert_eq!(arrivals.first_in(range(18, 18)), None, "who goes on behind each comes to an end");
        arrivals.add(moved(300, 8, 1), range(8, 31));
        assert_eq!(arrivals.first_in(range(9, 100)).map(|arrival| arrival.place), Some(range(9, 31)));
        assert!(!arrivals.has_word_not_of(NO_MOVE, PageId(8)));
        arrivals.words_are_there(moved(300, 8, 1));
        assert!(arrivals.has_word_not_of(NO_MOVE, PageId(8)));
        assert!(!arrivals.has_word_not_of(NO_MOVE, PageId(31)));
        arrivals.clear();
        assert!(arrivals.is_empty());
    }

    #[test]
    fn what_left_is_not_there_and_is_known_not_to_have_left_by_another_move() {
        let (mut arrivals, came) = (Arrivals::new(), moved(100, 10, 10));
        arrivals.add(came, came.target());
        arrivals.words_are_there(came);
        let (on, later) = (moved(14, 300, 3), moved(8, 500, 12));
        arrivals.leave(range(14, 17), LeftBy::Move(on));
        assert!(arrivals.contains(PageId(13)) && !arrivals.contains(PageId(14)));
        assert_eq!(arrivals.first_without(range(14, 20)), (range(14, 17), range(20, 20)));
        assert!(
            arrivals.has_any_by(came, range(14, 17), later),
            "it did not leave by the one that is read later"
        );
        assert!(!arrivals.has_any_by(came, range(14, 17), on));
        assert!(arrivals.has_any_by(came, range(14, 18), on), "a part stayed");
        assert!(!arrivals.has_any_by(moved(200, 10, 10), range(10, 20), later), "another one brought it");
        assert!(arrivals.has_word_not_of(later, PageId(14)) && !arrivals.has_word_not_of(on, PageId(14)));
        // It leaves once, until something else comes.
        arrivals.leave(range(0, 30), LeftBy::Move(later));
        assert!(
            !arrivals.has_any_by(came, range(14, 17), on) && arrivals.has_any_by(came, range(14, 17), later)
        );
        let again = moved(700, 12, 4);
        arrivals.add(again, again.target());
        assert!(arrivals.contains(PageId(12)) && !arrivals.has_word_not_of(again, PageId(12)));
        assert!(
            arrivals.has_any_by(came, range(14, 16), later),
            "that it left by another one is still known"
        );
        assert!(
            !arrivals.has_any_by(came, range(12, 14), later) && !arrivals.has_any_by(came, range(14, 16), on)
        );
        arrivals.words_are_there(came);
        assert!(!arrivals.has_word_not_of(NO_MOVE, PageId(12)), "its words are not there any more");
        // What is there when others arrive has not left by any event that was read.
        let last = moved(900, 12, 4);
        arrivals.add(last, last.target());
        assert!(!arrivals.has_any_by(again, range(12, 16), later));
        assert!(arrivals.has_any_by(came, range(14, 16), later));
        arrivals.leave(range(15, 16), LeftBy::Move(later));
        assert!(!arrivals.has_any_by(came, range(14, 16), later), "what replaced it was taken along");
        arrivals.add(last, last.target());
        // Nor is one known to have left that came by the same move before.
        arrivals.leave(last.target(), LeftBy::Unmapping);
        assert!(arrivals.has_any_by(last, range(12, 16), later));
        arrivals.add(last, last.target());
        arrivals.leave(last.target(), LeftBy::Move(later));
        assert!(!arrivals.has_any_by(last, range(12, 16), later));
    }

    #[test]
    fn what_left_by_a_move_is_found_part_by_part() {
        let (mut arrivals, came) = (Arrivals::new(), moved(100, 10, 10));
        arrivals.add(came, came.target());
        let on = moved(5, 300, 20);
        arrivals.leave(range(12, 14), LeftBy::Move(on));
        arrivals.leave(range(14, 15), LeftBy::Unmapping);
        arrivals.leave(range(16, 19), LeftBy::Move(on));
        assert_eq!(arrivals.first_left_by(on, range(5, 25)), Some(range(12, 14)));
        assert_eq!(arrivals.first_left_by(on, range(14, 18)), Some(range(16, 18)));
        assert_eq!(arrivals.first_left_by(on, range(18, 18)), None);
        assert_eq!(arrivals.first_left_by(came, range(5, 25)), None);
        arrivals.add(moved(200, 12, 1), range(12, 13));
        assert_eq!(arrivals.first_left_by(on, range(5, 25)), Some(range(13, 14)));
    }

    #[test]
    fn of_too_many_one_that_was_replaced_is_forgotten_first() {
        let (mut arrivals, came) = (Arrivals::new(), moved(5000, 0, 2));
        arrivals.add(came, came.target());
        for index in 0..ARRIVALS_MAX as u64 {
            arrivals.leave(range(10, 12), LeftBy::Unmapping);
            let again = moved(6000 + index, 10, 2);
            arrivals.add(again, again.target());
        }
        assert!(arrivals.contains(PageId(0)) && arrivals.contains(PageId(10)));
    }

    #[test]
    fn of_too_many_the_oldest_is_forgotten() {
        let mut arrivals = Arrivals::new();
        let places = 0..=ARRIVALS_MAX as u64;
        places.for_each(|index| {
            let by = moved(5000 + index, index * 10, 2);
            arrivals.add(by, by.target());
        });
        assert!(!arrivals.contains(PageId(0)));
        assert!((1..=ARRIVALS_MAX as u64).all(|index| arrivals.contains(PageId(index * 10 + 1))));
    }

    proptest! {
        #[test]
        fn they_are_the_set_of_their_pages(
            changes in prop::collection::vec((any::<bool>(), 0_u64..60, 1_u64..20), 1..40)
        ) {
            let (mut arrivals, mut model) = (Arrivals::new(), [false; 80]);
            for (adds, start, pages) in changes {
                let changed = range(start, start + pages);
                if adds {
                    arrivals.add(moved(1000, start, pages), changed);
                } else {
                    arrivals.leave(changed, LeftBy::Unmapping);
                }
                model[start as usize..(start + pages) as usize].fill(adds);
                for (page, there) in (0..).map(PageId).zip(model) {
                    prop_assert_eq!(arrivals.contains(page), there);
                }
                let mut rest = range(0, 80);
                while rest.start < rest.end {
                    let (without, next) = arrivals.first_without(rest);
                    prop_assert!((without.start.0..without.end.0).all(|page| !model[page as usize]));
                    prop_assert!((without.end.0..next.start.0).all(|page| model[page as usize]));
                    rest = next;
                }
            }
        }
    }
}
