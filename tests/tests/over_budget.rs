//! A run that cannot keep its budget says what is in the way: by kinds, with sizes, and what to try.

use std::path::Path;

use uswap_tests::{Outcome, Run, needs_root, program, report, scaled_mib, turn, uswap_binary};

const BUDGET_MIB: u64 = 30;

/// Runs it in a budget that is too small; `None` without uswap.
fn squeezed(run: Run, ram_mib: u64) -> Option<Outcome> {
    uswap_binary()?;
    let _turn = turn();
    let outcome = run.uswap(ram_mib, &["--swap", "/var/tmp:1G"]).finish();
    outcome.must_succeed();
    Some(outcome)
}

/// The warnings of uswap.
fn warnings(outcome: &Outcome) -> String {
    outcome
        .stderr
        .lines()
        .filter(|line| line.trim_start().starts_with("warning"))
        .collect::<Vec<_>>()
        .join("\n")
}

fn holds(kind: &str) -> Run {
    Run::plain(program("holds")).args([kind, "--bytes", "60M", "--milliseconds", "1500"])
}

/// Twice the budget of this kind is named first, or was moved.
#[track_caller]
fn is_named_or_moved(run: Run, ram_mib: u64, name: &str) {
    let Some(outcome) = squeezed(run, ram_mib) else { return };
    let warnings = warnings(&outcome);
    let is_named = warnings.contains(&format!(": {name}"));
    let was_kept = outcome.samples.over * 20 <= outcome.samples.count;
    report(&format!("{name}: named {is_named}, within the budget {was_kept}"));
    assert!(is_named || was_kept, "{name} is not named: {:?}\n{}", outcome.samples, outcome.stderr);
    assert!(was_kept || !outcome.stderr.contains("fitted into its budget"), "{}", outcome.stderr);
}

/// It cannot be moved, so it must be named.
#[track_caller]
fn is_named(run: Run, name: &str) -> Option<String> {
    let outcome = squeezed(run, BUDGET_MIB)?;
    let warnings = warnings(&outcome);
    assert!(warnings.contains(&format!(": {name} ")), "{name} is not named first: {}", outcome.stderr);
    assert!(!outcome.stderr.contains("fitted into its budget"), "{}", outcome.stderr);
    Some(warnings)
}

#[test]
fn over_budget_shared_memory_is_named() {
    for kind in ["shared_anonymous", "memfd", "dev_shm", "system_v"] {
        if kind == "dev_shm" && !Path::new("/dev/shm").is_dir() {
            continue;
        }
        if let Some(warnings) = is_named(holds(kind), "shared memory") {
            assert!(warnings.contains("--ram"), "there is an advice: {warnings}");
        }
    }
}

#[test]
fn over_budget_locked_memory_is_named() {
    if needs_root("to lock so much") {
        is_named(holds("locked"), "locked memory");
    }
}

/// The child of a shell without uswap never had any.
#[test]
fn over_budget_unmanaged_process_is_named() {
    let script = "\"$0\" private --bytes 60M --milliseconds 4000; exit $?";
    let run = Run::plain("env").args(["-i", "USWAP_RUN=", "/bin/sh", "-c", script]).arg(program("holds"));
    let Some(outcome) = squeezed(run, BUDGET_MIB) else { return };
    let warnings = warnings(&outcome);
    let is_named = warnings.contains("not managed") && warnings.contains("(holds");
    assert!(is_named, "holds is not named: {}", outcome.stderr);
    assert!(!outcome.stderr.contains("fitted into its budget"), "{}", outcome.stderr);
}

#[test]
fn over_budget_executable_memory_is_named_or_moved() {
    is_named_or_moved(holds("executable"), BUDGET_MIB, "executable memory");
}

#[test]
fn over_budget_main_stack_is_named_or_moved() {
    let script = "ulimit -s 200000 && exec \"$0\" main_stack --bytes 60M --milliseconds 1500";
    let run = Run::plain("/bin/sh").args(["-c", script]).arg(program("holds"));
    is_named_or_moved(run, BUDGET_MIB, "stacks of main threads");
}

#[test]
fn over_budget_written_pages_of_files_are_named_or_moved() {
    is_named_or_moved(holds("written_file"), BUDGET_MIB, "private pages of files that were written");
}

#[test]
fn over_budget_tables_are_named_or_small() {
    let bytes = format!("{}M", scaled_mib(160));
    let run = Run::plain(program("evil")).args(["sparse", "--bytes", &bytes]);
    is_named_or_moved(run, scaled_mib(80), "tables of uswap");
}
