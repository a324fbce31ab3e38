//! The last samples of a run: the newest whole, of the others what curves are drawn from.

use std::collections::VecDeque;

use crate::sample::{Rates, Sample};

/// Points that are kept: as many as the widest terminal has columns. 512 * 32 bytes = 16 KiB.
pub const POINTS_MAX: usize = 512;

/// What a curve has of one interval.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Point {
    /// As [`Rates::some`].
    pub some: f64,
    /// As [`Rates::full`].
    pub full: f64,
    /// Faults per second.
    pub faults: f64,
    /// 99 of 100 faults took no longer.
    pub p99_ns: u64,
}

/// The last samples of a run.
#[derive(Clone, Debug, Default)]
pub struct History {
    last: Option<Sample>,
    rates: Option<Rates>,
    points: VecDeque<Point>,
}

impl History {
    /// One more. If it is of another run, what was before is forgotten.
    pub fn push(&mut self, sample: Sample) {
        self.rates = self.last.as_ref().and_then(|last| Rates::between(last, &sample));
        self.last = Some(sample);
        let Some(rates) = &self.rates else { return self.points.clear() };
        if self.points.len() == POINTS_MAX {
            self.points.pop_front();
        }
        self.points.push_back(Point {
            some: rates.some,
            full: rates.full,
            faults: rates.faults.per_second,
            p99_ns: rates.faults.p99_ns.unwrap_or(0),
        });
    }

    /// The newest.
    pub fn last(&self) -> Option<&Sample> {
        self.last.as_ref()
    }

    /// What happened before the newest.
    pub fn rates(&self) -> Option<&Rates> {
        self.rates.as_ref()
    }

    /// What the curves are drawn from, the newest first.
    pub fn points(&self) -> impl Iterator<Item = &Point> {
        self.points.iter().rev()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uswap_control::stat::{RunStat, Waits};

    fn sample(uptime_seconds: f64) -> Sample {
        // More and more, and not all of the time in the end.
        let some_seconds = uptime_seconds * uptime_seconds / (4 * POINTS_MAX) as f64;
        let waits = Waits { some_seconds, full_seconds: 0.0 };
        let stat = RunStat { uptime_seconds, waits, ..RunStat::default() };
        Sample { at_seconds: 0.0, stat }
    }

    #[test]
    fn the_newest_point_is_the_first_and_the_oldest_go() {
        let mut history = History::default();
        history.push(sample(1.0));
        assert!(history.rates().is_none() && history.points().next().is_none());
        for second in 2..=POINTS_MAX as u32 + 10 {
            history.push(sample(f64::from(second)));
        }
        assert_eq!(history.points().count(), POINTS_MAX);
        let newest = history.rates().expect("there are two").some;
        assert_eq!(history.points().next().map(|point| point.some), Some(newest));
        assert!(history.points().map(|point| point.some).is_sorted_by(|newer, older| newer > older));
        history.push(sample(1.0));
        assert!(history.points().next().is_none(), "a new run");
    }
}
