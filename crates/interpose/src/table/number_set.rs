//! A set of numbers of system calls, one bit each: the look that every call can afford.
//!
//! Must hold: a set is complete when the program is built, and each number has its bit: what no call has is answered as
//! the one who asks wants it. Called by [`crate::serve`] and `host`, ahead of each call.

use super::{ALL, COUNT, Kind};

const WORDS: usize = 8;
const WORD_BITS: usize = u64::BITS as usize;

/// Numbers below 512, made when the program is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NumberSet([u64; WORDS]);

impl NumberSet {
    /// These numbers.
    #[must_use]
    pub const fn of(numbers: &[u32]) -> NumberSet {
        let (mut words, mut index) = ([0; WORDS], 0);
        while index < numbers.len() {
            let number = numbers[index] as usize;
            words[number / WORD_BITS] |= 1 << (number % WORD_BITS);
            index += 1;
        }
        NumberSet(words)
    }

    /// The calls that do more than use their buffers: they change the address space, concern threads and processes, or
    /// let the kernel use memory later.
    #[must_use]
    pub const fn of_kinds_beyond_buffers() -> NumberSet {
        let (mut words, mut index) = ([0; WORDS], 0);
        while index < COUNT {
            let row = &ALL[index];
            if matches!(row.kind(), Kind::Mapping | Kind::Process | Kind::Asynchronous) {
                words[row.number() as usize / WORD_BITS] |= 1 << (row.number() as usize % WORD_BITS);
            }
            index += 1;
        }
        NumberSet(words)
    }

    /// All of both.
    #[must_use]
    pub const fn union(mut self, other: NumberSet) -> NumberSet {
        let mut index = 0;
        while index < WORDS {
            self.0[index] |= other.0[index];
            index += 1;
        }
        self
    }

    /// Whether the number is one of them. `large`: the answer for what no call has.
    #[inline]
    #[must_use]
    pub const fn contains(&self, number: usize, large: bool) -> bool {
        if number < WORDS * WORD_BITS {
            self.0[number / WORD_BITS] >> (number % WORD_BITS) & 1 != 0
        } else {
            large
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::rows;

    #[test]
    fn a_set_has_its_numbers_and_no_others() {
        let numbers = [0, 63, 64, 200, 511];
        let set = NumberSet::of(&numbers);
        for number in 0..512 {
            assert_eq!(set.contains(number, false), numbers.contains(&(number as u32)));
        }
        assert!(!set.contains(512, false) && set.contains(usize::MAX, true));
        assert!(set.union(NumberSet::of(&[7])).contains(7, false));
    }

    #[test]
    fn the_kinds_beyond_buffers_are_those_of_the_rows() {
        let set = NumberSet::of_kinds_beyond_buffers();
        for row in rows() {
            let is_beyond = matches!(row.kind(), Kind::Mapping | Kind::Process | Kind::Asynchronous);
            assert_eq!(set.contains(row.number() as usize, false), is_beyond, "{}", row.name());
        }
    }
}
