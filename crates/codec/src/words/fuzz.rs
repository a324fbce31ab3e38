//! Random pages and random blobs, by vector kernels and by portable code: both have to say the same, for as long as one
//! likes.
//!
//! Must hold: each seed decides one page, its blob and the damage to it, so that the seed that is printed replays it.
//! Called by `cargo xtask fuzz [--seconds N] [--seed S]`.

extern crate std;

use uswap_units::seeds::try_seeds;

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

#[test]
fn vector_kernels_and_portable_code_do_the_same() {
    if Avx512::get().is_none() {
        std::println!("SKIP: this processor has no AVX-512 with VBMI2, so there is only portable code");
    }
    try_seeds(300, run_seed);
}
