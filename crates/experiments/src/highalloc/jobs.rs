//! Build jobs, a copy of trees, and what always runs: what they ask of memory and of the disk. A stated model of `make`
//! on the kernel's sources, not a recording.
//!
//! A job compiles one file after the other. For each there is a process that reads the source and headers, fills memory
//! over most of its time, writes the object, and ends. Half of its memory may be huge pages. What the kernel needs
//! beside that cannot be moved: page tables, a stack, a page that describes 32 pages of files.

use std::collections::VecDeque;

use uswap_units::Prng;
use uswap_zones::FrameId;
use uswap_zones::{BLOCK_FRAMES, Mobility, ORDER_MAX};

use super::memory::{Kind, NO_FRAME, SWAPPED};
use super::prices;
use super::system::System;
use super::turn::{Then, Turn};

/// Pages of the sources of a tree, 400 MiB.
pub const TREE_PAGES: u32 = 102_400;
/// Pages of what a build writes.
pub const OUTPUT_PAGES: u32 = 65_536;
/// Headers that all files of a tree use: 30 MiB.
const HEADER_PAGES: u32 = 7_680;
/// Of those, what one file reads.
const HEADERS_READ: u32 = 500;
/// A source file with what only it includes.
const SOURCE_PAGES: u32 = 60;
const OBJECT_PAGES: u32 = 40;
/// Pages that are read at once.
const READ_AHEAD: u32 = 32;
/// Half of the memory of a process, in 2 MiB pieces, may be huge.
const HUGE_IN: u64 = 2;

/// One process that compiles one file.
struct Unit {
    space: u32,
    /// Milliseconds of a CPU.
    length: u32,
    done: u32,
    pages: u32,
    filled: u32,
    /// What the kernel has for it.
    pinned: Vec<FrameId>,
    source: u32,
    sources_read: u32,
}

/// One build.
pub struct Job {
    /// The files of its tree.
    tree: u32,
    cpu: u32,
    prng: Prng,
    unit: Option<Unit>,
    next_source: u32,
    next_output: u32,
}

impl Job {
    /// A build of a tree of files.
    pub fn new(tree: u32, cpu: u32, seed: u64) -> Job {
        Job { tree, cpu, prng: Prng::new(seed), unit: None, next_source: HEADER_PAGES, next_output: 0 }
    }

    fn take_pinned(&mut self, system: &mut System<'_>, order: u32, now: u64) -> u64 {
        let (frame, ns) = system.take(order, Mobility::Unmovable, self.cpu, now);
        if let Some(unit) = &mut self.unit {
            unit.pinned.extend(frame);
        }
        ns
    }

    fn begin(&mut self, system: &mut System<'_>, now: u64) -> u64 {
        let pages = 6_000 + self.prng.below(6_000) as u32;
        let space = system.memory.add_space(Kind::Process, pages.next_multiple_of(BLOCK_FRAMES) as usize);
        let length = 600 + self.prng.below(800) as u32;
        let source = self.next_source;
        self.next_source =
            if source + 2 * SOURCE_PAGES < TREE_PAGES { source + SOURCE_PAGES } else { HEADER_PAGES };
        let unit =
            Unit { space, length, done: 0, pages, filled: 0, pinned: Vec::new(), source, sources_read: 0 };
        self.unit = Some(unit);
        // A stack, and the upper tables.
        let mut ns = self.take_pinned(system, 2, now);
        for _ in 0..8 {
            ns += self.take_pinned(system, 0, now);
        }
        ns
    }

    /// One millisecond of work, more if memory has to be made.
    pub fn turn(&mut self, system: &mut System<'_>, now: u64) -> Turn {
        let mut ns = prices::QUANTUM_NS;
        if self.unit.is_none() {
            ns += self.begin(system, now);
        }
        if let Some(at) = self.read(system, now, &mut ns) {
            return Turn::of(ns - prices::QUANTUM_NS + prices::WAKE_NS, Then::At(at));
        }
        ns += self.fill(system, now);
        if let Some(at) = self.use_memory(system, now) {
            return Turn::of(ns, Then::At(at));
        }
        system.memory.counts.work_ms += 1;
        let unit = self.unit.as_mut().expect("there is one");
        unit.done += 1;
        if unit.done >= unit.length {
            ns += self.end(system, now);
        }
        Turn::of(ns, Then::GoOn)
    }

    /// Reads what the next millisecond needs. Some: it has to wait for the disk until then.
    fn read(&mut self, system: &mut System<'_>, now: u64, ns: &mut u64) -> Option<u64> {
        let tree = self.tree;
        let unit = self.unit.as_mut().expect("there is one");
        let third = unit.length / 3;
        if unit.done >= third {
            return None;
        }
        // A few pages of the source, more of headers, some headers more often than others.
        let (first, until) = (unit.sources_read, (unit.done + 1) * SOURCE_PAGES / third);
        let mut wanted: Vec<u32> = (first..until).map(|page| unit.source + page).collect();
        unit.sources_read = until.max(first);
        let headers = (unit.done + 1) * HEADERS_READ / third - unit.done * HEADERS_READ / third;
        for _ in 0..headers {
            let below = |prng: &mut Prng| prng.below(u64::from(HEADER_PAGES)) as u32;
            wanted.push(below(&mut self.prng).min(below(&mut self.prng)));
        }
        let mut at = None;
        for page in wanted {
            if !system.memory.touch(tree, page) {
                let start = page / READ_AHEAD * READ_AHEAD;
                at = Some(read_file(
                    system,
                    tree,
                    start,
                    READ_AHEAD.min(TREE_PAGES - start),
                    self.cpu,
                    now,
                    ns,
                ));
                system.memory.touch(tree, page);
            }
        }
        at
    }

    /// Touches new memory, over four fifths of its time.
    fn fill(&mut self, system: &mut System<'_>, now: u64) -> u64 {
        let unit = self.unit.as_ref().expect("there is one");
        let until = (unit.pages * (unit.done + 1) * 5 / 4 / unit.length).min(unit.pages);
        let (space, mut at, mut ns) = (unit.space, unit.filled, 0);
        while at < until {
            if at.is_multiple_of(BLOCK_FRAMES) {
                ns += self.take_pinned(system, 0, now);
                if self.prng.chance(1, HUGE_IN) {
                    let (huge, took) = system.take_huge(self.cpu);
                    ns += took;
                    if let Some(frame) = huge {
                        system.memory.put_page(space, at, frame, ORDER_MAX);
                        at += BLOCK_FRAMES;
                        continue;
                    }
                }
            }
            let (frame, took) = system.take(0, Mobility::Movable, self.cpu, now);
            ns += took;
            let Some(frame) = frame else { break };
            system.memory.put_page(space, at, frame, 0);
            at += 1;
        }
        self.unit.as_mut().expect("there is one").filled = at;
        ns
    }

    /// Uses some of its memory again; what was written out has to be read.
    fn use_memory(&mut self, system: &mut System<'_>, now: u64) -> Option<u64> {
        let unit = self.unit.as_ref().expect("there is one");
        let (space, filled) = (unit.space, unit.filled);
        let mut at = None;
        for _ in 0..50 {
            if filled == 0 {
                break;
            }
            let page = self.prng.below(u64::from(filled)) as u32;
            if !system.memory.touch(space, page)
                && system.memory.space(space).frames[page as usize] == SWAPPED
            {
                let (frame, _) = system.take(0, Mobility::Movable, self.cpu, now);
                if let Some(frame) = frame {
                    system.memory.put_page(space, page, frame, 0);
                    at = Some(system.memory.disk.read(now, 1));
                }
            }
        }
        at
    }

    fn end(&mut self, system: &mut System<'_>, now: u64) -> u64 {
        let mut ns = 0;
        for page in 0..OBJECT_PAGES {
            let index = TREE_PAGES + (self.next_output + page) % OUTPUT_PAGES;
            ns += write_file(system, self.tree, index, self.cpu, now);
        }
        self.next_output += OBJECT_PAGES;
        system.memory.counts.units += 1;
        self.stop(system);
        ns
    }

    /// The process ends.
    pub fn stop(&mut self, system: &mut System<'_>) {
        if let Some(unit) = self.unit.take() {
            system.memory.remove_space(unit.space);
            unit.pinned.into_iter().for_each(|frame| system.memory.node.give_back(self.cpu, frame));
        }
    }
}

/// A page of a file gets a frame. False: there is none. Adds to `ns` what that took beyond the usual.
pub fn cache_page(system: &mut System<'_>, space: u32, page: u32, cpu: u32, now: u64, ns: &mut u64) -> bool {
    if system.memory.slab_is_needed() {
        let (frame, took) = system.take(0, Mobility::Reclaimable, cpu, now);
        *ns += took;
        frame.into_iter().for_each(|frame| system.memory.add_slab(frame));
    }
    let (frame, took) = system.take(0, Mobility::Movable, cpu, now);
    *ns += took;
    frame.into_iter().for_each(|frame| system.memory.put_page(space, page, frame, 0));
    frame.is_some()
}

/// Reads neighbouring pages of a file that are not in memory. Returns when they are there.
pub fn read_file(
    system: &mut System<'_>,
    space: u32,
    first: u32,
    count: u32,
    cpu: u32,
    now: u64,
    ns: &mut u64,
) -> u64 {
    for page in first..first + count {
        if system.memory.space(space).frames[page as usize] >= NO_FRAME {
            cache_page(system, space, page, cpu, now, ns);
        }
    }
    system.memory.disk.read(now, u64::from(count))
}

/// Writes a page of a file: it is dirty in memory.
pub fn write_file(system: &mut System<'_>, space: u32, page: u32, cpu: u32, now: u64) -> u64 {
    let mut ns = 0;
    if system.memory.space(space).frames[page as usize] >= NO_FRAME {
        cache_page(system, space, page, cpu, now, &mut ns);
    }
    system.memory.make_dirty(space, page);
    ns
}

/// What runs on every machine: programs and the kernel's own memory, of which a little is given back and asked for
/// again all the time.
pub struct Background {
    programs: u32,
    program_pages: u32,
    kernel: VecDeque<FrameId>,
    prng: Prng,
}

/// Pages of programs that always run: 100 MiB.
const PROGRAM_PAGES: u32 = 25_600;
/// Pages of the kernel that come and go, 32 MiB.
const KERNEL_PAGES: u32 = 8_192;
/// Blocks of the kernel that stay: 64 MiB, the image and the description of frames.
const KERNEL_BLOCKS: u32 = 32;
/// So often a part of it changes.
const CHANGE_NS: u64 = 20_000_000;
/// Pages of programs that change then: 50 a second.
const PROGRAM_PAGES_CHANGED: u32 = 1;

impl Background {
    /// The machine has just started. What it uses is divided by `smaller`.
    pub fn new(system: &mut System<'_>, seed: u64, smaller: u32) -> Background {
        let program_pages = PROGRAM_PAGES / smaller;
        for _ in 0..KERNEL_BLOCKS / smaller {
            for _ in 0..BLOCK_FRAMES >> 3 {
                system.take(3, Mobility::Unmovable, 0, 0);
            }
        }
        let kernel =
            (0..KERNEL_PAGES / smaller).filter_map(|_| system.take(0, Mobility::Unmovable, 0, 0).0).collect();
        let programs = system.memory.add_space(Kind::Process, program_pages as usize);
        let mut background = Background { programs, program_pages, kernel, prng: Prng::new(seed) };
        (0..program_pages).for_each(|page| {
            background.fill(system, page, 0);
        });
        background
    }

    fn fill(&mut self, system: &mut System<'_>, page: u32, now: u64) -> u64 {
        let (frame, ns) = system.take(0, Mobility::Movable, 0, now);
        frame.into_iter().for_each(|frame| system.memory.put_page(self.programs, page, frame, 0));
        ns
    }

    /// A little changes.
    pub fn turn(&mut self, system: &mut System<'_>, now: u64) -> Turn {
        let mut ns = prices::WAKE_NS;
        for _ in 0..PROGRAM_PAGES_CHANGED {
            let page = self.prng.below(u64::from(self.program_pages)) as u32;
            system.memory.drop_page(self.programs, page);
            ns += self.fill(system, page, now);
        }
        for _ in 0..8 {
            let page = self.prng.below(u64::from(self.program_pages)) as u32;
            system.memory.touch(self.programs, page);
        }
        if self.prng.chance(1, 5)
            && let Some(place) =
                (!self.kernel.is_empty()).then(|| self.prng.below(self.kernel.len() as u64) as usize)
        {
            system.memory.node.give_back(0, self.kernel.swap_remove_back(place).expect("it is there"));
            let (frame, took) = system.take(0, Mobility::Unmovable, 0, now);
            self.kernel.extend(frame);
            ns += took;
        }
        Turn::of(ns, Then::At(now + CHANGE_NS))
    }
}
