//! The program: threads that read, write and change mappings, and the oracle that knows what every page must hold.
//!
//! The oracle changes in the same instant as the memory. While MADV_DONTNEED is under way a page may hold the old
//! content, zeros, or what was written meanwhile; afterwards only zeros or what was written since it began.

use crate::calls;
use crate::content::{Version, page_of};
use crate::memory::Access;
use crate::process::Process;
use crate::world::World;
use std::rc::Rc;
use uswap_codec::Page;
use uswap_engine::platform::Touch;
use uswap_units::{BLOCK_PAGES, PageId, PageRange};

/// What one page must hold.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// One of these contents.
    pub legal: Vec<Version>,
    /// Contents that were written while a drop is under way.
    pub written_since: Vec<Version>,
    /// Drops that are under way.
    pub drops: u32,
    /// It gave SIGBUS: not looked at any more.
    pub poisoned: bool,
}

impl Expected {
    /// A page of zeros.
    pub fn zeros() -> Expected {
        Expected { legal: vec![0], ..Expected::default() }
    }
    fn write(&mut self, version: Version) {
        if self.drops == 0 {
            self.legal = vec![version];
        } else {
            self.legal.push(version);
            self.written_since.push(version);
        }
    }
    /// A drop begins.
    pub fn begin_drop(&mut self) {
        if self.drops == 0 {
            self.written_since.clear();
        }
        self.drops += 1;
        self.legal.push(0);
    }
    /// The kernel has dropped the page.
    pub fn end_drop(&mut self) {
        self.drops -= 1;
        if self.drops == 0 {
            self.legal = core::mem::take(&mut self.written_since);
            self.legal.push(0);
            self.poisoned = false;
        }
    }
}

/// First page of the zone where programs map memory: not at a block border.
pub const ZONE_START: u64 = 0x7_F3C0;

/// What an access gave.
enum Got {
    Page,
    Poisoned,
    Gone,
}

/// Virtual time that a thread may wait for one page.
pub const WAIT_MAX_NS: u64 = 60_000_000_000;

/// Touches a page as a thread does, and waits as long as it takes. With a version the page is written, in the instant
/// in which it is found present.
async fn access(world: &World<'_>, process: &Process<'_>, page: PageId, write: Option<Version>) -> Got {
    let started = world.executor.now_ns();
    let touch = Touch::that(write.is_some());
    loop {
        let found = process.memory.borrow_mut().touch(page, touch, world.executor.current());
        match found {
            Access::Present(content) => {
                if process.orphaned.get() {
                    return Got::Gone;
                }
                verify(world, process, page, &content);
                if let Some(version) = write {
                    process.memory.borrow_mut().write(page, page_of(version));
                    if let Some(expected) = process.expected.borrow_mut().get_mut(&page.0) {
                        expected.write(version);
                    }
                    world.note(format_args!("write {page:?} = {version}"));
                }
                return Got::Page;
            }
            Access::Poisoned => {
                world.note(format_args!("SIGBUS at {page:?}"));
                if let Some(expected) = process.expected.borrow_mut().get_mut(&page.0) {
                    expected.poisoned = true;
                }
                return Got::Poisoned;
            }
            Access::Unmapped => return Got::Gone,
            Access::Missing => {
                world.count("faults", 1);
                process.wake_handlers(world);
                world.executor.park("a page", Some(started + WAIT_MAX_NS)).await;
                if world.executor.now_ns() >= started + WAIT_MAX_NS {
                    world.fail(format!("a thread of process {} waits for {page:?} for ever", process.number));
                    return Got::Gone;
                }
            }
        }
    }
}

fn verify(world: &World<'_>, process: &Process<'_>, page: PageId, content: &Page) {
    let mut all = process.expected.borrow_mut();
    let Some(expected) = all.get_mut(&page.0) else { return };
    match expected.legal.iter().copied().find(|&version| page_of(version) == *content) {
        Some(version) if expected.drops == 0 => expected.legal = vec![version],
        Some(_) => (),
        None => {
            let found: Vec<Version> =
                (0..100_000).filter(|&version| page_of(version) == *content).take(1).collect();
            world.fail(format!(
                "DATA LOSS: {page:?} of process {} must hold a version of {:?} and holds {found:?} ({:02x?}...)",
                process.number,
                expected.legal,
                &content[..16]
            ));
        }
    }
}

/// A page that the program may touch now: mapped, and nobody changes its mapping.
fn some_page(world: &World<'_>, process: &Process<'_>) -> Option<PageId> {
    let expected = process.expected.borrow();
    if expected.is_empty() {
        return None;
    }
    // Half of all accesses go to the same few pages.
    let from = if world.below(2) == 0 {
        ZONE_START + world.below(16)
    } else {
        ZONE_START + world.below(world.options.zone_pages)
    };
    let (&page, what) = expected.range(from..).next().or_else(|| expected.iter().next())?;
    let page = PageId(page);
    let claimed = process.claimed.borrow().iter().any(|range| range.contains(page));
    (!claimed && !what.poisoned).then_some(page)
}

async fn use_page(world: &World<'_>, process: &Process<'_>, page: PageId, write: Option<Version>) {
    *process.users.borrow_mut().entry(page.0).or_default() += 1;
    let got = access(world, process, page, write).await;
    let mut users = process.users.borrow_mut();
    if let Some(count) = users.get_mut(&page.0) {
        *count -= 1;
        if *count == 0 {
            users.remove(&page.0);
        }
    }
    match got {
        Got::Page => world.count(if write.is_some() { "writes" } else { "reads" }, 1),
        Got::Poisoned => world.count("SIGBUS", 1),
        Got::Gone => (),
    }
}

/// Reads and verifies one page.
pub async fn read_some_page(world: &World<'_>, process: &Process<'_>) {
    if let Some(page) = some_page(world, process) {
        use_page(world, process, page, None).await;
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
    let used = process.users.borrow().range(range.start.0..range.end.0).next().is_some();
    let overlaps = |other: &PageRange| other.start.0 < range.end.0 && range.start.0 < other.end.0;
    let dropping =
        process.expected.borrow().range(range.start.0..range.end.0).any(|(_, expected)| expected.drops > 0);
    if used || dropping || process.claimed.borrow().iter().any(overlaps) {
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
        world.executor.spawn(
            "thread",
            Some(process.number),
            world.slowness(),
            thread(world.clone(), process.clone()),
        );
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
            calls::map(&world, &process).await;
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

/// Touches pages in order, from before the begin of a block into it: what has not been touched before is filled more
/// and more at a time.
async fn sweep(world: &World<'_>, process: &Process<'_>) {
    let Some(start) = calls::some_block(world) else { return };
    if world.below(2) == 0 {
        calls::map_anew(
            world,
            process,
            PageRange { start: PageId(start.0 - 64), end: start.plus(BLOCK_PAGES) },
        )
        .await;
    }
    for page in start.0 - 64 + world.below(8)..start.0 + 4 + world.below(40) {
        read_in_passing(world, process, page).await;
    }
}

async fn read_in_passing(world: &World<'_>, process: &Process<'_>, page: u64) {
    let known = process.expected.borrow().get(&page).is_some_and(|expected| !expected.poisoned);
    let claimed = process.claimed.borrow().iter().any(|range| range.contains(PageId(page)));
    if known && !claimed {
        use_page(world, process, PageId(page), None).await;
    }
}

/// Reads all pages in order, or all from somewhere on.
async fn go_round(world: &World<'_>, process: &Process<'_>) {
    let from = if world.below(4) == 0 { world.below(world.options.zone_pages) } else { 0 };
    for page in ZONE_START + from..ZONE_START + world.options.zone_pages {
        read_in_passing(world, process, page).await;
    }
}

async fn operation<'a>(world: &Rc<World<'a>>, process: &Rc<Process<'a>>) {
    let weights = world.options.weights;
    const READ_AND_WRITE: u64 = 120;
    let parts = [
        READ_AND_WRITE,
        weights.map,
        weights.unmap,
        weights.map_over,
        weights.remap,
        weights.drop,
        weights.fork,
        weights.protect,
        weights.pin,
        weights.exit,
        weights.map_huge,
        weights.sweep,
        weights.round,
    ];
    let mut at = world.below(parts.iter().sum());
    let which = parts.iter().position(|&part| {
        if at < part {
            true
        } else {
            at -= part;
            false
        }
    });
    match which {
        Some(0) => {
            for _ in 0..1 + world.below(6) {
                let write = world.below(100) < world.options.writes_percent;
                let Some(page) = some_page(world, process) else { continue };
                let writable =
                    process.memory.borrow().pages.get(&page.0).is_some_and(|mapped| mapped.writable);
                let version = (write && writable).then(|| world.next_version());
                // Half of what is written is looked at before: then its copy is kept, and stale.
                if version.is_some_and(|version| version % 2 == 0) {
                    use_page(world, process, page, None).await;
                }
                use_page(world, process, page, version).await;
            }
        }
        Some(1) => calls::map(world, process).await,
        Some(2) => calls::unmap(world, process).await,
        Some(3) => calls::map_over(world, process).await,
        Some(4) => calls::remap(world, process).await,
        Some(5) => calls::drop_pages(world, process).await,
        Some(6) => calls::fork(world, process).await,
        Some(7) => calls::protect(world, process),
        Some(8) => calls::pin(world, process),
        Some(10) => calls::map_huge(world, process).await,
        Some(11) => sweep(world, process).await,
        Some(12) => go_round(world, process).await,
        _ => {
            if world.alive().len() > 1 && world.below(10) == 0 {
                world.count("exits", 1);
                process.end(world);
                // Nothing of the process runs after this.
                world.executor.park("nothing", None).await;
            }
        }
    }
}
