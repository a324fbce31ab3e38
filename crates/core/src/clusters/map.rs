//! The 512-bit map of a cluster: which slots are used.
//!
//! Eight words, so one cache line. A search looks at words, not at slots.
//!
//! Must hold: a run that is found is free in the copy that was searched, and starts at a multiple of its length. Only
//! the holder of the cluster's lock changes the map; a copy made without the lock is a hint. Called by
//! [`crate::clusters`] and its [`crate::clusters::lists`].

use super::{CLUSTER_SLOTS, ORDER_MAX};
use uswap_sync::{AtomicU64, Ordering};

/// Words of the map.
pub(crate) const MAP_WORDS: usize = 8;

/// A copy of the map; a set bit is a slot that cannot be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Map(pub [u64; MAP_WORDS]);

/// The order of a run as long as a word.
const WORD_ORDER: u32 = 6;

/// Bits at which a run of `1 << order` slots may start in a word; order below 6.
const STARTS: [u64; 6] = [
    !0,
    0x5555_5555_5555_5555,
    0x1111_1111_1111_1111,
    0x0101_0101_0101_0101,
    0x0001_0001_0001_0001,
    0x0000_0001_0000_0001,
];

/// Starts of free aligned runs in one word.
const fn free_runs(word: u64, order: u32) -> u64 {
    let mut free = !word;
    let mut step = 0;
    while step < order {
        free &= free >> (1 << step);
        step += 1;
    }
    free & STARTS[order as usize]
}

/// Starts of free aligned runs in one word that are not part of a larger one; order below 6.
const fn lone_runs(word: u64, order: u32) -> u64 {
    let larger = if order + 1 < WORD_ORDER { free_runs(word, order + 1) } else { (word == 0) as u64 };
    free_runs(word, order) & !(larger | larger << (1 << order))
}

/// The first free aligned run of `1 << order` slots in one word, if it is shorter than a word.
pub(crate) const fn first_run(word: u64, order: u32) -> Option<u32> {
    if order >= WORD_ORDER {
        return None;
    }
    let runs = free_runs(word, order);
    if runs == 0 { None } else { Some(runs.trailing_zeros()) }
}

/// Positions of the bits that are set.
pub(crate) fn ones(bits: u64) -> impl Iterator<Item = u32> {
    let next = |left: &u64| Some(left & (left - 1)).filter(|left| *left != 0);
    core::iter::successors(Some(bits).filter(|bits| *bits != 0), next).map(|left| left.trailing_zeros())
}

/// The bits of `first..first + count` that lie in word `index`.
const fn bits(index: usize, first: u32, count: u32) -> u64 {
    let start = index as u32 * 64;
    let (low, high) = (first.saturating_sub(start), (first + count).saturating_sub(start));
    let (low, high) = (if low < 64 { low } else { 64 }, if high < 64 { high } else { 64 });
    if low >= high {
        return 0;
    }
    (!0 >> (64 - (high - low))) << low
}

impl Map {
    /// Nothing is used.
    pub(crate) const EMPTY: Map = Map([0; MAP_WORDS]);

    pub(crate) fn load(words: &[AtomicU64]) -> Map {
        Map(core::array::from_fn(|index| words[index].load(Ordering::Relaxed)))
    }

    /// Marks slots as used.
    pub(crate) fn with(mut self, first: u32, count: u32) -> Map {
        for (index, word) in self.0.iter_mut().enumerate() {
            *word |= bits(index, first, count);
        }
        self
    }

    /// Used slots.
    pub(crate) fn count(self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// The first aligned free run of `1 << order` slots, from the word of `from` on and then from the start.
    pub(crate) fn find(self, order: u32, from: u32) -> Option<u32> {
        let first = (from % CLUSTER_SLOTS / 64) as usize;
        if order >= WORD_ORDER {
            let words = 1 << (order - WORD_ORDER);
            let is_free = |at: &usize| self.0[*at..*at + words].iter().all(|word| *word == 0);
            return (0..MAP_WORDS).step_by(words).find(is_free).map(|at| at as u32 * 64);
        }
        let near = |index: usize| first_run(self.0[index], order).map(|at| index as u32 * 64 + at);
        (first..MAP_WORDS).chain(0..first).find_map(near)
    }

    /// A free run of `1 << order` slots where it breaks up as little as possible: a part of the smallest aligned free
    /// run that there is.
    pub(crate) fn find_least(self, order: u32) -> Option<u32> {
        let alone = (order..WORD_ORDER).find_map(|order| {
            let words = (0_u32..).zip(self.0);
            let runs = words.map(|(index, word)| (index, lone_runs(word, order)));
            let mut runs = runs.filter(|&(_, runs)| runs != 0);
            runs.next().map(|(index, runs)| index * 64 + runs.trailing_zeros())
        });
        alone.or_else(|| self.find(order, 0))
    }

    /// The largest order of which there is an aligned free run; None: all are used.
    pub(crate) fn largest(self) -> Option<u32> {
        (0..=ORDER_MAX).rev().find(|&order| self.find(order, 0).is_some())
    }
}

/// The words that `first..first + count` touches, and its bits in each.
pub(crate) fn parts(first: u32, count: u32) -> impl Iterator<Item = (usize, u64)> {
    (first as usize / 64..=(first + count - 1) as usize / 64)
        .map(move |index| (index, bits(index, first, count)))
}

/// Sets the bits of `first..first + count`. Only the holder of the cluster's lock changes the map.
pub(crate) fn set(words: &[AtomicU64], first: u32, count: u32) {
    for (index, bits) in parts(first, count) {
        words[index].store(words[index].load(Ordering::Relaxed) | bits, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_breaks_up_least_is_found() {
        // All used, but a whole word, eight slots, two slots and one.
        let mut map = Map([!0; MAP_WORDS]);
        map.0[1] = 0;
        map.0[2] = !0b1111_1111;
        map.0[5] = !0b1100;
        map.0[7] = !(1 << 63);
        let (whole, eight, two, one) = (64, 128, 322, 511);
        for (order, expected) in [(0, one), (1, two), (2, eight), (3, eight), (4, whole), (6, whole)] {
            assert_eq!(map.find_least(order), Some(expected), "order {order}");
        }
        assert_eq!(map.with(one, 1).find_least(0), Some(two));
        assert_eq!(map.with(one, 1).with(two, 2).find_least(1), Some(eight));
        assert_eq!(map.find_least(7), None);
        assert_eq!(Map::EMPTY.find_least(0), Some(0));
    }
}
