//! Nanoseconds a page for each step, on pages made from a seed: `cargo run --release -p uswap-codec --example codec_bench`.
//!
//! Prints the best of several rounds, and a checksum of the results: equal checksums mean that two builds did the same
//! work. An argument sets the number of pages a round (default 4000).

#[path = "../tests/pages/mod.rs"]
mod pages;

use std::hint::black_box;
use std::time::Instant;

use uswap_codec::{
    COMPRESSED_BYTES_MAX, Compressed, PAGE_BYTES, Page, Scratch, compress, decompress, hash, same_filled,
};

const ROUND_COUNT: u32 = 7;

fn main() {
    let page_count: u64 = match std::env::args().nth(1) {
        Some(text) => text.parse().expect("the argument is a number of pages"),
        None => 4000,
    };
    println!(
        "kind       hash  same  compress  decompress  ratio  checksum   (ns a page, best of {ROUND_COUNT} rounds)"
    );
    for (kind, name) in ["random", "text", "pointers", "sparse", "one byte", "half"].iter().enumerate() {
        let content: Vec<Page> = (0..page_count).map(|seed| pages::page(kind, seed * 2 + 1)).collect();
        println!("{name:<9} {}", measure(&content));
    }
}

/// One line of the table.
fn measure(content: &[Page]) -> String {
    let mut scratch = Scratch::new();
    let mut blobs = vec![([0_u8; COMPRESSED_BYTES_MAX], 0_usize); content.len()];
    let mut checksum = 0_u128;
    let hash_ns = best_ns(content.len(), || {
        checksum = content.iter().fold(0, |sum, page| sum.rotate_left(1) ^ hash(page).0);
    });
    let same_ns = best_ns(content.len(), || {
        black_box(content.iter().filter(|page| same_filled(page).is_some()).count());
    });
    let compress_ns = best_ns(content.len(), || {
        for (page, (out, length)) in content.iter().zip(&mut blobs) {
            *length = match compress(page, out, &mut scratch) {
                Compressed::Bytes(length) => length,
                Compressed::Incompressible => 0,
            };
        }
    });
    let kept: Vec<_> = blobs.iter().filter(|(_, length)| *length > 0).collect();
    let mut back = [0; PAGE_BYTES];
    let decompress_ns = best_ns(kept.len(), || {
        for (out, length) in &kept {
            decompress(&out[..*length], &mut back).expect("it was just compressed");
            black_box(&back);
        }
    });
    let stored_bytes: usize =
        blobs.iter().map(|(_, length)| if *length > 0 { *length } else { PAGE_BYTES }).sum();
    let percent = stored_bytes * 100 / (content.len() * PAGE_BYTES);
    let blob_sum = blobs.iter().fold(checksum, |sum, (out, length)| {
        out[..*length].iter().fold(sum, |sum, byte| sum.wrapping_mul(31).wrapping_add(u128::from(*byte)))
    });
    format!(
        "{hash_ns:>6} {same_ns:>5} {compress_ns:>9} {decompress_ns:>11} {percent:>5}%  {:016x}",
        blob_sum as u64
    )
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
