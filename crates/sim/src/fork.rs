//! Fork: the child that the parent serves until the child has an engine of its own.

use crate::platform::SimPlatform;
use crate::process::{Process, set_live};
use crate::program;
use crate::world::World;
use std::rc::Rc;
use uswap_core::page_table::PAGES_MAX;
use uswap_engine::messages::FaultQueue;
use uswap_engine::platform::{Platform, Register};
use uswap_engine::{Engine, Workspace};
use uswap_units::{MmId, PageId, PageRange};

/// The parent's handler read the fork event: the child starts, and forkd with it. Without a record the child cannot be
/// kept.
pub fn child_forked<'a>(world: &Rc<World<'a>>, parent: &Rc<Process<'a>>, number: usize, child: Option<MmId>) {
    let Some(mm) = child else {
        world.count("forks without room", 1);
        return;
    };
    let process = world.processes.borrow()[number].clone();
    world.count("forks", 1);
    world.note(format_args!("process {number} starts as {mm:?}"));
    process.mm.set(Some(mm));
    process.alive.set(true);
    process.served_by_parent.set(true);
    parent.children.borrow_mut().push(number);
    process.threads_running.set(1);
    world.executor.spawn(
        "forkd",
        Some(parent.number),
        world.slowness(),
        forkd(world.clone(), parent.clone(), process.clone(), mm),
    );
    world.executor.spawn("child", Some(number), world.slowness(), child_start(world.clone(), process, mm));
}

async fn forkd<'a>(world: Rc<World<'a>>, parent: Rc<Process<'a>>, child: Rc<Process<'a>>, mm: MmId) {
    let root = world.segment.mms().record(mm).root().expect("a cloned record has a root");
    let platform = SimPlatform { world: world.clone(), process: child.clone(), arena: parent.clone() };
    let served_by = parent.mm.get().expect("who forks has a record");
    let remote = Engine::new(world.segment.acting_as(served_by), mm, root, platform, world.options.engine);
    let mut workspace = Box::new(Workspace::new());
    let mut queue = FaultQueue::new();
    while child.alive.get() {
        remote.take_messages(&mut queue, &mut workspace).await;
        let waiting = queue.len() as u64;
        if !remote.serve_queue(&mut queue, &mut workspace).await {
            break;
        }
        world.count("faults of children served by parents", waiting - queue.len() as u64);
        if queue.is_empty() && child.doorbell.get() && child.alive.get() {
            set_live(&world, mm, child.number);
            child.close_descriptor(&world);
            child.handed_over.set(true);
            break;
        }
        world.sleep_up_to(20_000).await;
    }
    parent.children.borrow_mut().retain(|&number| number != child.number);
    child.served_by_parent.set(false);
    parent.engine().end_handover();
}

async fn child_start<'a>(world: Rc<World<'a>>, child: Rc<Process<'a>>, mm: MmId) {
    // The C library touches a little memory before its atfork handlers.
    for _ in 0..world.below(4) {
        program::read_some_page(&world, &child).await;
    }
    child.doorbell.set(true);
    while !child.handed_over.get() {
        if child.orphaned.get() {
            world.count("children that lost their parent", 1);
            child.end(&world);
            return world.executor.park("nothing", None).await;
        }
        world.sleep_up_to(20_000).await;
    }
    let root = world.segment.mms().record(mm).root().expect("a cloned record has a root");
    child.open_files(&world);
    if world.options.file_changes > 0 {
        world.executor.step().await;
    }
    let engine = child.start_engine(&world, mm, root);
    engine.rebuild_arena();
    engine.drop_free_chunks();
    let everything = PageRange { start: PageId(0), end: PageId(PAGES_MAX) };
    for leaf in engine.page_table().leaves(everything) {
        for (page, slot) in leaf.slots_in(everything) {
            let range = PageRange { start: page, end: page.plus(1) };
            if slot.load().is_managed()
                && engine.platform().register(range) == Register::Refused
                && slot.load().is_active()
            {
                world.fail(format!("the child's record names {page:?}, which the child does not have"));
            }
        }
    }
    child.start_tasks(&world);
    program::start_threads(&world, &child);
    child.threads_running.set(child.threads_running.get() - 1);
}
