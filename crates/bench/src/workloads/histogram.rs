//! How long accesses took: counts in buckets.
//!
//! What must hold: every duration is counted; a bucket is at most a sixteenth of its value wide; two histograms added
//! are that of both.

/// Powers of two that are told apart: up to 2^40 ns, 18 minutes.
const EXPONENTS: usize = 37;

/// Counts of durations in ns: 16 buckets for each power of two from 16 ns on.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Vec<u64>,
    sum_ns: u128,
    count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; EXPONENTS * 16], sum_ns: 0, count: 0 }
    }
}

impl Histogram {
    /// Counts one duration.
    #[inline]
    pub fn add(&mut self, ns: u64) {
        let index = bucket(ns).min(self.buckets.len() - 1);
        self.buckets[index] += 1;
        self.sum_ns += u128::from(ns);
        self.count += 1;
    }

    /// Counts what `other` has counted.
    pub fn merge(&mut self, other: &Histogram) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(mine, more)| *mine += more);
        self.sum_ns += other.sum_ns;
        self.count += other.count;
    }

    /// Durations that were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their mean, 0 if there are none.
    pub fn mean_ns(&self) -> f64 {
        self.sum_ns as f64 / self.count.max(1) as f64
    }

    /// Upper end of the bucket in which `thousandths` of the durations are reached; 0 if there are none.
    pub fn percentile_ns(&self, thousandths: u64) -> u64 {
        let wanted = (self.count * thousandths).div_ceil(1000);
        let mut seen = 0;
        for (upper_ns, count) in self.filled() {
            seen += count;
            if seen >= wanted {
                return upper_ns;
            }
        }
        0
    }

    /// The buckets that are not empty: upper end in ns, and how many; in order.
    pub fn filled(&self) -> impl Iterator<Item = (u64, u64)> {
        self.buckets
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(index, count)| (upper_ns(index), *count))
    }
}

fn bucket(ns: u64) -> usize {
    let ns = ns.max(16);
    let shift = ns.ilog2() as usize - 4;
    shift * 16 + ((ns >> shift) & 15) as usize
}

/// The largest duration of a bucket.
fn upper_ns(index: usize) -> u64 {
    ((16 + index as u64 % 16 + 1) << (index / 16)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_in_a_bucket_of_a_sixteenth() {
        for ns in (0..5000).chain((0..40).map(|bits| 1 << bits)).chain((5..40).map(|bits| (1 << bits) - 1)) {
            let mut histogram = Histogram::default();
            histogram.add(ns);
            let (upper_ns, count) = histogram.filled().next().unwrap();
            assert_eq!(count, 1);
            assert!(upper_ns >= ns);
            assert!(upper_ns <= ns.max(16) + ns.max(16) / 16, "{ns} is counted below {upper_ns}");
        }
        let mut histogram = Histogram::default();
        histogram.add(u64::MAX);
        assert_eq!(histogram.filled().count(), 1);
    }

    #[test]
    fn merged_percentiles_are_those_of_all() {
        let (mut even, mut odd) = (Histogram::default(), Histogram::default());
        (1..=10_000).for_each(|number| if number % 2 == 0 { &mut even } else { &mut odd }.add(number * 10));
        even.merge(&odd);
        assert_eq!(even.count(), 10_000);
        assert!((even.mean_ns() - 50_005.0).abs() < 0.001);
        for (thousandths, wanted) in [(500, 50_000), (990, 99_000), (999, 99_900)] {
            let found = even.percentile_ns(thousandths);
            assert!(found >= wanted && found <= wanted + wanted / 15, "{thousandths}: {found}");
        }
        assert_eq!(Histogram::default().percentile_ns(500), 0);
    }
}
