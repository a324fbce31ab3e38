//! How a run went, as a bounded number of moments.
//!
//! What must hold: however long the run is, at most [`POINTS_MAX`] are kept, from its beginning to its end, in even
//! distances. What counts up is kept as it was, so that leaving out a moment loses nothing of the others.

use serde::Serialize;
use uswap_control::stat::{Pressure, RunStat};

/// Moments that are kept: two for each pixel of a wide page. Each is some 600 bytes in a page, so it is 1.2 MB.
pub const POINTS_MAX: usize = 2000;

/// Sources of faults whose latencies are kept: those that go to the pool and to the disk.
const SOURCES: [&str; 2] = ["pool", "file"];

/// A moment of a run. The names are those of [`RunStat`]: the page reads both.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Point {
    uptime_seconds: f64,
    ram_bytes: u64,
    used_bytes: u64,
    resident_bytes: u64,
    pool_bytes: u64,
    swap_file_bytes: u64,
    pressure: Option<Pressure>,
    faults: Vec<Latencies>,
}

/// How long faults of one source have taken so far.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct Latencies {
    source: String,
    latencies: Vec<(u64, u64)>,
}

impl Point {
    fn of(run: &RunStat) -> Point {
        let faults = run.faults.iter().filter(|fault| SOURCES.contains(&fault.source.as_str()));
        let latencies = faults
            .map(|fault| Latencies { source: fault.source.clone(), latencies: fault.latencies.clone() });
        Point {
            uptime_seconds: run.uptime_seconds,
            ram_bytes: run.ram_bytes,
            used_bytes: run.used_bytes,
            resident_bytes: run.resident_bytes,
            pool_bytes: run.pool_bytes,
            swap_file_bytes: run.swap_file_bytes,
            pressure: run.pressure,
            faults: latencies.collect(),
        }
    }
}

/// The moments of a run so far.
#[derive(Clone, Debug)]
pub struct Series {
    points: Vec<Point>,
    /// Of so many moments one is kept.
    stride: u64,
    seen: u64,
    /// The newest, if it is not kept.
    last: Option<Point>,
}

impl Default for Series {
    fn default() -> Series {
        Series { points: Vec::new(), stride: 1, seen: 0, last: None }
    }
}

impl Series {
    /// One moment more.
    pub fn add(&mut self, run: &RunStat) {
        let point = Point::of(run);
        if self.seen.is_multiple_of(self.stride) {
            if self.points.len() == POINTS_MAX {
                self.halve();
            }
            self.points.push(point);
            self.last = None;
        } else {
            self.last = Some(point);
        }
        self.seen += 1;
    }

    /// Keeps the first, the third and so on. With an even number of points the next one is due, too.
    fn halve(&mut self) {
        let mut index = 0;
        self.points.retain(|_| {
            index += 1;
            index % 2 == 1
        });
        self.stride *= 2;
    }

    /// What was kept, and the newest.
    pub fn into_points(self) -> Vec<Point> {
        self.points.into_iter().chain(self.last).collect()
    }
}

const _: () = assert!(POINTS_MAX.is_multiple_of(2));

#[cfg(test)]
mod tests {
    use super::*;

    fn times(count: u64) -> Vec<u64> {
        let mut series = Series::default();
        for second in 0..count {
            series.add(&RunStat { uptime_seconds: second as f64, ..RunStat::default() });
        }
        series.into_points().iter().map(|point| point.uptime_seconds as u64).collect()
    }

    #[test]
    fn a_short_run_is_kept_as_it_was() {
        assert_eq!(times(0), Vec::<u64>::new());
        assert_eq!(times(2000), (0..2000).collect::<Vec<_>>());
    }

    #[test]
    fn a_long_run_is_kept_in_even_distances_from_its_beginning_to_its_end() {
        assert_eq!(times(2001), (0..=2000).step_by(2).collect::<Vec<_>>());
        for count in [2002, 3999, 4000, 4001, 50_001, 123_456] {
            let times = times(count);
            assert!((1000..=POINTS_MAX + 1).contains(&times.len()), "{count}: {}", times.len());
            assert_eq!((times[0], times[times.len() - 1]), (0, count - 1));
            let stride = times[1];
            assert!(
                times[..times.len() - 1]
                    .iter()
                    .enumerate()
                    .all(|(index, time)| *time == index as u64 * stride)
            );
        }
    }
}
