//! Histograms: logarithmic buckets with eight steps an octave (12 % wide), in shared words.
//!
//! Must hold: a value is counted in one bucket, and differs from any other value of that bucket by at most an eighth of
//! itself; the last bucket has all that is larger. Called by [`crate::latency`], [`crate::reuse`], [`crate::counters`]
//! and [`crate::pool_share`], and by the supervisor, which reads.

use core::ops::RangeInclusive;
use uswap_sync::{AtomicU64, Ordering};

/// Buckets of one histogram: 40 octaves of ns, 8 each.
pub const BUCKETS: usize = 320;

/// View of one histogram.
#[derive(Clone, Copy)]
pub struct Histogram<'a> {
    pub(crate) buckets: &'a [AtomicU64],
}

fn bucket_of(value: u64) -> usize {
    if value < 8 {
        return value as usize;
    }
    let octave = 63 - value.leading_zeros();
    let step = (value >> (octave - 3)) & 7;
    ((octave - 2) as usize * 8 + step as usize).min(BUCKETS - 1)
}

/// Largest value of a bucket.
fn top_of(bucket: usize) -> u64 {
    if bucket < 8 {
        return bucket as u64;
    }
    let (octave, step) = (bucket as u32 / 8 + 2, bucket as u64 % 8);
    ((8 + step + 1) << (octave - 3)) - 1
}

impl<'a> Histogram<'a> {
    /// Counts one value.
    pub fn record(&self, value: u64) {
        self.buckets[bucket_of(value)].fetch_add(1, Ordering::Relaxed);
    }
    /// Values counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }
    /// How many values each bucket has, and which it counts.
    pub fn counts(self) -> impl Iterator<Item = (RangeInclusive<u64>, u64)> + use<'a> {
        let first = |bucket: usize| bucket.checked_sub(1).map_or(0, |before| top_of(before) + 1);
        let buckets = self.buckets.iter().enumerate();
        buckets.map(move |(bucket, count)| (first(bucket)..=top_of(bucket), count.load(Ordering::Relaxed)))
    }
    /// The value that `numerator` of `denominator` values do not exceed, rounded up to its bucket; 0 when nothing was
    /// counted.
    pub fn quantile(&self, numerator: u64, denominator: u64) -> u64 {
        let wanted = (self.count() * numerator).div_ceil(denominator).max(1);
        let mut seen = 0;
        for (index, bucket) in self.buckets.iter().enumerate() {
            seen += bucket.load(Ordering::Relaxed);
            if seen >= wanted {
                return top_of(index);
            }
        }
        0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn every_value_lies_in_its_bucket() {
        for value in (0..5000).chain([1 << 20, (1 << 30) + 12345, 1 << 41]) {
            let bucket = bucket_of(value);
            assert!(value <= top_of(bucket), "{value}");
            assert!(bucket == 0 || value > top_of(bucket - 1), "{value}");
        }
    }

    #[test]
    fn quantiles_of_a_known_set() {
        let words: Vec<AtomicU64> = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        let histogram = Histogram { buckets: &words };
        (1..=1000).for_each(|value| histogram.record(value));
        assert_eq!(histogram.count(), 1000);
        let half = histogram.quantile(1, 2);
        assert!((500..=575).contains(&half), "{half}");
        assert!(histogram.quantile(99, 100) >= 990);
    }
}
