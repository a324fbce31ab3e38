//! How a run goes, as it says itself when it is asked ([`crate::STAT`]).
//!
//! What must hold: every field says its unit in its name or here; names in JSON are the field names and do not change
//! their meaning. A reader takes what it knows: a run of an older version leaves fields out, and one of a newer version
//! says more.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// How a run goes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunStat {
    /// Version of the supervisor.
    pub version: String,
    /// The supervisor: the number by which the run is named.
    pub pid: u32,
    /// User whose run it is.
    pub uid: u32,
    /// The program that the run began with, as the kernel shows it (at most 15 bytes).
    pub program: String,
    /// `running`, `frozen` (its processes are stopped, or are about to be), or `left` (nothing is managed any more).
    pub state: String,
    /// Seconds since the run began.
    pub uptime_seconds: f64,
    /// The budget.
    pub ram_bytes: u64,
    /// What counts towards it: memory of the processes, the pool, and uswap's own.
    pub used_bytes: u64,
    /// The most that was used at one moment.
    pub used_peak_bytes: u64,
    /// Memory of managed processes that is in RAM.
    pub resident_bytes: u64,
    /// Compressed pages in RAM.
    pub pool_bytes: u64,
    /// What the pool may take now.
    pub pool_bytes_max: u64,
    /// What the swap files hold.
    pub swap_file_bytes: u64,
    /// Each swap file that is in use.
    pub swap_files: Vec<SwapFileStat>,
    /// How long the run as a whole waits for pages. An older run does not say it.
    pub pressure: Option<Pressure>,
    /// How long its processes have waited for pages, those that have ended among them.
    pub waits: Waits,
    /// How long faults have taken, by where the page came from.
    pub faults: Vec<FaultStat>,
    /// Processes that are managed, those that wait most first.
    pub processes: Vec<ProcessStat>,
    /// Processes that wait less, and are not named.
    pub more_processes: usize,
    /// Every counter, by its name in docs/METRICS.md.
    pub counters: BTreeMap<String, u64>,
}

/// A swap file.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SwapFileStat {
    /// Where it lies.
    pub directory: String,
    /// `rotational` or `solid-state`.
    pub kind: String,
    /// Files of higher priority are filled first.
    pub priority: i16,
    /// Its largest size.
    pub bytes_max: u64,
    /// What of it is in use.
    pub used_bytes: u64,
    /// What was written to it in all.
    pub written_bytes: u64,
}

/// How long a run as a whole waits for pages, as Linux's pressure stall information says it of a cgroup. Neither is
/// ever more than the time that has passed, however many processes wait.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Pressure {
    /// At least one thread of any process waited. Counted if one process waits; else counted for each process, with
    /// what overlaps from samples.
    pub some: Psi,
    /// One waited, and nothing of the run that does not sleep did anything else, from samples.
    pub full: Psi,
}

/// How long processes have waited for pages, all of them added: may be more than the time that has passed.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Waits {
    /// At least one thread of a process waited.
    pub some_seconds: f64,
    /// None of its others ran meanwhile, from samples.
    pub full_seconds: f64,
}

/// Faults of one source.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FaultStat {
    /// Where the page came from: `zero`, `same-filled`, `pool`, `file`; or `woken`: another thread had brought it.
    pub source: String,
    /// How many.
    pub count: u64,
    /// What all of them took together, exactly. Read at another moment than the count.
    pub total_ns: u64,
    /// Half of them took no longer than this.
    pub p50_ns: u64,
    /// 99 of 100 took no longer than this.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// How many took more than the value before, and at most this many ns: only values that have any, in rising order.
    pub latencies: Vec<(u64, u64)>,
}

/// A process that is managed.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessStat {
    /// Its number.
    pub pid: u32,
    /// That of its parent.
    pub parent: u32,
    /// Its name, as the kernel shows it (at most 15 bytes).
    pub name: String,
    /// Its memory that is in RAM.
    pub resident_bytes: u64,
    /// What of that is protected.
    pub protected_bytes: u64,
    /// Its weight in reclaim.
    pub weight: u64,
    /// What is in RAM, and what comes back to it.
    pub in_use_bytes: u64,
    /// Pages that reclaim took from it.
    pub pages_taken: u64,
    /// Pages that a touch brought back.
    pub pages_came_back: u64,
    /// Of those, the ones that would still have been there if the run had had twice the RAM for its pages.
    pub pages_came_back_soon: u64,
    /// How long at least one of its threads waited for a page.
    pub some: Psi,
    /// How long all of them that do not sleep did, from samples.
    pub full: Psi,
}

/// A line of pressure stall information: percents, and microseconds in all.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Psi {
    /// Of the last 10 seconds.
    pub avg10: f64,
    /// Of the last minute.
    pub avg60: f64,
    /// Of the last five minutes.
    pub avg300: f64,
    /// In all.
    pub total_us: u64,
}

/// In the layout of `/proc/pressure`.
impl fmt::Display for Psi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Psi { avg10, avg60, avg300, total_us } = self;
        write!(f, "avg10={avg10:.2} avg60={avg60:.2} avg300={avg300:.2} total={total_us}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_older_run_does_not_say_is_nothing() {
        let stat: RunStat = serde_json::from_str(r#"{"ram_bytes": 5, "what": [1]}"#).expect("it is taken");
        assert_eq!(stat, RunStat { ram_bytes: 5, ..RunStat::default() });
    }

    #[test]
    fn a_line_of_pressure_is_as_of_the_kernel() {
        let line = Psi { avg10: 1.5, avg60: 0.25, avg300: 100.0, total_us: 12 };
        assert_eq!(line.to_string(), "avg10=1.50 avg60=0.25 avg300=100.00 total=12");
    }
}
