//! The supervisor's tasks: measuring memory, writing the pool back, cleaning up after the dead, and, for the test's
//! sake, killing and starting processes.

use crate::files;
use crate::options::Soak;
use crate::processes::Processes;
use crate::program;
use crate::seam::SimSupervisor;
use crate::world::World;
use std::collections::BTreeMap;
use std::rc::Rc;
use uswap_core::balance::Headroom;
use uswap_core::budget::{Fullness, Signal};
use uswap_core::mm::{MmRecord, MmState};
use uswap_engine::fault::serve_readahead;
use uswap_engine::reaper::{drop_mm, trim_clusters};
use uswap_engine::world::FileBuffer;
use uswap_engine::writeback::aged::Marked;
use uswap_engine::writeback::schedule::{Pace, Step};
use uswap_engine::writeback::task::{self, Task, Tried};
use uswap_engine::writeback::{Batch, Shrinker};
use uswap_units::limits::{FILE_BUFFER_BYTES, WRITEBACK_BATCH_BYTES};
use uswap_units::{Bytes, MmId, PAGE_BYTES};

/// Measures what is used, and says when there is pressure.
pub async fn measure<'a>(processes: Rc<Processes<'a>>) {
    let world = &processes.world;
    let (segment, budget) = (world.segment, world.segment.budget());
    while !world.stopping.get() {
        let before = budget.used();
        let mut pages = 0;
        for process in processes.alive() {
            let resident = process.kernel.memory.borrow().resident_pages();
            if let Some(mm) = process.mm.get() {
                segment.mms().record(mm).set_resident_pages(resident);
            }
            pages += resident;
        }
        budget.set_measured(before, Bytes::new(pages * 4096 + segment.pool().resident_bytes()));
        let headroom = if world.below(4) == 0 { Headroom::Wide } else { Headroom::Narrow };
        budget.set_headroom(headroom);
        budget.note_file(segment.slots());
        if world.below(8) == 0 {
            segment.pool().set_compresses_densely(world.below(2) == 0);
        }
        if budget.used() > budget.watermarks().low {
            world.raise(Signal::Pressure);
        }
        world.executor.sleep((300_000 + world.below(1_500_000)) * world.options.calm()).await;
    }
}

/// More eager than the supervisor's, since a run is short.
const PACE: Pace = Pace { uncompressed_pages_min: 4, compact_every_ns: 4_000_000, idle_max_ns: 3_000_000 };

/// Writes the pool back: when it is nearly full, what is old when the user asks for that, and what does not compress.
pub async fn shrink<'a>(world: Rc<World<'a>>) {
    let mut buffer = vec![0; WRITEBACK_BATCH_BYTES];
    let mut work = Work { world: &world, marked: None, batch_bytes: 0 };
    task::run(world.segment, PACE, &SimSupervisor { world: &world }, &mut buffer, &mut work).await;
}

/// What the engine's loop finds here.
struct Work<'w, 'a> {
    world: &'w World<'a>,
    /// What was marked for the user, and when it is old enough.
    marked: Option<(Marked, u64)>,
    /// So much may the next batch take.
    batch_bytes: usize,
}

impl Task for Work<'_, '_> {
    fn is_stopping(&self) -> bool {
        self.world.stopping.get()
    }

    async fn empty_a_file(&mut self, shrinker: &mut Shrinker, buffer: &mut [u8]) -> bool {
        files::empty(self.world, shrinker, buffer).await
    }

    fn begin_step(&mut self) {
        self.batch_bytes = PAGE_BYTES * (1 + self.world.below(64) as usize);
    }

    /// Whether what was marked is old enough. Now and then something is marked.
    fn is_asked(&mut self) -> bool {
        let world = self.world;
        if self.marked.is_none() && world.below(6) == 0 {
            let age_ns = world.below(4_000_000 * world.options.calm());
            self.marked = Some((Marked::now(world.segment), world.executor.now_ns() + age_ns));
        }
        self.marked.as_ref().is_some_and(|(_, at_ns)| *at_ns <= world.executor.now_ns())
    }

    async fn write_asked(&mut self, shrinker: &mut Shrinker, buffer: &mut [u8]) {
        let world = self.world;
        let Some((marked, _)) = &mut self.marked else { return };
        let batch = shrinker.write_marked(world.segment, &SimSupervisor { world }, buffer, marked).await;
        world.note(format_args!("what is old: {batch:?}"));
        if let Batch::Written { blobs, .. } = batch {
            world.count("write-backs of what is old: blobs", u64::from(blobs));
        } else {
            self.marked = None;
        }
    }

    fn batch_bytes(&self, buffer_bytes: usize) -> usize {
        self.batch_bytes.min(buffer_bytes)
    }

    async fn follow(&mut self, tried: Tried) {
        if tried.step == Step::WriteUncompressed {
            self.world.note(format_args!("what does not compress: {:?}", tried.batch));
            self.world.executor.step().await;
        } else {
            follow_room(self.world, tried.batch, tried.seen).await;
        }
    }

    fn note_compaction(&mut self, bytes: u64) {
        self.world.count("compaction with room: bytes freed", bytes);
    }
}

/// What follows a batch that was to make room.
async fn follow_room(world: &World<'_>, batch: Batch, seen: u32) {
    let budget = world.segment.budget();
    world.note(format_args!("batch: {batch:?}"));
    match batch {
        Batch::Written { blobs, discarded } => {
            world.count("write-backs: blobs", u64::from(blobs));
            world.count("write-backs: clean copies given up", u64::from(discarded));
            world.executor.step().await;
        }
        Batch::Compacted { bytes } => {
            world.count("compaction: bytes freed", bytes);
            world.executor.step().await;
        }
        Batch::NothingToWrite => {
            budget.set_full(Fullness::Full);
            world.wait(Signal::Shrink, seen, 1_000_000 * world.options.calm()).await;
        }
        Batch::LeftToOthers { .. } => {
            world.count("write-backs: failed, and left to another file", 1);
            world.executor.step().await;
        }
        Batch::FilesFull | Batch::Failed { .. } => {
            world.count("write-backs: failed or no room", 1);
            budget.set_full(Fullness::Full);
            world.sleep_up_to(3_000_000 * world.options.calm()).await;
        }
    }
}

/// Reads the files ahead of faults.
pub async fn read_ahead<'a>(world: Rc<World<'a>>) {
    let budget = world.segment.budget();
    let mut buffer = Box::new(FileBuffer([0; FILE_BUFFER_BYTES]));
    while !world.stopping.get() {
        let seen = budget.signal_count(Signal::Readahead);
        let parts = serve_readahead(world.segment, &SimSupervisor { world: &world }, &mut buffer).await;
        world.count("parts of files read ahead", u64::from(parts));
        world.wait(Signal::Readahead, seen, 2_000_000 * world.options.calm()).await;
    }
}

/// When a forked child was first seen that nobody had claimed, and whose parent was gone.
pub type Unclaimed = BTreeMap<MmId, u64>;

/// Cleans up after processes that are gone.
pub async fn reap<'a>(processes: Rc<Processes<'a>>) {
    let world = &processes.world;
    let mut unclaimed = Unclaimed::new();
    while !world.stopping.get() {
        world.sleep_up_to(5_000_000).await;
        reap_now(&processes, &mut unclaimed);
        if world.below(8) == 0 {
            trim_clusters(world.segment, &SimSupervisor { world });
        }
        if world.options.soak.is_some() {
            world.sleep_up_to(2_000_000_000).await;
        }
    }
}

/// One look at all records.
pub fn reap_now(processes: &Processes<'_>, unclaimed: &mut Unclaimed) {
    let world = &processes.world;
    let records: Vec<MmRecord<'_>> = world.segment.mms().in_use().collect();
    for record in records {
        if is_gone(processes, record, unclaimed) {
            drop_mm(world.segment, &SimSupervisor { world }, record.id());
            world.note(format_args!("{:?} is reaped", record.id()));
            let dead = processes.not_alive();
            let its = dead.iter().filter(|process| process.mm.get() == Some(record.id()));
            its.for_each(|process| process.mm.set(None));
        }
    }
    unclaimed.retain(|id, _| world.segment.mms().record(*id).state() == MmState::Forked);
}

fn is_gone(processes: &Processes<'_>, record: MmRecord<'_>, unclaimed: &mut Unclaimed) -> bool {
    let world = &processes.world;
    match record.state() {
        MmState::Live | MmState::Taken => !processes
            .alive()
            .iter()
            .any(|process| process.mm.get() == Some(record.id()) && process.has_claimed.get()),
        MmState::Forked => {
            let parent = record.parent();
            if parent.is_some_and(|parent| world.segment.mms().record(parent).state() == MmState::Live) {
                unclaimed.remove(&record.id());
                return false;
            }
            let now_ns = world.executor.now_ns();
            let since_ns = *unclaimed.entry(record.id()).or_insert(now_ns);
            now_ns - since_ns > world.options.unclaimed_max_ns && record.reap_forked()
        }
        MmState::Free | MmState::Reaping => false,
    }
}

/// Kills processes from outside, at any moment.
pub async fn kill<'a>(processes: Rc<Processes<'a>>) {
    let world = &processes.world;
    let pause_ns = if world.options.soak.is_some() { 240_000_000_000 } else { 40_000_000 };
    for _ in 0..world.options.kills {
        world.sleep_up_to(pause_ns).await;
        let alive = processes.alive();
        if world.stopping.get() || alive.len() < 2 {
            continue;
        }
        let victim = alive[world.below(alive.len() as u64) as usize].clone();
        world.count("kills", 1);
        victim.end(world);
    }
}

/// In a run of hours: starts a process when fewer than at the start are left.
pub async fn start<'a>(processes: Rc<Processes<'a>>, soak: Soak) {
    let world = &processes.world;
    while !world.stopping.get() && world.executor.now_ns() < soak.until_ns {
        world.sleep_up_to(20_000_000_000).await;
        if processes.alive().len() < world.options.processes && program::start(&processes) {
            world.count("processes started later", 1);
        }
    }
}
