//! How long the processes of the run wait for their pages, as averages in the form of Linux's pressure stall information, for `uswap stat`; and the word to the user when what a program uses does not fit.
//!
//! The monitor calls [`follow`] whenever it looks; every two seconds the averages are carried on, as Linux does. Only "some" is known: at least one thread of the process waited.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use uswap_core::mm::{MmRecord, MmState};
use uswap_units::PAGE_BYTES;

use super::shared::Shared;
use crate::human;

const PERIOD: Duration = Duration::from_secs(2);

/// Seconds over which is averaged.
const WINDOWS: [f64; 3] = [10.0, 60.0, 300.0];

/// From this share of the last minute on a program is told that it waits more than it works.
const TELL_FROM: f64 = 0.7;

/// Processes that `uswap stat` names, those that wait most first.
const LINES_MAX: usize = 20;

/// Shares of the last windows, from 0 to 1.
#[derive(Clone, Copy, Default)]
struct Averages([f64; WINDOWS.len()]);

impl Averages {
    /// In the last `elapsed` this share was stalled.
    fn carry_on(&mut self, share: f64, elapsed: Duration) {
        for (average, window) in self.0.iter_mut().zip(WINDOWS) {
            let rest = (-elapsed.as_secs_f64() / window).exp();
            *average = *average * rest + share * (1.0 - rest);
        }
    }
}

#[derive(Default)]
struct Known {
    averages: Averages,
    total_ns: u64,
}

/// What is known of the processes that live, by their numbers ([`MmRecord::number`]).
pub struct Pressure {
    at: Instant,
    known: HashMap<u64, Known>,
}

impl Pressure {
    pub fn new() -> Pressure {
        Pressure { at: Instant::now(), known: HashMap::new() }
    }
}

fn live(shared: &Shared) -> impl Iterator<Item = MmRecord<'_>> {
    shared.segment.mms().in_use().filter(|record| record.state() == MmState::Live)
}

/// Carries the averages on, if it is time.
pub fn follow(shared: &Shared) {
    let mut pressure = shared.pressure.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let elapsed = pressure.at.elapsed();
    if elapsed < PERIOD {
        return;
    }
    pressure.at = Instant::now();
    let mut before = std::mem::take(&mut pressure.known);
    for record in live(shared) {
        let mut known = before.remove(&record.number()).unwrap_or_default();
        let total_ns = record.stall().total_ns();
        let share = total_ns.saturating_sub(known.total_ns) as f64 / elapsed.as_nanos() as f64;
        known.averages.carry_on(share.min(1.0), elapsed);
        known.total_ns = total_ns;
        let of_a_minute = known.averages.0[1];
        if of_a_minute >= TELL_FROM && !shared.told_of_pressure.swap(true, Ordering::Relaxed) {
            shared.warn(&does_not_fit(shared, record, of_a_minute));
        }
        pressure.known.insert(record.number(), known);
    }
}

/// Bytes of the processes' memory, in RAM or not. What is in RAM and has a copy that is still good counts twice.
fn held_bytes(shared: &Shared) -> u64 {
    (shared.segment.mms().resident_pages() + shared.segment.swap_table().used_count()) * PAGE_BYTES as u64
}

fn does_not_fit(shared: &Shared, record: MmRecord<'_>, share: f64) -> String {
    format!(
        "process {} ({}) waits {:.0} % of its time for its pages: what it uses at once does not fit in the budget of {}. All memory of the run is up to {}; a --ram nearer to that makes it faster",
        record.pid(),
        name_of(record.pid()),
        share * 100.0,
        human::bytes(shared.options.ram_bytes),
        human::bytes(held_bytes(shared))
    )
}

fn name_of(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    if name.is_empty() { "ended".to_owned() } else { name.trim_end().to_owned() }
}

/// What `uswap stat` says.
pub fn stat(shared: &Shared) -> String {
    let (budget, pool) = (shared.segment.budget(), shared.segment.pool());
    let written = shared.segment.slots().used() * PAGE_BYTES as u64;
    let mut text = format!(
        "memory {} of {}: resident {}, pool {} of at most {}; swap files hold {}",
        human::bytes(budget.used().0),
        human::bytes(budget.ram().0),
        human::bytes(shared.segment.mms().resident_pages() * PAGE_BYTES as u64),
        human::bytes(pool.resident_bytes()),
        human::bytes(pool.limit_bytes()),
        human::bytes(written),
    );
    let pressure = shared.pressure.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let averages = |record: &MmRecord<'_>| {
        pressure.known.get(&record.number()).map(|known| known.averages.0).unwrap_or_default()
    };
    let mut processes: Vec<_> = live(shared).map(|record| (averages(&record), record)).collect();
    processes.sort_by(|(one, _), (other, _)| other[0].total_cmp(&one[0]));
    for ([ten, sixty, more], record) in processes.iter().take(LINES_MAX) {
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "\n{} {} some avg10={:.2} avg60={:.2} avg300={:.2} total={}",
            record.pid(),
            name_of(record.pid()),
            ten * 100.0,
            sixty * 100.0,
            more * 100.0,
            record.stall().total_ns() / 1000
        );
    }
    let more = processes.len().saturating_sub(LINES_MAX);
    if more > 0 {
        let _ = write!(text, "\nand {more} processes that wait less");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_follow_as_those_of_linux() {
        let mut averages = Averages::default();
        (0..5).for_each(|_| averages.carry_on(1.0, PERIOD));
        let [ten, sixty, more] = averages.0;
        // 1 - e^(-10/10), 1 - e^(-10/60), 1 - e^(-10/300).
        assert!((ten - 0.632).abs() < 0.001 && (sixty - 0.154).abs() < 0.001 && (more - 0.033).abs() < 0.001);
        (0..500).for_each(|_| averages.carry_on(0.25, PERIOD));
        assert!(averages.0.iter().all(|average| (average - 0.25).abs() < 0.02));
    }
}
