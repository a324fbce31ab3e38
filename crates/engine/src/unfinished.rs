//! What is left to do of events while others are unread: the list of the task that reads messages, in the order in
//! which the events were read.

use crate::arrivals::Move;
use crate::event::{Forks, Removal, overlap};
use uswap_units::PageRange;

/// Events that wait for others to be read, at most: threads of the program that change the same mappings in the same
/// moment. 64 * 32 B = 2 KiB of a handler's stack.
pub(crate) const UNFINISHED_MAX: usize = 64;

/// Removals that are not done. Empty on the way of an ordinary fault, where looking at it must cost nothing.
pub(crate) struct Unfinished {
    left: [Removal; UNFINISHED_MAX],
    count: usize,
}

impl Unfinished {
    pub(crate) fn new() -> Unfinished {
        Unfinished { left: [Removal::Done; UNFINISHED_MAX], count: 0 }
    }
    /// How many more fit.
    pub(crate) fn places(&self) -> usize {
        UNFINISHED_MAX - self.count
    }
    pub(crate) fn len(&self) -> usize {
        self.count
    }
    pub(crate) fn iter(&self) -> impl Iterator<Item = Removal> + '_ {
        self.left[..self.count].iter().copied()
    }
    /// Adds one at the end, unless it is done.
    pub(crate) fn leave(&mut self, left: Removal) {
        self.leave_before(left, None);
    }
    /// Adds one before another, named by its position, or at the end; unless it is done.
    pub(crate) fn leave_before(&mut self, left: Removal, position: Option<usize>) {
        if left != Removal::Done {
            assert!(self.count < UNFINISHED_MAX, "no more messages are read than there are places");
            let position = position.unwrap_or(self.count);
            self.left.copy_within(position..self.count, position + 1);
            self.left[position] = left;
            self.count += 1;
        }
    }
    /// Where the first that is chosen stands.
    pub(crate) fn position(&self, chosen: impl Fn(Removal) -> bool) -> Option<usize> {
        self.iter().position(chosen)
    }
    /// Takes out the first that is chosen; the others stay in order.
    pub(crate) fn take_first(&mut self, chosen: impl Fn(Removal) -> bool) -> Option<Removal> {
        let index = self.position(&chosen)?;
        self.take_at(index, chosen)
    }
    /// Takes out the one at this position, if it is chosen; the others stay in order.
    pub(crate) fn take_at(&mut self, position: usize, chosen: impl Fn(Removal) -> bool) -> Option<Removal> {
        let taken = self.left[position];
        if !chosen(taken) {
            return None;
        }
        self.left.copy_within(position + 1..self.count, position);
        self.count -= 1;
        Some(taken)
    }
    /// Moves one behind another that came after it.
    pub(crate) fn put_behind(&mut self, position: usize, other: usize) {
        self.left[position..=other].rotate_left(1);
    }
    /// Whether a fork waits.
    pub(crate) fn forks(&self) -> Forks {
        let waiting = self.iter().any(|left| matches!(left, Removal::Fork(_)));
        if waiting { Forks::Waiting } else { Forks::None }
    }
    /// True when pages that were moved to a part of `range` have not arrived there yet.
    pub(crate) fn moves_to(&self, range: PageRange) -> bool {
        let homeless = |left| match left {
            Removal::Homeless { from, to } => Some(Move { from, to }.target()),
            _ => None,
        };
        self.iter().filter_map(|left| left.target().or(homeless(left))).any(|to| overlap(to, range))
    }
    /// The position behind the last move whose pages have not left a part of `range`; 0 if there is none.
    pub(crate) fn behind_moves_from(&self, range: PageRange) -> usize {
        let leaves = |left| match left {
            Removal::Postponed { from, .. } | Removal::Homeless { from, .. } => overlap(from, range),
            _ => false,
        };
        self.behind_last(leaves)
    }
    /// The position behind the last that is chosen; 0 if there is none.
    pub(crate) fn behind_last(&self, chosen: impl Fn(Removal) -> bool) -> usize {
        self.iter().enumerate().filter(|&(_, left)| chosen(left)).map(|(at, _)| at + 1).max().unwrap_or(0)
    }
    /// True when what is in a part of `range` must first be dropped.
    pub(crate) fn drops_in(&self, range: PageRange) -> bool {
        self.iter().any(|left| left.drops_in(range))
    }
    /// True when words must first leave or reach a part of `range`.
    pub(crate) fn moves_through(&self, range: PageRange) -> bool {
        self.iter().any(|left| left.moves_through(range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uswap_units::PageId;

    #[test]
    fn removals_stay_in_order_and_places_come_back() {
        let mut unfinished = Unfinished::new();
        for descriptor in 0..UNFINISHED_MAX as i32 {
            unfinished.leave(Removal::Done);
            unfinished.leave(Removal::Fork(descriptor));
        }
        assert_eq!(unfinished.places(), 0);
        assert_eq!(unfinished.take_first(|left| left == Removal::Fork(5)), Some(Removal::Fork(5)));
        assert_eq!(unfinished.take_first(|left| left == Removal::Fork(5)), None);
        assert_eq!(unfinished.places(), 1);
        unfinished.leave(Removal::Fork(5));
        let mut order = alloc::vec::Vec::new();
        while let Some(Removal::Fork(descriptor)) = unfinished.take_first(|_| true) {
            order.push(descriptor);
        }
        assert_eq!(order[..6], [0, 1, 2, 3, 4, 6]);
        assert_eq!((order.len(), order[63], unfinished.len()), (UNFINISHED_MAX, 5, 0));
    }

    #[test]
    fn moves_from_a_place_are_found_wherever_they_stand() {
        let range = |start, end| PageRange { start: PageId(start), end: PageId(end) };
        let mut unfinished = Unfinished::new();
        unfinished.leave(Removal::Unmapped(range(30, 50)));
        assert_eq!(unfinished.behind_moves_from(range(30, 50)), 0);
        unfinished.leave(Removal::Postponed { from: range(45, 60), to: range(0, 15), stays: false });
        unfinished.leave(Removal::Unmapped(range(0, 15)));
        assert_eq!(unfinished.behind_moves_from(range(30, 46)), 2);
        assert_eq!(unfinished.behind_moves_from(range(30, 45)), 0, "it ends where they begin");
        assert_eq!(unfinished.behind_moves_from(range(0, 15)), 0, "they come there");
    }

    #[test]
    fn one_is_put_behind_another() {
        let mut unfinished = Unfinished::new();
        (0..5).for_each(|descriptor| unfinished.leave(Removal::Fork(descriptor)));
        unfinished.put_behind(1, 3);
        assert!(unfinished.iter().eq([0, 2, 3, 1, 4].map(Removal::Fork)));
        assert_eq!(unfinished.position(|left| left == Removal::Fork(1)), Some(3));
    }
}
