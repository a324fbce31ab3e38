//! Samples for tests: a run of some processes, of which all numbers grow evenly.

use uswap_control::stat::{FaultStat, Pressure, ProcessStat, Psi, RunStat, SwapFileStat, Waits};

use crate::sample::Sample;

const MIB: u64 = 1 << 20;

/// A sample with these processes, and nothing else.
pub fn sample_of(uptime_seconds: f64, processes: Vec<ProcessStat>) -> Sample {
    let stat = RunStat { pid: 812, uptime_seconds, processes, ..RunStat::default() };
    Sample { at_seconds: 1_796_000_000.0 + uptime_seconds, stat }
}

/// The run after so many seconds.
pub fn sample(second: u32) -> Sample {
    let seconds = u64::from(second);
    let counters = [
        ("zswpout", 5_000 * seconds),
        ("compressed_bytes_in", 3_000 * 4096 * seconds),
        ("compressed_bytes_out", 1_000 * 4096 * seconds),
        ("read_bytes", 3 * MIB * seconds),
        ("written_bytes", MIB / 2 * seconds),
    ];
    let fault = |source: &str, latencies: &[(u64, u64)]| FaultStat {
        source: source.to_owned(),
        latencies: latencies.iter().map(|(bound, count)| (*bound, count * seconds)).collect(),
        ..FaultStat::default()
    };
    let stat = RunStat {
        version: "0.1.0".to_owned(),
        pid: 812,
        uid: 1000,
        program: "redis-server".to_owned(),
        state: "running".to_owned(),
        uptime_seconds: f64::from(second),
        ram_bytes: 512 * MIB,
        used_bytes: 500 * MIB,
        used_peak_bytes: 510 * MIB,
        resident_bytes: 300 * MIB,
        pool_bytes: 150 * MIB,
        pool_bytes_max: 435 * MIB,
        swap_file_bytes: 3072 * MIB,
        swap_files: vec![
            swap_file("/srv/swap", "solid-state", 5, 2048 * MIB),
            swap_file("/var/tmp", "rotational", 4, 1024 * MIB),
        ],
        // It waits more and more, and its processes twice as long together.
        pressure: Some(Pressure { some: total(seconds * seconds, 100), full: total(seconds * seconds, 200) }),
        waits: Waits {
            some_seconds: f64::from(second * second) / 50.0,
            full_seconds: f64::from(second * second) / 100.0,
        },
        faults: vec![
            fault("zero", &[(1023, 20), (4095, 5)]),
            fault("pool", &[(4095, 900), (65_535, 100)]),
            fault("file", &[(131_071, 30), (1_048_575, 3)]),
        ],
        counters: counters.map(|(name, value)| (name.to_owned(), value)).into(),
        processes: vec![
            process(813, 812, "redis-server", 200, 34.4, seconds * 90),
            process(901, 813, "worker-1", 60, 12.0, seconds * 30),
            process(902, 813, "worker-2", 40, 0.25, 0),
        ],
        ..RunStat::default()
    };
    Sample { at_seconds: 1_796_000_000.0 + f64::from(second), stat }
}

fn total(seconds: u64, part: u64) -> Psi {
    Psi { total_us: seconds * 1_000_000 / part, ..Psi::default() }
}

fn swap_file(directory: &str, kind: &str, priority: i16, used_bytes: u64) -> SwapFileStat {
    SwapFileStat {
        directory: directory.to_owned(),
        kind: kind.to_owned(),
        priority,
        bytes_max: 8 << 30,
        used_bytes,
        written_bytes: used_bytes * 2,
    }
}

fn process(pid: u32, parent: u32, name: &str, resident_mib: u64, avg10: f64, pages: u64) -> ProcessStat {
    ProcessStat {
        pid,
        parent,
        name: name.to_owned(),
        resident_bytes: resident_mib * MIB,
        weight: 100,
        in_use_bytes: resident_mib * 2 * MIB,
        pages_taken: pages * 2,
        pages_came_back: pages,
        pages_came_back_soon: pages / 3,
        some: Psi { avg10, ..Psi::default() },
        full: Psi { avg10: avg10 / 2.0, ..Psi::default() },
        ..ProcessStat::default()
    }
}
