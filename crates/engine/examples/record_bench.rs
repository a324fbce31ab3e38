//! Nanoseconds to seal and to open one record: `cargo run --release -p uswap-engine --example record_bench`.
//!
//! The best of several rounds. Also counts instructions: run it under `valgrind --tool=callgrind` (which knows no
//! VAES). To see what a processor without the instructions would take: `RUSTFLAGS='--cfg aes_backend="soft" --cfg
//! polyval_backend="soft"' CARGO_TARGET_DIR=target/soft` before it.
#![expect(clippy::disallowed_types, reason = "it measures time")]

use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::time::Instant;
use uswap_codec::PAGE_BYTES;
use uswap_core::segment::{Geometry, Segment};
use uswap_engine::record::{Cipher, Owner, record_bytes};
use uswap_units::SwapId;

const GEOMETRY: Geometry = Geometry { mms: 1, tables: 1, entries: 512, zspages: 1, slots: 8, readahead: 0 };
const ROUNDS: u32 = 15;
const RECORDS: u32 = 2000;

fn best_ns(mut work: impl FnMut()) -> u128 {
    let round = |_| {
        let started = Instant::now();
        (0..RECORDS).for_each(|_| work());
        started.elapsed().as_nanos() / u128::from(RECORDS)
    };
    (0..ROUNDS).map(round).min().expect("there are rounds")
}

fn main() {
    let words: Vec<AtomicU64> = (0..GEOMETRY.layout().total_words()).map(|_| AtomicU64::new(0)).collect();
    let segment = Segment::create(&words, GEOMETRY);
    segment.file_key().set([7; 32]);
    let (key, owner) = (segment.file_key(), Owner { id: SwapId::new(1), hash: 2 });
    let mut content = [0; PAGE_BYTES];
    println!("best of {ROUNDS} rounds, ns a record\n bytes  seal  open  copy");
    for length in [256, 1024, 1536, PAGE_BYTES] {
        let (cipher, plain) = (Cipher::of(key), vec![3; length]);
        let mut record = vec![0; record_bytes(length)];
        let seal_ns = best_ns(|| {
            cipher
                .seal(key, owner, length, &mut record, |content| content.copy_from_slice(black_box(&plain)));
        });
        let open_ns = best_ns(|| {
            let opened = cipher.open(owner, black_box(&record), &mut content);
            assert_eq!(opened, Some(length));
        });
        let copy_ns = best_ns(|| black_box(&mut content)[..length].copy_from_slice(black_box(&plain)));
        println!("{length:>6} {seal_ns:>5} {open_ns:>5} {copy_ns:>5}");
    }
    let expand_ns = best_ns(|| {
        let mut record = [0; 64];
        Cipher::of(key).seal(key, owner, 1, &mut record, |content| content[0] = 1);
        black_box(&record);
    });
    println!("the first record of a task, 1 byte: {expand_ns}");
}
