//! The work: compilers side by side under a limit, and a link at the end. With or without half a gibibyte that is
//! touched once, before, and never again.
//!
//! A compiler grows while it parses (two fifths of its life), touching what it made lately most; then it goes through
//! all that it has once more, in order, one function after the other. All of them read a common set of files that lie
//! in memory, popular ones most. What a compiler makes at its end stays until the link, which reads all of it in order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use uswap_units::Prng;

use super::memory::{Counts, Memory, Readahead, Touch};
use super::prices::{Disk, DiskKind};
use super::shrinker::Shrinker;

/// What is built.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    /// Compilers that run at once, each on a processor of its own.
    pub workers: u64,
    /// Files that each of them compiles, on the average.
    pub files_each: u64,
    /// Mean memory of a compiler at its end, in pages; between a third and three times that, small ones more often.
    pub compiler_pages: u64,
    /// The common set.
    pub common_pages: u64,
    /// What is left of each file.
    pub output_pages: u64,
    /// Touched once, before anything else.
    pub cold_pages: u64,
    /// The limit.
    pub limit_bytes: u64,
}

/// A compiler works so long between two looks at its memory.
const SLICE_NS: u64 = 250_000;
/// Touches of what it has already, in a slice.
const TOUCHES: u64 = 6;
/// One in so many of them writes.
const WRITES_ONE_OF: u64 = 3;
/// Work for each page that a compiler gets: 1.2 s for 40 MB.
const WORK_NS_A_PAGE: u64 = 120_000;

/// The outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// From the first compiler to the end of the link.
    pub wall_ns: u64,
    /// Work of the compilers alone.
    pub work_ns: u64,
    /// What happened to pages.
    pub counts: Counts,
}

/// One compiler.
struct Compiler {
    pages: Vec<u32>,
    pages_max: u64,
    slice: u64,
    slices: u64,
    ahead: Readahead,
}

struct Site<S> {
    build: Build,
    memory: Memory<S>,
    prng: Prng,
    /// Of the sizes of files alone, so that the work is the same under any rule.
    sizes: Prng,
    common: Vec<u32>,
    common_ahead: Readahead,
    outputs: Vec<u32>,
    files_left: u64,
    work_ns: u64,
}

/// Builds it all.
pub fn run<S: Shrinker>(build: Build, disk: DiskKind, shrinker: S, seed: u64) -> Outcome {
    let memory = Memory::new(build.limit_bytes, Disk::new(disk), shrinker);
    let mut site = Site {
        build,
        memory,
        prng: Prng::new(seed),
        sizes: Prng::new(!seed),
        common: Vec::new(),
        common_ahead: Readahead::default(),
        outputs: Vec::new(),
        files_left: build.workers * build.files_each,
        work_ns: 0,
    };
    let mut ignored = Readahead::default();
    let cold: Vec<u32> = (0..build.cold_pages).map(|_| site.new_page(true)).collect();
    for index in 0..build.cold_pages {
        site.memory.touch(&cold, index, &mut ignored, Touch::Write, 0);
    }
    site.common = (0..build.common_pages).map(|_| site.new_page(false)).collect();
    let common = std::mem::take(&mut site.common);
    for index in 0..build.common_pages {
        site.memory.touch(&common, index, &mut ignored, Touch::Write, 0);
    }
    site.common = common;

    let mut ready: BinaryHeap<Reverse<(u64, u64)>> =
        (0..build.workers).map(|worker| Reverse((worker * SLICE_NS / build.workers, worker))).collect();
    let mut compilers: Vec<Option<Compiler>> = (0..build.workers).map(|_| None).collect();
    let mut end_ns = 0;
    while let Some(Reverse((now_ns, worker))) = ready.pop() {
        let current = &mut compilers[worker as usize];
        if current.is_none() {
            *current = site.next_compiler();
        }
        let Some(compiler) = current else { continue };
        let mut done_ns = site.slice(compiler, now_ns);
        if compiler.slice == compiler.slices {
            done_ns = site.end(current.take().expect("it was just at work"), done_ns);
        }
        end_ns = end_ns.max(done_ns);
        ready.push(Reverse((done_ns, worker)));
    }
    let wall_ns = site.link(end_ns);
    Outcome { wall_ns, work_ns: site.work_ns, counts: site.memory.counts() }
}

impl<S: Shrinker> Site<S> {
    /// Takes 500 to 2500 bytes: 2.7 to 1.
    fn new_page(&mut self, cold: bool) -> u32 {
        let length = 500 + self.prng.below(2001);
        self.memory.allocate(length as u16, cold)
    }

    fn next_compiler(&mut self) -> Option<Compiler> {
        self.files_left = self.files_left.checked_sub(1)?;
        let mean = self.build.compiler_pages;
        // A third, and two thirds times the product of two numbers whose mean is 1.
        let draws = (self.sizes.below(2001), self.sizes.below(2001));
        let pages_max = (mean / 3 + mean * 2 / 3 * draws.0 * draws.1 / 1_000_000).max(64);
        let slices = (pages_max * WORK_NS_A_PAGE / SLICE_NS).max(1);
        Some(Compiler { pages: Vec::new(), pages_max, slice: 0, slices, ahead: Readahead::default() })
    }

    /// One slice of work; when it is done.
    fn slice(&mut self, compiler: &mut Compiler, now_ns: u64) -> u64 {
        compiler.slice += 1;
        self.work_ns += SLICE_NS;
        let mut now_ns = now_ns + SLICE_NS;
        let parse_slices = (compiler.slices * 2 / 5).max(1);
        let grown = (compiler.pages_max * compiler.slice / parse_slices).min(compiler.pages_max);
        while (compiler.pages.len() as u64) < grown {
            let page = self.new_page(false);
            compiler.pages.push(page);
            let index = compiler.pages.len() as u64 - 1;
            now_ns = self.memory.touch(&compiler.pages, index, &mut compiler.ahead, Touch::Write, now_ns);
        }
        for _ in 0..TOUCHES {
            let touch = if self.prng.chance(1, WRITES_ONE_OF) { Touch::Write } else { Touch::Read };
            if self.prng.chance(1, 6) {
                let index = self.skewed(self.common.len() as u64);
                let (common, ahead) = (&self.common, &mut self.common_ahead);
                now_ns = self.memory.touch(common, index, ahead, Touch::Read, now_ns);
                continue;
            }
            let length = compiler.pages.len() as u64;
            let at_functions = compiler.slice > parse_slices && self.prng.chance(2, 3);
            let index = if at_functions {
                let (done, all) = (compiler.slice - parse_slices, compiler.slices - parse_slices);
                let place = length * (done - 1) / all;
                (place + self.prng.below(16)).min(length - 1)
            } else {
                length - 1 - self.skewed(length)
            };
            now_ns = self.memory.touch(&compiler.pages, index, &mut compiler.ahead, touch, now_ns);
        }
        now_ns
    }

    /// Below `length`, the cube of an even number: half of them are in the first eighth.
    fn skewed(&mut self, length: u64) -> u64 {
        const ONE: u64 = 1 << 20;
        let even = self.prng.below(ONE);
        let cube = (u128::from(even) * u128::from(even) * u128::from(even)) >> 40;
        ((cube * u128::from(length)) >> 20) as u64
    }

    /// The file is compiled: its memory is freed, what was made stays.
    fn end(&mut self, compiler: Compiler, mut now_ns: u64) -> u64 {
        for page in compiler.pages {
            self.memory.free(page);
        }
        let mut ahead = Readahead::default();
        for _ in 0..self.build.output_pages {
            let page = self.new_page(false);
            self.outputs.push(page);
            let index = self.outputs.len() as u64 - 1;
            now_ns = self.memory.touch(&self.outputs, index, &mut ahead, Touch::Write, now_ns);
        }
        now_ns
    }

    /// Reads all that was made.
    fn link(&mut self, mut now_ns: u64) -> u64 {
        let mut ahead = Readahead::default();
        for index in 0..self.outputs.len() as u64 {
            now_ns = self.memory.touch(&self.outputs, index, &mut ahead, Touch::Read, now_ns);
        }
        now_ns
    }
}
