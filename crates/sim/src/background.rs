//! The thread that evicts while the program runs, as `host` has it. Some processes have two here, so that two evict at
//! the same time.

use crate::engine::{Background, KswapdFailures};
use crate::mappings;
use crate::process::{Phase, Process};
use crate::seam::Space;
use crate::world::World;
use std::rc::Rc;
use uswap_core::budget::Signal;
use uswap_core::counters::Counter;

/// Starts it.
pub fn start<'a>(world: &Rc<World<'a>>, process: &Rc<Process<'a>>) {
    for _ in 0..world.options.evictors {
        let task = live(world.clone(), process.clone());
        world.executor.spawn("kswapd", Some(process.number), world.slowness(), task);
    }
}

async fn live<'a>(world: Rc<World<'a>>, process: Rc<Process<'a>>) {
    let space = process.space();
    let budget = world.segment.budget();
    while !world.stopping.get() {
        let seen = budget.signal_count(Signal::Pressure);
        follow_files(&world, &process);
        measure(&process, &space);
        let (marks, used) = (space.watermarks(), budget.used());
        let may_evict = space.may_evict() && process.phase.get() != Phase::Home;
        let is_idle = used <= marks.register || !may_evict;
        if !is_idle && process.phase.get() == Phase::Watching {
            mappings::activate(&world, &process, &space).await;
        }
        space.note_looked();
        if !is_idle && used > marks.low {
            evict(&world, &process, &space).await;
        } else {
            world.wait(Signal::Pressure, seen, 4_000_000 * world.options.calm()).await;
        }
    }
}

/// From low down to high.
async fn evict<'a>(world: &World<'a>, process: &Process<'a>, space: &Space<'a>) {
    world.segment.counters().add(Counter::KswapdWakes, 1);
    let mut failures = KswapdFailures::default();
    loop {
        let mut evictor = process.evictors.borrow(&world.executor).await;
        let turn = space.background_turn(&mut evictor, &mut failures).await;
        let is_over = turn == Background::Rests || world.stopping.get();
        if is_over {
            space.disown_zspages(&evictor);
        }
        drop(evictor);
        if is_over {
            return;
        }
        measure(process, space);
        follow_files(world, process);
        world.executor.step().await;
    }
}

fn measure<'a>(process: &Process<'a>, space: &Space<'a>) {
    space.record().set_resident_pages(process.kernel.memory.borrow().resident_pages());
}

fn follow_files(world: &World<'_>, process: &Process<'_>) {
    if let Some(mm) = process.mm.get() {
        process.kernel.follow_files(world, mm);
    }
}
