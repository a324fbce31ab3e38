//! What each codec makes of the pages of real programs, and what it costs: `cargo run --release -p uswap-codec
//! --example codec_bench [FILE...]`.
//!
//! A file holds pages one after the other, as they are in memory (`bench/scripts/pages.py` makes some); without one,
//! pages are made from a seed. For each file: one line of steps that every page goes through, then a table. A unit is
//! what is compressed at once; times are for 4 KiB of it, the best of several rounds, in each of which every line has
//! its turn. A unit that a codec refuses counts with all of its bytes. `quick` and `dense` are what the engine asks
//! for; behind them is which codec was picked. The checksum is that of the blobs: equal ones mean that two builds did
//! the same work. Pages that are the same all over are left out.

#[path = "../tests/pages/mod.rs"]
mod pages;

use std::hint::black_box;
use std::time::Instant;

use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into};
use uswap_codec::{
    COMPRESSED_BYTES_MAX, Codec, Compressed, Effort, PAGE_BYTES, Page, Scratch, compress, compress_with,
    decompress, hash, same_filled,
};

const ROUND_COUNT: u32 = 7;
/// As many pages of a file are taken, in runs of [`UNIT_PAGES_MAX`], evenly from all of it.
const PAGES_MAX: usize = 2048;
const UNIT_PAGES_MAX: usize = 16;

fn main() {
    println!("best of {ROUND_COUNT} rounds, ns for 4 KiB");
    let files: Vec<String> = std::env::args().skip(1).collect();
    for file in &files {
        let bytes = std::fs::read(file).expect("the file can be read");
        let (all, _) = bytes.as_chunks::<PAGE_BYTES>();
        let every = (all.len() / PAGES_MAX).max(1);
        let content = all.chunks_exact(UNIT_PAGES_MAX).step_by(every).flatten().copied().collect();
        let name = std::path::Path::new(file).file_stem().unwrap_or_default();
        print_table(&name.to_string_lossy(), content);
    }
    if files.is_empty() {
        for (kind, name) in ["random", "text", "pointers", "sparse", "one byte", "half"].iter().enumerate() {
            print_table(name, (0..2000).map(|seed| pages::page(kind, seed * 2 + 1)).collect());
        }
    }
}

/// A way to compress units of some pages. What it keeps between units is its own.
trait Method {
    /// Bytes of `out` that are the blob; None: it is not worth it.
    fn compress(&mut self, unit: &[u8], out: &mut [u8]) -> Option<usize>;
    fn decompress(&mut self, blob: &[u8], unit: &mut [u8]);
}

/// A codec of ours alone, or what the engine asks for.
struct Ours {
    way: Way,
    scratch: Box<Scratch>,
}

enum Way {
    Codec(Codec),
    Effort(Effort),
}

fn page_of(unit: &[u8]) -> &Page {
    unit.try_into().expect("our codecs take single pages")
}

impl Method for Ours {
    fn compress(&mut self, unit: &[u8], out: &mut [u8]) -> Option<usize> {
        let out = &mut out[..COMPRESSED_BYTES_MAX];
        let compressed = match self.way {
            Way::Codec(codec) => compress_with(codec, page_of(unit), out, &mut self.scratch),
            Way::Effort(effort) => compress(page_of(unit), out, effort, &mut self.scratch),
        };
        match compressed {
            Compressed::Bytes(length) => Some(length),
            Compressed::Incompressible => None,
        }
    }

    fn decompress(&mut self, blob: &[u8], unit: &mut [u8]) {
        let page = unit.try_into().expect("our codecs make single pages");
        decompress(blob, page, &mut self.scratch).expect("it was just compressed");
    }
}

/// LZ4 of larger units.
struct Lz4(CompressTable);

impl Method for Lz4 {
    fn compress(&mut self, unit: &[u8], out: &mut [u8]) -> Option<usize> {
        compress_into_with_table(unit, out, &mut self.0).ok().filter(|length| *length < unit.len())
    }

    fn decompress(&mut self, blob: &[u8], unit: &mut [u8]) {
        decompress_into(blob, unit).expect("it was just compressed");
    }
}

struct Zstd {
    compressor: zstd::bulk::Compressor<'static>,
    decompressor: zstd::bulk::Decompressor<'static>,
}

impl Zstd {
    fn new(level: i32) -> Self {
        let compressor = zstd::bulk::Compressor::new(level).expect("the level exists");
        Self { compressor, decompressor: zstd::bulk::Decompressor::new().expect("there is memory") }
    }
}

impl Method for Zstd {
    fn compress(&mut self, unit: &[u8], out: &mut [u8]) -> Option<usize> {
        self.compressor.compress_to_buffer(unit, out).ok().filter(|length| *length < unit.len())
    }

    fn decompress(&mut self, blob: &[u8], unit: &mut [u8]) {
        self.decompressor.decompress_to_buffer(blob, unit).expect("it was just compressed");
    }
}

/// One line of the table.
struct Line {
    name: String,
    unit_pages: usize,
    method: Box<dyn Method>,
    /// Of each unit, with the bytes that it needs; empty: refused.
    blobs: Vec<Vec<u8>>,
    lengths: Vec<usize>,
    compress_ns: u128,
    decompress_ns: u128,
}

impl Line {
    fn new(name: &str, unit_pages: usize, method: impl Method + 'static) -> Self {
        Self {
            name: name.to_owned(),
            unit_pages,
            method: Box::new(method),
            blobs: Vec::new(),
            lengths: Vec::new(),
            compress_ns: u128::MAX,
            decompress_ns: u128::MAX,
        }
    }

    /// One round: all units there, and back.
    fn run(&mut self, content: &[Page]) {
        let units: Vec<&[u8]> = content.chunks_exact(self.unit_pages).map(<[Page]>::as_flattened).collect();
        // Larger than any unit: what a method may write that does not get smaller.
        let room = self.unit_pages * PAGE_BYTES * 9 / 8 + 64;
        self.blobs.resize_with(units.len(), || vec![0; room]);
        self.lengths.resize(units.len(), 0);
        let started = Instant::now();
        for ((unit, out), length) in units.iter().zip(&mut self.blobs).zip(&mut self.lengths) {
            *length = self.method.compress(unit, out).unwrap_or(0);
        }
        self.compress_ns = self.compress_ns.min(started.elapsed().as_nanos());
        let mut back = vec![0; self.unit_pages * PAGE_BYTES];
        let started = Instant::now();
        for (out, length) in self.blobs.iter().zip(&self.lengths).filter(|(_, length)| **length > 0) {
            self.method.decompress(&out[..*length], &mut back);
            black_box(&back);
        }
        self.decompress_ns = self.decompress_ns.min(started.elapsed().as_nanos());
        for (unit, (out, length)) in units.iter().zip(self.blobs.iter().zip(&self.lengths)) {
            if *length > 0 {
                self.method.decompress(&out[..*length], &mut back);
                assert!(back == *unit, "{}: another page came back", self.name);
            }
        }
    }

    fn blobs(&self) -> impl Iterator<Item = &[u8]> {
        self.blobs.iter().zip(&self.lengths).map(|(out, length)| &out[..*length])
    }

    /// Which codecs made the blobs, for what the engine asks for; for a codec alone, how many it refused.
    fn picks(&self) -> String {
        let percent = |codec| {
            let count = self.blobs().filter(|blob| Codec::of(blob) == codec).count();
            100.0 * count as f64 / self.blobs.len() as f64
        };
        let refused =
            100.0 * self.blobs().filter(|blob| blob.is_empty()).count() as f64 / self.blobs.len() as f64;
        match self.name.as_str() {
            "quick" => format!(
                "words {:.0}, lz4 {:.0}, as it is {refused:.0}",
                percent(Some(Codec::Words)),
                percent(Some(Codec::Lz4))
            ),
            "dense" => format!(
                "words {:.0}, matches {:.0}, as it is {refused:.0}",
                percent(Some(Codec::Words)),
                percent(Some(Codec::Dense))
            ),
            _ => format!("as it is {refused:.0}"),
        }
    }

    fn print(&self, file: &str) {
        let unit_bytes = self.unit_pages * PAGE_BYTES;
        let all_bytes = self.blobs.len() * unit_bytes;
        let stored: usize =
            self.blobs().map(|blob| if blob.is_empty() { unit_bytes } else { blob.len() }).sum();
        let kept_pages = self.blobs().filter(|blob| !blob.is_empty()).count() * self.unit_pages;
        println!(
            "| {file} | {} | {} KiB | {:.2} | {} | {} | {} |",
            self.name,
            unit_bytes >> 10,
            all_bytes as f64 / stored.max(1) as f64,
            self.compress_ns / (self.blobs.len() * self.unit_pages).max(1) as u128,
            self.decompress_ns / kept_pages.max(1) as u128,
            self.picks()
        );
    }
}

fn lines() -> Vec<Line> {
    let ours = |name, way| Line::new(name, 1, Ours { way, scratch: Box::new(Scratch::new()) });
    let mut lines = vec![
        ours("words", Way::Codec(Codec::Words)),
        ours("matches", Way::Codec(Codec::Dense)),
        ours("lz4", Way::Codec(Codec::Lz4)),
    ];
    lines.extend([4, 16].map(|pages| Line::new("lz4", pages, Lz4(CompressTable::large()))));
    for level in [1, 3] {
        lines.extend([1, 4, 16].map(|pages| Line::new(&format!("zstd -{level}"), pages, Zstd::new(level))));
    }
    lines.push(ours("quick", Way::Effort(Effort::Quick)));
    lines.push(ours("dense", Way::Effort(Effort::Dense)));
    lines
}

fn print_table(file: &str, mut content: Vec<Page>) {
    let all_count = content.len();
    let same_ns = best_ns(all_count, || {
        black_box(content.iter().filter(|page| same_filled(page).is_some()).count());
    });
    content.retain(|page| same_filled(page).is_none());
    let mut sum = 0_u128;
    let hash_ns = best_ns(content.len(), || {
        sum = content.iter().fold(0, |sum, page| sum.rotate_left(1) ^ hash(page).0);
    });
    let mut lines = lines();
    for _ in 0..ROUND_COUNT {
        lines.iter_mut().for_each(|line| line.run(&content));
    }
    for blob in
        lines.iter().filter(|line| matches!(line.name.as_str(), "quick" | "dense")).flat_map(Line::blobs)
    {
        sum = blob.iter().fold(sum, |sum, byte| sum.wrapping_mul(31).wrapping_add(u128::from(*byte)));
    }
    println!(
        "\n{file}: {all_count} pages, {} the same all over (the look takes {same_ns}), hash {hash_ns}, checksum \
         {:016x}\n",
        all_count - content.len(),
        sum as u64
    );
    println!("| pages of | codec | unit | ratio | compress | decompress | picked, % |");
    println!("|---|---|---:|---:|---:|---:|---|");
    lines.iter().for_each(|line| line.print(file));
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
