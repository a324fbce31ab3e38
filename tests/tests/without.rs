//! Older kernels, on this one: what newer kernels have is switched off (`USWAP_WITHOUT`), one feature after the other
//! and all together, and programs are as right as with it.
//!
//! `cargo xtask kernel` runs the same programs on an old kernel.

use uswap_tests::{Outcome, Run, full_size, needs, program, shared_turn, turn, uswap_binary};

/// What can be switched off.
const FEATURES: [&str; 5] = ["process_madvise", "procmap_query", "pagemap_scan", "populate", "io_uring"];

/// Runs a program within a budget.
fn without(features: &str, ram_mib: u64, run: Run) -> Outcome {
    let outcome = run.env("USWAP_WITHOUT", features).uswap(ram_mib, &[]).finish();
    outcome.must_succeed();
    outcome
}

/// Threads, mappings that change, and families that fork.
fn churn(features: &str) {
    let _turn = shared_turn();
    let seconds = if full_size() { "60" } else { "2" };
    let words = ["--threads", "4", "--seconds", seconds, "--bytes", "48M", "--seed", "7"];
    let outcome = without(features, 20, Run::plain(program("churn")).args(words));
    assert!(outcome.stdout.starts_with("churn OK"), "{}", outcome.stdout);
}

#[test]
fn without_process_madvise_churn_finds_no_wrong_page() {
    churn("process_madvise");
}

#[test]
fn without_procmap_query_churn_finds_no_wrong_page() {
    churn("procmap_query");
}

#[test]
fn without_pagemap_scan_churn_finds_no_wrong_page() {
    churn("pagemap_scan");
}

#[test]
fn without_io_uring_churn_finds_no_wrong_page() {
    churn("io_uring");
}

#[test]
fn without_populate_churn_finds_no_wrong_page() {
    churn("populate");
}

#[test]
fn without_all_of_it_churn_finds_no_wrong_page() {
    churn("all");
}

/// Programs that are hard to live inside: what they do with mappings, forks, locks and signals.
#[test]
fn without_all_of_it_evil_programs_are_right() {
    let _turn = shared_turn();
    for mode in ["split_mapping", "mapped_again", "wipe_on_fork", "dont_fork", "lock_part", "alternate_stack"]
    {
        let outcome = without("all", 16, Run::plain(program("evil")).args([mode, "--bytes", "40M"]));
        assert_eq!(outcome.stdout, "OK\n", "{mode}");
    }
}

/// The heap grows by `brk`, and each part of it has to be found among the mappings: once that was done only where there
/// is PROCMAP_QUERY, and elsewhere the heap stayed in RAM.
#[test]
fn without_all_of_it_the_budget_holds() {
    let _turn = turn();
    let ram_mib = 16;
    let script = "
rows = [('%d:' % (number * 2654435761 % 1000003)) * 20 for number in range(200000)]
print(sum(map(len, rows)), rows[12345][:20])
";
    if !needs(&["python3"]) {
        return;
    }
    // All of libc's memory is heap.
    let run = || {
        Run::plain("/usr/bin/python3")
            .args(["-c", script])
            .env("PYTHONMALLOC", "malloc")
            .env("MALLOC_MMAP_THRESHOLD_", "1000000000")
    };
    let plain = run().finish();
    let outcome = without("all", ram_mib, run());
    assert_eq!(outcome.stdout, plain.stdout);
    outcome.must_hold_budget_mostly(ram_mib);
}

/// What the run goes without, its children go without, whatever environment they are given.
#[test]
fn without_a_feature_children_go_without_it_too() {
    let _turn = shared_turn();
    if uswap_binary().is_none() {
        return;
    }
    // The fifth part of the invitation are options, of which the upper half says what is switched off.
    let options = |features: &str| {
        let outcome = without(features, 16, Run::plain("/bin/sh").args(["-c", "env -i /usr/bin/env"]));
        let invitation = outcome.stdout.lines().find_map(|line| line.strip_prefix("USWAP_RUN="));
        let options = invitation.and_then(|text| text.split(':').nth(4)).and_then(|text| text.parse().ok());
        options.unwrap_or_else(|| panic!("no invitation: {}", outcome.stdout))
    };
    let [none, one, all]: [u64; 3] = ["", "pagemap_scan", "all"].map(options);
    assert_eq!(none >> 32, 0);
    assert_eq!((one >> 32).count_ones(), 1);
    assert_eq!((all >> 32).count_ones() as usize, FEATURES.len());
}

/// `doctor` tells what is switched off, and an unknown name is no way to switch anything off.
#[test]
fn without_an_unknown_feature_nothing_starts_and_doctor_tells_of_each() {
    let _turn = shared_turn();
    let Some(binary) = uswap_binary() else { return };
    let doctor = |features: &str| Run::plain(&binary).arg("doctor").env("USWAP_WITHOUT", features).finish();
    for feature in FEATURES {
        let told = doctor(feature).stdout;
        assert_eq!(told.matches("switched off by USWAP_WITHOUT").count(), 1, "{feature}: {told}");
    }
    let told = doctor("all").stdout;
    assert_eq!(told.matches("switched off by USWAP_WITHOUT").count(), FEATURES.len(), "{told}");
    assert_eq!(doctor("").stdout.matches("switched off").count(), 0);
    let refused = Run::plain("true").env("USWAP_WITHOUT", "moving").uswap(16, &[]).finish();
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("'moving'") && refused.stderr.contains("pagemap_scan"),
        "{}",
        refused.stderr
    );
}
