//! Nanoseconds a page for each step: `cargo run --release -p uswap-codec --example codec_bench [FILE...]`.
//!
//! A file holds pages one after the other, as they are in memory; without one, pages are made from a seed. Prints the best of several rounds, and a checksum of the
//! results: equal checksums mean that two builds did the same work. Pages that are the same all over are left out.

#[path = "../tests/pages/mod.rs"]
mod pages;

use std::hint::black_box;
use std::time::Instant;

use uswap_codec::{
    COMPRESSED_BYTES_MAX, Compressed, Effort, PAGE_BYTES, Page, Scratch, compress, decompress, hash,
    same_filled,
};

const ROUND_COUNT: u32 = 7;
/// As many pages of a file are taken, evenly from all of it.
const PAGES_MAX: usize = 4000;

fn main() {
    println!("best of {ROUND_COUNT} rounds, ns a page");
    println!(
        "{:<24} {:>6} {:>5}   {:^31}   {:^31}   checksum",
        "content", "hash", "same", "quick: to, from, ratio", "dense: to, from, ratio"
    );
    let files: Vec<String> = std::env::args().skip(1).collect();
    for file in &files {
        let bytes = std::fs::read(file).expect("the file can be read");
        let (all, _) = bytes.as_chunks::<PAGE_BYTES>();
        let content: Vec<Page> = all.iter().step_by(all.len().div_ceil(PAGES_MAX).max(1)).copied().collect();
        println!("{:<24} {}", file.rsplit('/').next().unwrap_or(file), measure(content));
    }
    if files.is_empty() {
        for (kind, name) in ["random", "text", "pointers", "sparse", "one byte", "half"].iter().enumerate() {
            println!(
                "{name:<24} {}",
                measure((0..4000).map(|seed| pages::page(kind, seed * 2 + 1)).collect())
            );
        }
    }
}

/// One line of the table.
fn measure(mut content: Vec<Page>) -> String {
    let same_ns = best_ns(content.len(), || {
        black_box(content.iter().filter(|page| same_filled(page).is_some()).count());
    });
    content.retain(|page| same_filled(page).is_none());
    let mut sum = 0_u128;
    let hash_ns = best_ns(content.len(), || {
        sum = content.iter().fold(0, |sum, page| sum.rotate_left(1) ^ hash(page).0);
    });
    let efforts = [Effort::Quick, Effort::Dense].map(|effort| measure_effort(&content, effort, &mut sum));
    format!("{hash_ns:>6} {same_ns:>5}   {}   {}   {:016x}", efforts[0], efforts[1], sum as u64)
}

fn measure_effort(content: &[Page], effort: Effort, sum: &mut u128) -> String {
    let mut scratch = Scratch::new();
    let mut blobs = vec![([0_u8; COMPRESSED_BYTES_MAX], 0_usize); content.len()];
    let compress_ns = best_ns(content.len(), || {
        for (page, (out, length)) in content.iter().zip(&mut blobs) {
            *length = match compress(page, out, effort, &mut scratch) {
                Compressed::Bytes(length) => length,
                Compressed::Incompressible => 0,
            };
        }
    });
    let kept: Vec<_> = blobs.iter().filter(|(_, length)| *length > 0).collect();
    let mut back = [0; PAGE_BYTES];
    let decompress_ns = best_ns(kept.len(), || {
        for (out, length) in &kept {
            decompress(&out[..*length], &mut back, &mut scratch).expect("it was just compressed");
            black_box(&back);
        }
    });
    let stored: usize = blobs.iter().map(|(_, length)| if *length > 0 { *length } else { PAGE_BYTES }).sum();
    let ratio = (content.len() * PAGE_BYTES) as f64 / stored.max(1) as f64;
    *sum = blobs.iter().fold(*sum, |sum, (out, length)| {
        out[..*length].iter().fold(sum, |sum, byte| sum.wrapping_mul(31).wrapping_add(u128::from(*byte)))
    });
    format!("{compress_ns:>9} {decompress_ns:>11} {ratio:>9.3}")
}

/// Nanoseconds for one of `count` items; 0 when there are none.
fn best_ns(count: usize, mut work: impl FnMut()) -> u128 {
    let mut best = u128::MAX;
    for _ in 0..ROUND_COUNT {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_nanos());
    }
    if count == 0 { 0 } else { best / count as u128 }
}
