//! Bugs that are switched on in the engine must be found, each within a bounded number of seeds.
#![cfg(feature = "plant")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Output};
use uswap_engine::plant::{Plant, set};
use uswap_sim::{Arena, Keep, Mix, run_seed};

/// The first seed that fails, in a check of the simulator or in an assertion of the engine.
fn found_after(plant: Plant, mix: Mix, seeds_max: u64) -> Option<u64> {
    set(Some(plant));
    let mut arena = Arena::default();
    let found = (0..seeds_max).find(|&seed| {
        let outcome = catch_unwind(AssertUnwindSafe(|| run_seed(&mut arena, seed, mix, Keep::Hash)));
        outcome.map_or(true, |outcome| outcome.failure.is_some())
    });
    set(None);
    found
}

// One test, since the switch is of the whole test process. What is below starts others.
#[test]
fn every_planted_bug_is_found() {
    let planted = [
        (Plant::LostDirty, Mix::All, 50),
        (Plant::EarlyFree, Mix::All, 100),
        (Plant::StaleCleanCopy, Mix::All, 50),
        (Plant::DroppedAlthoughWritten, Mix::All, 100),
        (Plant::HazardIgnored, Mix::Calls, 300),
        (Plant::ProtectedUnderCall, Mix::Calls, 300),
        (Plant::UnlockedBeforeDrop, Mix::All, 50),
        (Plant::RefusedDropForgotten, Mix::All, 100),
        (Plant::RefusedProtectForgotten, Mix::All, 300),
        (Plant::UnseenProtection, Mix::Calls, 1000),
        (Plant::WrittenTakenForZeros, Mix::All, 300),
        (Plant::DiscardedCopyTrusted, Mix::All, 300),
        (Plant::CopyUnnamed, Mix::All, 100),
        (Plant::LostWakeup, Mix::All, 300),
        (Plant::DropForgotten, Mix::All, 100),
        (Plant::CarriedClean, Mix::Mappings, 100),
        (Plant::ForkWithoutCount, Mix::Forks, 50),
        (Plant::ForkWithoutProtection, Mix::Forks, 50),
        (Plant::FilledByTheKernel, Mix::Forks, 100),
    ];
    assert_eq!(planted.map(|(plant, ..)| plant), Plant::ALL);
    for (plant, mix, seeds_max) in planted {
        let found = found_after(plant, mix, seeds_max);
        println!("{plant:?}: found by seed {found:?}");
        assert!(found.is_some(), "{plant:?} is not found by {seeds_max} seeds");
    }
}

fn simulator(arguments: &[&str]) -> Output {
    let program = Command::new(env!("CARGO_BIN_EXE_uswap-sim")).args(arguments).output();
    program.expect("it was built with this test")
}

/// Finds a run that fails with a bug, and minimises it: the arguments of both.
fn minimise(plant: &str, mix: &str) -> [Vec<String>; 2] {
    let bug = ["--plant", plant, "--mix", mix];
    let replay = |seed: u64| [&["replay", "--seed", &seed.to_string()][..], &bug].concat().join(" ");
    let fails = |line: &String| !simulator(&line.split(' ').collect::<Vec<_>>()).status.success();
    let seed = (0..100).find(|seed| fails(&replay(*seed))).expect("it is found");

    let arguments = ["minimise", "--runs", "400", "--seed", &seed.to_string()];
    let minimised = simulator(&[&arguments[..], &bug].concat());
    let said = String::from_utf8_lossy(&minimised.stdout);
    assert!(minimised.status.success(), "{said}{}", String::from_utf8_lossy(&minimised.stderr));
    println!("{said}");
    let line = said.lines().last().expect("it says something");
    let (start, smallest) = line.split_once(" -- ").expect("a line of cargo");
    assert_eq!(start, "cargo run --release -p uswap-sim --features plant");
    [replay(seed), smallest.to_owned()].map(|line| line.split(' ').map(str::to_owned).collect())
}

fn words(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

#[test]
fn a_run_that_fails_becomes_a_smaller_one_that_fails_because_of_the_bug() {
    for (plant, mix) in [("LostDirty", "all"), ("ForkWithoutCount", "forks")] {
        let [_, smallest] = minimise(plant, mix);
        assert!(smallest.contains(&"--without".to_owned()), "{smallest:?}");
        assert!(smallest.contains(&"--operations".to_owned()), "{smallest:?}");
        assert!(!simulator(&words(&smallest)).status.success(), "{smallest:?} passes");

        let without_bug = words(&smallest).into_iter().filter(|word| *word != "--plant" && *word != plant);
        let passed = simulator(&without_bug.collect::<Vec<_>>());
        assert!(passed.status.success(), "{}", String::from_utf8_lossy(&passed.stderr));
    }
}

/// The oracle finds this bug, so that there is a trace to the end.
#[test]
fn less_happens_in_the_smallest_run_and_the_same_each_time() {
    let [whole, smallest] = minimise("StaleCleanCopy", "all")
        .map(|arguments| simulator(&[&words(&arguments)[..], &["--trace"]].concat()).stdout);
    let again = minimise("StaleCleanCopy", "all")
        .map(|arguments| simulator(&[&words(&arguments)[..], &["--trace"]].concat()).stdout);
    assert!(again == [whole.clone(), smallest.clone()]);
    let events = |trace: &[u8]| trace.iter().filter(|byte| **byte == b'\n').count();
    let (left, all) = (events(&smallest), events(&whole));
    assert!(left > 0 && left * 3 < all * 2, "{left} of {all} events");
}
