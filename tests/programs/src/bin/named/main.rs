//! named: takes memory from a pool of the library, and checks it. Nothing else of it is managed.
//!
//! `named MODE --ram 32M --bytes 96M`, one mode a case. It prints OK, or what was wrong, and then it ends with status
//! 1. `named list` lists the modes.

mod advice;
mod content;
mod terms;

use uswap::{Advice, Map, Pool, PoolBuilder};
use uswap_test_programs::arguments::Arguments;
use uswap_test_programs::message::end_process;

const KNOWN: [&str; 3] = ["ram", "bytes", "seconds"];

type Mode = (&'static str, fn(&Told));

const MODES: [Mode; 14] = [
    ("table", content::table),
    ("calls", content::calls),
    ("threads", content::threads),
    ("grows", content::grows),
    ("children", content::children),
    ("sparse", content::sparse),
    ("pageout", advice::pageout),
    ("cold", advice::cold),
    ("pin", advice::pin),
    ("advised", advice::advised),
    ("terms", terms::terms),
    ("roomy", terms::roomy),
    ("limited", terms::limited),
    ("run", terms::in_a_run),
];

/// What a mode is told.
pub struct Told {
    ram: String,
    ram_bytes: usize,
    bytes: usize,
    seconds: u64,
}

impl Told {
    fn builder(&self) -> PoolBuilder {
        Pool::builder().ram(&self.ram)
    }

    fn pool(&self) -> Pool {
        must(self.builder().build())
    }
}

/// What an answer has, or the end.
#[track_caller]
pub fn must<T>(answer: Result<T, uswap::Error>) -> T {
    match answer {
        Ok(value) => value,
        Err(error) => end_process(1, format_args!("FAIL {error} ({})", std::panic::Location::caller())),
    }
}

/// Ends, if it is not so.
#[track_caller]
pub fn check(is_so: bool, what: std::fmt::Arguments<'_>) {
    if !is_so {
        end_process(1, format_args!("FAIL {what} ({})", std::panic::Location::caller()));
    }
}

fn main() {
    let mode = std::env::args().nth(1).unwrap_or_default();
    let arguments = Arguments::read(std::env::args().skip(2), &KNOWN);
    let told = Told {
        ram: arguments.text("ram", "32M").to_owned(),
        ram_bytes: arguments.bytes("ram", "32M"),
        bytes: arguments.bytes("bytes", "96M"),
        seconds: arguments.number("seconds", 2),
    };
    if mode == "list" {
        return MODES.iter().for_each(|(name, _)| println!("{name}"));
    }
    let Some((_, run)) = MODES.iter().find(|(name, _)| *name == mode) else {
        end_process(2, format_args!("there is no mode '{mode}'"));
    };
    run(&told);
    println!("OK");
}

/// So many values that are known.
pub fn filled(pool: &Pool, count: usize, seed: u64) -> Map<u64> {
    let mut map = must(pool.map::<u64>(count));
    for (index, value) in map.iter_mut().enumerate() {
        *value = known(seed, index);
    }
    map
}

/// Half of what is known takes no room when it is compressed.
pub fn known(seed: u64, index: usize) -> u64 {
    match (index / 256) % 2 {
        0 => (seed.wrapping_add(index as u64)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29),
        _ => seed << 32 | index as u64,
    }
}

/// Compares all of it.
#[track_caller]
pub fn verify(map: &[u64], seed: u64) {
    for (index, value) in map.iter().enumerate() {
        check(*value == known(seed, index), format_args!("value {index} of {seed} is {value:#x}"));
    }
}

/// Advice about all of it.
#[track_caller]
pub fn advise(map: &mut Map<u64>, advice: Advice) {
    must(map.advise(advice));
}
