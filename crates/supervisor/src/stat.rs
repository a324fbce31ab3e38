//! What `uswap stat` says of a run: where its memory is, and for each process how long it waits for its pages and what
//! was taken from it.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use uswap_control::stat::{FaultStat, ProcessStat, RunStat, SwapFileStat};
use uswap_core::counters::FAULT_SOURCES;
use uswap_core::fairness::WEIGHT_DEFAULT;
use uswap_core::files::FileRecord;
use uswap_core::latency::Latency;
use uswap_core::mm::MmRecord;
use uswap_units::PAGE_BYTES;

use crate::account::{FaultTimes, FileFacts, all_counters};
use crate::control::command::Form;
use crate::freeze::is_frozen;
use crate::human;
use crate::processes::live;
use crate::shared::Shared;

/// Processes that are named to people, those that wait most first.
const LINES_MAX: usize = 20;

/// And to programs: some 600 bytes each.
const PROCESSES_MAX: usize = 1024;

/// In the form that is wanted.
pub fn stat(shared: &Shared, form: Form) -> String {
    match form {
        Form::Json => {
            serde_json::to_string(&for_programs(shared)).expect("it has nothing that JSON cannot say")
        }
        Form::Text => {
            let mut stat = look(shared);
            keep_first(&mut stat, LINES_MAX);
            text(&stat)
        }
    }
}

/// As programs are told it.
pub fn for_programs(shared: &Shared) -> RunStat {
    let mut stat = look(shared);
    keep_first(&mut stat, PROCESSES_MAX);
    stat
}

fn keep_first(stat: &mut RunStat, most: usize) {
    stat.more_processes = stat.processes.len().saturating_sub(most);
    stat.processes.truncate(most);
}

fn look(shared: &Shared) -> RunStat {
    let (budget, pool) = (shared.segment.budget(), shared.segment.pool());
    let mut processes: Vec<_> = live(shared.segment.mms()).map(|record| process(shared, record)).collect();
    processes.sort_by(|one, other| other.some.avg10.total_cmp(&one.some.avg10));
    let counters = all_counters(shared).into_iter().map(|(name, value)| (name.to_owned(), value));
    RunStat {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        uid: rustix::process::geteuid().as_raw(),
        program: shared.options.program.clone(),
        state: state(shared).to_owned(),
        uptime_seconds: shared.started.elapsed().as_secs_f64(),
        ram_bytes: shared.limits().ram_bytes,
        used_bytes: budget.used().bytes(),
        used_peak_bytes: shared.peaks.used.load(Ordering::Relaxed).max(budget.used().bytes()),
        resident_bytes: shared.segment.mms().resident_pages() * PAGE_BYTES as u64,
        pool_bytes: pool.resident_bytes(),
        pool_bytes_max: pool.limit_bytes(),
        swap_file_bytes: shared.segment.slots().used() * PAGE_BYTES as u64,
        swap_files: shared.segment.slots().files().in_use().map(|file| swap_file(shared, file)).collect(),
        pressure: Some(shared.pressure.of_run()),
        waits: shared.pressure.waits(),
        faults: faults(shared),
        processes,
        more_processes: 0,
        counters: counters.collect(),
    }
}

fn state(shared: &Shared) -> &'static str {
    if shared.segment.budget().is_leaving() {
        "left"
    } else if is_frozen(shared) {
        "frozen"
    } else {
        "running"
    }
}

fn swap_file(shared: &Shared, file: FileRecord) -> SwapFileStat {
    let FileFacts { directory, kind, bytes_max, written_bytes } = FileFacts::of(shared, &file);
    let used_bytes = shared.segment.slots().used_in(&file) * PAGE_BYTES as u64;
    SwapFileStat { directory, kind, priority: file.spec.priority, bytes_max, used_bytes, written_bytes }
}

fn faults(shared: &Shared) -> Vec<FaultStat> {
    let counters = shared.segment.counters();
    FAULT_SOURCES
        .iter()
        .map(|&(source, name)| {
            let latency = counters.latency(source);
            let FaultTimes { count, total_ns, p50_ns, p99_ns, max_ns } = FaultTimes::of(latency);
            let latencies = by_powers_of_two(latency);
            FaultStat { source: name.to_owned(), count, total_ns, p50_ns, p99_ns, max_ns, latencies }
        })
        .collect()
}

/// How many values are at most a power of two, less one, and more than the one before.
fn by_powers_of_two(latency: Latency<'_>) -> Vec<(u64, u64)> {
    let mut sums: Vec<(u64, u64)> = Vec::new();
    for (values, count) in latency.counts().filter(|(_, count)| *count > 0) {
        let top = values.end().checked_add(1).map_or(u64::MAX, |next| next.next_power_of_two() - 1);
        match sums.last_mut() {
            Some((last, sum)) if *last == top => *sum += count,
            _ => sums.push((top, count)),
        }
    }
    sums
}

fn process(shared: &Shared, record: MmRecord<'_>) -> ProcessStat {
    let (page, holding, taken) =
        (PAGE_BYTES as u64, record.account().holding, shared.pressure.taken_pages(record));
    let stalls = shared.pressure.stalls_of(record);
    let parent = shared.processes.look(record, |pid| uswap_os::process::stat(pid).ok());
    ProcessStat {
        pid: record.pid(),
        parent: parent.flatten().map_or(0, |stat| stat.parent),
        name: shared.processes.name_of(record),
        resident_bytes: holding.resident_pages * page,
        protected_bytes: holding.protected_pages.min(holding.resident_pages) * page,
        weight: if holding.weight == 0 { WEIGHT_DEFAULT } else { holding.weight },
        in_use_bytes: shared.pressure.in_use_bytes(record),
        pages_taken: taken.taken,
        pages_came_back: taken.came_back,
        pages_came_back_soon: taken.came_back_soon,
        some: stalls.some,
        full: stalls.full,
    }
}

fn text(stat: &RunStat) -> String {
    let state = if stat.state == "running" { String::new() } else { format!("{}; ", stat.state) };
    let mut text = format!(
        "{state}memory {} of {}: resident {}, pool {} of at most {}; swap files hold {}",
        human::bytes(stat.used_bytes),
        human::bytes(stat.ram_bytes),
        human::bytes(stat.resident_bytes),
        human::bytes(stat.pool_bytes),
        human::bytes(stat.pool_bytes_max),
        human::bytes(stat.swap_file_bytes),
    );
    if let Some(pressure) = stat.pressure {
        // Writing to a string does not fail.
        let _ = write!(text, "\nrun some {}\nrun full {}", pressure.some, pressure.full);
    }
    for process in &stat.processes {
        let mut memory = format!("resident {}", human::bytes(process.resident_bytes));
        if process.protected_bytes > 0 {
            let _ = write!(memory, " (protected {})", human::bytes(process.protected_bytes));
        }
        if process.weight != WEIGHT_DEFAULT {
            let _ = write!(memory, ", weight {}", process.weight);
        }
        let _ = write!(
            text,
            "\n{pid} {name} {memory}, in use about {}, {} pages taken, {} came back, {} of them soon\n{pid} {name} \
             some {}\n{pid} {name} full {}",
            human::bytes(process.in_use_bytes),
            human::count(process.pages_taken),
            human::count(process.pages_came_back),
            human::count(process.pages_came_back_soon),
            process.some,
            process.full,
            pid = process.pid,
            name = process.name,
        );
    }
    if stat.more_processes > 0 {
        let _ = write!(text, "\nand {} processes that wait less", stat.more_processes);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use uswap_core::counters::FaultSource;
    use uswap_core::segment::{Geometry, Segment};
    use uswap_sync::AtomicU64;

    #[test]
    fn latencies_are_added_up_by_powers_of_two() {
        let geometry = Geometry { mms: 1, tables: 8, entries: 512, zspages: 64, slots: 8, readahead: 0 };
        let words: Vec<AtomicU64> = (0..geometry.layout().total_words()).map(|_| AtomicU64::new(0)).collect();
        let segment = Segment::create(&words, geometry);
        let latency = segment.counters().latency(FaultSource::Pool);
        [3, 5, 1030, 1500, 2000, 2100].into_iter().for_each(|value| latency.record(value));
        assert_eq!(by_powers_of_two(latency), [(3, 1), (7, 1), (2047, 3), (4095, 1)]);
    }
}
