//! One seed from start to verdict.

use crate::case::Case;
use crate::check;
use crate::executor::Stop;
use crate::files;
use crate::lending::Spare;
use crate::options::{FILE_SLOTS_MAX, FILES_ADDED_MAX, FILES_MAX, Mix, READAHEAD_MAX};
use crate::processes::Processes;
use crate::program;
use crate::seam::SimSupervisor;
use crate::supervisor::{self, Unclaimed};
use crate::world::World;
use std::collections::BTreeMap;
use std::rc::Rc;
use uswap_core::counters::COUNTERS;
use uswap_core::file_key::FILE_KEY_BYTES;
use uswap_core::files::slots_of_all;
use uswap_core::segment::{Geometry, Segment};
use uswap_engine::reaper::drop_mm;
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::{Bytes, Prng};

/// A seed that takes more turns than this, for each 512 pages that a process may have, does not end.
const POLLS_MAX: u64 = 4_000_000;
/// The same for each simulated hour of a long run.
const POLLS_AN_HOUR_MAX: u64 = 60_000_000;

/// The tables are looked at after so many turns.
const CHECK_EVERY_POLLS: u64 = 4096;

/// The outcome of one seed.
#[derive(Debug)]
pub struct Outcome {
    /// What went wrong.
    pub failure: Option<String>,
    /// Hash of everything that happened.
    pub trace_hash: u64,
    /// Everything that happened, if it was asked for.
    pub trace: Option<String>,
    /// How often each thing happened.
    pub tally: BTreeMap<&'static str, u64>,
}

/// Memory for the shared tables, and what processes work with; reused by all seeds of a thread.
pub struct Arena {
    words: Vec<AtomicU64>,
    spare: Rc<Spare>,
}

impl Default for Arena {
    fn default() -> Self {
        let largest = Geometry {
            mms: 12,
            tables: 96,
            entries: 2048,
            zspages: 32,
            slots: slots_of_all([FILE_SLOTS_MAX; FILES_MAX + FILES_ADDED_MAX]),
            readahead: READAHEAD_MAX,
        };
        let words = (0..largest.layout().total_words()).map(|_| AtomicU64::new(0)).collect();
        Arena { words, spare: Rc::default() }
    }
}

/// Whether the trace is kept as text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// Only its hash.
    Hash,
    /// One line an event.
    Lines,
}

/// The key of a simulated swap file. Of a sequence of its own.
fn file_key(seed: u64) -> [u8; FILE_KEY_BYTES] {
    let mut prng = Prng::new(seed ^ 0x5EA1_5EA1_5EA1_5EA1);
    core::array::from_fn(|_| prng.next_u64() as u8)
}

/// Runs a seed.
pub fn run_seed(arena: &mut Arena, seed: u64, mix: Mix, keep: Keep) -> Outcome {
    run_case(arena, &Case::of_seed(seed, mix), keep)
}

/// Runs a seed without what was taken away from it.
pub fn run_case(arena: &mut Arena, case: &Case, keep: Keep) -> Outcome {
    for word in &arena.words {
        word.store(0, Ordering::Relaxed);
    }
    let (options, prng) = case.start();
    let segment = Segment::create(&arena.words, options.geometry);
    segment.file_key().set(file_key(case.seed));
    segment.budget().set_ram(Bytes::of_pages(options.ram_pages));
    segment.pool().set_limit_bytes(options.pool_bytes);
    for file in options.files() {
        let added = segment.slots().add_file(file.spec);
        added.expect("the geometry was made for these files");
    }
    let lines = (keep == Keep::Lines).then(String::new);
    let world = Rc::new(World::new(segment, options, prng, arena.spare.clone(), lines));
    world.note(format_args!("{options:?}"));
    let processes = Rc::new(Processes::new(world.clone()));
    play(&processes);
    let (trace_hash, trace) = world.trace();
    let mut tally = world.tally.take();
    for counter in COUNTERS {
        tally.insert(counter.name, segment.counters().get(counter.counter));
    }
    tally.insert("polls", world.executor.polls());
    world.executor.clear();
    for process in processes.take() {
        process.forget_space();
        arena.spare.take_back(&process.workspaces, &process.evictors);
    }
    Outcome { failure: world.failure(), trace_hash, trace, tally }
}

fn play(processes: &Rc<Processes<'_>>) {
    let world = &processes.world;
    for _ in 0..world.options.processes {
        assert!(program::start(processes), "the first processes find a record and a table page");
    }
    let executor = &world.executor;
    executor.spawn("measure", None, world.slowness(), supervisor::measure(processes.clone()));
    executor.spawn("shrink", None, world.slowness(), supervisor::shrink(world.clone()));
    executor.spawn("readahead", None, world.slowness(), supervisor::read_ahead(world.clone()));
    executor.spawn("reap", None, world.slowness(), supervisor::reap(processes.clone()));
    executor.spawn("kill", None, 1, supervisor::kill(processes.clone()));
    if let Some(soak) = world.options.soak {
        executor.spawn("start", None, 1, supervisor::start(processes.clone(), soak));
    }
    if world.options.file_changes > 0 {
        executor.spawn("files", None, world.slowness(), files::change(world.clone()));
    }
    run_until(processes, || processes.alive().iter().all(|process| process.threads_running.get() == 0));
    // The last look needs no pressure: every page may come home.
    world.segment.budget().set_ram(Bytes::new(1 << 40));
    for process in processes.alive() {
        process.threads_running.set(1);
        executor.spawn("verify", Some(process.number), 1, program::read_all_pages(world.clone(), process));
    }
    run_until(processes, || processes.alive().iter().all(|process| process.threads_running.get() == 0));
    world.stopping.set(true);
    run_until(processes, || executor.is_idle());
    if world.failure().is_some() {
        return;
    }
    supervisor::reap_now(processes, &mut Unclaimed::new());
    check::at_rest(processes);
    for record in world.segment.mms().in_use() {
        drop_mm(world.segment, &SimSupervisor { world }, record.id());
    }
    check::at_the_end(processes);
}

fn run_until(processes: &Processes<'_>, reached: impl Fn() -> bool) {
    let world = &processes.world;
    let mut next_check = world.executor.polls() + CHECK_EVERY_POLLS;
    let mut failed = world.failure().is_some();
    let mut since = u64::MAX;
    let hours = world.options.soak.map_or(0, |soak| soak.until_ns / 3_600_000_000_000);
    let polls_max = POLLS_MAX * world.options.zone_pages.div_ceil(512) + hours * POLLS_AN_HOUR_MAX;
    let stop = world.executor.run(&world.prng, polls_max, || {
        if world.executor.polls() >= next_check {
            next_check = world.executor.polls() + CHECK_EVERY_POLLS;
            check::at_any_moment(processes);
        }
        // The condition is dear: it is looked at only now and then.
        since = since.wrapping_add(1);
        failed |= world.failure().is_some();
        failed || (since.is_multiple_of(64) && reached())
    });
    if stop != Stop::Reached && !reached() {
        world.fail(format!("{stop:?} after {} turns:\n{}", world.executor.polls(), world.executor.report()));
    }
}
