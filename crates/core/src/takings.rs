//! What reclaim has taken from a process, and how soon that came back: words in its record.
//!
//! The clock is the count of pages that were taken. The word of a page that is stored keeps the time at which it went ([`PageWord::left_at`](crate::page_word::PageWord::left_at)); when it comes back, the pages that were taken in between are
//! its *distance*: had the process had so much more RAM, the page would still have been there (Linux: refault distance). All numbers are for choosing and for reports, and guard nothing: every order is `Relaxed`.

use crate::working_set::WorkingSet;
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::CHUNK_PAGES;

/// A time on the clock of a process: 20 bits, in chunks.
pub const TIME_BITS: u32 = 20;

/// View of the words.
#[derive(Clone, Copy)]
pub struct Takings<'a> {
    /// Taken, came back, came back soon, sum of distances, lately, where the clock began.
    pub(crate) words: &'a [AtomicU64; 6],
}

/// The sums so far, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TakenPages {
    /// Reclaim took them from the process.
    pub taken: u64,
    /// A touch brought them back.
    pub came_back: u64,
    /// Of those, the ones that would still have been there if the process had had twice the RAM.
    pub came_back_soon: u64,
    /// Sum of the distances of all that came back.
    pub distance: u64,
}

impl TakenPages {
    /// What has happened since then.
    pub fn since(self, before: TakenPages) -> TakenPages {
        TakenPages {
            taken: self.taken.saturating_sub(before.taken),
            came_back: self.came_back.saturating_sub(before.came_back),
            came_back_soon: self.came_back_soon.saturating_sub(before.came_back_soon),
            distance: self.distance.saturating_sub(before.distance),
        }
    }
    /// How many pages that are not in RAM are in use: they will come back, if all goes on as it did.
    ///
    /// Who comes in at a rate and stays for a time is there in the number of rate times time (Little's law). Here time is counted in pages taken, of which a part comes back, each after its distance.
    pub fn away_in_use(self) -> u64 {
        self.distance / self.taken.max(1)
    }
}

impl Takings<'_> {
    fn add(&self, index: usize, pages: u64) -> u64 {
        self.words[index].fetch_add(pages, Ordering::Relaxed)
    }
    fn get(&self, index: usize) -> u64 {
        self.words[index].load(Ordering::Relaxed)
    }
    fn clock(&self) -> u64 {
        self.get(0) + self.get(5)
    }
    /// The time now, for a page that goes.
    pub fn time(&self) -> u32 {
        (self.clock() / CHUNK_PAGES) as u32 & ((1 << TIME_BITS) - 1)
    }
    /// A forked child has the pages of its parent: its clock goes on from there.
    pub fn inherit(&self, parent: &Takings<'_>) {
        self.words[5].store(parent.clock(), Ordering::Relaxed);
    }
    /// So many pages were taken.
    pub fn note_taken(&self, pages: u64) {
        self.add(0, pages);
        self.change_lately(|lately| lately.note_reclaimed(pages));
    }
    /// Pages came back that went at this time, while so many of the process are in RAM.
    pub fn note_came_back(&self, pages: u64, left_at: u32, resident_pages: u64) {
        let distance = u64::from(self.time().wrapping_sub(left_at) & ((1 << TIME_BITS) - 1)) * CHUNK_PAGES;
        self.add(1, pages);
        self.add(3, distance * pages);
        if distance <= resident_pages {
            self.add(2, pages);
            self.change_lately(|lately| lately.note_came_back(pages));
        }
    }
    fn change_lately(&self, change: impl Fn(&mut WorkingSet)) {
        let mut lately = self.lately();
        change(&mut lately);
        // Another thread of the process may do the same: one of both may be forgotten.
        self.words[4].store(lately.to_word(), Ordering::Relaxed);
    }
    /// What became lately of what was taken.
    pub fn lately(&self) -> WorkingSet {
        WorkingSet::from_word(self.get(4))
    }
    /// The sums.
    pub fn pages(&self) -> TakenPages {
        TakenPages {
            taken: self.get(0),
            came_back: self.get(1),
            came_back_soon: self.get(2),
            distance: self.get(3),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use uswap_units::Prng;

    fn words() -> [AtomicU64; 6] {
        core::array::from_fn(|_| AtomicU64::new(0))
    }

    #[test]
    fn the_distance_is_what_was_taken_in_between() {
        let words = words();
        let takings = Takings { words: &words };
        takings.note_taken(640);
        let left_at = takings.time();
        takings.note_taken(6400);
        takings.note_came_back(2, left_at, 6400);
        takings.note_came_back(3, left_at, 6399);
        let expected = TakenPages { taken: 7040, came_back: 5, came_back_soon: 2, distance: 5 * 6400 };
        assert_eq!(takings.pages(), expected);
        // A child goes on with the clock, and with nothing taken.
        let its_words = self::words();
        let child = Takings { words: &its_words };
        child.inherit(&takings);
        child.note_came_back(1, left_at, 0);
        assert_eq!(child.pages(), TakenPages { came_back: 1, distance: 6400, ..TakenPages::default() });
    }

    #[test]
    fn the_clock_may_go_round() {
        let words = words();
        let takings = Takings { words: &words };
        takings.note_taken(((1 << TIME_BITS) - 1) * CHUNK_PAGES);
        let left_at = takings.time();
        takings.note_taken(5 * CHUNK_PAGES);
        takings.note_came_back(1, left_at, u64::MAX);
        assert_eq!(takings.pages().distance, 5 * CHUNK_PAGES);
    }

    /// A made-up memory: pages used at random, of which part is in RAM and the one that came first goes first; and some that nobody uses again.
    #[test]
    fn what_is_away_and_in_use_is_found_from_the_distances() {
        let (in_use, in_ram, unused) = (8000_u64, 3000, 5000);
        let words = words();
        let takings = Takings { words: &words };
        let mut prng = Prng::new(7);
        let mut ram: VecDeque<u64> = (in_use..in_use + in_ram).collect();
        let mut left_at = std::vec![None; (in_use + in_ram + unused) as usize];
        let mut touch = |page: u64, ram: &mut VecDeque<u64>| {
            if ram.contains(&page) {
                return;
            }
            if let Some(left_at) = left_at[page as usize] {
                takings.note_came_back(1, left_at, in_ram);
            }
            let goes = ram.pop_front().expect("it is full");
            left_at[goes as usize] = Some(takings.time());
            takings.note_taken(1);
            ram.push_back(page);
        };
        (0..in_use + unused).for_each(|page| touch(page, &mut ram));
        (0..20_000).for_each(|_| touch(prng.below(in_use), &mut ram));
        let before = takings.pages();
        (0..40_000).for_each(|_| touch(prng.below(in_use), &mut ram));
        let away = takings.pages().since(before).away_in_use();
        let really = in_use - in_ram;
        assert!(away.abs_diff(really) < really / 20, "{away} of {really}");
    }
}
