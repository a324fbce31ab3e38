//! Averages as Linux's pressure stall information has them, and parts that are known from looks.

use std::time::Duration;

use uswap_control::stat::Psi;

/// Seconds over which is averaged.
const WINDOWS: [f64; 3] = [10.0, 60.0, 300.0];

/// Shares of the last windows, from 0 to 1.
#[derive(Clone, Copy, Default)]
pub struct Averages([f64; WINDOWS.len()]);

impl Averages {
    /// In the last `elapsed` this share was stalled.
    pub fn carry_on(&mut self, share: f64, elapsed: Duration) {
        for (average, window) in self.0.iter_mut().zip(WINDOWS) {
            let rest = (-elapsed.as_secs_f64() / window).exp();
            *average = *average * rest + share * (1.0 - rest);
        }
    }

    /// The share of the last minute.
    pub fn of_a_minute(self) -> f64 {
        self.0[1]
    }

    /// In the form in which it is said, with what was stalled in all.
    pub fn psi(self, total_ns: u64) -> Psi {
        let [avg10, avg60, avg300] = self.0.map(|share| (share * 10_000.0).round() / 100.0);
        Psi { avg10, avg60, avg300, total_us: total_ns / 1000 }
    }
}

/// A part of a whole, both from looks, of which later ones count more.
#[derive(Clone, Copy, Default)]
pub struct Part {
    part: f64,
    whole: f64,
}

impl Part {
    /// In a look, so much of so much.
    pub fn note(&mut self, part: u32, whole: u32) {
        self.part += f64::from(part);
        self.whole += f64::from(whole);
    }

    /// What was seen before counts half.
    pub fn grow_old(&mut self) {
        self.scale(0.5);
    }

    /// What was seen before counts half, and as much as this at most.
    pub fn grow_old_up_to(&mut self, most: f64) {
        self.scale(0.5_f64.min(most / self.whole.max(most)));
    }

    fn scale(&mut self, by: f64) {
        self.part *= by;
        self.whole *= by;
    }

    /// From 0 to 1. None: nothing was seen.
    pub fn share(self) -> Option<f64> {
        (self.whole > 0.0).then(|| self.part / self.whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_follow_as_those_of_linux() {
        let (mut averages, period) = (Averages::default(), Duration::from_secs(2));
        (0..5).for_each(|_| averages.carry_on(1.0, period));
        let [ten, sixty, more] = averages.0;
        // 1 - e^(-10/10), 1 - e^(-10/60), 1 - e^(-10/300).
        assert!((ten - 0.632).abs() < 0.001 && (sixty - 0.154).abs() < 0.001 && (more - 0.033).abs() < 0.001);
        (0..500).for_each(|_| averages.carry_on(0.25, period));
        assert!(averages.0.iter().all(|average| (average - 0.25).abs() < 0.02));
    }

    #[test]
    fn what_was_seen_before_counts_less() {
        let mut part = Part::default();
        assert_eq!(part.share(), None);
        (0..100).for_each(|_| part.note(1, 2));
        part.grow_old();
        assert_eq!((part.share(), part.whole), (Some(0.5), 100.0));
        part.grow_old_up_to(8.0);
        assert_eq!((part.share(), part.whole), (Some(0.5), 8.0));
        part.grow_old_up_to(8.0);
        assert_eq!(part.whole, 4.0);
    }
}
