//! `uswap bench` in a short form: it runs, its results can be read, and it leaves nothing behind, also when it is
//! interrupted. No thresholds on time.

use rustix::process::Signal;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use uswap_tests::process::Process;
use uswap_tests::{Run, Running, Scratch, report, skip, turn, uswap_binary};

/// Names of what a bench makes: swap devices, block devices, memory cgroups, files in the swap directory.
fn traces(swap_dir: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let text = std::fs::read_to_string("/proc/swaps").expect("Linux has it");
    found.extend(text.lines().map(str::to_owned));
    let groups = ["/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpuacct"].map(Path::new);
    for directory in [Path::new("/sys/block"), swap_dir].into_iter().chain(groups) {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        found.extend(entries.map(|entry| entry.path().display().to_string()));
    }
    for setting in ["/proc/sys/vm/page-cluster", "/sys/kernel/mm/transparent_hugepage/enabled"] {
        found.insert(format!("{setting} {}", std::fs::read_to_string(setting).unwrap_or_default()));
    }
    found
}

/// A bench with this machine's kernel, or none and a line that says why.
fn bench(scratch: &Scratch, words: &[&str]) -> Option<Run> {
    let Some(binary) = uswap_binary() else {
        skip("there is no uswap binary: nothing to bench");
        return None;
    };
    if !rustix::process::geteuid().is_root() {
        skip("uswap bench needs root");
        return None;
    }
    if std::fs::read_to_string("/proc/swaps").is_ok_and(|text| text.lines().count() > 1) {
        skip("this machine swaps already: uswap bench refuses to run");
        return None;
    }
    let places = ["--swap-dir", "--out"].map(String::from);
    let [swap, out] = ["swap", "out"].map(|name| scratch.file(name).display().to_string());
    std::fs::create_dir_all(&swap).expect("the scratch directory is writable");
    let run = Run::plain(binary).arg("bench").args(words);
    Some(run.args([&places[0], &swap, &places[1], &out]).timeout(Duration::from_secs(400)))
}

/// zram may be missing in a kernel.
fn rivals() -> &'static str {
    if Path::new("/sys/class/zram-control").exists() {
        "zram-lz4,swapfile,uswap"
    } else {
        skip("this kernel has no zram: the bench runs without it");
        "swapfile,uswap"
    }
}

#[test]
fn bench_short_runs_and_can_be_compared_with_itself() {
    let _turn = turn();
    let scratch = Scratch::new();
    let options = ["--scenario", "short", "--budget", "32M", "--seconds", "1"];
    let what = ["--workloads", "pmbench-zipf-2", "--rivals", rivals()];
    let Some(run) = bench(&scratch, &[&options[..], &what[..]].concat()) else { return };
    let before = traces(&scratch.file("swap"));
    let outcome = run.finish();
    outcome.must_succeed();
    assert_eq!(traces(&scratch.file("swap")), before, "the bench left something behind");

    let json = scratch.file("out/results.json");
    let text = std::fs::read_to_string(&json).expect("the results are written");
    let results: serde_json::Value = serde_json::from_str(&text).expect("they are JSON");
    let mut good = 0;
    for cell in results["cells"].as_array().expect("there are cells") {
        for run in cell["runs"].as_array().expect("a cell has runs") {
            let (rival, how) = (&cell["rival"], &run["outcome"]["how"]);
            let share = run["memory"]["sum_bytes"].as_f64().unwrap_or(0.0) / f64::from(32 << 20);
            report(&format!("bench: {} {rival}: {how}, RAM {:.1} %", cell["workload"], 100.0 * share));
            // The kernel may kill its own; uswap and the swap file may not fail.
            assert!(how == "done" || rival == "zram-lz4", "{run}");
            assert!(share > 0.5, "{rival}: the true RAM was not seen");
            good += u32::from(how == "done");
        }
    }
    assert!(good >= 2, "only {good} runs ended well: {text}");
    for file in ["report.html", "table.txt", "table.md"] {
        let bytes = std::fs::metadata(scratch.file(&format!("out/{file}"))).map_or(0, |file| file.len());
        assert!(bytes > 500, "{file} has {bytes} bytes");
    }
    assert!(outcome.stdout.contains("uswap against the kernel's zram"), "{}", outcome.stdout);

    let binary = uswap_binary().expect("it was there");
    let compared = Run::plain(binary).args(["bench", "compare"]).arg(&json).arg(&json).finish();
    compared.must_succeed();
    assert!(compared.stdout.contains("0 better, 0 worse"), "{}", compared.stdout);
}

fn wait_until(running: &mut Running, what: &str, mut reached: impl FnMut() -> bool) {
    let started = Instant::now();
    while !reached() {
        let ended = running.ended();
        assert!(
            !ended && started.elapsed() < Duration::from_secs(120),
            "{what} is not reached (ended: {ended})"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Once with a zram device, once with a swap file switched on.
#[test]
fn bench_interrupted_leaves_nothing() {
    let _turn = turn();
    for rival in rivals().split(',').filter(|rival| *rival != "uswap") {
        let scratch = Scratch::new();
        let options = ["--scenario", "short", "--budget", "32M", "--workloads", "seqscan", "--rivals", rival];
        let Some(run) = bench(&scratch, &options) else { return };
        let swap_dir = scratch.file("swap");
        let before = traces(&swap_dir);
        let mut running = run.start();
        wait_until(&mut running, "a swap device in use", || {
            let swaps = std::fs::read_to_string("/proc/swaps").expect("Linux has it");
            swaps.lines().skip(1).any(|line| {
                let used = line.split_whitespace().nth(3).and_then(|used| used.parse::<u64>().ok());
                used.is_some_and(|used| used > 1000)
            })
        });
        let processes = running.processes();
        Process::now(running.pid()).expect("it runs").signal(Signal::INT);
        let outcome = running.finish();
        assert_eq!(outcome.code, Some(130), "{}", outcome.stderr);
        assert_eq!(traces(&swap_dir), before, "{rival}: the bench left something behind");
        let left: Vec<String> = processes.iter().filter(|it| it.alive()).map(Process::name).collect();
        assert!(left.is_empty(), "{rival}: still alive: {left:?}");
    }
}
