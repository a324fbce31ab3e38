//! What reclaim has taken from a process, and how soon that came back: words in its record.
//!
//! The *distance* of a page that comes back is the number of pages that were stored in between ([`crate::reuse`]): had
//! there been so much more RAM, it would still have been there (Linux: refault distance). All numbers are for choosing
//! and for reports, and guard nothing: every order is `Relaxed`.
//!
//! Must hold: the sums only grow while the record is of one process, so [`TakenPages::since`] says what happened in
//! between. Of two threads that change `lately` at once, one may be forgotten. Called by `engine`, which notes, and by
//! [`crate::mm`] and the supervisor, which read.

use crate::working_set::WorkingSet;
use uswap_sync::{AtomicU64, Ordering};

/// View of the words.
#[derive(Clone, Copy)]
pub struct RefaultStats<'a> {
    /// Taken, came back, came back soon, sum of distances, lately.
    pub(crate) words: &'a [AtomicU64; 5],
}

/// The sums so far, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TakenPages {
    /// Reclaim took them from the process.
    pub taken: u64,
    /// A touch brought them back.
    pub came_back: u64,
    /// Of those, the ones that would still have been there if the run had had twice the RAM for its pages.
    pub came_back_soon: u64,
    /// Sum of the distances of all that came back.
    pub distance: u64,
    /// The clock of the distances: pages of all processes that were stored.
    pub stored_of_all: u64,
}

impl TakenPages {
    /// What has happened since then.
    pub fn since(self, before: TakenPages) -> TakenPages {
        TakenPages {
            taken: self.taken.saturating_sub(before.taken),
            came_back: self.came_back.saturating_sub(before.came_back),
            came_back_soon: self.came_back_soon.saturating_sub(before.came_back_soon),
            distance: self.distance.saturating_sub(before.distance),
            stored_of_all: self.stored_of_all.saturating_sub(before.stored_of_all),
        }
    }
    /// How many pages that are not in RAM are in use: they will come back, if all goes on as it did.
    ///
    /// Whoever comes in at a rate and stays for a time is there in the number of rate times time (Little's law). Here
    /// time is counted in pages stored.
    pub fn away_in_use(self) -> u64 {
        self.distance / self.stored_of_all.max(1)
    }
}

impl RefaultStats<'_> {
    fn add(&self, index: usize, pages: u64) -> u64 {
        self.words[index].fetch_add(pages, Ordering::Relaxed)
    }
    fn get(&self, index: usize) -> u64 {
        self.words[index].load(Ordering::Relaxed)
    }
    /// Adds to the pages that were taken.
    pub fn note_taken(&self, pages: u64) {
        self.add(0, pages);
        self.change_lately(|lately| lately.note_reclaimed(pages));
    }
    /// Pages came back, each after this distance, while so many of all processes are in RAM.
    pub fn note_came_back(&self, pages: u64, distance: u64, resident_of_all: u64) {
        self.add(1, pages);
        self.add(3, distance * pages);
        if distance <= resident_of_all {
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
    /// The sums, at a time on the clock of the distances.
    pub fn pages(&self, stored_of_all: u64) -> TakenPages {
        TakenPages {
            taken: self.get(0),
            came_back: self.get(1),
            came_back_soon: self.get(2),
            distance: self.get(3),
            stored_of_all,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::cell::Cell;
    use std::collections::VecDeque;
    use uswap_units::Prng;

    fn words() -> [AtomicU64; 5] {
        core::array::from_fn(|_| AtomicU64::new(0))
    }

    #[test]
    fn soon_is_a_distance_of_what_is_in_ram() {
        let words = words();
        let refault_stats = RefaultStats { words: &words };
        refault_stats.note_taken(640);
        refault_stats.note_came_back(2, 6400, 6400);
        refault_stats.note_came_back(3, 6400, 6399);
        let expected =
            TakenPages { taken: 640, came_back: 5, came_back_soon: 2, distance: 5 * 6400, stored_of_all: 9 };
        assert_eq!(refault_stats.pages(9), expected);
    }

    /// A simulated memory: pages used at random, of which part is in RAM and the one that came first goes first; and
    /// some that nobody uses again.
    #[test]
    fn what_is_away_and_in_use_is_found_from_the_distances() {
        let (in_use, in_ram, unused) = (8000_u64, 3000, 5000);
        let words = words();
        let refault_stats = RefaultStats { words: &words };
        let mut prng = Prng::new(7);
        let mut ram: VecDeque<u64> = (in_use..in_use + in_ram).collect();
        let mut evicted_at = std::vec![None; (in_use + in_ram + unused) as usize];
        // Others of the run store as much.
        let stored = Cell::new(0);
        let mut touch = |page: u64, ram: &mut VecDeque<u64>| {
            if ram.contains(&page) {
                return;
            }
            if let Some(evicted_at) = evicted_at[page as usize] {
                refault_stats.note_came_back(1, stored.get() - evicted_at, in_ram);
            }
            let goes = ram.pop_front().expect("it is full");
            evicted_at[goes as usize] = Some(stored.get());
            refault_stats.note_taken(1);
            stored.set(stored.get() + 2);
            ram.push_back(page);
        };
        (0..in_use + unused).for_each(|page| touch(page, &mut ram));
        (0..20_000).for_each(|_| touch(prng.below(in_use), &mut ram));
        let before = refault_stats.pages(stored.get());
        (0..40_000).for_each(|_| touch(prng.below(in_use), &mut ram));
        let away = refault_stats.pages(stored.get()).since(before).away_in_use();
        let really = in_use - in_ram;
        assert!(away.abs_diff(really) < really / 20, "{away} of {really}");
    }
}
