//! A program that goes round in a little more memory than there is keeps most of it: what it has just gone past goes
//! first. Counts of pages are asserted, not times.

use uswap_tests::touched::checksum;
use uswap_tests::{Run, Scratch, program, report, turn, uswap_binary};

const BUDGET_MIB: u64 = 64;

/// Goes round ten times in memory of this size, and prints a checksum of all.
fn touch(mebibytes: u64) -> Run {
    let (bytes, count) = (format!("{mebibytes}M"), (mebibytes * 256 * 10).to_string());
    let words = ["--bytes", &bytes, "--content", "mixed", "--access", "sequential", "--count", &count];
    Run::plain(program("touch")).args(words)
}

#[test]
fn rounds_in_a_little_more_than_memory_miss_little() {
    let _turn = turn();
    if uswap_binary().is_none() {
        return;
    }
    let (scratch, mebibytes) = (Scratch::new(), BUDGET_MIB);
    let json = scratch.file("report");
    let json_option = json.to_string_lossy().into_owned();
    let plain = touch(mebibytes).finish();
    let options = ["--json", &json_option];
    let managed = touch(mebibytes).uswap(BUDGET_MIB, &options).finish();
    let right = checksum(plain.must_succeed());
    assert!(right.is_some(), "touch prints one");
    assert_eq!(checksum(managed.must_succeed()), right, "wrong bytes reached the program");
    let bytes = std::fs::read(json).expect("it was asked for");
    let record: serde_json::Value = serde_json::from_slice(&bytes).expect("it is JSON");
    let count = |name: &str| record[name].as_u64().expect("a count");
    let by_faults: u64 = record["faults"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|kind| kind["name"] != "zero" && kind["name"] != "woken")
        .map(|kind| kind["count"].as_u64().expect("a count"))
        .sum();
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
