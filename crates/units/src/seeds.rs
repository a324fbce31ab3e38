//! Goes through random seeds in a test, a few of them or for as long as one likes, and says which one failed.
//!
//! Called by the tests that `cargo xtask fuzz [--seconds N] [--seed S]` runs. For tests only: it needs the standard
//! library.

extern crate std;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Calls `run` with so many seeds in a normal run. `USWAP_FUZZ_SECONDS`: for that long, from `USWAP_FUZZ_SEED` on; with
/// a seed and no time, with that one alone.
///
/// # Panics
/// When `run` does, after the line that replays its seed.
pub fn try_seeds(usual_count: u64, run: impl Fn(u64)) {
    let (first, time) = (number("USWAP_FUZZ_SEED"), number("USWAP_FUZZ_SECONDS").map(Duration::from_secs));
    let count = match (first, time) {
        (_, Some(_)) => u64::MAX,
        (Some(_), None) => 1,
        (None, None) => usual_count,
    };
    let (start, first) = (Instant::now(), first.unwrap_or(1));
    let mut done = 0;
    while done < count && time.is_none_or(|time| start.elapsed() < time) {
        let seed = first.wrapping_add(done);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(seed))) {
            std::eprintln!("replay: cargo xtask fuzz --seed {seed}");
            resume_unwind(panic);
        }
        done += 1;
    }
    std::println!("fuzz: {done} seeds from {first} on, {} s", start.elapsed().as_secs());
}
