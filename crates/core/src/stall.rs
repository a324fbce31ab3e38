//! How long threads of a process wait for its pages: "some" of Linux's pressure stall information, the time in which at
//! least one waits.
//!
//! Each wait is told when it ends, with its beginning. What lies before the end of another wait that was told is taken
//! as counted. So the sum is too small where a wait that ended later began first, and the thread of the other one went
//! on between; with one thread it is exact. Nothing is left behind by a thread that dies in the middle of a wait, as in
//! a sum made of a count of waiting threads. "Full" is estimated by the supervisor.
//!
//! Must hold: the sum is never more than the time in which at least one thread waited. Called by `host`, which tells of
//! waits, by [`crate::mm`], which holds the words, and by the supervisor, which reads.

use uswap_sync::{AtomicU64, Ordering};

/// View of the two words in the record of a process.
#[derive(Clone, Copy)]
pub struct Stall<'a> {
    /// Until when all is counted, in ns of the monotonic clock.
    pub(crate) counted_until_ns: &'a AtomicU64,
    /// The sum in ns.
    pub(crate) total_ns: &'a AtomicU64,
}

impl Stall<'_> {
    /// A thread has waited from `began_ns` until `ended_ns`.
    pub fn add(&self, began_ns: u64, ended_ns: u64) {
        // Relaxed: two numbers for statistics, that guard nothing.
        let before = self.counted_until_ns.fetch_max(ended_ns, Ordering::Relaxed);
        let since = before.max(began_ns);
        if since < ended_ns {
            self.total_ns.fetch_add(ended_ns - since, Ordering::Relaxed);
        }
    }
    /// The sum so far, in ns.
    pub fn total_ns(&self) -> u64 {
        self.total_ns.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;
    use uswap_units::Prng;

    fn total(waits: &[(u64, u64)]) -> u64 {
        let (counted_until_ns, total_ns) = (&AtomicU64::new(0), &AtomicU64::new(0));
        let stall = Stall { counted_until_ns, total_ns };
        waits.iter().for_each(|&(began, ended)| stall.add(began, ended));
        stall.total_ns()
    }

    #[test]
    fn waits_that_overlap_count_once() {
        assert_eq!(total(&[(10, 20), (30, 35)]), 15);
        assert_eq!(total(&[(10, 20), (15, 25), (16, 25), (25, 27)]), 17);
        // The gap before 50 is not counted: the first one ended later.
        assert_eq!(total(&[(50, 60), (0, 100)]), 50);
        assert_eq!(total(&[(50, 60), (40, 55)]), 10);
    }

    /// Told in the order of their ends, as they are: never more than the time in which somebody waits, and just that if
    /// none is inside another.
    #[test]
    fn the_sum_is_never_too_large() {
        let mut prng = Prng::new(5);
        for _ in 0..2000 {
            let mut wait = || {
                let began = prng.below(100);
                (began, began + prng.below(30))
            };
            let count = 1 + wait().0 % 12;
            let mut waits: Vec<(u64, u64)> = (0..count).map(|_| wait()).collect();
            waits.sort_unstable_by_key(|&(_, ended)| ended);
            let waited = (0..130)
                .filter(|&at| waits.iter().any(|&(began, ended)| began <= at && at < ended))
                .count() as u64;
            let none_inside = waits.is_sorted_by_key(|&(began, _)| began);
            let sum = total(&waits);
            assert!(if none_inside { sum == waited } else { sum <= waited }, "{waits:?}: {sum} of {waited}");
        }
    }
}
