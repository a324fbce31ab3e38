//! Runs of the simulated world: the same seed gives the same run, and seeds that once found a bug stay quiet.

use uswap_sim::minimise::minimise;
use uswap_sim::reduction::{NUMBERS, Part};
use uswap_sim::{Arena, Case, Keep, Mix, Outcome, run_case, run_seed};

#[test]
fn the_same_seed_gives_the_same_trace() {
    let mut arena = Arena::default();
    for seed in 0..6 {
        let first = run_seed(&mut arena, seed, Mix::All, Keep::Lines);
        let second = run_seed(&mut arena, seed, Mix::All, Keep::Lines);
        assert_eq!(first.trace_hash, second.trace_hash);
        assert_eq!(first.trace, second.trace);
        assert!(first.trace.is_some_and(|trace| trace.lines().count() > 10));
    }
}

/// Runs of which some parts are left out are runs like all others: quiet, and the same each time.
#[test]
fn reduced_runs_are_quiet_and_the_same_each_time() {
    let mut arena = Arena::default();
    let mut play = |case: &Case| run_case(&mut arena, case, Keep::Hash);
    let amount = |outcome: &Outcome, name: &str| outcome.tally.get(name).copied().unwrap_or(0);
    for mix in [Mix::All, Mix::Files, Mix::Forks] {
        for seed in 0..6 {
            let mut case = Case::of_seed(seed, mix);
            let whole = play(&case);
            for part in [Part::Fork, Part::Remap, Part::ReadError, Part::SlowDisk] {
                case.reduction = case.reduction.and_without(part);
            }
            for number in &NUMBERS {
                case.reduction = case.reduction.and_at_most(number, number.least.max(2));
            }
            let (first, second) = (play(&case), play(&case));
            assert_eq!(first.failure, None, "{case:?}");
            assert_eq!(first.trace_hash, second.trace_hash, "{case:?}");
            assert!(amount(&first, "polls") < amount(&whole, "polls"), "{case:?}");
            assert_eq!((amount(&first, "forks"), amount(&first, "mremap")), (0, 0), "{case:?}");
        }
    }
}

/// The same options, played in another order.
#[test]
fn another_schedule_is_another_run_and_the_same_each_time() {
    let mut arena = Arena::default();
    let cases = [None, Some(0), Some(1)].map(|schedule| Case { schedule, ..Case::of_seed(5, Mix::All) });
    let mut hashes = cases.each_ref().map(|case| run_case(&mut arena, case, Keep::Hash).trace_hash).to_vec();
    for (case, hash) in cases.iter().zip(&hashes) {
        assert_eq!(case.options(), cases[0].options());
        assert_eq!(run_case(&mut arena, case, Keep::Hash).trace_hash, *hash);
    }
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 3);
}

#[test]
fn a_run_that_passes_is_not_minimised() {
    let program = std::process::Command::new(env!("CARGO_BIN_EXE_uswap-sim"))
        .args(["minimise", "--seed", "3", "--threads", "1", "--without", "fork,exit"])
        .output()
        .expect("it was built with this test");
    let said = String::from_utf8_lossy(&program.stderr);
    assert!(!program.status.success() && said.contains("seed 3 does not fail"), "{said}");
    let mut arena = Arena::default();
    let play = |case: &Case| Ok(run_case(&mut arena, case, Keep::Hash).failure);
    assert!(minimise(Case::of_seed(3, Mix::All), 5, play, |_| ()).is_err());
}

#[test]
fn different_seeds_give_different_traces() {
    let mut arena = Arena::default();
    let mut hashes: Vec<u64> =
        (0..20).map(|seed| run_seed(&mut arena, seed, Mix::All, Keep::Hash).trace_hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 20);
}

/// Seeds that failed while this world was made. Each found a way to lose a page, to end the program, to wait for ever
/// or to leak; as the world has changed since, they are other runs now.
const ONCE_FAILED: [(Mix, u64); 10] = [
    (Mix::All, 7),
    (Mix::All, 72),
    (Mix::All, 95),
    (Mix::All, 119),
    (Mix::Mappings, 23),
    (Mix::Mappings, 27),
    (Mix::Mappings, 646),
    (Mix::Mappings, 914),
    (Mix::Mappings, 1043),
    (Mix::Mappings, 100_576),
];

#[test]
fn seeds_that_once_failed_are_quiet() {
    let mut arena = Arena::default();
    for (mix, seed) in ONCE_FAILED {
        let outcome = run_seed(&mut arena, seed, mix, Keep::Hash);
        assert_eq!(outcome.failure, None, "seed {seed} of {mix:?}");
    }
}

/// Two simulated hours in which some hundred processes end or are killed and others begin. `uswap-sim soak` does a day
/// of it.
#[test]
fn hours_of_churn_leak_nothing() {
    let mut arena = Arena::default();
    for seed in [3, 4] {
        let outcome = run_seed(&mut arena, seed, Mix::Soak { hours: 2 }, Keep::Hash);
        assert_eq!(outcome.failure, None, "seed {seed}");
        let ends = outcome.tally["exits"] + outcome.tally["kills"];
        assert!(ends > 40 && outcome.tally["processes started later"] > 0, "{ends} processes ended");
    }
}

/// None of the seeds fails, and each of these things happens in some.
fn exercise(seeds: core::ops::Range<u64>, mix: Mix, names: &[&str]) {
    let mut arena = Arena::default();
    let mut tally = std::collections::BTreeMap::new();
    for seed in seeds {
        let outcome = run_seed(&mut arena, seed, mix, Keep::Hash);
        assert_eq!(outcome.failure, None, "seed {seed}");
        for (name, amount) in outcome.tally {
            *tally.entry(name).or_insert(0) += amount;
        }
    }
    for name in names {
        assert!(tally.get(*name).is_some_and(|&amount| amount > 0), "{name} never happened");
    }
}

/// Files come and go, some cannot be opened by all, some cannot be emptied.
#[test]
fn forty_seeds_of_changing_files_exercise_everything() {
    let names = [
        "files added",
        "files emptied",
        "files that could not be emptied",
        "files that not all could open",
        "pages moved to other files",
    ];
    exercise(0..40, Mix::Files, &names);
}

/// Programs go round, up and down, and much comes along.
#[test]
fn twenty_seeds_of_rounds_exercise_everything() {
    exercise(
        0..20,
        Mix::Rounds,
        &["swap_ra", "swap_ra_read_hits", "pswpin", "copy_expected", "forks", "writes"],
    );
}

/// The kernel touches the memory of programs in their calls.
#[test]
fn twenty_seeds_of_calls_exercise_everything() {
    let names = [
        "system calls that read",
        "system calls that write",
        "system calls of what may not be touched",
        "pages kept",
        "zswpout",
        "pswpin",
    ];
    exercise(0..20, Mix::Calls, &names);
}

/// Mappings change in each way.
#[test]
fn a_hundred_seeds_of_mappings_exercise_everything() {
    let names = [
        "mmap over",
        "munmap",
        "mremap",
        "mremap fixed",
        "mremap dontunmap",
        "madvise cold",
        "madvise dontneed",
        "madvise dontneed of locked memory",
        "madvise dontfork",
        "pages evicted as advised",
        "mprotect",
        "mlock",
        "munlock",
        "ranges left alone",
        "processes that came home",
        "page tables full",
    ];
    exercise(0..100, Mix::Mappings, &names);
}

/// Processes write to what they have read, fork, and end, some before their child has begun.
#[test]
fn four_hundred_seeds_of_forks_exercise_everything() {
    let names = [
        "forks",
        "exits",
        "copy_written",
        "swpout_unchanged",
        "zswpout",
        "programs executed",
        "children whose record was gone",
    ];
    // A record that is gone is met by one seed in a hundred.
    exercise(0..400, Mix::Forks, &names);
}

#[test]
fn two_hundred_seeds_exercise_everything() {
    let wanted = [
        "forks",
        "forks that failed",
        "kills",
        "processes that became managed",
        "refusals of the kernel",
        "SIGBUS",
        "zswpwb",
        "pswpin",
        "swpout_unchanged",
        "copy_written",
        "copy_moved",
        "swpout_same",
        "read_errors",
        "write_errors",
        "reaped_mms",
        "write-backs of what is old: blobs",
        "compaction: bytes freed",
        "pages verified at the end",
    ];
    exercise(1000..1200, Mix::All, &wanted);
}
