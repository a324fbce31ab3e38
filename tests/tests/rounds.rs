//! A program that goes round in a little more memory than there is keeps most of it: what it has just gone past goes
//! first. Counts of pages are asserted, not times.

use uswap_tests::touched::checksum;
use uswap_tests::{Run, Scratch, program, report, turn, uswap_binary};

const BUDGET_MIB: u64 = 64;

/// Goes round so often in memory of this size, and prints a checksum of all.
fn touch(mebibytes: u64, rounds: u64) -> Run {
    let (bytes, count) = (format!("{mebibytes}M"), (mebibytes * 256 * rounds).to_string());
    let words = ["--bytes", &bytes, "--content", "mixed", "--access", "sequential", "--count", &count];
    Run::plain(program("touch")).args(words)
}

/// The report of a run of it, which gave the right checksum.
fn rounds_in_budget(mebibytes: u64, rounds: u64, options: &[&str]) -> serde_json::Value {
    let scratch = Scratch::new();
    let json = scratch.file("report");
    let json_option = json.to_string_lossy().into_owned();
    let plain = touch(mebibytes, rounds).finish();
    let options = [&["--json", &json_option], options].concat();
    let managed = touch(mebibytes, rounds).uswap(BUDGET_MIB, &options).finish();
    let right = checksum(plain.must_succeed());
    assert!(right.is_some(), "touch prints one");
    assert_eq!(checksum(managed.must_succeed()), right, "wrong bytes reached the program");
    let bytes = std::fs::read(json).expect("it was asked for");
    serde_json::from_slice(&bytes).expect("it is JSON")
}

/// What comes from the swap file in order is mostly read before a fault waits for it.
#[test]
fn rounds_that_need_the_swap_file_are_read_ahead() {
    let _turn = turn();
    if uswap_binary().is_none() {
        return;
    }
    let record = rounds_in_budget(BUDGET_MIB * 5, 3, &["--pool", "30%", "--swap", "/var/tmp:1G"]);
    let counter = |name: &str| record["counters"][name].as_u64().expect("a count");
    let (ahead, spared, pages) = (counter("swap_ra_reads"), counter("swap_ra_read_hits"), counter("pswpin"));
    report(&format!("rounds: {ahead} reads ahead spared {spared} of those that {pages} pages needed"));
    assert!(pages > 10_000, "{pages} pages came from the file: too few to tell");
    // Each read of a fault that is spared brings a window of 32 pages or less.
    assert!(spared * 32 > pages / 3, "{spared} reads spared, {pages} pages");
    assert!(spared > ahead / 2, "{spared} reads spared by {ahead}");
}

#[test]
fn rounds_in_a_little_more_than_memory_miss_little() {
    let _turn = turn();
    if uswap_binary().is_none() {
        return;
    }
    let mebibytes = BUDGET_MIB;
    let record = rounds_in_budget(mebibytes, 10, &[]);
    let count = |name: &str| record[name].as_u64().expect("a count");
    let by_faults: u64 = record["faults"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|kind| kind["name"] != "zero" && kind["name"] != "woken")
        .map(|kind| kind["count"].as_u64().expect("a count"))
        .sum();
    for (field, counter) in [("pages_compressed", "zswpout"), ("pages_read_ahead", "swap_ra")] {
        assert_eq!(record[field], record["counters"][counter], "{counter}");
    }
    let (missed, touched) = (count("pages_read_ahead") + by_faults, mebibytes * 256 * 10);
    let stored = ["pages_compressed", "pages_same_filled", "pages_unchanged"].map(count).iter().sum::<u64>();
    let behind = count("pages_dropped_behind") * 100 / stored.max(1);
    report(&format!(
        "rounds: {} % of {touched} touches missed, {behind} % of what was evicted was just gone past",
        missed * 100 / touched
    ));
    assert!(
        missed * 100 < touched * 30,
        "{missed} of {touched} touches missed: in order of age, half of them do"
    );
    assert!(behind > 30, "{behind} % of what was evicted was just gone past");
}
