//! The program: threads that read, write, make system calls and change mappings, and the oracle that knows what every
//! page must hold. The oracle changes in the same instant as the memory.

use crate::content::{Version, page_of};
use crate::engine::{Fault, Touch};
use crate::mappings::Caller;
use crate::memory::Found;
use crate::process::Process;
use crate::world::World;
use crate::{calls, fork};
use std::rc::Rc;
use uswap_codec::Page;
use uswap_units::{PageId, PageRange};

/// What one page must hold.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// This content.
    pub version: Version,
    /// It gave SIGBUS: not looked at any more.
    pub poisoned: bool,
}

impl Expected {
    /// A page of zeros.
    pub fn zeros() -> Expected {
        Expected { version: 0, poisoned: false }
    }
}

/// First page of the zone where programs map memory: not at a block border.
pub const ZONE_START: u64 = 0x7_F3C0;

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

/// Two ranges have a page in common.
pub fn overlap(one: PageRange, other: PageRange) -> bool {
    one.start.0.max(other.start.0) < one.end.0.min(other.end.0)
}

/// Touches a page as a thread does: its faults are served in it. With a version the page is written, in the instant in
/// which it is found present.
async fn access<'a>(world: &World<'a>, process: &Process<'a>, page: PageId, write: Option<Version>) -> Got {
    let touch = Touch::that(write.is_some());
    let until = world.executor.now_ns() + WAIT_MAX_NS * world.options.calm();
    while world.executor.now_ns() < until {
        let found = process.memory.borrow_mut().touch(page, touch);
        match found {
            Found::Present(content) => {
                verify(world, process, page, &content);
                if let Some(version) = write {
                    write_now(world, process, page, version);
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
    space.record().begin_waits(1);
    let fault = process.bring(world, &space, page, touch).await;
    space.record().end_waits(1);
    world.note(format_args!("fault {page:?} {touch:?}: {fault:?}"));
    match fault {
        Fault::Served(_) => Got::Page,
        Fault::Lost => {
            poison(world, process, page);
            Got::Poisoned
        }
        Fault::NotOurs => {
            let is_ours = process.memory.borrow().pages.get(&page.0).is_some_and(|mapped| mapped.registered);
            if is_ours {
                world.fail(format!("the fault at {page:?} of process {} is nobody's", process.number));
            }
            Got::Page
        }
    }
}

/// The program has got SIGBUS: it does not look there again.
pub fn poison(world: &World<'_>, process: &Process<'_>, page: PageId) {
    world.note(format_args!("SIGBUS at {page:?}"));
    world.count("SIGBUS", 1);
    if let Some(expected) = process.expected.borrow_mut().get_mut(&page.0) {
        expected.poisoned = true;
    }
}

/// Writes a page that was found present.
pub fn write_now(world: &World<'_>, process: &Process<'_>, page: PageId, version: Version) {
    process.memory.borrow_mut().write(page, page_of(version));
    if let Some(expected) = process.expected.borrow_mut().get_mut(&page.0) {
        expected.version = version;
    }
    world.note(format_args!("write {page:?} = {version}"));
}

/// A page that is present must hold what is expected.
pub fn verify(world: &World<'_>, process: &Process<'_>, page: PageId, content: &Page) {
    let Some(expected) = process.expected.borrow().get(&page.0).copied() else { return };
    if !expected.poisoned && page_of(expected.version) != *content {
        let found = (0..100_000).find(|&version| page_of(version) == *content);
        world.fail(format!(
            "DATA LOSS: {page:?} of process {} must hold version {} and holds {found:?} ({:02x?}...)",
            process.number,
            expected.version,
            &content[..16]
        ));
    }
}

/// A page that the program may touch now: mapped, and nobody changes its mapping.
fn some_page(world: &World<'_>, process: &Process<'_>) -> Option<PageId> {
    let expected = process.expected.borrow();
    if expected.is_empty() {
        return None;
    }
    // Half of all accesses go to the same few pages.
    let zone = if world.below(2) == 0 { 16 } else { world.options.zone_pages };
    let from = ZONE_START + world.below(zone);
    let (&page, what) = expected.range(from..).next().or_else(|| expected.iter().next())?;
    (!is_claimed(process, PageId(page)) && !what.poisoned).then_some(PageId(page))
}
fn is_claimed(process: &Process<'_>, page: PageId) -> bool {
    process.claimed.borrow().iter().any(|range| range.contains(page))
}

/// The pages of a range are in use: nobody changes their mapping until [`end_use`].
pub fn begin_use(process: &Process<'_>, range: PageRange) {
    let mut users = process.users.borrow_mut();
    (range.start.0..range.end.0).for_each(|page| *users.entry(page).or_default() += 1);
}
/// They are not any more.
pub fn end_use(process: &Process<'_>, range: PageRange) {
    let mut users = process.users.borrow_mut();
    for page in range.start.0..range.end.0 {
        let count = users.get_mut(&page).expect("who ends a use has begun it");
        *count -= 1;
        if *count == 0 {
            users.remove(&page);
        }
    }
}

async fn use_page<'a>(world: &World<'a>, process: &Process<'a>, page: PageId, write: Option<Version>) {
    let range = PageRange::of_pages(page, 1);
    begin_use(process, range);
    let got = access(world, process, page, write).await;
    end_use(process, range);
    if got == Got::Page {
        world.count(if write.is_some() { "writes" } else { "reads" }, 1);
    }
}

/// Reads and verifies every page.
pub async fn read_all_pages<'a>(world: Rc<World<'a>>, process: Rc<Process<'a>>) {
    let pages: Vec<u64> = process.expected.borrow().keys().copied().collect();
    for page in pages {
        let poisoned = process.expected.borrow().get(&page).is_none_or(|expected| expected.poisoned);
        if !poisoned {
            use_page(&world, &process, PageId(page), None).await;
            world.count("pages verified at the end", 1);
        }
    }
    process.threads_running.set(process.threads_running.get() - 1);
}

/// Claims a range for a change of its mapping. False when somebody uses it.
pub fn claim(process: &Process<'_>, range: PageRange) -> bool {
    let is_used = process.users.borrow().range(range.start.0..range.end.0).next().is_some();
    let is_in = |ranges: &[PageRange]| ranges.iter().any(|other| overlap(*other, range));
    if is_used || is_in(&process.claimed.borrow()) || is_in(&process.advised.borrow()) {
        return false;
    }
    process.claimed.borrow_mut().push(range);
    true
}
/// Gives a claim back.
pub fn unclaim(process: &Process<'_>, range: PageRange) {
    let mut claimed = process.claimed.borrow_mut();
    let at = claimed.iter().position(|other| *other == range).expect("who gives a claim back has it");
    claimed.swap_remove(at);
}

/// Starts the program's threads.
pub fn start_threads<'a>(world: &Rc<World<'a>>, process: &Rc<Process<'a>>) {
    for _ in 0..world.options.threads {
        process.threads_running.set(process.threads_running.get() + 1);
        let task = thread(world.clone(), process.clone());
        world.executor.spawn("thread", Some(process.number), world.slowness(), task);
    }
}

async fn thread<'a>(world: Rc<World<'a>>, process: Rc<Process<'a>>) {
    let mut operations = 0;
    let goes_on = |operations: u64| match world.options.soak {
        Some(soak) => world.executor.now_ns() < soak.until_ns,
        None => operations < world.options.operations,
    };
    while goes_on(operations) {
        operations += 1;
        if process.expected.borrow().is_empty() {
            Caller { world: &world, process: &process }.map().await;
        }
        operation(&world, &process).await;
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
        let is_known = process.expected.borrow().get(&page).is_some_and(|expected| !expected.poisoned);
        if is_known && !is_claimed(process, PageId(page)) && world.below(20) > 0 {
            let version = (writes && is_writable(process, PageId(page))).then(|| world.next_version());
            use_page(world, process, PageId(page), version).await;
        }
    }
}

fn is_writable(process: &Process<'_>, page: PageId) -> bool {
    let memory = process.memory.borrow();
    memory.pages.get(&page.0).is_some_and(|mapped| mapped.rights == crate::memory::Rights::Write)
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

async fn operation<'a>(world: &Rc<World<'a>>, process: &Rc<Process<'a>>) {
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
        Some(10) => fork::fork(world, process).await,
        Some(11) => go_round(world, process).await,
        _ => exit_or_exec(world, process).await,
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
async fn exit_or_exec<'a>(world: &Rc<World<'a>>, process: &Rc<Process<'a>>) {
    if world.alive().len() < 2 || world.below(10) > 0 {
        return;
    }
    world.count("exits", 1);
    if world.below(3) == 0 && world.alive().len() < world.options.processes_max && Process::start(world) {
        world.count("programs executed", 1);
    }
    process.end(world);
    // Nothing of the process runs after this.
    world.executor.park("nothing", None).await;
}
