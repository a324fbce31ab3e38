//! Stores, shares and puts swap entries, one thread, and nothing else: for a tool that counts instructions.
//!
//! `cargo build --release -p uswap-core --example one_entry`, then for each function below `valgrind --tool=callgrind
//! --toggle-collect='*NAME*' target/release/examples/one_entry 50000`: what it collects, divided by three times the
//! number, is one entry.
#![expect(clippy::disallowed_types, reason = "it measures time")]

use std::hint::black_box;
use std::time::Instant;

use uswap_core::segment::{Geometry, Segment};
use uswap_core::swap_table::Put;
use uswap_core::swap_word::Content;
use uswap_sync::AtomicU64;
use uswap_units::{BlobId, MmId, SwapId};

const GEOMETRY: Geometry =
    Geometry { mms: 4, tables: 1, entries: 512 * 512, zspages: 1, slots: 8, readahead: 0 };

#[inline(never)]
fn stored(segment: Segment<'_>, entries: usize, into: &mut Vec<SwapId>) {
    for number in 0..entries as u32 {
        let table = segment.swap_table();
        let id = table.reserve().expect("there is room");
        table.set_hash(id, u128::from(number));
        table.publish(id, Content::Blob { blob: BlobId::new(number), length: 1024 });
        into.push(id);
    }
}

#[inline(never)]
fn stored_together(segment: Segment<'_>, entries: usize, into: &mut Vec<SwapId>) {
    for number in (0..entries as u32).step_by(16) {
        let table = segment.swap_table();
        let first = table.reserve_run(4).expect("there is room");
        let ids = first.run(16);
        ids.clone().for_each(|id| table.set_hash(id, u128::from(number)));
        table.publish_run(
            first,
            ids.clone().map(|id| Content::Blob { blob: BlobId::new(id.number()), length: 1024 }),
        );
        into.extend(ids);
    }
}

#[inline(never)]
fn shared(segment: Segment<'_>, entries: &[SwapId]) {
    entries.iter().for_each(|&id| segment.swap_table().share(id));
}

#[inline(never)]
fn put_first_of_two(segment: Segment<'_>, entries: &[SwapId]) {
    for &id in entries {
        assert_eq!(segment.swap_table().put(id), Put::StillShared);
    }
}

#[inline(never)]
fn put_last(segment: Segment<'_>, entries: &[SwapId]) {
    for &id in entries {
        assert!(matches!(segment.swap_table().put(id), Put::Freed(_)));
    }
}

#[inline(never)]
fn put_together(segment: Segment<'_>, entries: &[SwapId]) {
    for run in entries.chunks(64) {
        segment.swap_table().put_each(run.iter().copied(), |content| {
            black_box(content);
        });
    }
}

fn main() {
    let entries = std::env::args().nth(1).map_or(200_000, |word| word.parse().expect("a number of entries"));
    let words: Vec<AtomicU64> = (0..GEOMETRY.layout().total_words()).map(|_| AtomicU64::new(0)).collect();
    let segment = Segment::create(&words, GEOMETRY).acting_as(MmId::new(1));
    let mut ids = Vec::with_capacity(entries);
    let timed = |what: &str, job: &mut dyn FnMut()| {
        let start = Instant::now();
        job();
        println!("{what}: {:.1} ns each", start.elapsed().as_nanos() as f64 / entries as f64);
    };
    for _ in 0..3 {
        ids.clear();
        timed("store", &mut || stored(segment, entries, &mut ids));
        timed("share", &mut || shared(segment, &ids));
        timed("put one of two", &mut || put_first_of_two(segment, &ids));
        timed("put the last", &mut || put_last(segment, &ids));
        ids.clear();
        stored(segment, entries, &mut ids);
        timed("put 64 together", &mut || put_together(segment, &ids));
        ids.clear();
        timed("store 16 together", &mut || stored_together(segment, entries, &mut ids));
        segment.swap_table().put_each(ids.iter().copied(), |content| {
            black_box(content);
        });
    }
}
