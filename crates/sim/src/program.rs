//! The program: a process starts, and its threads read, write, make system calls, change mappings and fork.

use crate::content::Version;
use crate::engine::{FaultOutcome, Touch};
use crate::mappings::Caller;
use crate::memory::{Found, Memory};
use crate::places::ZONE_START;
use crate::process::Process;
use crate::processes::Processes;
use crate::world::World;
use crate::{background, calls, fork};
use std::collections::BTreeMap;
use std::rc::Rc;
use uswap_core::mm::RecordHolder;
use uswap_units::{PageId, PageRange};

/// Virtual time that a thread may wait for one page.
const WAIT_MAX_NS: u64 = 60_000_000_000;

/// What an access gave.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Got {
    /// What is expected.
    Page,
    /// SIGBUS.
    Poisoned,
    /// Nothing is mapped there, or the program may not touch it.
    Gone,
}

/// Touches a page as a thread does: its faults are served in it. With a version the page is written, in the instant in
/// which it is found present.
async fn access<'a>(world: &World<'a>, process: &Process<'a>, page: PageId, write: Option<Version>) -> Got {
    let touch = Touch::that(write.is_some());
    let until = world.executor.now_ns() + WAIT_MAX_NS * world.options.calm();
    while world.executor.now_ns() < until {
        let found = process.kernel.memory.borrow_mut().touch(page, touch);
        match found {
            Found::Present(content) => {
                process.oracle.verify(world, page, &content);
                if let Some(version) = write {
                    process.write_now(world, page, version);
                }
                return Got::Page;
            }
            Found::Unmapped | Found::Forbidden => return Got::Gone,
            Found::Fault => {
                world.count("faults", 1);
                if serve(world, process, page, touch).await == Got::Poisoned {
                    return Got::Poisoned;
                }
                world.executor.step().await;
            }
        }
    }
    world.fail(format!("a thread of process {} waits for {page:?} for ever", process.number));
    Got::Gone
}

/// A SIGBUS of a thread.
async fn serve<'a>(world: &World<'a>, process: &Process<'a>, page: PageId, touch: Touch) -> Got {
    let Some(space) = process.managed_space() else {
        // What was managed came home a moment ago, and is there when it is touched again.
        return Got::Page;
    };
    space.record().begin_wait();
    let fault = process.fault_in(world, &space, page, touch).await;
    space.record().end_wait();
    world.note(format_args!("fault {page:?} {touch:?}: {fault:?}"));
    match fault {
        FaultOutcome::Served(_) => Got::Page,
        FaultOutcome::Lost => {
            process.oracle.poison(world, page);
            Got::Poisoned
        }
        FaultOutcome::NotOurs => {
            let is_ours = process
                .kernel
                .memory
                .borrow()
                .pages
                .get(&page.number())
                .is_some_and(|mapped| mapped.registered);
            if is_ours {
                world.fail(format!("the fault at {page:?} of process {} is nobody's", process.number));
            }
            Got::Page
        }
    }
}

/// A page that the program may touch now: mapped, and nobody changes its mapping.
fn some_page(world: &World<'_>, process: &Process<'_>) -> Option<PageId> {
    let expected = process.oracle.expected.borrow();
    if expected.is_empty() {
        return None;
    }
    // Half of all accesses go to the same few pages.
    let zone = if world.below(2) == 0 { 16 } else { world.options.zone_pages };
    let from = ZONE_START + world.below(zone);
    let (&page, what) = expected.range(from..).next().or_else(|| expected.iter().next())?;
    (!process.oracle.is_claimed(PageRange::of_pages(PageId::new(page), 1)) && !what.poisoned)
        .then_some(PageId::new(page))
}
async fn use_page<'a>(world: &World<'a>, process: &Process<'a>, page: PageId, write: Option<Version>) {
    let range = PageRange::of_pages(page, 1);
    process.oracle.begin_use(range);
    let got = access(world, process, page, write).await;
    process.oracle.end_use(range);
    if got == Got::Page {
        world.count(if write.is_some() { "writes" } else { "reads" }, 1);
    }
}

/// Reads and verifies every page.
pub async fn read_all_pages<'a>(world: Rc<World<'a>>, process: Rc<Process<'a>>) {
    let pages: Vec<u64> = process.oracle.expected.borrow().keys().copied().collect();
    for page in pages {
        let poisoned = process.oracle.expected.borrow().get(&page).is_none_or(|expected| expected.poisoned);
        if !poisoned {
            use_page(&world, &process, PageId::new(page), None).await;
            world.count("pages verified at the end", 1);
        }
    }
    process.threads_running.set(process.threads_running.get() - 1);
}

/// Starts a process with nothing mapped. False: there is no record or no page for its table.
pub fn start<'a>(processes: &Rc<Processes<'a>>) -> bool {
    let world = &processes.world;
    let segment = world.segment;
    let Some(record) = segment.mms().take(RecordHolder::Process) else { return false };
    let Ok(root) = segment.tables().allocate(record.id()) else {
        record.free();
        return false;
    };
    record.set_root(root);
    let process = processes.add(Memory::default(), BTreeMap::new());
    process.mm.set(Some(record.id()));
    process.alive.set(true);
    process.join(world, record.id(), root);
    background::start(world, &process);
    start_threads(processes, &process);
    true
}

/// Starts the program's threads.
fn start_threads<'a>(processes: &Rc<Processes<'a>>, process: &Rc<Process<'a>>) {
    let world = &processes.world;
    for _ in 0..world.options.threads {
        process.threads_running.set(process.threads_running.get() + 1);
        let task = thread(processes.clone(), process.clone());
        world.executor.spawn("thread", Some(process.number), world.slowness(), task);
    }
}

async fn thread<'a>(processes: Rc<Processes<'a>>, process: Rc<Process<'a>>) {
    let world = &processes.world;
    let mut operations = 0;
    let goes_on = |operations: u64| match world.options.soak {
        Some(soak) => world.executor.now_ns() < soak.until_ns,
        None => operations < world.options.operations,
    };
    while goes_on(operations) {
        operations += 1;
        if process.oracle.expected.borrow().is_empty() {
            Caller { world, process: &process }.map().await;
        }
        operation(&processes, &process).await;
        if let Some(soak) = world.options.soak {
            world.sleep_up_to(soak.think_ns).await;
        } else if world.below(4) == 0 {
            world.sleep_up_to(400_000).await;
        } else {
            world.executor.step().await;
        }
    }
    process.threads_running.set(process.threads_running.get() - 1);
}

/// Touches all pages in order, up or down, or all from somewhere on; sometimes some of them are gone past.
async fn go_round<'a>(world: &World<'a>, process: &Process<'a>) {
    let zone = world.options.zone_pages;
    let from = if world.below(4) == 0 { world.below(zone) } else { 0 };
    let (is_down, writes) = (world.below(4) == 0, world.below(4) == 0);
    for index in from..zone {
        let page = if is_down { ZONE_START + zone - 1 - index } else { ZONE_START + index };
        let is_known = process.oracle.expected.borrow().get(&page).is_some_and(|expected| !expected.poisoned);
        if is_known
            && !process.oracle.is_claimed(PageRange::of_pages(PageId::new(page), 1))
            && world.below(20) > 0
        {
            let version = (writes && is_writable(process, PageId::new(page))).then(|| world.next_version());
            use_page(world, process, PageId::new(page), version).await;
        }
    }
}

fn is_writable(process: &Process<'_>, page: PageId) -> bool {
    let memory = process.kernel.memory.borrow();
    memory.pages.get(&page.number()).is_some_and(|mapped| mapped.rights == crate::memory::Rights::Write)
}

async fn read_and_write<'a>(world: &World<'a>, process: &Process<'a>) {
    for _ in 0..1 + world.below(6) {
        let writes = world.below(100) < world.options.writes_percent;
        let Some(page) = some_page(world, process) else { continue };
        let version = (writes && is_writable(process, page)).then(|| world.next_version());
        // Half of what is written is looked at before: then it keeps its copy until it is written.
        if version.is_some_and(|version| version % 2 == 0) {
            use_page(world, process, page, None).await;
        }
        use_page(world, process, page, version).await;
    }
}

async fn operation<'a>(processes: &Rc<Processes<'a>>, process: &Process<'a>) {
    let world = &processes.world;
    let weights = world.options.weights;
    const READ_AND_WRITE: u64 = 120;
    let parts = [
        READ_AND_WRITE,
        weights.call,
        weights.map,
        weights.unmap,
        weights.map_over,
        weights.remap,
        weights.drop,
        weights.protect,
        weights.lock,
        weights.special,
        weights.fork,
        weights.round,
        weights.advise,
        weights.exit,
    ];
    let mut at = world.below(parts.iter().sum());
    let which = parts.iter().position(|&part| {
        let is_here = at < part;
        at = at.saturating_sub(part);
        is_here
    });
    let caller = Caller { world, process };
    match which {
        Some(0) => read_and_write(world, process).await,
        Some(1) => calls::system_call(world, process).await,
        Some(2) => caller.map().await,
        Some(3) => caller.unmap().await,
        Some(4) => caller.map_over().await,
        Some(5) => caller.remap().await,
        Some(6) => caller.drop_pages().await,
        Some(7) => caller.protect().await,
        Some(8) => caller.lock().await,
        Some(9) => special(world, process).await,
        Some(10) => fork::fork(processes, process, start_threads).await,
        Some(11) => go_round(world, process).await,
        Some(12) => caller.advise().await,
        _ => exit_or_exec(processes, process).await,
    }
}

/// What programs do rarely.
async fn special<'a>(world: &World<'a>, process: &Process<'a>) {
    let caller = Caller { world, process };
    match world.below(8) {
        0..4 => caller.keep().await,
        4 | 5 => caller.do_not_fork(),
        6 => caller.leave_alone().await,
        _ => {
            if world.below(10) == 0
                && let Some(space) = process.managed_space()
            {
                process.let_go(world, &space).await;
            }
        }
    }
}

/// The process ends, and sometimes another program takes its place.
async fn exit_or_exec<'a>(processes: &Rc<Processes<'a>>, process: &Process<'a>) {
    let world = &processes.world;
    if processes.alive().len() < 2 || world.below(10) > 0 {
        return;
    }
    world.count("exits", 1);
    if world.below(3) == 0 && processes.alive().len() < world.options.processes_max && start(processes) {
        world.count("programs executed", 1);
    }
    process.end(world);
    // Nothing of the process runs after this.
    world.executor.park("nothing", None).await;
}
