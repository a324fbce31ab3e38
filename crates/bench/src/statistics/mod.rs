//! Medians, spreads, and when two are a tie.
//!
//! | module | for |
//! |---|---|
//! | here | median, quartiles, spread of a few values |
//! | [`ratio`] | how much better one rival is than another, with an interval |
//! | [`verdict`] | win, loss, tie, mixed or no data, killed runs included; and the bar that uswap is judged by |
//!
//! What must hold: nothing here is ever NaN or infinite, whatever the figures are: a value that is no finite number is
//! as if it were not there. Swapping the two sides of a comparison mirrors the result. The same figures give the same
//! answer: no chance is used.

pub mod ratio;
pub mod verdict;

pub use ratio::{Basis, Ratio};
pub use verdict::{Advantage, Endings, Pairing, Verdict, advantage, bar, is_bar, is_ours};

use crate::results::{Cell, Outcome, Run};

/// Median, and the values that a quarter and three quarters of the others are below.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Quartiles {
    /// A quarter is below.
    pub first: f64,
    /// Half is below.
    pub median: f64,
    /// Three quarters are below.
    pub third: f64,
}

/// Quartiles of the finite values; none if there is no such value. Between two values the line between them counts, so
/// that of 0 and 10 the first quartile is 2.5.
pub fn quartiles(values: &[f64]) -> Option<Quartiles> {
    let sorted = finite_sorted(values);
    if sorted.is_empty() {
        return None;
    }
    let at = |part: f64| {
        let place = part * (sorted.len() - 1) as f64;
        let below = sorted[place.floor() as usize];
        let above = sorted[place.ceil() as usize];
        // Not `below + (above - below) * …`: the difference of two large numbers may be infinite.
        let share = place.fract();
        below * (1.0 - share) + above * share
    };
    Some(Quartiles { first: at(0.25), median: at(0.5), third: at(0.75) })
}

/// Median of the finite values.
pub fn median(values: &[f64]) -> Option<f64> {
    quartiles(values).map(|quartiles| quartiles.median)
}

/// (third quartile - first quartile) / median. None for fewer than two values, which have no spread, and for a median
/// of 0.
pub fn spread(values: &[f64]) -> Option<f64> {
    if values.iter().filter(|value| value.is_finite()).count() < 2 {
        return None;
    }
    let quartiles = quartiles(values)?;
    let spread = (quartiles.third - quartiles.first) / quartiles.median.abs();
    spread.is_finite().then_some(spread)
}

/// A figure of every run that ended well, in the order of the runs.
pub fn figures(cell: &Cell, name: &str) -> Vec<f64> {
    done_runs(cell).filter_map(|run| figure(run, name)).collect()
}

/// The runs that ended well.
pub fn done_runs(cell: &Cell) -> impl Iterator<Item = &Run> {
    cell.runs.iter().filter(|run| run.outcome == Outcome::Done)
}

/// A finite figure of a run.
fn figure(run: &Run, name: &str) -> Option<f64> {
    run.figures.get(name).copied().filter(|value| value.is_finite())
}

fn finite_sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_by_hand() {
        assert_eq!(quartiles(&[]), None);
        assert_eq!(quartiles(&[7.0]), Some(Quartiles { first: 7.0, median: 7.0, third: 7.0 }));
        assert_eq!(quartiles(&[10.0, 0.0]), Some(Quartiles { first: 2.5, median: 5.0, third: 7.5 }));
        let five = [5.0, 1.0, 4.0, 2.0, 3.0];
        assert_eq!(quartiles(&five), Some(Quartiles { first: 2.0, median: 3.0, third: 4.0 }));
        assert_eq!(
            quartiles(&[1.0, 2.0, 3.0, 4.0]),
            Some(Quartiles { first: 1.75, median: 2.5, third: 3.25 })
        );
        assert_eq!(median(&[f64::MAX, f64::MAX]), Some(f64::MAX));
    }

    #[test]
    fn what_is_no_number_does_not_count() {
        assert_eq!(median(&[f64::NAN, 3.0, f64::INFINITY, 1.0]), Some(2.0));
        assert_eq!(median(&[f64::NAN]), None);
        assert_eq!(spread(&[f64::NAN, 3.0]), None);
    }

    #[test]
    fn spread_by_hand() {
        assert_eq!(spread(&[1.0, 2.0, 3.0, 4.0, 5.0]), Some(2.0 / 3.0));
        assert_eq!(spread(&[4.0, 4.0]), Some(0.0));
        assert_eq!(spread(&[4.0]), None, "one value has no spread");
        assert_eq!(spread(&[0.0, 0.0, 0.0]), None, "a share of 0 is no number");
    }

    #[test]
    fn figures_come_from_runs_that_ended_well() {
        let run =
            |outcome, value| Run { outcome, figures: [("x".to_owned(), value)].into(), ..Run::default() };
        let cell = Cell {
            runs: vec![run(Outcome::Done, 1.0), run(Outcome::Killed, 2.0), run(Outcome::Done, f64::NAN)],
            ..Cell::default()
        };
        assert_eq!(figures(&cell, "x"), [1.0]);
        assert!(figures(&cell, "y").is_empty());
    }
}
