//! How long the faults from one source have taken: a histogram and the exact total, in ns.
//!
//! The total has a cache line of its own, in each source's histogram: it is written as often as all its buckets. It
//! costs no atomic add of its own, since the sum of all sources is not counted a second time
//! ([`Counter::StallNs`](crate::counters::Counter::StallNs) is made of the totals).
//!
//! Must hold: a fault is counted once in a bucket and once in the total. These are two words: a reader between the two
//! adds finds it in one of them only, and so does every reader after a thread that was killed there. Called by `host`,
//! which records, by [`crate::counters`], which sums, and by the supervisor, which reads.

use core::ops::RangeInclusive;

use crate::histogram::{BUCKETS, Histogram};
use uswap_sync::{AtomicU64, Ordering};

/// A cache line.
const TOTAL_WORDS: usize = 8;

/// Words of one.
pub(crate) const LATENCY_WORDS: usize = TOTAL_WORDS + BUCKETS;

/// View of the histogram of one source and its total.
#[derive(Clone, Copy)]
pub struct Latency<'a> {
    total_ns: &'a AtomicU64,
    histogram: Histogram<'a>,
}

impl<'a> Latency<'a> {
    pub(crate) fn new(words: &'a [AtomicU64]) -> Latency<'a> {
        let (total, buckets) = words.split_at(TOTAL_WORDS);
        Latency { total_ns: &total[0], histogram: Histogram { buckets } }
    }
    /// A fault took so long.
    pub fn record(&self, ns: u64) {
        self.histogram.record(ns);
        self.total_ns.fetch_add(ns, Ordering::Relaxed);
    }
    /// Faults counted.
    pub fn count(&self) -> u64 {
        self.histogram.count()
    }
    /// What all of them took together.
    pub fn total_ns(&self) -> u64 {
        self.total_ns.load(Ordering::Relaxed)
    }
    /// As [`Histogram::counts`].
    pub fn counts(self) -> impl Iterator<Item = (RangeInclusive<u64>, u64)> + use<'a> {
        self.histogram.counts()
    }
    /// As [`Histogram::quantile`].
    pub fn quantile(&self, numerator: u64, denominator: u64) -> u64 {
        self.histogram.quantile(numerator, denominator)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;
    use uswap_units::Prng;

    /// A list of what was recorded says the same.
    #[test]
    fn the_total_is_exact_where_buckets_are_wide() {
        let words: Vec<AtomicU64> = (0..LATENCY_WORDS).map(|_| AtomicU64::new(0)).collect();
        let (latency, mut model, mut prng) = (Latency::new(&words), Vec::new(), Prng::new(11));
        for _ in 0..5000 {
            let ns = prng.below(1 << 44) >> prng.below(44);
            latency.record(ns);
            model.push(ns);
            assert_eq!(latency.total_ns(), model.iter().sum::<u64>());
        }
        assert_eq!(latency.count(), model.len() as u64);
        // Each value lies in its bucket, so the total lies between what the ends of the buckets say; those of the last
        // one, which has all that is longer, say nothing.
        let known = latency.counts().take(BUCKETS - 1);
        let (least, most) = known.fold((0, 0), |(least, most), (values, count)| {
            (least + values.start() * count, most + values.end() * count)
        });
        let longest = *latency.counts().last().expect("there is a last bucket").0.start();
        let known: u64 = model.iter().filter(|ns| **ns < longest).sum();
        assert!((least..=most).contains(&known), "{least} {known} {most}");
    }

    #[test]
    fn the_total_has_a_cache_line_of_its_own() {
        assert!(LATENCY_WORDS.is_multiple_of(TOTAL_WORDS) && BUCKETS.is_multiple_of(TOTAL_WORDS));
    }

    #[test]
    fn threads_lose_nothing_of_it() {
        let words: Vec<AtomicU64> = (0..LATENCY_WORDS).map(|_| AtomicU64::new(0)).collect();
        let latency = Latency::new(&words);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || (0..1000).for_each(|number| latency.record(number * 4 + thread)));
            }
        });
        assert_eq!((latency.count(), latency.total_ns()), (4000, (0..4000).sum()));
    }
}
