//! Fork, as `host` does it: the forking thread has the gate for itself until there is a child, and the child takes its
//! memory over before any code of the program runs in it.

use crate::background;
use crate::khugepaged;
use crate::memory::{Kind, MappedPage, Memory};
use crate::process::{Phase, Process};
use crate::processes::Processes;
use crate::seam::Space;
use crate::world::World;
use std::collections::BTreeMap;
use std::rc::Rc;
use uswap_core::mm::RecordHolder;
use uswap_core::page_table::ALL_PAGES;
use uswap_units::{MmId, PageId, PageRange, ProcessNumber};

/// What the child finds of its parent.
enum Left {
    /// Nothing: nothing was managed, or everything had come home.
    Nothing(Phase),
    /// A record with a copy of the page table, and the mappings as they were.
    Table { mm: MmId, number: ProcessNumber, mappings: Vec<(PageRange, MappedPage)> },
}

/// What a child goes on with, when its memory is its own.
pub type GoOn<'a> = fn(&Rc<Processes<'a>>, &Rc<Process<'a>>);

/// Forks.
pub async fn fork<'a>(processes: &Rc<Processes<'a>>, process: &Process<'a>, go_on: GoOn<'a>) {
    let world = &processes.world;
    if processes.alive().len() >= world.options.processes_max {
        return;
    }
    process.kernel.lock_exclusive(world).await;
    let mut left = Left::Nothing(process.phase.get());
    if let Some(space) = process.managed_space() {
        let Some(mm) = space.clone_for_child() else {
            world.count("forks without room", 1);
            return process.kernel.unlock_exclusive(world);
        };
        world.executor.step().await;
        if world.chance(world.options.refusals) {
            // There are too many processes, for instance.
            space.give_up_child(mm);
            world.count("forks that failed", 1);
            return process.kernel.unlock_exclusive(world);
        }
        let number = world.segment.mms().record(mm).number();
        left = Left::Table { mm, number, mappings: process.kernel.memory.borrow().mappings_in(ALL_PAGES) };
    }
    let child = copy(processes, process);
    world.note(format_args!("fork: process {}", child.number));
    world.count("forks", 1);
    if let Left::Table { mm, .. } = &left {
        child.mm.set(Some(*mm));
    }
    child.alive.set(true);
    child.threads_running.set(1);
    let task = begin(processes.clone(), child.clone(), left, go_on);
    world.executor.spawn("child", Some(child.number), world.slowness(), task);
    world.executor.step().await;
    process.kernel.unlock_exclusive(world);
}

/// The kernel's part: the child has what was there in one instant.
fn copy<'a>(processes: &Processes<'a>, process: &Process<'a>) -> Rc<Process<'a>> {
    let memory: Memory = process.kernel.memory.borrow().forked();
    let expected = process.oracle.expected.borrow();
    let inherited = expected.iter().filter(|(page, _)| memory.pages.contains_key(page));
    let expected: BTreeMap<_, _> = inherited.map(|(&page, what)| (page, *what)).collect();
    let child = processes.add(memory, expected);
    *child.left_alone.borrow_mut() = process.left_alone.borrow().clone();
    child
}

/// The only thread of the child.
async fn begin<'a>(processes: Rc<Processes<'a>>, child: Rc<Process<'a>>, left: Left, go_on: GoOn<'a>) {
    let world = &processes.world;
    world.sleep_up_to(world.options.child_delay_max_ns).await;
    match left {
        Left::Nothing(Phase::Watching) => join_anew(world, &child),
        Left::Nothing(phase) => child.phase.set(phase),
        Left::Table { mm, number, mappings } => {
            let record = world.segment.mms().record(mm);
            if !record.claim_forked(number) {
                world.count("children whose record was gone", 1);
                child.mm.set(None);
                child.end(world);
                return world.executor.park("nothing", None).await;
            }
            child.has_claimed.set(true);
            if record.number() != number {
                return world.fail(format!("process {} took the record of another child", child.number));
            }
            world.executor.step().await;
            let root = record.root().expect("a cloned record has a root");
            child.join(world, mm, root);
            if !register_everything(world, &child, &mappings).await {
                world.count("programs ended, since what the kernel has filled was not dropped", 1);
                child.end(world);
                return world.executor.park("nothing", None).await;
            }
            child.phase.set(Phase::Active);
            background::start(world, &child);
        }
    }
    go_on(&processes, &child);
    child.threads_running.set(child.threads_running.get() - 1);
}

/// Nothing was managed when it was forked. Without room in the run it is left alone.
fn join_anew<'a>(world: &Rc<World<'a>>, child: &Rc<Process<'a>>) {
    child.phase.set(Phase::Home);
    let Some(record) = world.segment.mms().take(RecordHolder::Process) else { return };
    let Ok(root) = world.segment.tables().allocate(record.id()) else { return record.free() };
    record.set_root(root);
    child.mm.set(Some(record.id()));
    child.phase.set(Phase::Watching);
    child.join(world, record.id(), root);
    background::start(world, child);
}

/// Registers what has words, protects what is clean, and drops words of addresses that the child does not have. False:
/// the kernel has refused something.
async fn register_everything<'a>(
    world: &World<'a>,
    child: &Process<'a>,
    mappings: &[(PageRange, MappedPage)],
) -> bool {
    let space = child.space();
    let (mut behind_last, mut is_right) = (PageId::FIRST, true);
    child.kernel.lock_exclusive(world).await;
    khugepaged::come_by(world, child);
    for (range, like) in mappings {
        if like.kind != Kind::Plain || !like.is_inherited {
            continue;
        }
        world.executor.step().await;
        space.forget_unmapped(PageRange::new(behind_last, range.start()));
        behind_last = range.end();
        if space.page_table().first_managed(*range).is_some() {
            for part in child.parts_to_manage(*range) {
                register(world, child, &space, part);
                is_right &= space.drop_filled(part);
            }
        }
    }
    space.forget_unmapped(PageRange::new(behind_last, ALL_PAGES.end()));
    follow_locks(child, &space);
    child.kernel.unlock_exclusive(world);
    is_right
}

fn register<'a>(world: &World<'a>, child: &Process<'a>, space: &Space<'a>, part: PageRange) {
    let mut memory = child.kernel.memory.borrow_mut();
    memory.register(part);
    memory.unprotect(part);
    space.for_each_protected(part, |run| {
        world.note(format_args!("protected again: {run:?}"));
        memory.protect(run);
    });
}

/// A child inherits no locks of memory.
fn follow_locks<'a>(child: &Process<'a>, space: &Space<'a>) {
    let mappings = child.kernel.memory.borrow().mappings_in(ALL_PAGES);
    let may_be =
        |like: &MappedPage| like.kind == Kind::Plain && like.rights != crate::memory::Rights::Nothing;
    mappings.into_iter().filter(|(_, like)| may_be(like)).for_each(|(part, _)| space.activate(part));
}
