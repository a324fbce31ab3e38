//! How often what may happen to a page does happen, of the last cases that were let come to it.
//!
//! Must hold: counts are estimates, since threads change them without a lock. Whoever avoids cases by an answer asks
//! each time: one question in some is answered otherwise, so that there is something to count. Called by
//! [`crate::fault`] and [`crate::evict`].

use uswap_sync::{AtomicU32, Ordering};

/// While cases are avoided, since what happens mostly does, one question in so many is answered otherwise, to be
/// counted.
const COUNTED_ONE_OF: u32 = 64;

/// With fewer cases nothing is known.
const CASES_MIN: u32 = 64;
/// When there were so many, older ones count half.
const CASES_MAX: u32 = 1024;

/// Cases, and those in which it happened. Several threads may count at once, and lose one another's: it is an estimate.
pub(crate) struct Sampled {
    cases: AtomicU32,
    happened: AtomicU32,
    asked: AtomicU32,
}

impl Sampled {
    pub(crate) const fn new() -> Sampled {
        Sampled { cases: AtomicU32::new(0), happened: AtomicU32::new(0), asked: AtomicU32::new(0) }
    }

    /// A case begins.
    pub(crate) fn note_case(&self) {
        let cases = self.cases.load(Ordering::Relaxed) + 1;
        let is_full = cases >= CASES_MAX;
        if is_full {
            self.happened.store(self.happened.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
        }
        self.cases.store(if is_full { cases / 2 } else { cases }, Ordering::Relaxed);
    }

    /// It happens in one of them.
    pub(crate) fn note_happened(&self) {
        let happened = self.happened.load(Ordering::Relaxed);
        self.happened.store((happened + 1).min(CASES_MAX), Ordering::Relaxed);
    }

    /// Whether it happens in at least this percentage of cases.
    pub(crate) fn reaches(&self, percent: u32) -> bool {
        let (cases, happened) = (self.cases.load(Ordering::Relaxed), self.happened.load(Ordering::Relaxed));
        cases >= CASES_MIN && u64::from(happened) * 100 >= u64::from(cases) * u64::from(percent)
    }

    /// Whether it happens in more than this percentage of cases. No for one question in [`COUNTED_ONE_OF`].
    pub(crate) fn exceeds(&self, percent: u32) -> bool {
        self.exceeds_among(1, percent)
    }

    /// Whether it happens more often than this percentage of once, in so many cases. No for one question in
    /// [`COUNTED_ONE_OF`].
    pub(crate) fn exceeds_among(&self, count: u32, percent: u32) -> bool {
        let (cases, happened) = (self.cases.load(Ordering::Relaxed), self.happened.load(Ordering::Relaxed));
        cases >= CASES_MIN
            && u64::from(happened) * u64::from(count) * 100 > u64::from(cases) * u64::from(percent)
            && !self.asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(COUNTED_ONE_OF)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_what_happens_and_some_cases_are_looked_at() {
        let sampled = Sampled::new();
        let avoided = || (0..640).filter(|_| sampled.exceeds(50)).count();
        let see = |cases: u32, happens_in_five: u32| {
            for case in 0..cases {
                sampled.note_case();
                if case % 5 < happens_in_five {
                    sampled.note_happened();
                }
            }
        };
        see(60, 5);
        assert_eq!(avoided(), 0, "too little was seen");
        see(4, 5);
        assert_eq!(avoided(), 630, "one in 64 is looked at");
        assert!(sampled.reaches(50));
        see(5000, 2);
        assert_eq!((avoided(), sampled.reaches(50)), (0, false));
        let among_two = (0..640).filter(|_| sampled.exceeds_among(2, 50)).count();
        assert_eq!(among_two, 630, "0.8 times in two cases");
        see(5000, 3);
        assert_eq!((avoided(), sampled.reaches(50)), (630, true));
        see(5000, 0);
        assert_eq!(avoided(), 0);
    }
}
