//! The metrics that are no counters of the engine: memory, files, faults, pressure, processes.
//!
//! What must hold: as of [`crate::counters`], names stay.

use uswap_control::stat::{FaultStat, ProcessStat, Psi, RunStat};
use uswap_units::PAGE_BYTES;

use crate::family::{Family, Kind, Number, Unit};

/// What a run is: its labels say it.
pub const INFO: Family = Family {
    base: "uswap",
    unit: Unit::Number,
    kind: Kind::Info,
    help: "The run: version of uswap, process id of its supervisor, user, and program",
    labels: &["version", "pid", "uid", "program"],
};

/// Which of [`STATES`] a run is in: 1 for that, 0 for the others.
pub const STATE: Family =
    Family::gauge("uswap_state", Unit::Number, "1 for the state that the run is in, 0 for the others")
        .with(&["state"]);

/// What a run may say of its state.
pub const STATES: [&str; 3] = ["running", "frozen", "left"];

/// A family with one sample of each run, and where that comes from.
pub type OfRun = (Family, fn(&RunStat) -> Number);

/// One sample of each run.
pub const RUN: &[OfRun] = &[
    (Family::gauge("uswap_uptime", Unit::Seconds, "Time since the run began"), |run| {
        Number::Parts(run.uptime_seconds)
    }),
    (Family::gauge("uswap_ram_limit", Unit::Bytes, "The budget"), |run| Number::Whole(run.ram_bytes)),
    (
        Family::gauge(
            "uswap_used",
            Unit::Bytes,
            "What counts towards the budget: memory of the processes, the pool, and uswap's own",
        ),
        |run| Number::Whole(run.used_bytes),
    ),
    (Family::gauge("uswap_used_peak", Unit::Bytes, "The most that was used at one moment"), |run| {
        Number::Whole(run.used_peak_bytes)
    }),
    (Family::gauge("uswap_resident", Unit::Bytes, "Memory of managed processes that is in RAM"), |run| {
        Number::Whole(run.resident_bytes)
    }),
    (Family::gauge("uswap_pool", Unit::Bytes, "Compressed pages in RAM"), |run| {
        Number::Whole(run.pool_bytes)
    }),
    (Family::gauge("uswap_pool_limit", Unit::Bytes, "What the pool may take now"), |run| {
        Number::Whole(run.pool_bytes_max)
    }),
    (Family::gauge("uswap_processes", Unit::Number, "Processes that are managed"), |run| {
        Number::Whole((run.processes.len() + run.more_processes) as u64)
    }),
    (
        Family::counter(
            "uswap_pressure_waiting",
            Unit::Seconds,
            "Time in which at least one thread of the run waited for a page (some)",
        ),
        |run| stalled(run.pressure.map(|pressure| pressure.some), run.waits.some_seconds),
    ),
    (
        Family::counter(
            "uswap_pressure_stalled",
            Unit::Seconds,
            "The part of it in which nothing of the run that does not sleep did anything else, from samples (full)",
        ),
        |run| stalled(run.pressure.map(|pressure| pressure.full), run.waits.full_seconds),
    ),
    (
        Family::counter(
            "uswap_swapout",
            Unit::Bytes,
            "Content of pages that were evicted: compressed, same-filled, incompressible or unchanged",
        ),
        |run| {
            pages(
                ["zswpout", "swpout_same", "zswp_reject_compress_poor", "swpout_unchanged"].map(counter(run)),
            )
        },
    ),
    (
        Family::counter(
            "uswap_swapin",
            Unit::Bytes,
            "Content of evicted pages that came back: for faults, and loaded ahead of them",
        ),
        |run| pages([refaults(run), counter(run)("swap_ra")]),
    ),
    (
        Family::counter(
            "uswap_refaults",
            Unit::Number,
            "Faults on pages that had been evicted: those of the sources same, pool and disk",
        ),
        |run| Number::Whole(refaults(run)),
    ),
];

/// A family with one sample of each swap directory, and where that comes from.
pub type OfDirectory = (Family, fn(&DirectoryStat) -> u64);

/// The swap files of one directory, added up.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct DirectoryStat {
    /// What is in use.
    pub used_bytes: u64,
    /// Their largest size.
    pub bytes_max: u64,
    /// What was written to them.
    pub written_bytes: u64,
}

/// One sample of each directory with swap files.
pub const DIRECTORIES: &[OfDirectory] = &[
    (
        Family::gauge("uswap_swap_used", Unit::Bytes, "What the swap files of a directory hold")
            .with(&["directory"]),
        |directory| directory.used_bytes,
    ),
    (
        Family::gauge("uswap_swap_limit", Unit::Bytes, "The most that they may hold").with(&["directory"]),
        |directory| directory.bytes_max,
    ),
    (
        Family::counter("uswap_swap_directory_written", Unit::Bytes, "What was written to them")
            .with(&["directory"]),
        |directory| directory.written_bytes,
    ),
];

/// Faults by where the page came from.
pub const FAULTS: Family = Family::counter(
    "uswap_faults",
    Unit::Number,
    "Faults that were served, by where the page came from; woken: another thread had brought it",
)
.with(&["source"]);

/// How long they took.
pub const FAULT_DURATION: Family = Family {
    base: "uswap_fault_duration",
    unit: Unit::Seconds,
    kind: Kind::Histogram,
    help: "How long faults took. The sum is exact",
    labels: &["source"],
};

/// A family with one sample of each process, and where that comes from.
pub type OfProcess = (Family, fn(&ProcessStat) -> Number);

const PROCESS: &[&str] = &["pid", "name"];

/// One sample of each managed process, of at most 1,024: those that wait most.
pub const PROCESSES: &[OfProcess] = &[
    (
        Family::gauge("uswap_process_resident", Unit::Bytes, "Its memory that is in RAM").with(PROCESS),
        |process| Number::Whole(process.resident_bytes),
    ),
    (
        Family::gauge("uswap_process_protected", Unit::Bytes, "What of that is protected").with(PROCESS),
        |process| Number::Whole(process.protected_bytes),
    ),
    (
        Family::gauge("uswap_process_in_use", Unit::Bytes, "What is in RAM, and what comes back to it")
            .with(PROCESS),
        |process| Number::Whole(process.in_use_bytes),
    ),
    (Family::gauge("uswap_process_weight", Unit::Number, "Its weight in reclaim").with(PROCESS), |process| {
        Number::Whole(process.weight)
    }),
    (
        Family::counter("uswap_process_taken", Unit::Pages, "Pages that reclaim took from it").with(PROCESS),
        |process| Number::Whole(process.pages_taken),
    ),
    (
        Family::counter("uswap_process_came_back", Unit::Pages, "Pages that a touch brought back")
            .with(PROCESS),
        |process| Number::Whole(process.pages_came_back),
    ),
    (
        Family::counter(
            "uswap_process_came_back_soon",
            Unit::Pages,
            "Those of them that would still have been there if the run had had twice the RAM for its pages",
        )
        .with(PROCESS),
        |process| Number::Whole(process.pages_came_back_soon),
    ),
    (
        Family::counter(
            "uswap_process_pressure_waiting",
            Unit::Seconds,
            "Time in which at least one of its threads waited for a page (some)",
        )
        .with(PROCESS),
        |process| Number::Parts(process.some.total_us as f64 / 1e6),
    ),
    (
        Family::counter(
            "uswap_process_pressure_stalled",
            Unit::Seconds,
            "Time in which all of them that do not sleep did, from samples (full)",
        )
        .with(PROCESS),
        |process| Number::Parts(process.full.total_us as f64 / 1e6),
    ),
];

/// Every family that is no counter of the engine, in the order in which they are written.
pub fn families() -> Vec<Family> {
    let mut families = vec![INFO, STATE];
    families.extend(RUN.iter().map(|(family, _)| *family));
    families.extend(DIRECTORIES.iter().map(|(family, _)| *family));
    families.extend([FAULTS, FAULT_DURATION]);
    families.extend(PROCESSES.iter().map(|(family, _)| *family));
    families
}

/// The word of the label `source` for what a run calls the source of a fault. Words that are not known stay.
pub fn source_word(source: &str) -> &str {
    match source {
        "same-filled" => "same",
        "file" => "disk",
        other => other,
    }
}

/// A counter of a run by its name; 0 if the run does not have it.
fn counter(run: &RunStat) -> impl Fn(&str) -> u64 {
    |name| run.counters.get(name).copied().unwrap_or(0)
}

fn refaults(run: &RunStat) -> u64 {
    let had_been_evicted =
        |fault: &&FaultStat| matches!(fault.source.as_str(), "same-filled" | "pool" | "file");
    run.faults.iter().filter(had_been_evicted).map(|fault| fault.count).sum()
}

/// Of an older run, which does not say it, what its processes waited, added.
fn stalled(line: Option<Psi>, added_seconds: f64) -> Number {
    Number::Parts(line.map_or(added_seconds, |line| line.total_us as f64 / 1e6))
}

fn pages<const COUNT: usize>(counts: [u64; COUNT]) -> Number {
    Number::Whole(counts.iter().sum::<u64>().saturating_mul(PAGE_BYTES as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::counter_metrics;
    use std::collections::BTreeSet;
    use uswap_core::counters::FAULT_SOURCES;

    #[test]
    fn no_two_families_have_one_name_and_texts_need_no_escape() {
        let all: Vec<Family> =
            families().into_iter().chain(counter_metrics().map(|(_, metric)| metric.family)).collect();
        let names: BTreeSet<String> = all.iter().map(Family::name).collect();
        assert_eq!(names.len(), all.len());
        for family in &all {
            assert!(!family.help.is_empty() && !family.help.contains(['"', '\\', '\n']), "{family:?}");
        }
    }

    #[test]
    fn what_is_read_of_a_run_by_name_is_there() {
        let names: Vec<&str> = counter_metrics().map(|(described, _)| described.name).collect();
        for name in ["zswpout", "swpout_same", "zswp_reject_compress_poor", "swpout_unchanged", "swap_ra"] {
            assert!(names.contains(&name), "{name}");
        }
        let words: Vec<&str> = FAULT_SOURCES.iter().map(|(_, name)| source_word(name)).collect();
        assert_eq!(words, ["zero", "same", "pool", "disk", "woken"]);
    }
}
