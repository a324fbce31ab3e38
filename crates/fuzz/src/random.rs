//! The targets as ordinary tests: the inputs of the corpus as they are, then random changes of them.
//!
//! Run by `cargo xtask fuzz [--seconds N] [--seed S]`, which prints a seed that replays a failure. Less clever than
//! cargo-fuzz, which learns what reaches new code; but it needs no other compiler.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use uswap_units::Prng;
use uswap_units::seeds::try_seeds;

/// Seeds of a normal run of the unit tests.
const SEEDS: u64 = 300;

/// Longest input that is made: a page, a header, and something behind it.
const BYTES_MAX: usize = 5000;

/// The inputs of a target, in order of their names.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut inputs: Vec<_> = entries
        .map(|entry| {
            let entry = entry.expect("a directory can be read");
            let bytes = fs::read(entry.path()).expect("a file can be read");
            (entry.file_name().to_string_lossy().into_owned(), bytes)
        })
        .collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "{} is empty", directory.display());
    inputs
}

/// Another input: some of one, a little of another, and single bytes changed.
fn changed(prng: &mut Prng, inputs: &[(String, Vec<u8>)]) -> Vec<u8> {
    let pick = |prng: &mut Prng| inputs[prng.below(inputs.len() as u64) as usize].1.clone();
    let mut bytes = if prng.chance(1, 8) {
        (0..prng.below(200)).map(|_| prng.next_u64() as u8).collect()
    } else {
        pick(prng)
    };
    for _ in 0..1 + prng.below(6) {
        let at = prng.below(bytes.len() as u64 + 1) as usize;
        let end = at + prng.below((bytes.len() - at) as u64 + 1) as usize;
        match prng.below(8) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            3 => {
                let other = pick(prng);
                let from = prng.below(other.len() as u64 + 1) as usize;
                bytes.splice(at..end, other[from..].iter().copied());
            }
            4 => bytes.insert(at, prng.next_u64() as u8),
            5 if at < bytes.len() => bytes[at] ^= 1 << prng.below(8),
            6 if at < bytes.len() => bytes[at] = [0, 1, 0x7f, 0x80, 0xfe, 0xff][prng.below(6) as usize],
            _ if at < bytes.len() => bytes[at] = prng.next_u64() as u8,
            _ => {}
        }
    }
    bytes.truncate(BYTES_MAX);
    bytes
}

fn run(target: &str, check: fn(&[u8])) {
    let inputs = corpus(target);
    for (name, bytes) in &inputs {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(bytes))) {
            eprintln!("the input was fuzz/corpus/{target}/{name}");
            resume_unwind(panic);
        }
    }
    try_seeds(SEEDS, |seed| check(&changed(&mut Prng::new(seed), &inputs)));
}

#[test]
fn any_blob_makes_one_page_or_none() {
    run("codec_decompress", crate::codec_decompress);
}

#[test]
fn any_page_that_is_compressed_comes_back() {
    run("codec_round_trip", crate::codec_round_trip);
}

#[test]
fn only_what_was_sealed_opens() {
    run("record_open", crate::record_open);
}

#[test]
fn a_control_line_that_is_understood_can_be_said_again() {
    run("control_line", crate::control_line);
}

#[test]
fn any_arguments_are_taken_or_refused() {
    run("arguments", crate::arguments);
}

#[test]
fn any_system_call_names_ranges_of_the_address_space() {
    run("system_calls", crate::system_calls);
}

/// A target whose promise is broken by some input must be found out, by its corpus and by the changes.
#[test]
fn a_broken_promise_is_seen() {
    let is_seen = |check: fn(&[u8])| catch_unwind(|| run("control_line", check)).is_err();
    assert!(is_seen(|bytes| assert_ne!(bytes, b"stat json\n")), "as it is in the corpus");
    assert!(is_seen(|bytes| assert!(!bytes.starts_with(b"stat") || bytes.len() < 11)), "a change of it");
    assert!(!is_seen(|_| ()));
}
