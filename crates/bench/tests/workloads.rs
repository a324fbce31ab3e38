//! Every workload of our own, run as the command line runs it: `uswap workload NAME`, here with this very test in the
//! place of `uswap`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use uswap_bench::workloads::{Output, parse_output, program};

const BYTES: &str = "64M";

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if arguments.first().is_some_and(|word| word == "workload") {
        return ExitCode::from(program::main(&arguments[1..]) as u8);
    }
    let tests: [(&str, fn()); 4] = [
        ("every_program_gives_the_same_checksum_twice", every_program_gives_the_same_checksum_twice),
        ("a_mapped_file_gives_the_same_checksum", a_mapped_file_gives_the_same_checksum),
        ("memory_is_what_was_asked_for", memory_is_what_was_asked_for),
        ("wrong_arguments_are_refused", wrong_arguments_are_refused),
    ];
    for (name, test) in tests {
        test();
        println!("test {name} ... ok");
    }
    ExitCode::SUCCESS
}

/// `uswap workload` with these words.
fn workload(words: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("/proc is mounted"));
    command.arg("workload").args(words.split(' '));
    command
}

fn result(mut command: Command) -> Output {
    let output = command.output().expect("this program can be started again");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{command:?}: {} {stdout}", output.status);
    let result = parse_output(&stdout).expect("a result was printed");
    for (name, value) in &result.figures {
        assert!(*value > 0.0, "{command:?}: {name} is {value}");
    }
    result
}

fn programs() -> Vec<(String, &'static [&'static str])> {
    let pmbench: &[&str] = &["accesses_per_s", "fill_mb_s", "mean_ns", "p50_ns", "p999_ns", "p99_ns"];
    vec![
        (format!("usemem --bytes {BYTES} --processes 2"), &["free_us", "process_mb_s", "sum_mb_s"]),
        (
            format!("seqscan --bytes {BYTES} --passes 3 --threads 2"),
            &["fill_mb_s", "mb_s", "page_p50_ns", "page_p99_ns"],
        ),
        (
            format!(
                "pmbench --bytes {BYTES} --threads 2 --pattern uniform --reads 80 --seconds 0.5 --seed 3"
            ),
            pmbench,
        ),
        (
            format!("pmbench --bytes {BYTES} --threads 4 --pattern zipf --reads 50 --seconds 0.5 --seed 3"),
            pmbench,
        ),
    ]
}

fn every_program_gives_the_same_checksum_twice() {
    for (words, figures) in programs() {
        let (first, second) = (result(workload(&words)), result(workload(&words)));
        println!("{words}: {:?}", first.figures);
        assert_eq!(first.figures.keys().collect::<Vec<_>>(), figures, "{words}");
        assert!(first.checksum.as_ref().is_some_and(|sum| sum.len() == 16), "{words}");
        assert_eq!(first.checksum, second.checksum, "{words}");
        assert_eq!(first.latency.is_empty(), words.starts_with("usemem"), "{words}");
    }
}

fn a_mapped_file_gives_the_same_checksum() {
    let file: PathBuf = std::env::temp_dir().join(format!("uswap-backing-{}", std::process::id()));
    for (words, _) in programs() {
        let mut mapped = workload(&words);
        mapped.env("USWAP_BENCH_BACKING", &file);
        assert_eq!(result(workload(&words)).checksum, result(mapped).checksum, "{words}");
        if words.starts_with("usemem") {
            assert!(!file.with_extension("0").exists() && !file.exists(), "usemem left a file behind");
        } else {
            assert_eq!(std::fs::metadata(&file).expect("the file was used").len(), 64 << 20);
            std::fs::remove_file(&file).expect("it is ours");
        }
    }
}

/// The anonymous memory of each program of one process, looked at every 5 ms: it stays at its highest while memory is
/// accessed.
fn memory_is_what_was_asked_for() {
    for (words, _) in programs().into_iter().skip(1) {
        let mut child =
            workload(&words).stdout(std::process::Stdio::null()).spawn().expect("it can be started");
        let status = format!("/proc/{}/status", child.id());
        let mut peak_kib = 0;
        while child.try_wait().expect("it is our child").is_none() {
            let text = std::fs::read_to_string(&status).unwrap_or_default();
            let anonymous = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).and_then(|rest| {
                rest.trim().strip_suffix(" kB").and_then(|number| number.trim().parse::<u64>().ok())
            });
            peak_kib = peak_kib.max(anonymous.unwrap_or(0));
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        println!("{words}: {peak_kib} KiB of anonymous memory");
        assert!((64 << 10..(64 << 10) * 115 / 100).contains(&peak_kib), "{words}: {peak_kib} KiB");
    }
}

fn wrong_arguments_are_refused() {
    for words in [
        "",
        "nothing",
        "seqscan",
        "seqscan --bytes 64Q",
        "pmbench --bytes 1M --pattern odd",
        "pmbench --bytes 1M --reads 101",
    ] {
        let output = workload(words).output().expect("this program can be started again");
        assert_eq!(output.status.code(), Some(2), "'{words}'");
        assert!(output.stdout.is_empty(), "'{words}'");
    }
    let output = workload("seqscan --bytes 1K").output().expect("this program can be started again");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.starts_with("FAIL --bytes must be at least 4096"), "{said}");
}
