//! Scripts around real programs, run as the bench runs them: the same size and seed give the same checksum, another
//! seed gives another. A program that is not installed is named on a line that begins with `SKIP:`.

use std::path::Path;
use std::process::Command;

use uswap_bench::workloads::{Launch, Output, Parameters, Prepared, by_name, parse_output};

/// Each of the programs fits into it, with what it takes beside its data.
const BYTES: u64 = 64 << 20;

/// None, with a printed line, if its program is not installed.
fn prepare(name: &str, seed: u64, directory: &Path) -> Option<Launch> {
    // xz takes a second for each MB.
    let bytes = if name == "xz" { BYTES / 4 } else { BYTES };
    let parameters = Parameters { budget_bytes: bytes / 2, factor: 2.0, own_factor: None, seconds: 1, seed };
    let spec = by_name(name, &parameters).expect("it is in the list");
    match spec.prepare(directory, Path::new("/nowhere")).expect("it can be prepared where its program is") {
        Prepared::Ready(launch) => Some(launch),
        Prepared::Missing(what) => {
            println!("SKIP: {what}");
            None
        }
    }
}

fn result(launch: &Launch) -> Output {
    let mut command = Command::new(&launch.words[0]);
    command.args(&launch.words[1..]).envs(launch.environment.iter().map(|(name, value)| (name, value)));
    let output = command.output().expect("the shell can be started");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}: {} {}", output.status, text(&output.stdout), text(&output.stderr));
    parse_output(&text(&output.stdout)).expect("a result was printed")
}

fn repeats(name: &str, figures: &[&str]) {
    let directory = std::env::temp_dir().join(format!("uswap-bench-{name}-{}", std::process::id()));
    if let Some(launch) = prepare(name, 1, &directory) {
        let (first, second) = (result(&launch), result(&launch));
        assert_eq!(first.figures.keys().collect::<Vec<_>>(), figures, "{name}");
        assert!(first.checksum.as_ref().is_some_and(|sum| sum.len() >= 16), "{name}");
        assert_eq!(first.checksum, second.checksum, "{name}");
        let other = result(&prepare(name, 2, &directory).expect("it was there"));
        assert_ne!(first.checksum, other.checksum, "{name}: the seed changes nothing");
    }
    // Prepared or not, its files lie there.
    std::fs::remove_dir_all(directory).expect("it was made");
}

#[test]
fn java_repeats_with_both_collectors() {
    for name in ["jvm-serial", "jvm-g1"] {
        repeats(name, &["fill_s", "read_s", "replace_s"]);
    }
}

#[test]
fn node_repeats() {
    repeats("node", &["access_s", "build_s", "sort_s"]);
}

#[test]
fn ruby_repeats() {
    repeats("ruby", &["access_s", "build_s", "sort_s"]);
}

#[test]
fn xz_repeats() {
    repeats("xz", &[]);
}

#[test]
fn gcc_repeats() {
    repeats("gcc", &[]);
}
