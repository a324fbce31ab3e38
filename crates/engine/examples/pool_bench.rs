//! What the pool's memory is made of: `cargo run --release -p uswap-engine --example pool_bench [FILE...]`.
//!
//! A file holds pages one after the other, as they are in memory; without one, pages are made from a seed. All of them
//! are compressed and stored as the engine does. Then the phase of the program changes: of ten pages, which ones by
//! chance, six are freed, and the pool is compacted. Pages that are the same all over need no pool, and those that do
//! not compress go to the file first: both are left out.

use std::cell::Cell;
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;
use uswap_codec::{COMPRESSED_BYTES_MAX, Compressed, Effort, PAGE_BYTES, Scratch, compress, same_filled};
use uswap_core::budget::Signal;
use uswap_core::pool::compaction::Partial;
use uswap_core::pool::{ZSPAGE_BYTES, ZspageOwner};
use uswap_core::segment::{Geometry, Segment};
use uswap_core::swap_word::Content;
use uswap_engine::block_on;
use uswap_engine::pool::release::put_entry;
use uswap_engine::world::{Backing, FileBuffer, FileError};
use uswap_engine::writeback::Shrinker;
use uswap_units::{MmId, Prng, SwapId, SwapOffset, ZspageId};

const PAGES_MAX: usize = 64_000;
const GEOMETRY: Geometry =
    Geometry { mms: 2, tables: 1, entries: 65_536, zspages: 9000, slots: 8, readahead: 0 };
/// Bits of a zspage's map, and its state.
const ZSPAGE_NOTES_BYTES: u64 = 40;
/// The word of a swap entry, the hash of its content, and its part of the words of its cluster.
const ENTRY_BYTES: f64 = 24.3;
const CELL_HEADER_BYTES: u64 = 8;

/// There is no file and no system to give memory back to.
#[derive(Default)]
struct Memory {
    released: Cell<u64>,
}

impl Backing for Memory {
    fn release_zspage(&self, _: ZspageId) {
        self.released.set(self.released.get() + 1);
    }
    async fn read_file(&self, _: SwapOffset, _: usize, _: &mut FileBuffer) -> Result<(), FileError> {
        unreachable!("nothing is in a file")
    }
    async fn pause(&self) {}
    async fn step(&self) {}
    fn now_ns(&self) -> u64 {
        0
    }
    fn raise(&self, _: Signal) {}
    async fn wait(&self, _: Signal, _: u32, _: u64) {}
}

fn main() -> ExitCode {
    let files: Vec<String> = std::env::args().skip(1).collect();
    println!(
        "{:<20} {:>7} {:>6} {:>7} {:>15} {:>9} {:>18}",
        "", "pages", "", "", "of that, cells", "bytes", "given back of"
    );
    println!(
        "{:<20} {:>7} {:>6} {:>7} {:>15} {:>9} {:>18}",
        "pages of", "stored", "ratio", "waste", "too large", "a page", "what was free"
    );
    for file in &files {
        match std::fs::read(file) {
            Ok(bytes) => println!("{}", measure(file.rsplit('/').next().unwrap_or(file), &bytes)),
            Err(error) => {
                eprintln!("pool_bench: {file} cannot be read ({error}): name a file of pages");
                return ExitCode::FAILURE;
            }
        }
    }
    if files.is_empty() {
        println!("{}", measure("made from a seed", &made()));
    }
    ExitCode::SUCCESS
}

/// Pages of which a random part is random, so that blobs have all lengths.
fn made() -> Vec<u8> {
    let mut prng = Prng::new(1);
    let mut bytes = vec![0; 8000 * PAGE_BYTES];
    for page in bytes.chunks_exact_mut(PAGE_BYTES) {
        let length = 64 + prng.below(3000) as usize;
        page[..length].iter_mut().for_each(|byte| *byte = prng.next_u64() as u8);
    }
    bytes
}

/// One line of the table.
fn measure(name: &str, bytes: &[u8]) -> String {
    let words: Vec<AtomicU64> = (0..GEOMETRY.layout().total_words()).map(|_| AtomicU64::new(0)).collect();
    let segment = Segment::create(&words, GEOMETRY);
    segment.pool().set_limit_bytes(u64::from(GEOMETRY.zspages) * ZSPAGE_BYTES as u64);
    let (pool, memory) = (segment.pool(), Memory::default());
    let (all, _) = bytes.as_chunks::<PAGE_BYTES>();
    let step = all.len().div_ceil(PAGES_MAX).max(1);
    let (mut zspages, mut scratch, mut out) = (ZspageOwner::new(), Scratch::new(), [0; COMPRESSED_BYTES_MAX]);
    let (mut live, mut content_bytes): (Vec<SwapId>, u64) = (Vec::new(), 0);
    for page in all.iter().step_by(step).filter(|page| same_filled(page).is_none()) {
        let Compressed::Bytes(length) = compress(page, &mut out, Effort::Quick, &mut scratch) else {
            continue;
        };
        let id = segment.swap_table().reserve().expect("there are more entries than pages");
        let cell =
            pool.reserve(MmId::new(1), &mut zspages, length).expect("there are zspages for all of them");
        pool.write(&cell, id, &out[..length]);
        segment.swap_table().publish(id, Content::Blob { blob: cell.blob(), length: length as u32 });
        live.push(id);
        content_bytes += length as u64;
    }
    // Who stored has nothing more to store.
    pool.reap(MmId::new(1), |_| ());
    let stored = live.len() as u64;
    let resident = pool.resident_bytes();
    let headers = stored * CELL_HEADER_BYTES;
    let in_holes = |partial: Partial| {
        u64::from(partial.cells - partial.used) * (ZSPAGE_BYTES as u64 / u64::from(partial.cells))
    };
    let holes: u64 = pool.partial_zspages().map(in_holes).sum();
    let of_100 = |bytes: u64| bytes as f64 * 100.0 / resident as f64;
    let wasted = resident - content_bytes - headers;
    let (waste, rounding) = (of_100(wasted), of_100(wasted - holes));
    let notes = resident / ZSPAGE_BYTES as u64 * ZSPAGE_NOTES_BYTES + headers;
    let bytes_a_page = notes as f64 / stored as f64 + ENTRY_BYTES;

    let mut prng = Prng::new(7);
    let gone: Vec<SwapId> = live.into_iter().filter(|_| prng.chance(6, 10)).collect();
    for id in gone {
        put_entry(segment, &memory, id);
    }
    // What is free: all that is held, less what is in use at the density of before.
    let held = resident;
    // A pool with room is compacted only if that brings a 64th of its limit.
    pool.set_limit_bytes(resident);
    let used = resident as f64 * pool.used_cells() as f64 / stored as f64;
    let _freed = block_on(Shrinker::new().compact(segment, &memory));
    let given_back = (held - pool.resident_bytes()) as f64 / (held as f64 - used);
    let ratio = (stored * PAGE_BYTES as u64) as f64 / content_bytes as f64;
    format!(
        "{name:<20} {stored:>7} {ratio:>6.2} {waste:>5.1} % {rounding:>13.1} % {bytes_a_page:>9.1} {:>16.1} %",
        given_back * 100.0
    )
}
