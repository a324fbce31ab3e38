//! How many times better one side is than the other, and how sure that is.
//!
//! Everything happens on logarithms: a ratio and its inverse are equally far from 1, so swapping the sides mirrors the
//! result exactly.
//!
//! Each interval claims 90 % or a little more: when in truth nothing differs, one of ten intervals lies beside 1 by
//! chance, one of twenty as a false win. Over many workloads some will. The method depends on how much there is:
//!
//! - 5 rounds and more: order statistics, from the k-th smallest of the paired ratios to the k-th largest; k as large
//!   as 90 % allow. No assumption on the distribution. It claims exactly what the binomial distribution says: smallest
//!   to largest of 5 is 93.75 %, of 7 98.4 %; second smallest to second largest of 8 is 93.0 %; fourth of 15 is 96.5 %.
//! - 2 to 4: Student's t on the logarithms, never narrower than smallest to largest. Assumes that they are normal, as
//!   smallest to largest of 2 would claim only 50 %, of 3 75 %, of 4 87.5 %. It claims 90 % or more.
//! - 1: one pair says nothing about the spread between runs: a spread is *assumed*, see [`assumed_doubt`]. It claims
//!   nothing, and is marked in every report.
//!
//! Two results that were measured apart have no pairs. There the rank sum (Mann and Whitney) gives the interval, out of
//! all quotients of one value of each side, from 3 against 3 values on; below that Student's t with the spread of both
//! sides taken together; for 1 against 1 the same assumption.

use std::f64::consts::LN_2;

use super::{finite_sorted, median};

/// What every interval claims at least, unless it is assumed.
pub const COVERAGE_MIN: f64 = 0.90;

/// Quantile 0.95 of Student's distribution for 1, 2, 3, … degrees of freedom. More are never needed: beyond, the
/// methods by rank reach [`COVERAGE_MIN`].
const STUDENT_95: [f64; 17] = [
    6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771, 1.761, 1.753,
    1.746, 1.740,
];

/// How an interval was found.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Basis {
    /// Order statistics of paired ratios.
    OrderStatistics {
        /// Exact probability that it holds the true median.
        coverage: f64,
    },
    /// Rank sum of two unpaired sides.
    RankSum {
        /// Exact probability that it holds the true factor, if the sides differ by a factor only.
        coverage: f64,
    },
    /// Student's t on logarithms, for few values: [`COVERAGE_MIN`], if they are normal.
    Student,
    /// One run of each side: assumed, not measured.
    Assumed,
}

impl Basis {
    /// What the interval claims; 0 for an assumed one.
    pub fn coverage(self) -> f64 {
        match self {
            Self::OrderStatistics { coverage } | Self::RankSum { coverage } => coverage,
            Self::Student => COVERAGE_MIN,
            Self::Assumed => 0.0,
        }
    }
}

/// Above 1: the first side is better.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ratio {
    /// Median of the paired ratios, or the ratio of the medians.
    pub ratio: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Where the interval is from.
    pub basis: Basis,
    /// Pairs, or values of the side that has fewer.
    pub count: usize,
}

/// What one pair may be wrong by: twice the machine's noise, and at least a fifth.
///
/// The noise is the distance of the quartiles of a computation that does not swap, 1.35 standard deviations. 95 % of
/// the quotients of two such runs are within 1.96 * sqrt(2) / 1.35 = 2.05 of it. Runs that swap vary more than that,
/// which is what the fifth is for. It is a guess; more rounds replace it.
pub fn assumed_doubt(noise: f64) -> f64 {
    (2.0 * noise).max(0.2)
}

/// The advantage out of one ratio for each round. None without a usable one: ratios must be finite and above 0.
pub fn of_pairs(ratios: &[f64], noise: f64) -> Option<Ratio> {
    let logs = logarithms(ratios);
    let centre = median(&logs)?;
    let (low, high, basis) = match logs.len() {
        1 => assumed(centre, noise),
        2..=4 => {
            let half = student_half_width(deviations(&logs), logs.len() - 1, 1.0 / logs.len() as f64);
            around(mean(&logs), half, &logs)
        }
        count => {
            let (rank, coverage) = order_statistic_rank(count);
            (logs[rank - 1], logs[count - rank], Basis::OrderStatistics { coverage })
        }
    };
    finish(centre, low, high, basis, logs.len())
}

/// The advantage of values of one side over those of another, measured apart: `first / second`.
pub fn of_sides(first: &[f64], second: &[f64], noise: f64) -> Option<Ratio> {
    let (first, second) = (logarithms(first), logarithms(second));
    let median_of = |logs: &[f64]| median(&logs.iter().map(|log| log.exp()).collect::<Vec<_>>());
    let centre = median_of(&first)?.ln() - median_of(&second)?.ln();
    let quotients = finite_sorted(
        &first.iter().flat_map(|left| second.iter().map(move |right| left - right)).collect::<Vec<_>>(),
    );
    let freedom = first.len() + second.len() - 2;
    let (low, high, basis) = if let Some((rank, coverage)) = rank_sum_rank(first.len(), second.len()) {
        (quotients[rank - 1], quotients[quotients.len() - rank], Basis::RankSum { coverage })
    } else if freedom > 0 {
        let weight = 1.0 / first.len() as f64 + 1.0 / second.len() as f64;
        let half = student_half_width(deviations(&first) + deviations(&second), freedom, weight);
        around(mean(&first) - mean(&second), half, &quotients)
    } else {
        assumed(centre, noise)
    };
    finish(centre, low, high, basis, first.len().min(second.len()))
}

/// Back from logarithms. The interval always holds the ratio.
fn finish(centre: f64, low: f64, high: f64, basis: Basis, count: usize) -> Option<Ratio> {
    let back = |log: f64| log.exp().clamp(f64::MIN_POSITIVE, f64::MAX);
    Some(Ratio {
        ratio: back(centre),
        low: back(low.min(centre)),
        high: back(high.max(centre)),
        basis,
        count,
    })
}

/// Sorted logarithms of what is finite and above 0.
fn logarithms(values: &[f64]) -> Vec<f64> {
    let usable: Vec<f64> = values.iter().filter(|value| **value > 0.0).map(|value| value.ln()).collect();
    finite_sorted(&usable)
}

fn assumed(centre: f64, noise: f64) -> (f64, f64, Basis) {
    let doubt = assumed_doubt(noise).ln_1p();
    (centre - doubt, centre + doubt, Basis::Assumed)
}

/// `half` to both sides of `middle`, and at least from the smallest to the largest of the sorted `logs`.
fn around(middle: f64, half: f64, logs: &[f64]) -> (f64, f64, Basis) {
    let (smallest, largest) = (logs[0], logs[logs.len() - 1]);
    ((middle - half).min(smallest), (middle + half).max(largest), Basis::Student)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Sum of the squared distances from the mean.
fn deviations(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

/// `weight` is 1 / n, for two sides the sum of it.
fn student_half_width(deviations: f64, freedom: usize, weight: f64) -> f64 {
    let quantile = STUDENT_95[freedom.min(STUDENT_95.len()) - 1];
    quantile * (deviations / freedom as f64 * weight).sqrt()
}

/// The largest k for which the k-th smallest to the k-th largest of `count` values holds the median with
/// [`COVERAGE_MIN`], and the exact probability: 1 - 2 P(fewer than k of `count` coins show heads). k is 1 where even
/// that is not reached.
fn order_statistic_rank(count: usize) -> (usize, f64) {
    let mut log_probability = -(count as f64) * LN_2;
    let mut below = log_probability.exp();
    let mut best = (1, 1.0 - 2.0 * below);
    for heads in 1..count.div_ceil(2) {
        log_probability += ((count - heads + 1) as f64 / heads as f64).ln();
        below += log_probability.exp();
        let coverage = 1.0 - 2.0 * below;
        if coverage < COVERAGE_MIN {
            break;
        }
        best = (heads + 1, coverage);
    }
    best
}

/// The same for the quotients of two sides. None if even smallest to largest does not reach it.
fn rank_sum_rank(first: usize, second: usize) -> Option<(usize, f64)> {
    let mut below = 0.0;
    let mut best = None;
    for (statistic, probability) in rank_sum_distribution(first, second).into_iter().enumerate() {
        below += probability;
        let coverage = 1.0 - 2.0 * below;
        // 3 against 3 reach 90 % exactly, but not in floating point.
        if coverage < COVERAGE_MIN - 1e-9 {
            break;
        }
        best = Some((statistic + 1, coverage));
    }
    best
}

/// Probability of each value of the Mann-Whitney statistic, if nothing differs. The largest of all values belongs to
/// the first side with probability m / (m + n); then it is above all of the other side.
fn rank_sum_distribution(first: usize, second: usize) -> Vec<f64> {
    // One row for each number of values of the first side, one column for each of the second.
    let mut row: Vec<Vec<f64>> = vec![vec![1.0]; second + 1];
    for left in 1..=first {
        let mut next: Vec<Vec<f64>> = vec![vec![1.0]];
        for right in 1..=second {
            let share = left as f64 / (left + right) as f64;
            let mut distribution = vec![0.0; left * right + 1];
            for (statistic, probability) in row[right].iter().enumerate() {
                distribution[statistic + right] += share * probability;
            }
            for (statistic, probability) in next[right - 1].iter().enumerate() {
                distribution[statistic] += (1.0 - share) * probability;
            }
            next.push(distribution);
        }
        row = next;
    }
    row.swap_remove(second)
}

#[cfg(test)]
#[path = "ratio_tests.rs"]
mod tests;
