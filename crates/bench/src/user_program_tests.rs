//! What is planned for a program, and what is refused.

use super::*;
use clap::Parser;
use std::os::unix::fs::PermissionsExt as _;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: BenchArguments,
}

fn arguments(words: &[&str]) -> Result<BenchArguments, clap::Error> {
    Line::try_parse_from(["bench"].iter().chain(words)).map(|line| line.arguments)
}

const MIB: u64 = 1 << 20;

fn sample(mib: u64) -> Unlimited {
    Unlimited { result: "exit code 0".to_owned(), wall_s: 1.5, peak_bytes: mib * MIB }
}

#[test]
fn the_budget_is_half_of_what_the_program_takes_or_what_was_asked_for() {
    assert_eq!(budget(None, 101 * MIB).unwrap(), 50 * MIB);
    assert_eq!(budget(Some(20 * MIB), 101 * MIB).unwrap(), 20 * MIB);
    assert_eq!(budget(Some(200 * MIB), 101 * MIB).unwrap(), 200 * MIB);
    let small = budget(None, 31 * MIB).unwrap_err().to_string();
    assert!(small.contains("31 MiB") && small.contains("--ram"), "{small}");
    assert!(budget(Some(15 * MIB), 101 * MIB).unwrap_err().to_string().contains("at least 16M"));
}

#[test]
fn a_plan_has_the_usual_rivals_and_a_limit_of_time() {
    let plan_of = |words: &[&str], mib| plan(&arguments(words).unwrap(), &sample(mib));
    let usual = plan_of(&["--", "sort", "a file"], 100).unwrap();
    assert_eq!(usual.scenario.rivals, RIVALS);
    assert_eq!((usual.scenario.rounds, usual.scenario.timeout_s, usual.scenario.factor), (3, 60, 2.0));
    assert_eq!(usual.workloads[0].title, "sort 'a file'");
    assert_eq!((usual.workloads[0].budget_bytes, usual.workloads[0].bytes), (50 * MIB, 100 * MIB));
    let large = plan(&arguments(&["--", "x"]).unwrap(), &Unlimited { wall_s: 10.5, ..sample(100) }).unwrap();
    assert_eq!(large.scenario.timeout_s, 315);
    let words = ["--ram", "200M", "--rivals", "uswap", "--rival", "o=env {program}", "--timeout", "7"];
    let chosen = plan_of(&[&words[..], &["--", "x"]].concat(), 100).unwrap();
    assert_eq!(chosen.scenario.rivals, ["none", "uswap", "o"], "what others are compared with is there");
    assert_eq!((chosen.scenario.timeout_s, chosen.workloads[0].bytes), (7, 200 * MIB));
    assert!(plan_of(&["--rivals", "uswap,uswap", "--", "x"], 100).is_err());
    assert!(plan_of(&["--rivals", "floppy", "--", "x"], 100).is_err());
}

#[test]
fn the_printed_command_gives_the_same_plan() {
    let words = ["--ram", "50M", "--raw", "--rivals", "none,uswap", "--rival", "o=env {program}"];
    let first = arguments(&[&words[..], &["--", "sort", "--seconds", "it's"]].concat()).unwrap();
    let made = plan(&first, &sample(100)).unwrap();
    assert_eq!(
        command(&first, &made),
        "uswap bench --ram 50M --rounds 3 --seed 1 --timeout 60 --rivals none,uswap --rival 'o=env {program}' --raw -- \
         sort --seconds 'it'\\''s'"
    );
}

/// The words of a program belong to it, even if they are those of a workload of ours.
#[test]
fn words_of_the_program_are_left_alone() {
    let given = arguments(&["--", "x", "--seconds", "9", "--ram", "1"]).unwrap();
    assert_eq!(given.ram, None);
    let made = plan(&given, &sample(100)).unwrap();
    let launch = Launch { words: given.program, environment: Vec::new() };
    assert_eq!(made.workloads[0].for_search(&launch), launch);
}

#[test]
fn options_that_would_do_nothing_are_refused() {
    for words in [
        &["--scenario", "short", "--", "x"][..],
        &["--workloads", "sort", "--", "x"],
        &["--budget", "64M", "--", "x"],
        &["--factor", "2", "--", "x"],
        &["--seconds", "2", "--", "x"],
        &["--ram", "64M"],
        &["--timeout", "64"],
        &["--timeout", "0", "--", "x"],
        &["--ram", "64Q", "--", "x"],
        &["x"],
    ] {
        assert!(arguments(words).is_err(), "{words:?}");
    }
    assert!(arguments(&[]).unwrap().program.is_empty());
}

#[test]
fn a_program_that_cannot_run_is_named() {
    let directory = std::env::temp_dir().join(format!("uswap-bench-find-{}", std::process::id()));
    fs::create_dir_all(directory.join("inside")).unwrap();
    for (name, mode) in [("good", 0o755), ("text", 0o644)] {
        fs::write(directory.join(name), "").unwrap();
        fs::set_permissions(directory.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let path = Some(directory.as_os_str());
    assert_eq!(find("good".as_ref(), path).unwrap(), directory.join("good"));
    assert_eq!(find(directory.join("good").as_os_str(), None).unwrap(), directory.join("good"));
    for (name, said) in [
        ("nothing".into(), "no program 'nothing' in a directory of PATH"),
        ("text".into(), "cannot be executed"),
        (directory.join("inside"), "is a directory"),
        (directory.join("nothing"), "there is no program"),
    ] {
        let error = format!("{:#}", find(name.as_os_str(), path).unwrap_err());
        assert!(error.contains(said), "{error}");
    }
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn what_was_seen_without_a_limit_is_said_in_a_line() {
    assert_eq!(alone(&sample(100)), "without a limit: 1.50 s, 100 MiB at its highest, exit code 0");
    assert!(
        fits(&sample(10), 50 * MIB).starts_with("without a limit it takes 10 MiB, which fits into 50 MiB")
    );
}
