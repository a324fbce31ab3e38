//! The text as a whole, of runs that are made up.

use super::*;
use uswap_control::stat::{FaultStat, Pressure, Psi, SwapFileStat, Waits};

fn total(total_us: u64) -> Psi {
    Psi { total_us, ..Psi::default() }
}

fn small() -> RunStat {
    let file = |directory: &str, used_bytes| SwapFileStat {
        directory: directory.to_owned(),
        bytes_max: 100,
        used_bytes,
        written_bytes: 7,
        ..SwapFileStat::default()
    };
    RunStat {
        version: "0.1.0".to_owned(),
        pid: 812,
        uid: 1000,
        program: "so\"rt\\".to_owned(),
        state: "frozen".to_owned(),
        uptime_seconds: 1.5,
        ram_bytes: 64 << 20,
        used_bytes: 60 << 20,
        swap_files: vec![file("/srv/a\nb", 1), file("/srv/a\nb", 2)],
        pressure: Some(Pressure { some: total(250_000), full: total(125_000) }),
        waits: Waits { some_seconds: 1.75, full_seconds: 0.5 },
        faults: vec![
            FaultStat { source: "zero".to_owned(), count: 5, ..FaultStat::default() },
            FaultStat {
                source: "file".to_owned(),
                count: 4,
                total_ns: 2_200_000_001_500,
                latencies: vec![(127, 1), (511, 2), ((1 << 41) - 1, 1)],
                ..FaultStat::default()
            },
        ],
        processes: vec![
            ProcessStat { pid: 0, ..ProcessStat::default() },
            ProcessStat {
                pid: 813,
                name: "sort".to_owned(),
                resident_bytes: 4096,
                some: total(1_500_000),
                ..ProcessStat::default()
            },
            ProcessStat { pid: 813, ..ProcessStat::default() },
        ],
        more_processes: 2,
        counters: [("zswpout", 10), ("swpout_same", 1), ("zswpwb", 3), ("stall_ns", 2_500_000_000)]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        ..RunStat::default()
    }
}

/// The lines of one family, but for its text.
fn samples<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    text.lines()
        .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])))
        .collect()
}

#[test]
fn a_run_is_written_as_it_is() {
    let text = render(&[small()]);
    let head = "\
# HELP uswap The run: version of uswap, process id of its supervisor, user, and program
# TYPE uswap info
uswap_info{version=\"0.1.0\",pid=\"812\",uid=\"1000\",program=\"so\\\"rt\\\\\"} 1
# HELP uswap_state 1 for the state that the run is in, 0 for the others
# TYPE uswap_state gauge
uswap_state{state=\"running\"} 0
uswap_state{state=\"frozen\"} 1
uswap_state{state=\"left\"} 0
# HELP uswap_uptime_seconds Time since the run began
# TYPE uswap_uptime_seconds gauge
# UNIT uswap_uptime_seconds seconds
uswap_uptime_seconds 1.5
# HELP uswap_ram_limit_bytes The budget
# TYPE uswap_ram_limit_bytes gauge
# UNIT uswap_ram_limit_bytes bytes
uswap_ram_limit_bytes 67108864
";
    assert!(text.starts_with(head), "{text}");
    assert!(text.ends_with("\n# EOF\n"), "{text}");
    let lines = [
        ("uswap_processes", "uswap_processes 5"),
        ("uswap_pressure_waiting_seconds_total", "uswap_pressure_waiting_seconds_total 0.25"),
        ("uswap_pressure_stalled_seconds_total", "uswap_pressure_stalled_seconds_total 0.125"),
        ("uswap_swapout_bytes_total", "uswap_swapout_bytes_total 45056"),
        ("uswap_swapin_bytes_total", "uswap_swapin_bytes_total 16384"),
        ("uswap_refaults_total", "uswap_refaults_total 4"),
        ("uswap_swap_used_bytes", "uswap_swap_used_bytes{directory=\"/srv/a\\nb\"} 3"),
        ("uswap_swap_limit_bytes", "uswap_swap_limit_bytes{directory=\"/srv/a\\nb\"} 200"),
        ("uswap_pool_stored_pages_total", "uswap_pool_stored_pages_total 10"),
        ("uswap_writeback_bytes_total", "uswap_writeback_bytes_total 12288"),
        ("uswap_fault_stall_seconds_total", "uswap_fault_stall_seconds_total 2.5"),
        ("uswap_process_resident_bytes", "uswap_process_resident_bytes{pid=\"813\",name=\"sort\"} 4096"),
        (
            "uswap_process_pressure_waiting_seconds_total",
            "uswap_process_pressure_waiting_seconds_total{pid=\"813\",name=\"sort\"} 1.5",
        ),
    ];
    for (name, line) in lines {
        assert_eq!(samples(&text, name), [line]);
    }
    let faults = ["uswap_faults_total{source=\"zero\"} 5", "uswap_faults_total{source=\"disk\"} 4"];
    assert_eq!(samples(&text, "uswap_faults_total"), faults);
    assert_eq!(samples(&text, "uswap_lost_pages_total"), [""; 0], "an older run does not say it");
    let older = render(&[RunStat { pressure: None, ..small() }]);
    let waiting = "uswap_pressure_waiting_seconds_total";
    assert_eq!(samples(&older, waiting), [format!("{waiting} 1.75")], "it is said of its processes");
}

#[test]
fn buckets_are_the_same_in_each_text_and_hold_all() {
    let of = |latencies: &[(u64, u64)], total_ns| {
        Buckets::of(&FaultStat { latencies: latencies.to_vec(), total_ns, ..FaultStat::default() })
    };
    let empty = of(&[], 0);
    let bounds = |buckets: &Buckets| buckets.counts.iter().map(|(bound, _)| *bound).collect::<Vec<_>>();
    let latencies = [(0, 1), (255, 2), (511, 4), ((1 << 34) - 1, 8), ((1 << 35) - 1, 16), (u64::MAX, 32)];
    let full = of(&latencies, 5_000_000_000);
    assert_eq!(bounds(&empty), bounds(&full));
    assert_eq!(bounds(&full)[..2], [256e-9, 512e-9]);
    let filled: Vec<(f64, u64)> = full.counts.iter().copied().filter(|(_, count)| *count > 0).collect();
    assert_eq!(filled, [(256e-9, 3), (512e-9, 4), ((1_u64 << 34) as f64 / 1e9, 8), (f64::INFINITY, 48)]);
    assert_eq!((full.count, empty.count, empty.sum_seconds), (63, 0, 0.0));
    assert_eq!(full.sum_seconds, 5.0);
    assert_eq!(of(&[(1023, 4)], 0).sum_seconds, 3069e-9, "an older run does not say it");
    let text = render(&[small()]);
    let sum = "uswap_fault_duration_seconds_sum{source=\"disk\"}";
    assert_eq!(samples(&text, "uswap_fault_duration_seconds_sum")[1], format!("{sum} 2200.0000015"));
    let le = |bound: &str| format!("uswap_fault_duration_seconds_bucket{{le=\"{bound}\",source=\"disk\"}}");
    for line in [format!("{} 1", le("2.56e-7")), format!("{} 3", le("5.12e-7")), format!("{} 4", le("+Inf"))]
    {
        assert!(text.lines().any(|one| one == line), "{line}: {text}");
    }
}

#[test]
fn several_runs_are_told_apart_and_each_family_is_written_once() {
    let other = RunStat { pid: 9, ram_bytes: 5, ..RunStat::default() };
    let text = render(&[small(), other.clone()]);
    let lines = ["uswap_ram_limit_bytes{run=\"812\"} 67108864", "uswap_ram_limit_bytes{run=\"9\"} 5"];
    assert_eq!(samples(&text, "uswap_ram_limit_bytes"), lines);
    let process = "uswap_process_resident_bytes{run=\"812\",pid=\"813\",name=\"sort\"} 4096";
    assert_eq!(samples(&text, "uswap_process_resident_bytes"), [process]);
    assert_eq!(text.matches("# TYPE uswap_ram_limit_bytes ").count(), 1);
    let alone = render_with(&[other], RunLabel::With);
    assert_eq!(samples(&alone, "uswap_ram_limit_bytes"), ["uswap_ram_limit_bytes{run=\"9\"} 5"]);
    assert!(render(&[]).ends_with("# EOF\n"));
}
