//! What others make of the text: the parser of Prometheus's own library for Python, and the dashboard for Grafana.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use uswap_control::stat::{FaultStat, ProcessStat, RunStat, SwapFileStat};
use uswap_core::counters::{COUNTERS, FAULT_SOURCES};
use uswap_metrics::render;

/// A run that says all there is, with names that are as bad as can be.
fn full(pid: u32) -> RunStat {
    let name = format!("a \"b\" \\ c\n{{d}}, e=\"f\" # {pid} \u{1f980}");
    let fault = |index: usize, source: &str| FaultStat {
        source: source.to_owned(),
        count: 10 * index as u64,
        latencies: (0..index as u32).map(|step| ((1 << (7 + 4 * step)) - 1, 10)).collect(),
        ..FaultStat::default()
    };
    RunStat {
        version: "0.1.0".to_owned(),
        pid,
        program: name.clone(),
        state: "running".to_owned(),
        uptime_seconds: 12.25,
        ram_bytes: 1 << 40,
        faults: FAULT_SOURCES.iter().enumerate().map(|(index, (_, source))| fault(index, source)).collect(),
        swap_files: vec![SwapFileStat { directory: name.clone(), used_bytes: 7, ..SwapFileStat::default() }],
        processes: vec![ProcessStat { pid: pid + 1, name, pages_taken: u64::MAX, ..ProcessStat::default() }],
        counters: COUNTERS
            .iter()
            .enumerate()
            .map(|(value, one)| (one.name.to_owned(), value as u64))
            .collect(),
        ..RunStat::default()
    }
}

/// Names of samples.
fn names(text: &str) -> BTreeSet<&str> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.filter_map(|line| line.split(['{', ' ']).next()).collect()
}

#[test]
fn the_dashboard_names_only_metrics_that_there_are() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana/uswap.json");
    let dashboard = std::fs::read_to_string(path).unwrap();
    let parsed: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    assert!(parsed["panels"].as_array().is_some_and(|panels| panels.len() > 5));
    let text = render(&[full(812)]);
    let known = names(&text);
    let is_of_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let named: BTreeSet<&str> = dashboard
        .split(|character: char| !is_of_name(character))
        .filter(|word| word.starts_with("uswap_"))
        .collect();
    assert!(named.len() > 10, "{named:?}");
    let unknown: Vec<_> = named.difference(&known).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// Prints each sample as JSON, or fails.
const PARSE: &str = "
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
for family in text_string_to_metric_families(sys.stdin.read()):
    for sample in family.samples:
        print(json.dumps([family.name, family.type, family.unit, sample.name, sample.labels, sample.value]))
";

/// Python with Prometheus's library. None: it cannot be had here.
fn python() -> Option<PathBuf> {
    let environment = Path::new(env!("CARGO_TARGET_TMPDIR")).join("prometheus-client");
    let python = environment.join("bin/python");
    let succeeds = |command: &mut Command| {
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let has_library =
        || succeeds(Command::new(&python).args(["-c", "import prometheus_client.openmetrics.parser"]));
    if has_library() {
        return Some(python);
    }
    let made = succeeds(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment));
    let install = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "prometheus-client"];
    (made && succeeds(Command::new(&python).args(install)) && has_library()).then_some(python)
}

#[test]
fn another_parser_reads_the_same() {
    let Some(python) = python() else {
        return println!(
            "SKIP: the text is not read by prometheus_client: it cannot be installed with pip here"
        );
    };
    let runs = [full(812), full(900)];
    for runs in [&runs[..], &runs[..1], &[]] {
        let mut parser = Command::new(&python)
            .args(["-c", PARSE])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .env("PYTHONIOENCODING", "utf-8")
            .spawn()
            .unwrap();
        let text = render(runs);
        parser.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = parser.wait_with_output().unwrap();
        assert!(output.status.success(), "it does not read this:\n{text}");
        let samples: Vec<serde_json::Value> = String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let written = text.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(samples.len(), written);
        let found = |name: &str| samples.iter().find(|sample| sample[3] == name);
        let Some(run) = runs.first() else { continue };
        let directory = found("uswap_swap_used_bytes").expect("it is there");
        assert_eq!(directory[4]["directory"], run.swap_files[0].directory.as_str());
        assert_eq!((&directory[1], &directory[2]), (&"gauge".into(), &"bytes".into()));
        assert_eq!(found("uswap_info").expect("it is there")[4]["program"], run.program.as_str());
        assert_eq!(found("uswap_ram_limit_bytes").expect("it is there")[5], (1_u64 << 40) as f64);
    }
}
