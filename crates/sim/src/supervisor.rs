//! The supervisor's tasks: measuring memory, writing the pool back, and, for the test's sake, killing and starting
//! processes.

use crate::disk::SimReads;
use crate::files;
use crate::options::Soak;
use crate::platform::SimSupervisor;
use crate::process::Process;
use crate::world::World;
use std::rc::Rc;
use uswap_core::balance::Headroom;
use uswap_core::budget::{Fullness, Signal};
use uswap_engine::Workspace;
use uswap_engine::loader::{BackgroundReads as _, Turn};
use uswap_engine::storer::Storer;
use uswap_engine::writeback::{Batch, Shrinker, excess_bytes};
use uswap_units::Bytes;
use uswap_units::limits::WRITEBACK_BATCH_BYTES;

/// Measures what is used, and says when there is pressure.
pub async fn measure<'a>(world: Rc<World<'a>>) {
    let (segment, budget) = (world.segment, world.segment.budget());
    while !world.stopping.get() {
        let before = budget.used();
        let mut pages = 0;
        for process in world.alive() {
            let resident = process.memory.borrow().resident_pages();
            if let Some(mm) = process.mm.get() {
                segment.mms().record(mm).set_resident_pages(resident);
            }
            pages += resident;
        }
        budget.set_measured(before, Bytes(pages * 4096 + segment.pool().resident_bytes()));
        let headroom = if world.below(4) == 0 { Headroom::Wide } else { Headroom::Narrow };
        budget.set_headroom(headroom);
        budget.note_file(segment.slots());
        if budget.used() > budget.watermarks().low {
            world.raise(Signal::Pressure);
        }
        world.executor.sleep((300_000 + world.below(1_500_000)) * world.options.calm()).await;
    }
}

/// Writes the pool back when it is nearly full.
pub async fn shrink<'a>(world: Rc<World<'a>>) {
    let (segment, budget) = (world.segment, world.segment.budget());
    let mut shrinker = Shrinker::new();
    let mut buffer = vec![0; WRITEBACK_BATCH_BYTES];
    while !world.stopping.get() {
        let seen = budget.signal_count(Signal::Shrink);
        let supervisor = SimSupervisor { world: &world };
        files::empty(&world, &mut shrinker, &mut buffer).await;
        if excess_bytes(segment) == 0 {
            if world.below(4) == 0 {
                let bytes = shrinker.compact(segment, &supervisor).await;
                world.count("compaction with room: bytes freed", bytes);
            }
            world.wait(Signal::Shrink, seen, 3_000_000 * world.options.calm()).await;
            continue;
        }
        let bytes_max = 4096 * (1 + world.below(64) as usize);
        let batch = shrinker.write_batch(segment, &supervisor, &mut buffer[..bytes_max]).await;
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
}

/// Hashes and compresses what processes hand over.
pub async fn store<'a>(world: Rc<World<'a>>) {
    let budget = world.segment.budget();
    let mut workspace = Box::new(Workspace::new());
    let mut storer = Storer::new(&mut workspace);
    let mut reads = SimReads::new(&world);
    world.segment.store_jobs().set_open(true);
    while !world.stopping.get() {
        let seen = budget.signal_count(Signal::Store);
        let supervisor = SimSupervisor { world: &world };
        match storer.turn(world.segment, &supervisor, &mut reads).await {
            Turn::Ended => world.count("store and load jobs", 1),
            Turn::Reads => reads.wait().await,
            Turn::Idle => {
                storer.rest(world.segment, &supervisor);
                world.wait(Signal::Store, seen, 3_000_000 * world.options.calm()).await;
            }
        }
    }
    world.segment.store_jobs().set_open(false);
}

/// Kills processes from outside, at any moment.
pub async fn kill<'a>(world: Rc<World<'a>>) {
    let pause_ns = if world.options.soak.is_some() { 240_000_000_000 } else { 40_000_000 };
    for _ in 0..world.options.kills {
        world.sleep_up_to(pause_ns).await;
        let alive = world.alive();
        if world.stopping.get() || alive.len() < 2 {
            continue;
        }
        let victim = alive[world.below(alive.len() as u64) as usize].clone();
        world.count("kills", 1);
        victim.end(&world);
    }
}

/// In a run of hours: starts a process when fewer than at the start are left.
pub async fn start<'a>(world: Rc<World<'a>>, soak: Soak) {
    while !world.stopping.get() && world.executor.now_ns() < soak.until_ns {
        world.sleep_up_to(20_000_000_000).await;
        if world.alive().len() < world.options.processes && Process::start(&world) {
            world.count("processes started later", 1);
        }
    }
}
