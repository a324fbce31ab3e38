//! The clock, four CPUs, and the course of the benchmark: copies and builds, two tests under load, one at rest.
//!
//! Everybody does a piece of work of about a millisecond at once and whole; its time is reckoned, and then the next one
//! goes on whose time has come. kswapd, kcompactd and the test have a CPU as soon as they want one, as who sleeps much
//! has on Linux; jobs wait for one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Serialize;
use uswap_sync::AtomicU64;
use uswap_units::Prng;
use uswap_zones::FrameId;
use uswap_zones::marks::{Mixing, Spacing, kept_for_lower, marks, min_free_kib};
use uswap_zones::node::{Node, Patience};
use uswap_zones::tickets::{TICKETS_MAX, Tickets};
use uswap_zones::{BLOCK_FRAMES, Shape, Zone};

use super::counts::Counts;
use super::jobs::{Background, Job, OUTPUT_PAGES, TREE_PAGES, cache_page, read_file, write_file};
use super::memory::{Kind, Memory, NO_FRAME};
use super::system::{BlockRequest, Got, System};
use super::turn::{Then, Turn};
use super::{Column, prices};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
/// 2 MiB at 16 MB/s.
const PERIOD_NS: u64 = 125 * MS;

/// How large the machine is, and how long things take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// Blocks of the three zones.
    pub blocks: [u32; 3],
    /// Builds, of a tree each.
    pub jobs: u32,
    /// From the start of the last build to the first test.
    pub wait_s: u64,
    /// From the second test to the end of the builds.
    pub rest_s: u64,
    /// Memory that is always used is divided by it.
    pub smaller: u32,
    /// Seeds of each column.
    pub seeds: u64,
}

impl Size {
    /// As published: 4 GiB, 11 builds.
    pub const FULL: Size =
        Size { blocks: [8, 1528, 512], jobs: 11, wait_s: 300, rest_s: 180, smaller: 1, seeds: 5 };
    /// An eighth, for tests.
    pub const SHORT: Size =
        Size { blocks: [4, 188, 64], jobs: 2, wait_s: 10, rest_s: 5, smaller: 8, seeds: 1 };

    fn all_blocks(&self) -> u32 {
        self.blocks.iter().sum()
    }
    fn frames(&self) -> u32 {
        self.all_blocks() * BLOCK_FRAMES
    }
    fn shapes(&self) -> [Shape; 3] {
        let mut first = 0;
        self.blocks.map(|blocks| {
            let shape = Shape { first: FrameId::new(first * BLOCK_FRAMES), blocks, cpus: CPUS as u32 };
            first += blocks;
            shape
        })
    }
}

const CPUS: usize = 4;

/// What one test has shown.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Test {
    /// Requests.
    pub attempts: u64,
    /// Those that were served.
    pub successes: u64,
    /// How long each of those took, in microseconds, sorted.
    pub latencies_us: Vec<u64>,
}

impl Test {
    /// Whole percent, as the report of mmtests.
    #[must_use]
    pub fn percent(&self) -> u64 {
        (self.successes * 100).checked_div(self.attempts).unwrap_or(0)
    }
    /// The time that so many of 100 successes did not exceed.
    #[must_use]
    pub fn latency_us(&self, percent: usize) -> u64 {
        let below = (self.latencies_us.len() * percent).div_ceil(100);
        self.latencies_us.get(below.saturating_sub(1)).copied().unwrap_or(0)
    }
}

/// What one run has shown.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The three phases.
    pub tests: Vec<Test>,
    /// Counters over the whole run.
    pub counts: Counts,
    /// Work of the jobs until they were stopped, in milliseconds of a CPU, for each second.
    pub work_ms_per_s: f64,
    /// Blocks with something that cannot be moved, of all, when the third phase begins: no way to make room gets at
    /// them.
    pub pinned_blocks: u32,
    /// All blocks.
    pub blocks: u32,
    /// Made-up time.
    pub elapsed_s: f64,
    /// Pages read from the disk.
    pub pages_read: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Actor {
    Kswapd,
    Kcompactd,
    Test,
    Background,
    Flusher,
    Copier,
    Job(usize),
}

impl Actor {
    fn number(self) -> usize {
        match self {
            Actor::Kswapd => 0,
            Actor::Kcompactd => 1,
            Actor::Test => 2,
            Actor::Background => 3,
            Actor::Flusher => 4,
            Actor::Copier => 5,
            Actor::Job(job) => 6 + job,
        }
    }
    fn is_at_once(self) -> bool {
        matches!(self, Actor::Kswapd | Actor::Kcompactd | Actor::Test | Actor::Background | Actor::Flusher)
    }
}

/// Copies trees, then files one after the other.
struct Copier {
    from: u32,
    trees: Vec<u32>,
    next_tree: usize,
    next_page: u32,
}

/// A test on its way.
struct Testing {
    patience: Patience,
    left: u64,
    start: u64,
    request: Option<BlockRequest>,
    is_waiting: bool,
    kept: Vec<FrameId>,
    result: Test,
}

struct World<'a> {
    size: Size,
    system: System<'a>,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Actor)>>,
    sequence: u64,
    /// When each is to go on; other events of it are stale.
    due: Vec<u64>,
    cpus: [u64; CPUS],
    jobs: Vec<Option<Job>>,
    background: Option<Background>,
    copier: Option<Copier>,
    testing: Option<Testing>,
    prng: Prng,
    is_before: bool,
    old_files: Option<u32>,
}

/// Runs the benchmark once.
#[must_use]
pub fn run(column: Column, patience: Patience, size: Size, seed: u64) -> Outcome {
    let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
    let shapes = size.shapes();
    let words = shapes.map(|shape| zeros(shape.words()));
    let tickets = zeros(TICKETS_MAX);
    let zones = words.iter().zip(shapes).map(|(words, shape)| Zone::create(words, shape));
    let node = Node::new(zones, Tickets::open(&tickets));
    let actors = Actor::Job(size.jobs as usize).number();
    let world = World {
        size,
        system: System::new(Memory::new(node, seed), column),
        now: 0,
        events: BinaryHeap::new(),
        sequence: 0,
        due: vec![u64::MAX; actors],
        cpus: [0; CPUS],
        jobs: (0..size.jobs).map(|_| None).collect(),
        background: None,
        copier: None,
        testing: None,
        prng: Prng::new(seed),
        is_before: column != Column::Ours,
        old_files: None,
    };
    world.set_marks(min_free_kib(u64::from(size.frames()) * 4));
    world.course(patience)
}

impl World<'_> {
    fn set_marks(&self, kib: u64) {
        let frames: Vec<u64> = self.size.shapes().iter().map(|shape| u64::from(shape.frames())).collect();
        let all: u64 = frames.iter().sum();
        for (number, zone) in self.system.memory.node.zones().enumerate() {
            let min = kib / 4 * frames[number] / all;
            let (spacing, mixing) = if self.is_before {
                (Spacing::Before, Mixing::Careless)
            } else {
                (Spacing::Now, Mixing::Sparing)
            };
            zone.set_marks(marks(frames[number], min, spacing), kept_for_lower(&frames, number), mixing);
        }
    }

    /// From the start of the machine to the end of the third phase.
    fn course(mut self, patience: Patience) -> Outcome {
        let seed = self.prng.next_u64();
        self.background = Some(Background::new(&mut self.system, seed, self.size.smaller));
        self.at(Actor::Background, 0);
        for actor in [Actor::Flusher, Actor::Kswapd, Actor::Kcompactd] {
            self.at(actor, 0);
        }
        self.age();
        let pages = (TREE_PAGES + OUTPUT_PAGES) as usize;
        let trees: Vec<u32> =
            (0..self.size.jobs).map(|_| self.system.memory.add_space(Kind::File, pages)).collect();
        self.start_job(0, trees[0]);
        self.copier = Some(Copier { from: trees[0], trees: trees.clone(), next_tree: 1, next_page: 0 });
        self.at(Actor::Copier, 0);
        while self.copier.is_some() {
            self.step();
        }
        self.run_for(self.size.wait_s * SECOND);
        let first = self.test(patience);
        self.run_for(5 * SECOND);
        let second = self.test(patience);
        self.run_for(5 * SECOND + self.size.rest_s * SECOND);
        let work_ms_per_s = self.system.memory.counts.work_ms as f64 / (self.now as f64 / SECOND as f64);
        self.stop_jobs(&trees);
        self.large_file();
        self.system.memory.drop_caches();
        self.set_marks(1024);
        let pinned_blocks = self.system.memory.blocks_with_pinned();
        let third = self.test(patience);
        self.system.memory.check();
        Outcome {
            tests: vec![first, second, third],
            counts: self.system.counts(),
            work_ms_per_s,
            pinned_blocks,
            blocks: self.size.all_blocks(),
            elapsed_s: self.now as f64 / SECOND as f64,
            pages_read: self.system.memory.disk.read,
        }
    }

    /// The machine has been up for a while: files of one and a half times its memory were read in random order, 32 KiB
    /// at a time, until that was twice its memory. Otherwise pages would lie in memory in the order in which they are
    /// reclaimed.
    fn age(&mut self) {
        const PIECE: u32 = 8;
        let pages = self.size.frames() / 2 * 3;
        let files = self.system.memory.add_space(Kind::File, pages as usize);
        for piece in 0..self.size.frames() * 2 / PIECE {
            let first = self.prng.below(u64::from(pages / PIECE)) as u32 * PIECE;
            for page in first..first + PIECE {
                if !self.system.memory.touch(files, page) {
                    cache_page(&mut self.system, files, page, piece % CPUS as u32, self.now, &mut 0);
                }
            }
            self.run_for(MS / 5);
        }
        self.old_files = Some(files);
    }

    fn start_job(&mut self, number: usize, tree: u32) {
        self.jobs[number] = Some(Job::new(tree, (number % CPUS) as u32, self.prng.next_u64()));
        self.at(Actor::Job(number), self.now);
    }
    fn stop_jobs(&mut self, trees: &[u32]) {
        for number in 0..self.jobs.len() {
            self.due[Actor::Job(number).number()] = u64::MAX;
            if let Some(mut job) = self.jobs[number].take() {
                job.stop(&mut self.system);
            }
        }
        trees.iter().copied().chain(self.old_files).for_each(|space| self.system.memory.remove_space(space));
    }

    /// A file as large as memory is written, read and deleted.
    fn large_file(&mut self) {
        let pages = self.size.frames();
        let file = self.system.memory.add_space(Kind::File, pages as usize);
        for first in (0..pages).step_by(256) {
            for page in first..(first + 256).min(pages) {
                write_file(&mut self.system, file, page, 0, self.now);
            }
            self.run_for(MS);
            while self.is_too_dirty() {
                self.run_for(10 * MS);
            }
        }
        for first in (0..pages).step_by(256) {
            let (count, mut ns) = (256.min(pages - first), 0);
            let is_there = |page: u32| self.system.memory.space(file).frames[page as usize] < NO_FRAME;
            let until = if (first..first + count).all(is_there) {
                self.now + MS
            } else {
                read_file(&mut self.system, file, first, count, 0, self.now, &mut ns)
            };
            self.run_for(until - self.now + ns);
        }
        while self.system.memory.dirty_pages() > 0 {
            self.run_for(10 * MS);
        }
        self.run_for(SECOND);
        self.system.memory.remove_space(file);
    }
    fn is_too_dirty(&self) -> bool {
        self.system.memory.dirty_pages() * 5 > u64::from(self.size.frames())
    }

    fn test(&mut self, patience: Patience) -> Test {
        let attempts = u64::from(self.size.all_blocks()) * 95 / 100;
        self.testing = Some(Testing {
            patience,
            left: attempts,
            start: self.now,
            request: None,
            is_waiting: false,
            kept: Vec::new(),
            result: Test { attempts, ..Test::default() },
        });
        self.at(Actor::Test, self.now);
        while self.testing.as_ref().is_some_and(|testing| testing.left > 0) {
            self.step();
        }
        self.due[Actor::Test.number()] = u64::MAX;
        let mut testing = self.testing.take().expect("it was made above");
        self.system.end_test();
        testing.kept.drain(..).for_each(|frame| self.system.free_block(frame));
        testing.result.latencies_us.sort_unstable();
        testing.result
    }

    fn at(&mut self, actor: Actor, time: u64) {
        self.due[actor.number()] = time;
        self.sequence += 1;
        self.events.push(Reverse((time, self.sequence, actor)));
    }
    fn run_for(&mut self, ns: u64) {
        let end = self.now + ns;
        while self.events.peek().is_some_and(|Reverse((time, _, _))| *time <= end) {
            self.step();
        }
        self.now = end;
    }
    /// The next event.
    fn step(&mut self) {
        let Reverse((time, _, actor)) = self.events.pop().expect("the flusher always has one");
        if self.due[actor.number()] != time {
            return;
        }
        self.now = self.now.max(time);
        self.due[actor.number()] = u64::MAX;
        let cpu = (0..CPUS).min_by_key(|&cpu| self.cpus[cpu]).expect("there are some");
        let start = if actor.is_at_once() { self.now } else { self.now.max(self.cpus[cpu]) };
        self.system.memory.end_writes(start);
        let turn = self.turn(actor, start);
        self.cpus[cpu] = self.cpus[cpu].max(self.now) + turn.ns;
        match turn.then {
            Then::GoOn => self.at(actor, start + turn.ns),
            Then::At(time) => self.at(actor, time.max(start + turn.ns)),
            Then::Sleep => (),
        }
        self.wake(actor, start + turn.ns);
    }

    fn wake(&mut self, by: Actor, done: u64) {
        // What was asked while somebody worked was asked at its start at the earliest.
        let at = if by == Actor::Kswapd { done } else { self.now };
        if core::mem::take(&mut self.system.kswapd_is_woken) {
            self.at(Actor::Kswapd, at);
        }
        if core::mem::take(&mut self.system.kcompactd_is_woken) {
            self.at(Actor::Kcompactd, at);
        }
        let is_waiting = self.testing.as_ref().is_some_and(|testing| testing.is_waiting);
        if by == Actor::Kcompactd && is_waiting && self.system.memory.node.tickets().filled() > 0 {
            self.at(Actor::Test, done);
        }
    }

    fn turn(&mut self, actor: Actor, now: u64) -> Turn {
        match actor {
            Actor::Kswapd => self.system.kswapd_turn(now),
            Actor::Kcompactd => self.system.kcompactd_turn(now),
            Actor::Test => self.test_turn(now),
            Actor::Background => {
                let background = self.background.as_mut().expect("it always runs");
                background.turn(&mut self.system, now)
            }
            Actor::Flusher => match self.system.memory.write_some(now, 256) {
                Some(end) => Turn::of(prices::WAKE_NS, Then::At(end)),
                None => Turn::of(0, Then::At(now + 100 * MS)),
            },
            Actor::Copier => self.copy(now),
            Actor::Job(number) => match &mut self.jobs[number] {
                Some(job) => job.turn(&mut self.system, now),
                None => Turn::of(0, Then::Sleep),
            },
        }
    }

    fn copy(&mut self, now: u64) -> Turn {
        if self.is_too_dirty() {
            return Turn::of(0, Then::At(now + 20 * MS));
        }
        let Some(copier) = &mut self.copier else { return Turn::of(0, Then::Sleep) };
        let Some(&tree) = copier.trees.get(copier.next_tree) else {
            self.copier = None;
            return Turn::of(0, Then::Sleep);
        };
        let (from, first) = (copier.from, copier.next_page);
        copier.next_page += 32;
        if copier.next_page >= TREE_PAGES {
            copier.next_page = 0;
            copier.next_tree += 1;
        }
        let (is_done, number) = (copier.next_page == 0, copier.next_tree - 1);
        let (mut ns, mut at) = (0, now);
        let pages = first..(first + 32).min(TREE_PAGES);
        if pages.clone().any(|page| self.system.memory.space(from).frames[page as usize] >= NO_FRAME) {
            at = read_file(&mut self.system, from, first, pages.len() as u32, 0, now, &mut ns);
        }
        for page in pages {
            self.system.memory.touch(from, page);
            ns += 3000 + write_file(&mut self.system, tree, page, 0, now);
        }
        if is_done {
            self.start_job(number, tree);
        }
        Turn::of(ns, Then::At(at))
    }

    fn test_turn(&mut self, now: u64) -> Turn {
        let Some(testing) = &mut self.testing else { return Turn::of(0, Then::Sleep) };
        let mut request = testing.request.take().unwrap_or_else(|| {
            testing.start = now;
            System::begin_block(testing.patience)
        });
        testing.is_waiting = false;
        let (got, ns) = self.system.next_block(&mut request, now);
        if let Got::WaitUntil(time) = got {
            (testing.request, testing.is_waiting) = (Some(request), true);
            return Turn::of(ns, Then::At(time));
        }
        testing.left -= 1;
        if let Got::Frame(frame) = got {
            testing.kept.push(frame);
            testing.result.successes += 1;
            testing.result.latencies_us.push((now + ns - testing.start) / 1000);
        }
        Turn::of(ns, Then::At(testing.start + PERIOD_NS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_run() {
        let [first, second] = [3, 3].map(|seed| run(Column::Ours, Patience::MayNot, Size::SHORT, seed));
        assert_eq!(format!("{first:?}"), format!("{second:?}"));
    }
}
