//! What `uswap stat` says of a run: where its memory is, and for each process how long it waits for its pages and what
//! was taken from it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use uswap_core::fairness::WEIGHT_DEFAULT;
use uswap_core::mm::MmRecord;
use uswap_units::PAGE_BYTES;

use crate::account::all_counters;
use crate::control::order::Form;
use crate::human;
use crate::pressure::Stalls;
use crate::processes::live;
use crate::shared::Shared;

/// Processes that are named, those that wait most first.
const PROCESSES_MAX: usize = 20;

/// The answer to `uswap stat --json`.
#[derive(Serialize)]
struct RunStat {
    ram_bytes: u64,
    used_bytes: u64,
    resident_bytes: u64,
    pool_bytes: u64,
    pool_bytes_max: u64,
    swap_file_bytes: u64,
    processes: Vec<ProcessStat>,
    /// Processes that wait less, and are not named.
    more_processes: usize,
    /// Every counter, by its name in docs/METRICS.md.
    counters: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
struct ProcessStat {
    pid: u32,
    name: String,
    resident_bytes: u64,
    /// What of that is protected.
    protected_bytes: u64,
    weight: u64,
    /// What is in RAM, and what comes back to it.
    in_use_bytes: u64,
    pages_taken: u64,
    pages_came_back: u64,
    pages_came_back_soon: u64,
    #[serde(flatten)]
    stalls: Stalls,
}

/// In the form that is wanted.
pub fn stat(shared: &Shared, form: Form) -> String {
    let stat = look(shared);
    match form {
        Form::Json => serde_json::to_string(&stat).expect("it has nothing that JSON cannot say"),
        Form::Text => text(&stat),
    }
}

fn look(shared: &Shared) -> RunStat {
    let (budget, pool) = (shared.segment.budget(), shared.segment.pool());
    let mut processes: Vec<_> = live(shared.segment.mms()).map(|record| process(shared, record)).collect();
    processes.sort_by(|one, other| other.stalls.some.avg10.total_cmp(&one.stalls.some.avg10));
    let more_processes = processes.len().saturating_sub(PROCESSES_MAX);
    processes.truncate(PROCESSES_MAX);
    RunStat {
        ram_bytes: budget.ram().0,
        used_bytes: budget.used().0,
        resident_bytes: shared.segment.mms().resident_pages() * PAGE_BYTES as u64,
        pool_bytes: pool.resident_bytes(),
        pool_bytes_max: pool.limit_bytes(),
        swap_file_bytes: shared.segment.slots().used() * PAGE_BYTES as u64,
        processes,
        more_processes,
        counters: all_counters(shared),
    }
}

fn process(shared: &Shared, record: MmRecord<'_>) -> ProcessStat {
    let (page, holding, taken) =
        (PAGE_BYTES as u64, record.account().holding, shared.pressure.taken_pages(record));
    ProcessStat {
        pid: record.pid(),
        name: shared.processes.name_of(record),
        resident_bytes: holding.resident_pages * page,
        protected_bytes: holding.protected_pages.min(holding.resident_pages) * page,
        weight: if holding.weight == 0 { WEIGHT_DEFAULT } else { holding.weight },
        in_use_bytes: shared.pressure.in_use_bytes(record),
        pages_taken: taken.taken,
        pages_came_back: taken.came_back,
        pages_came_back_soon: taken.came_back_soon,
        stalls: shared.pressure.stalls_of(record),
    }
}

fn text(stat: &RunStat) -> String {
    let mut text = format!(
        "memory {} of {}: resident {}, pool {} of at most {}; swap files hold {}",
        human::bytes(stat.used_bytes),
        human::bytes(stat.ram_bytes),
        human::bytes(stat.resident_bytes),
        human::bytes(stat.pool_bytes),
        human::bytes(stat.pool_bytes_max),
        human::bytes(stat.swap_file_bytes),
    );
    for process in &stat.processes {
        let mut memory = format!("resident {}", human::bytes(process.resident_bytes));
        // Writing to a string does not fail.
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
            process.stalls.some,
            process.stalls.full,
            pid = process.pid,
            name = process.name,
        );
    }
    if stat.more_processes > 0 {
        let _ = write!(text, "\nand {} processes that wait less", stat.more_processes);
    }
    text
}
