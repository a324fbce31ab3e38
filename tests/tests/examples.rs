//! The programs of `examples/` do what their first lines say, in a small form.

use std::path::{Path, PathBuf};

use uswap_tests::{Outcome, Run, Scratch, compare_outputs, needs, program, shared_turn, skip, uswap_binary};

fn example(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name);
    path.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs a script that starts uswap itself.
fn script(name: &str, programs: &[&str], environment: &[(&str, &str)]) -> Option<Outcome> {
    if !needs(programs) {
        return None;
    }
    let Some(uswap) = uswap_binary() else {
        skip("the script starts uswap itself, and this is to run without");
        return None;
    };
    let scratch = Scratch::new();
    let directory = scratch.path().to_str().expect("it has a plain name");
    let mut run = Run::plain("/bin/sh").arg(example(name)).env("TMPDIR", directory);
    run = run.env("USWAP", uswap.to_str().expect("it has a plain name"));
    for (variable, value) in environment {
        run = run.env(variable, value);
    }
    let outcome = run.finish();
    outcome.must_succeed();
    let left: Vec<_> = std::fs::read_dir(scratch.path()).expect("it is ours").collect();
    assert!(left.is_empty(), "{name} leaves {left:?} behind");
    Some(outcome)
}

#[test]
fn examples_python_prints_the_same_in_half_of_its_memory() {
    let _turn = shared_turn();
    if !needs(&["python3"]) {
        return;
    }
    let python = || Run::plain("/usr/bin/python3").arg(example("python.py")).arg("100000");
    let (_, swapped) = compare_outputs("examples_python", 18, &[], python);
    assert!(swapped.stdout.starts_with("100000 requests, "), "{}", swapped.stdout);
}

#[test]
fn examples_of_the_library_sort_numbers_in_half_of_their_memory() {
    let _turn = shared_turn();
    let run = |ram: Option<&str>| {
        let command = uswap_binary().unwrap_or_default();
        let command = command.to_str().expect("it has a plain name");
        let run = Run::plain(program("sort_numbers")).arg("4000000").args(ram).env("USWAP_COMMAND", command);
        let outcome = run.finish();
        outcome.must_succeed();
        outcome
    };
    let plain = run(None);
    assert!(plain.stdout.starts_with("4000000 numbers, 30 MiB, are in order: "), "{}", plain.stdout);
    if uswap_binary().is_some() {
        let swapped = run(Some("16M"));
        assert!(swapped.stdout.starts_with(&plain.stdout), "{}", swapped.stdout);
        assert!(swapped.stdout.contains("of 16 MiB"), "{}", swapped.stdout);
    }
}

#[test]
fn examples_sort_ends_with_the_same_file() {
    let _turn = shared_turn();
    let environment = [("MIB", "16"), ("RAM", "12M")];
    if let Some(outcome) = script("sort.sh", &["awk", "cmp", "sort"], &environment) {
        assert!(outcome.stdout.contains("419430 lines are in the same order"), "{}", outcome.stdout);
        assert!(outcome.stderr.contains("uswap: budget 12 MiB"), "{}", outcome.stderr);
    }
}

#[test]
fn examples_redis_gives_values_back() {
    let _turn = shared_turn();
    let environment = [("COUNT", "30000"), ("RAM", "20M")];
    if let Some(outcome) = script("redis.sh", &["awk", "redis-cli", "redis-server"], &environment) {
        assert!(outcome.stdout.contains("errors: 0, replies: 30000"), "{}", outcome.stdout);
        assert!(outcome.stdout.contains("310 values of 30000 are as they were sent"), "{}", outcome.stdout);
        assert!(outcome.stdout.contains(" redis-server resident "), "uswap stat: {}", outcome.stdout);
    }
}
