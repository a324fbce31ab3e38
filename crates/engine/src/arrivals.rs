//! Where pages arrived by mremap a moment ago, and so what an event means that takes pages away from there.
//!
//! Such an event (an unmapping, or a move from there) may be older than the move that brought the pages, although it is read later. Two things tell:
//! * No thread of a sound program uses the new place of a move before the move returned, and by then its event was read. So an event that was *read before* the move is older.
//! * For one that is *read after* the move, the kernel is asked in the moment in which it is read: is the mapping that arrived still there, the one that begins where the move put it? If
//!   so, the event is older. If not, it is the younger one, and the pages are no longer an arrival.
//!
//! What an older event takes away are the words of its range but for those of arrivals. (The answer is wrong if, before the event of an unmapping is read, another mapping is made that begins
//! at the very page at which the first one began, or if a part of what arrived is protected otherwise, which cuts it in two.)
//!
//! Must hold: emptied when no event is unread, and no two overlap. Private to the process, behind its lock.

use crate::event::overlap;
use uswap_units::{PageId, PageRange};

/// Arrivals kept apart: each thread in mremap makes one, and it may be cut in two. When there are more, the oldest is forgotten: an event that is still unread after so many moves is not
/// expected of any program. 128 * 40 B = 5 KiB.
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
    /// The move that brought them.
    pub by: Move,
    /// Whether their words are there.
    pub words: Words,
}

/// Where the words of pages are that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Words {
    /// At the old place still.
    OnTheirWay,
    /// At the new place.
    There,
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
const NO_ARRIVAL: Arrival =
    Arrival { place: NOTHING, begins: PageId(0), by: NO_MOVE, words: Words::OnTheirWay };

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
    /// A move brought pages, to the start of `place`: the mapping may have grown by the move, and its new pages are no older. The move unmapped `room` for it, in one step: what had
    /// arrived there is gone.
    pub fn add(&mut self, by: Move, place: PageRange, room: PageRange) {
        self.take_out(room);
        self.take_out(place);
        self.push(Arrival { place, begins: by.to, by, words: Words::OnTheirWay });
    }
    fn push(&mut self, arrival: Arrival) {
        if self.count == ARRIVALS_MAX {
            self.remove(0);
        }
        self.arrivals[self.count] = arrival;
        self.count += 1;
    }
    fn remove(&mut self, index: usize) {
        self.arrivals.copy_within(index + 1..self.count, index);
        self.count -= 1;
    }
    /// What arrived in `gone` is not there any more.
    pub fn take_out(&mut self, gone: PageRange) {
        let overlaps = |arrival: &Arrival| overlap(arrival.place, gone);
        while let Some(index) = self.arrivals[..self.count].iter().position(overlaps) {
            let Arrival { place, begins, by, words } = self.arrivals[index];
            self.remove(index);
            let before = PageRange { start: place.start, end: gone.start.max(place.start) };
            let behind = PageRange { start: gone.end.min(place.end), end: place.end };
            for (place, begins) in [(before, begins), (behind, behind.start)] {
                if place.start < place.end {
                    self.push(Arrival { place, begins, by, words });
                }
            }
        }
    }
    /// The first part of `range` where something arrived.
    pub fn first_in(&self, range: PageRange) -> Option<Arrival> {
        let is_there = |arrival: &&Arrival| range.start < range.end && overlap(arrival.place, range);
        let arrivals = self.arrivals[..self.count].iter().filter(is_there);
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
        let brought = self.arrivals[..self.count].iter_mut().filter(|arrival| arrival.by == by);
        brought.for_each(|arrival| arrival.words = Words::There);
    }
    /// True when the word of the page is that of a page that arrived.
    pub fn has_word(&self, page: PageId) -> bool {
        let there = |arrival: &Arrival| arrival.words == Words::There && arrival.place.contains(page);
        self.arrivals[..self.count].iter().any(there)
    }
    /// True when something in `range` was brought by this move.
    pub fn has_any_by(&self, by: Move, range: PageRange) -> bool {
        let is_there = |arrival: &Arrival| arrival.by == by && overlap(arrival.place, range);
        self.arrivals[..self.count].iter().any(is_there)
    }
    /// True when the page arrived.
    pub fn contains(&self, page: PageId) -> bool {
        self.arrivals[..self.count].iter().any(|arrival| arrival.place.contains(page))
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
    fn an_arrival_is_there_until_it_is_taken_out_and_knows_its_move() {
        let mut arrivals = Arrivals::new();
        arrivals.add(moved(100, 10, 10), range(10, 20), range(10, 25));
        arrivals.add(moved(200, 30, 2), range(30, 35), range(30, 35));
        arrivals.take_out(range(12, 16));
        let first = arrivals.first_in(range(0, 100)).expect("the front of the first");
        assert_eq!((first.place, first.by), (range(10, 12), moved(100, 10, 10)));
        let second = arrivals.first_in(range(13, 18)).expect("what is behind the hole");
        assert_eq!((second.place, second.begins), (range(16, 18), PageId(16)));
        assert_eq!(arrivals.first_without(range(12, 40)), (range(12, 16), range(20, 40)));
        assert!(arrivals.has_any_by(moved(100, 10, 10), range(15, 17)));
        assert!(!arrivals.has_any_by(moved(100, 10, 10), range(12, 16)), "what was there is gone");
        assert!(!arrivals.has_any_by(moved(200, 30, 2), range(15, 17)), "another one brought it");
        assert_eq!(arrivals.first_in(range(18, 18)), None, "who goes on behind each comes to an end");
        arrivals.add(moved(300, 8, 1), range(8, 9), range(8, 31));
        assert_eq!(arrivals.first_in(range(9, 100)).map(|arrival| arrival.place), Some(range(31, 35)));
        assert!(!arrivals.has_word(PageId(8)));
        arrivals.words_are_there(moved(300, 8, 1));
        assert!(arrivals.has_word(PageId(8)));
        assert!(!arrivals.has_word(PageId(31)));
        arrivals.take_out(range(0, 100));
        assert!(arrivals.is_empty());
    }

    #[test]
    fn of_too_many_the_oldest_is_forgotten() {
        let mut arrivals = Arrivals::new();
        let places = 0..=ARRIVALS_MAX as u64;
        places.for_each(|index| {
            let by = moved(5000 + index, index * 10, 2);
            arrivals.add(by, by.target(), NOTHING);
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
                    arrivals.add(moved(1000, start, pages), changed, NOTHING);
                } else {
                    arrivals.take_out(changed);
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
