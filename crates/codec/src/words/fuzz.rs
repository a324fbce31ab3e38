//! Random pages and random blobs, by vector kernels and by portable code: both have to say the same, for as long as one likes.
//!
//! Run by `cargo xtask fuzz [--seconds N] [--seed S]`. Each seed decides one page, its blob and the damage to it, so that the seed that is printed replays it.

extern crate std;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use super::tests::{Random, compress, decompress, mixture, page_of};
use super::*;

/// Blobs made of one page: as it is, and damaged.
const DAMAGED_PER_PAGE: usize = 4;

fn run_seed(seed: u64) {
    let mut random = Random(seed.wrapping_mul(2).wrapping_add(1));
    let page = page_of(&mixture(random.next()));
    // Most pages find room; some do not by a few bytes.
    let room = if random.below(4) == 0 { random.below(2500) as usize } else { PAGE_BYTES };
    let mut out = [0; PAGE_BYTES];
    let Some(length) = compress(&page, &mut out[..room], &mut WordsScratch::new()) else { return };
    let blob = &mut out[..length];
    let mut back = [0xa5; PAGE_BYTES];
    assert_eq!(decompress(blob, &mut back), Ok(()));
    assert!(back == page, "the page that came back differs");
    for _ in 0..DAMAGED_PER_PAGE {
        blob[random.below(length as u64) as usize] ^= 1 << random.below(8);
        let _ = decompress(blob, &mut back);
        // Codes and sizes that fit together get further than random ones.
        let first = random.below(length as u64) as usize;
        let _ = decompress(&blob[..first], &mut back);
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// In a normal run 300 seeds. `USWAP_FUZZ_SECONDS`: that long, from `USWAP_FUZZ_SEED` on; with a seed and no time, that one alone.
#[test]
fn vector_kernels_and_portable_code_do_the_same() {
    if Avx512::get().is_none() {
        std::println!("SKIP: this processor has no AVX-512 with VBMI2, so there is only portable code");
    }
    let (first, time) = (number("USWAP_FUZZ_SEED"), number("USWAP_FUZZ_SECONDS").map(Duration::from_secs));
    let count = match (first, time) {
        (_, Some(_)) => u64::MAX,
        (Some(_), None) => 1,
        (None, None) => 300,
    };
    let (start, first) = (Instant::now(), first.unwrap_or(1));
    let mut done = 0;
    while done < count && time.is_none_or(|time| start.elapsed() < time) {
        let seed = first.wrapping_add(done);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run_seed(seed))) {
            std::eprintln!("replay: cargo xtask fuzz --seed {seed}");
            resume_unwind(panic);
        }
        done += 1;
    }
    std::println!("fuzz: {done} seeds from {first} on, {} s", start.elapsed().as_secs());
}
