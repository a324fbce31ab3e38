//! The closing report: counters and peaks in the user's words.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use uswap_control::unpoisoned;
use uswap_core::counters::{COUNTERS, Counter, FAULT_SOURCES};
use uswap_core::files::{FileRecord, FileState};
use uswap_core::latency::Latency;
use uswap_units::PAGE_BYTES;

use crate::files::place::kind_name;
use crate::holders::Holders;
use crate::report::{FaultKind, RunReport, SwapFileUse};
use crate::shared::Shared;

/// How many faults of one source there were, and how long they took.
pub struct FaultTimes {
    pub count: u64,
    pub total_ns: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
}

impl FaultTimes {
    pub fn of(latency: Latency<'_>) -> FaultTimes {
        FaultTimes {
            count: latency.count(),
            total_ns: latency.total_ns(),
            p50_ns: latency.quantile(1, 2),
            p99_ns: latency.quantile(99, 100),
            max_ns: latency.quantile(1, 1),
        }
    }
}

/// What is said of each swap file.
pub struct FileFacts {
    pub directory: String,
    pub kind: String,
    pub bytes_max: u64,
    pub written_bytes: u64,
}

impl FileFacts {
    pub fn of(shared: &Shared, file: &FileRecord) -> FileFacts {
        FileFacts {
            directory: shared.files.directory(file.id),
            kind: kind_name(file.spec.kind).to_owned(),
            bytes_max: file.spec.slots * PAGE_BYTES as u64,
            written_bytes: shared.segment.slots().files().written_bytes(file.id),
        }
    }
}

pub fn report(shared: &Shared) -> RunReport {
    let counters = shared.segment.counters();
    let count = |counter| counters.get(counter);
    let peak = |value: &std::sync::atomic::AtomicU64| value.load(Ordering::Relaxed);
    let faults = FAULT_SOURCES
        .iter()
        .map(|&(source, name)| {
            let FaultTimes { count, total_ns, p50_ns, p99_ns, max_ns } =
                FaultTimes::of(counters.latency(source));
            FaultKind { name: name.to_owned(), count, total_ns, p50_ns, p99_ns, max_ns }
        })
        .filter(|kind| kind.count > 0)
        .collect();
    let unmanaged = unpoisoned(shared.unmanaged.lock()).clone();
    RunReport {
        ram_bytes: peak(&shared.peaks.ram),
        resident_peak_bytes: peak(&shared.peaks.resident),
        shared_peak_bytes: peak(&shared.peaks.shared),
        pool_peak_bytes: peak(&shared.peaks.pool),
        engine_peak_bytes: peak(&shared.peaks.engine),
        used_peak_bytes: peak(&shared.peaks.used),
        over_budget_seconds: peak(&shared.peaks.over_budget_ns) as f64 / 1e9,
        swap_file_peak_bytes: peak(&shared.peaks.slots),
        swap_files: swap_files(shared),
        pages_compressed: count(Counter::Compressed),
        pages_same_filled: count(Counter::SameFilled),
        pages_unchanged: count(Counter::Unchanged),
        pages_dropped_behind: count(Counter::DroppedBehind),
        pages_incompressible: count(Counter::Incompressible),
        pages_written: count(Counter::WrittenPages),
        pages_read: count(Counter::ReadPages),
        pages_read_ahead: count(Counter::ReadAhead),
        pages_zero_filled: count(Counter::ZeroFilled),
        compressed_bytes_in: count(Counter::CompressedBytesIn),
        compressed_bytes_out: count(Counter::CompressedBytesOut),
        faults,
        stall_ns: count(Counter::StallNs),
        processes_managed: shared.segment.counters().get(Counter::Joined),
        programs: shared.pressure.programs(&shared.processes, &shared.limits().rules),
        unmanaged,
        warnings: warnings(shared),
        wall_seconds: shared.started.elapsed().as_secs_f64(),
        engine_cpu_seconds: (count(Counter::EngineCpuNs) + uswap_os::clock::process_cpu_ns()) as f64 / 1e9,
        counters: all_counters(shared).into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
    }
}

/// Every counter of the run so far, by its name.
pub fn all_counters(shared: &Shared) -> BTreeMap<&'static str, u64> {
    let counters = shared.segment.counters();
    COUNTERS.iter().map(|described| (described.name, counters.get(described.counter))).collect()
}

/// Each swap file, and how much of it was used so far. One that was to be added, and could not be opened by all, was
/// none.
pub fn swap_files(shared: &Shared) -> Vec<SwapFileUse> {
    let files = shared.segment.slots().files();
    let one = |file: FileRecord| {
        let FileFacts { directory, kind, bytes_max, written_bytes } = FileFacts::of(shared, &file);
        let peak_bytes = files.used_peak(file.id) * PAGE_BYTES as u64;
        SwapFileUse { directory, kind, priority: file.spec.priority, bytes_max, peak_bytes, written_bytes }
    };
    let was_one = |file: &FileRecord| file.state != FileState::Gone || files.written_bytes(file.id) > 0;
    files.all().filter(was_one).map(one).collect()
}

fn warnings(shared: &Shared) -> Vec<String> {
    let mut warnings = shared.warnings();
    let counters = shared.segment.counters();
    let mut add = |counter, text: &str| {
        let count = counters.get(counter);
        if count > 0 {
            warnings.push(text.replace('#', &count.to_string()));
        }
    };
    add(
        Counter::LostPages,
        "# pages could not be read back: the program got SIGBUS where it touched them; check the disk under the swap \
         directory",
    );
    add(Counter::ReadErrors, "# reads of stored pages failed or did not verify at the first attempt");
    add(Counter::WriteErrors, "# batches could not be written to the swap file; their pages stayed in RAM");
    let holders = unpoisoned(shared.holders.lock());
    let held = holders.as_ref().and_then(Holders::text);
    let held = held.map_or_else(String::new, |held| format!(". What could not be reclaimed then: {held}"));
    add(
        Counter::ForcedOver,
        &format!(
            "# faults were served over the budget, because nothing could be reclaimed fast enough{held}"
        ),
    );
    warnings
}
