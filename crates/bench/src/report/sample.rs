//! Made-up results for tests: one like a real bench, one small enough to check by hand, one with everything that can be
//! odd.

use std::collections::BTreeMap;

use uswap_units::Prng;

use crate::results::{
    Better, Cell, FORMAT, Machine, Memory, MemoryAt, Outcome, Results, RivalInfo, Run, Unlimited, Workload,
};

const MIB: u64 = 1 << 20;

fn machine() -> Machine {
    Machine {
        kernel: "6.18.0".to_owned(),
        cpu: "Example processor at 2.0 GHz".to_owned(),
        cpus: 2,
        ram_bytes: 24 << 30,
        swap_place: "/var/tmp, ext4".to_owned(),
        date: "2026-11-22".to_owned(),
        uswap_version: "0.1.0".to_owned(),
        commit: Some("2a4e9b3".to_owned()),
        noise: 0.021,
        settings: [("vm.swappiness", "60"), ("thp", "never"), ("vm.page-cluster", "0")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
    }
}

fn workload(name: &str, title: &str, figure: &str, unit: &str, better: Better) -> Workload {
    let [name, title, main_figure, unit] = [name, title, figure, unit].map(str::to_owned);
    Workload { name, title, main_figure, unit, better, ..Workload::default() }
}

/// Name, how it was set up, and about how fast it is against zram-lz4 on each workload of [`sample`].
const RIVALS: [(&str, &str, [f64; 6]); 9] = [
    ("none", "no limit, no swap", [6.0, 9.0, 8.0, 3.0, 4.0, 1.6]),
    ("zram-lz4", "zram with lz4, page-cluster 0", [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
    ("zram-lz4+bg", "the same, and a reclaimer beside it", [1.05, 1.12, 1.1, 1.0, 1.08, 1.01]),
    ("zram-lzo-rle", "zram with lzo-rle", [0.93, 0.95, 0.96, 0.98, 0.95, 1.0]),
    ("zram-lzo-rle+bg", "the same, and a reclaimer beside it", [0.98, 1.05, 1.0, 1.0, 1.0, 0.99]),
    ("zswap", "zswap with lz4 before a swap file", [0.8, 0.9, 0.85, 0.9, 0.9, 0.97]),
    ("swapfile", "a swap file alone", [0.3, 0.05, 0.06, 0.4, 0.1, 0.7]),
    ("mapped-file", "a shared mapping of a file", [0.9, 0.08, 0.05, 0.0, 0.0, 0.0]),
    ("uswap", "uswap run --ram 256M", [1.52, 0.46, 0.52, 1.31, 1.09, 1.02]),
];

/// Like a real bench: 9 rivals, 6 workloads, 5 rounds; uswap wins, ties and loses; zram-lz4 is killed in some rounds of
/// `kv-store`.
pub fn sample() -> Results {
    let workloads = vec![
        workload(
            "seqscan",
            "passes in order over 512 MiB of mixed content",
            "mb_per_s",
            "MB/s",
            Better::Higher,
        ),
        workload("randread", "random reads of 512 MiB of mixed content", "access_ns", "ns", Better::Lower),
        workload(
            "pmbench-zipf-2",
            "pmbench, accesses by Zipf's law",
            "accesses_per_s",
            "accesses/s",
            Better::Higher,
        ),
        workload("sort", "GNU sort of 380 MiB of text", "wall_s", "s", Better::Lower),
        workload(
            "kv-store",
            "a key-value store under load, values of 1 KiB",
            "requests_per_s",
            "requests/s",
            Better::Higher,
        ),
        workload("compile", "a C++ program at -O2", "wall_s", "s", Better::Lower),
    ];
    let typical = [812.0, 10_487.0, 95_300.0, 18.2, 21_450.0, 41.0];
    let mut prng = Prng::new(1);
    let mut position = 0;
    let mut cells = Vec::new();
    for (place, workload) in workloads.iter().enumerate() {
        for (name, _, speeds) in RIVALS {
            let mut cell =
                Cell { workload: workload.name.clone(), rival: name.to_owned(), ..Cell::default() };
            if speeds[place] == 0.0 {
                cell.left_out = Some("this program cannot use a mapped file instead of memory".to_owned());
                cells.push(cell);
                continue;
            }
            if !["none", "uswap", "mapped-file"].contains(&name) {
                cell.limit_bytes = Some((120 + prng.below(30)) * MIB);
                cell.search_runs = 4 + prng.below(3) as u32;
            }
            for round in 0..5 {
                let wobble = 0.97 + prng.below(60) as f64 / 1000.0;
                let speed = speeds[place] * wobble;
                let main = match workload.better {
                    Better::Higher => typical[place] * speed,
                    Better::Lower => typical[place] / speed,
                };
                let mut run = run(&mut prng, name, speed, 20.0 / speed);
                run.round = round;
                run.position = position;
                run.figures.insert(workload.main_figure.clone(), main);
                if workload.name == "kv-store" && name == "zram-lz4" && round % 2 == 0 {
                    run.outcome = Outcome::Killed;
                    run.figures.clear();
                    run.latency.clear();
                }
                if ["sort", "compile"].contains(&workload.name.as_str()) {
                    run.figures.retain(|name, _| !name.starts_with("p99"));
                    run.latency.clear();
                }
                position += 1;
                cell.runs.push(run);
            }
            cells.push(cell);
        }
    }
    Results {
        format: FORMAT,
        machine: machine(),
        command: "uswap bench run --scenario paging --ram 256M --factor 2 --rounds 5 --seed 1".to_owned(),
        scenario: "paging".to_owned(),
        budget_bytes: 256 * MIB,
        factor: 2.0,
        rounds: 5,
        seed: 1,
        workloads,
        rivals: RIVALS
            .iter()
            .map(|(name, title, _)| RivalInfo { name: (*name).to_owned(), title: (*title).to_owned() })
            .collect(),
        cells,
    }
}

/// One run that took `wall_s` seconds.
fn run(prng: &mut Prng, rival: &str, speed: f64, wall_s: f64) -> Run {
    let budget = 256 * MIB;
    let resident = if rival == "none" { 512 * MIB } else { (110 + prng.below(30)) * MIB };
    let own = if rival == "uswap" { 6 * MIB } else { 0 };
    let compressed = match rival {
        "none" | "swapfile" | "mapped-file" => 0,
        _ => budget - resident - own - prng.below(3 * MIB),
    };
    let points = 120_u64;
    let memory_over_time = (0..points).map(|point| {
        let part = |bytes: u64, from: u64| bytes * point.saturating_sub(from).min(40) / 40;
        MemoryAt {
            ms: (wall_s * 1000.0) as u64 * point / (points - 1),
            resident_bytes: part(resident, 0) - prng.below(4 * MIB).min(part(resident, 0)),
            compressed_bytes: part(compressed + own, 20),
        }
    });
    let memory_over_time = memory_over_time.collect();
    // Hits of about 100 ns, and faults whose times grow as the rival is slower; a few very slow ones.
    let typical_ns = if rival == "none" { 150.0 } else { 9_000.0 / speed };
    let mut latency: BTreeMap<u64, u64> = [(64, 900), (76, 1_600), (107, 400), (152, 100)].into();
    for _ in 0..1_000 {
        let normal = (0..12).map(|_| prng.below(1000) as f64 / 1000.0).sum::<f64>() - 6.0;
        let slow = match rival {
            _ if prng.chance(199, 200) => 1.0,
            "uswap" => 4.0,
            _ => 40.0,
        };
        let ns = typical_ns * (0.7 * normal).exp() * slow;
        // Eight buckets for each doubling.
        let end = ((ns.log2() * 8.0).ceil() / 8.0).exp2() as u64;
        *latency.entry(end).or_default() += 1;
    }
    let latency: Vec<(u64, u64)> = latency.into_iter().collect();
    // Of 4000.
    let percentile = |as_slow: u64| {
        let mut slower = 0;
        let found = latency.iter().rev().find(|(_, count)| {
            slower += count;
            slower >= as_slow
        });
        found.map_or(0, |(end, _)| *end) as f64
    };
    let (p99_ns, p999_ns) = (percentile(40), percentile(4));
    let disk = matches!(rival, "swapfile" | "mapped-file" | "zswap" | "uswap");
    Run {
        figures: [("wall_s", wall_s), ("p99_ns", p99_ns), ("p999_ns", p999_ns)]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        cpu_program_s: wall_s * 0.9,
        cpu_machine_s: wall_s * 1.2,
        memory: Memory {
            resident_bytes: resident,
            compressed_bytes: compressed,
            own_bytes: own,
            sum_bytes: resident + compressed + own,
        },
        memory_over_time,
        disk_read_bytes: if disk { (300 + prng.below(50)) * MIB } else { 0 },
        disk_written_bytes: if disk { (400 + prng.below(50)) * MIB } else { 0 },
        faults: 60_000 + prng.below(1000),
        latency,
        ..Run::default()
    }
}

/// Two workloads, three rivals, numbers that can be checked by hand.
pub fn small() -> Results {
    let measured = |workload: &str, rival: &str, figure: &str, values: &[Option<f64>]| {
        let runs = values.iter().enumerate().map(|(round, value)| Run {
            round: round as u32,
            outcome: if value.is_some() { Outcome::Done } else { Outcome::Killed },
            figures: value
                .map(|value| {
                    [(figure, value), ("p99_ns", 50_000.0), ("p999_ns", 90_000.0)]
                        .map(|(name, value)| (name.to_owned(), value))
                        .into()
                })
                .unwrap_or_default(),
            cpu_program_s: 2.5,
            cpu_machine_s: 3.25,
            memory: Memory {
                resident_bytes: 50 * MIB,
                compressed_bytes: 40 * MIB,
                own_bytes: 5 * MIB,
                sum_bytes: 95 * MIB,
            },
            disk_read_bytes: 3 * MIB,
            ..Run::default()
        });
        Cell {
            workload: workload.to_owned(),
            rival: rival.to_owned(),
            runs: runs.collect(),
            ..Cell::default()
        }
    };
    let all = |values: [f64; 5]| values.map(Some);
    let mut left_out = measured("scan", "zswap", "mb_per_s", &[]);
    left_out.left_out = Some("this kernel has no zswap".to_owned());
    Results {
        format: FORMAT,
        machine: machine(),
        command: "uswap bench run --rounds 5".to_owned(),
        scenario: "small".to_owned(),
        budget_bytes: 100 * MIB,
        factor: 1.5,
        rounds: 5,
        seed: 1,
        workloads: vec![
            workload("scan", "passes in order", "mb_per_s", "MB/s", Better::Higher),
            Workload {
                budget_bytes: Some(96 * MIB),
                data_bytes: Some(192 * MIB),
                ..workload("sort", "sorts", "wall_s", "s", Better::Lower)
            },
        ],
        rivals: ["zram-lz4", "zswap", "uswap"]
            .map(|name| RivalInfo { name: name.to_owned(), title: format!("{name} as ever") })
            .to_vec(),
        cells: vec![
            measured("scan", "zram-lz4", "mb_per_s", &all([100.0, 110.0, 90.0, 105.0, 95.0])),
            left_out,
            measured("scan", "uswap", "mb_per_s", &all([150.0, 165.0, 144.0, 157.5, 133.0])),
            measured("sort", "zram-lz4", "wall_s", &all([10.0, 10.0, 10.0, 10.0, 10.0])),
            measured("sort", "zswap", "wall_s", &[Some(9.0), None, Some(9.0), None, None]),
            measured("sort", "uswap", "wall_s", &all([20.0, 21.0, 20.0, 19.0, 20.0])),
        ],
    }
}

/// A program of the user: right, killed, wrong, and left out.
pub fn user_program() -> Results {
    let run = |round: usize, wall_s: f64, outcome: Outcome| Run {
        round: round as u32,
        outcome,
        figures: [("wall_s".to_owned(), wall_s)].into(),
        cpu_program_s: 2.5,
        cpu_machine_s: 3.25,
        memory: Memory { resident_bytes: 49 * MIB, sum_bytes: 49 * MIB, ..Memory::default() },
        ..Run::default()
    };
    let wrong = || Outcome::Failed("WRONG RESULT: exit code 125".to_owned());
    let cell = |rival: &str, ends: [(f64, Outcome); 3]| Cell {
        workload: "program".to_owned(),
        rival: rival.to_owned(),
        runs: ends.into_iter().enumerate().map(|(round, (wall, end))| run(round, wall, end)).collect(),
        ..Cell::default()
    };
    let right = |seconds: f64| (seconds, Outcome::Done);
    let cells = vec![
        cell("none", [right(1.0), right(1.0), right(1.0)]),
        cell("zram-lz4", [right(4.0), (0.5, Outcome::Killed), right(4.0)]),
        cell("zram-lz4+bg", [right(4.0), right(5.0), right(4.5)]),
        Cell {
            workload: "program".to_owned(),
            rival: "zswap".to_owned(),
            left_out: Some("this kernel has no zswap".to_owned()),
            ..Cell::default()
        },
        cell("uswap", [right(2.0), right(2.5), right(1.5)]),
        cell("other-engine", [right(2.0), (0.1, wrong()), (60.0, Outcome::TimedOut)]),
    ];
    let title = "sort -S 1G big.txt";
    Results {
        format: FORMAT,
        machine: machine(),
        command: format!("uswap bench --ram 50M -- {title}"),
        scenario: format!("program ({title})"),
        budget_bytes: 50 * MIB,
        factor: 2.0,
        rounds: 3,
        seed: 1,
        workloads: vec![Workload {
            budget_bytes: Some(50 * MIB),
            data_bytes: Some(100 * MIB),
            unlimited: Some(Unlimited {
                result: "exit code 0, standard output 00ff of 12 bytes".to_owned(),
                wall_s: 1.25,
                peak_bytes: 100 * MIB,
            }),
            ..workload("program", title, "wall_s", "s", Better::Lower)
        }],
        rivals: cells
            .iter()
            .map(|cell| RivalInfo { name: cell.rival.clone(), title: format!("{} as ever", cell.rival) })
            .collect(),
        cells,
    }
}

/// Everything odd: marks of HTML and Markdown in every text, figures that are no numbers, no budget, one round, cells
/// that are missing, left out or failed throughout.
pub fn awkward() -> Results {
    let evil = "<script>alert(\"1\")</script> & | `x` \u{1b}[31m\nnext 'line'";
    let mut results = sample();
    results.machine.cpu = evil.to_owned();
    results.machine.noise = f64::NAN;
    results.machine.commit = None;
    results.command = evil.to_owned();
    results.scenario = evil.to_owned();
    results.budget_bytes = 0;
    results.factor = f64::INFINITY;
    for workload in &mut results.workloads {
        workload.title = evil.to_owned();
        workload.unit = "<i>".to_owned();
    }
    let long = "w".repeat(150);
    for cell in results.cells.iter_mut().filter(|cell| cell.workload == "compile") {
        cell.workload.clone_from(&long);
    }
    results.workloads[5].name = long;
    results.rivals[0].name = evil.to_owned();
    results.cells.retain(|cell| cell.rival != "none" && !(cell.rival == "zswap" && cell.workload == "sort"));
    for cell in &mut results.cells {
        cell.runs.truncate(1);
        let ours = cell.rival == "uswap";
        for run in &mut cell.runs {
            match cell.workload.as_str() {
                "seqscan" => run.outcome = Outcome::Failed(evil.to_owned()),
                "randread" => run.figures.values_mut().for_each(|value| *value = f64::NAN),
                "pmbench-zipf-2" => run.figures.values_mut().for_each(|value| *value = 0.0),
                "sort" if ours => run.outcome = Outcome::TimedOut,
                "kv-store" if ours => {
                    run.latency = vec![(0, 0), (0, 5), (u64::MAX, u64::MAX), (u64::MAX, 1)];
                    run.memory_over_time.truncate(1);
                    run.memory.sum_bytes = u64::MAX;
                    run.memory.resident_bytes = u64::MAX;
                }
                _ => run.memory_over_time.iter_mut().for_each(|at| *at = MemoryAt::default()),
            }
            run.cpu_machine_s = f64::NAN;
        }
    }
    results
}
