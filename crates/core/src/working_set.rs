//! Whether what is reclaimed comes back soon: then it was in use, and taking it has brought nothing.
//!
//! Two counts that forget.
//!
//! Must hold: both counts are halved together, so that their ratio stays; of 16 pages at most 15 are said to have come
//! back, so a burden never becomes 0 by it. Called by [`crate::refault_stats`] for [`crate::fairness`], and by
//! `experiments`, which tells the kswapd of `zones` whether there is room for large runs.

/// What became of what was reclaimed lately.
///
/// Half of it is forgotten whenever twice as much has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkingSet {
    reclaimed: u64,
    came_back: u64,
}

const HALF_BITS: u32 = 32;
const HALF: u64 = (1 << HALF_BITS) - 1;

/// Pages after which what was before counts half.
const REMEMBERED: u64 = 8192;
/// One page in so many may come back.
const COME_BACK_IN: u64 = 8;

impl WorkingSet {
    /// Notes pages that were reclaimed.
    pub fn note_reclaimed(&mut self, pages: u64) {
        self.reclaimed += pages;
        if self.reclaimed > REMEMBERED {
            self.reclaimed /= 2;
            self.came_back /= 2;
        }
    }
    /// Notes pages that came back, and would still be there if memory had been larger by what has it now.
    pub fn note_came_back(&mut self, pages: u64) {
        self.came_back += pages;
        // Nothing may be reclaimed for long, and what came back long ago says nothing.
        if self.came_back > REMEMBERED / 4 {
            self.reclaimed /= 2;
            self.came_back /= 2;
        }
    }
    /// Of 16 pages that were reclaimed lately, those that came back so soon: 0 to 15. While little was reclaimed, as if
    /// more had been.
    pub fn came_back_of_16(&self) -> u64 {
        (self.came_back * 16 / self.reclaimed.max(REMEMBERED / 8)).min(15)
    }
    /// Both numbers in a word, which starts zeroed.
    pub fn to_word(self) -> u64 {
        self.reclaimed.min(HALF) | (self.came_back.min(HALF) << HALF_BITS)
    }
    /// What [`WorkingSet::to_word`] has made.
    pub fn from_word(word: u64) -> WorkingSet {
        WorkingSet { reclaimed: word & HALF, came_back: word >> HALF_BITS }
    }
    /// Too much of what is reclaimed comes back.
    pub fn is_in_use(&self) -> bool {
        self.came_back * COME_BACK_IN > self.reclaimed.max(REMEMBERED / 8)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_share_that_came_back_follows_what_happens() {
        let mut lately = WorkingSet::default();
        assert_eq!(lately.came_back_of_16(), 0);
        lately.note_reclaimed(100);
        lately.note_came_back(100);
        assert_eq!(lately.came_back_of_16(), 1, "hundred pages say little");
        for _ in 0..1000 {
            lately.note_reclaimed(64);
            lately.note_came_back(60);
        }
        assert!((14..=15).contains(&lately.came_back_of_16()));
        for _ in 0..1000 {
            lately.note_reclaimed(64);
        }
        assert_eq!(lately.came_back_of_16(), 0, "what was before is forgotten");
    }

    #[test]
    fn a_word_holds_both_numbers() {
        let mut lately = WorkingSet::default();
        lately.note_reclaimed(700);
        lately.note_came_back(30);
        assert_eq!(WorkingSet::from_word(lately.to_word()), lately);
        assert_eq!(WorkingSet::from_word(0), WorkingSet::default());
    }
}
