//! Carries a forked child over.
//!
//! The child has a copy of the program's memory, in which evicted pages are missing, and of the agent's, but no engine
//! threads. Its missing pages are served by the parent's forkd until the child touches the doorbell: a page that is
//! always missing in the parent. The answer is a page with a magic number and the number of the child's record. Then
//! the parent closes the child's descriptor, which ends the child's registration, and the child makes its own. Only
//! this thread runs in the child meanwhile, with all signals blocked, and it touches nothing but the agent's memory.

use crate::activate::Descriptors;
use crate::scan::{Scanner, is_candidate};
use crate::state::{self, ENGINE, Phase, SEGMENT};
use crate::{HEAP, activate, drops, forkd, fresh, handlers, kswapd, locks, moves, register};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use uswap_engine::platform::Platform;
use uswap_host::supervisor;
use uswap_os::maps::Maps;
use uswap_os::memory::{self, Access, Mapping};
use uswap_os::thread::BlockedSignals;
use uswap_os::uffd::{Features, Holes, Mode};
use uswap_units::{MmId, PAGE_BYTES, PageId, PageRange};

/// First word of a doorbell that was never hung up: nothing is registered.
const SILENT: u64 = 0x7375_7761_705f_3031;
/// First words of the answers.
const RECORD: u64 = 0x7375_7761_705f_3032;
const REFUSED: u64 = 0x7375_7761_705f_3033;
const HOME: u64 = 0x7375_7761_705f_3034;

static DOORBELL: AtomicUsize = AtomicUsize::new(0);
static DOORBELL_ASIDE: AtomicUsize = AtomicUsize::new(0);
/// The kernel reports forks to this process's engine.
static FORKS_REPORTED: AtomicBool = AtomicBool::new(false);
/// Arena and trash of the process, for its forked children.
static ARENA: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

/// Address of the doorbell page; 0 while there is none.
pub fn doorbell() -> usize {
    DOORBELL.load(Ordering::Acquire)
}
/// Address of the page that the doorbell's first content was moved to; 0 while there is none.
pub fn doorbell_aside() -> usize {
    DOORBELL_ASIDE.load(Ordering::Acquire)
}
/// True when the kernel reports forks.
pub fn forks_reported() -> bool {
    FORKS_REPORTED.load(Ordering::Acquire)
}

/// What a child is told when it rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Its record: it goes on by itself from there.
    Record(MmId),
    /// It did not ring for so long that all its memory was filled.
    Home,
    /// There is no room for its page table: it is ended.
    Refused,
}

impl Answer {
    /// The page that the child reads.
    pub fn page(self) -> uswap_codec::Page {
        let (first, second) = match self {
            Answer::Record(mm) => (RECORD, u64::from(mm.0)),
            Answer::Home => (HOME, 0),
            Answer::Refused => (REFUSED, 0),
        };
        let mut page = [0; PAGE_BYTES];
        page[..8].copy_from_slice(&first.to_le_bytes());
        page[8..16].copy_from_slice(&second.to_le_bytes());
        page
    }

    fn of_words(first: u64, second: u64) -> Option<Answer> {
        match first {
            RECORD => Some(Answer::Record(MmId(second as u16))),
            HOME => Some(Answer::Home),
            REFUSED => Some(Answer::Refused),
            _ => None,
        }
    }
}

/// Registers the doorbell and then, in one atomic step, makes it a hole: a child forked before finds `SILENT`, and
/// nothing of it is registered.
pub fn prepare_doorbell(platform: &crate::platform::LinuxPlatform) -> Result<(), &'static str> {
    const FAILED: &str = "its doorbell page cannot be made";
    remember_arena(platform);
    let forks = platform.app.features().contains(Features::EVENT_FORK);
    FORKS_REPORTED.store(forks, Ordering::Release);
    let new_page = || {
        Mapping::anonymous(PAGE_BYTES, PAGE_BYTES, Access::ReadWrite).map(Mapping::leak).map_err(|_| FAILED)
    };
    let silence = |page: usize| {
        // SAFETY: 1. the page is the agent's own mapping, and only forked children read it.
        unsafe { (page as *mut u64).write_volatile(SILENT) }
    };
    if doorbell() == 0 {
        // Silent before it is known: another thread may fork at any time, and its child rings.
        let page = new_page()?;
        silence(page);
        DOORBELL_ASIDE.store(new_page()?, Ordering::Release);
        DOORBELL.store(page, Ordering::Release);
    }
    // In a forked child it holds an answer to this process: a child of ours that reads that of `Home` has nothing
    // registered, and with another one nobody forks yet.
    silence(doorbell());
    // In a forked child it holds what its parent had there.
    // SAFETY: 1. it is the agent's own, nothing is registered here yet, and nobody reads it.
    unsafe { memory::drop_pages(doorbell_aside(), PAGE_BYTES) }.map_err(|_| FAILED)?;
    platform.app.register(doorbell(), PAGE_BYTES, Mode::Missing).map_err(|_| FAILED)?;
    platform.app.register(doorbell_aside(), PAGE_BYTES, Mode::WriteProtect).map_err(|_| FAILED)?;
    // SAFETY: 1. both pages are the agent's own; 2. nobody reads either in this process.
    let moved = unsafe { platform.app.move_pages(doorbell_aside(), doorbell(), PAGE_BYTES, Holes::Refuse) };
    if moved.is_done() { Ok(()) } else { Err(FAILED) }
}

/// Start and length of the arena, and start of the trash; zeros while there is none.
pub fn arena() -> (usize, usize, usize) {
    let [start, bytes, trash_start] = [0, 1, 2].map(|index| ARENA[index].load(Ordering::Acquire));
    (start, bytes, trash_start)
}

fn remember_arena(platform: &crate::platform::LinuxPlatform) {
    for (word, value) in ARENA.iter().zip([platform.arena_start, platform.arena_bytes, platform.trash_start])
    {
        word.store(value, Ordering::Release);
    }
}

/// Before a fork. If the kernel does not report it, everything comes home, since the child could not be served.
pub extern "C" fn before_fork() {
    if matches!(state::phase(), Phase::Active | Phase::Activating) {
        moves::before_fork();
        if !forks_reported() {
            state::request(state::Request::Home);
        }
    }
}

/// After it, in the parent.
pub extern "C" fn after_fork_in_parent() {
    moves::after_fork();
    if matches!(state::phase(), Phase::Active | Phase::Activating) && !forks_reported() {
        state::request(state::Request::Resume);
    }
}

/// First code of ours in a forked child.
pub extern "C" fn after_fork_in_child() {
    moves::reset_after_fork();
    let phase = state::phase();
    if matches!(phase, Phase::Outside | Phase::Left) {
        return;
    }
    let Some(segment) = SEGMENT.get().copied() else { return };
    let signals = BlockedSignals::block_all();
    let inherited = match phase {
        Phase::Active | Phase::Activating if forks_reported() => ring_doorbell(),
        _ => None,
    };
    forget_parent();
    SEGMENT.set(segment).counters().add(uswap_core::counters::Counter::Joined, 1);
    match inherited {
        Some(mm) => {
            state::set_mm(mm);
            state::set_phase(Phase::Active);
            kswapd::start(kswapd::Begin::TakeOver);
            kswapd::wait_ready();
        }
        None => {
            state::set_phase(Phase::Watching);
            kswapd::start(kswapd::Begin::Watching);
        }
    }
    drop(signals);
}

/// The child's record. None: nothing of the parent was registered when it forked.
fn ring_doorbell() -> Option<MmId> {
    let page = doorbell() as *const u64;
    if page.is_null() {
        return None;
    }
    // SAFETY:
    // 1. The page is mapped since `DOORBELL` names it.
    // 2. If it is missing, forkd of the parent fills it; volatile, since the kernel changes it behind the compiler's
    //    back.
    let (first, second) = unsafe { (page.read_volatile(), page.add(1).read_volatile()) };
    if first == SILENT {
        return None;
    }
    match Answer::of_words(first, second) {
        Some(Answer::Record(mm)) => Some(mm),
        Some(Answer::Home) => {
            // What the parent had staged is of no use here.
            // SAFETY: 1. the arena is the agent's own, no thread but this one runs, and nobody refers to what lies
            // there.
            let _only_costs_memory = unsafe {
                memory::drop_pages(ARENA[0].load(Ordering::Acquire), ARENA[1].load(Ordering::Acquire))
            };
            None
        }
        Some(Answer::Refused) => crate::fatal(format_args!(
            "it was forked when the run had no room for one more page table: too many processes, or too much memory, \
             for one run"
        )),
        None => lost_parent(),
    }
}

fn lost_parent() -> ! {
    crate::fatal(format_args!(
        "it lost its parent while it was being forked, and its memory cannot be told from zeros"
    ))
}

/// Nothing of the parent's engine is valid here: threads, locks, descriptors, heap.
fn forget_parent() {
    ENGINE.clear();
    supervisor::reset_after_fork();
    handlers::reset_after_fork();
    drops::reset_after_fork();
    register::reset_after_fork();
    fresh::reset_after_fork();
    locks::reset_after_fork();
    forkd::reset_after_fork();
    // SAFETY: 1. a forked child has only the thread that forked.
    unsafe { kswapd::STACK.reset_after_fork() };
    state::reset_requests();
    HEAP.reset();
}

/// On the child's kswapd: registers the memory again, with descriptors of its own. If that cannot be, everything comes
/// home.
pub fn take_over(descriptors: Result<Descriptors, &'static str>) -> Option<Scanner> {
    let inherited = arena();
    match descriptors.and_then(|descriptors| try_take_over(descriptors, inherited)) {
        Ok(scanner) => Some(scanner),
        Err(reason) => crate::fatal(format_args!(
            "as a forked child it cannot manage its memory ({reason}), and part of that is swapped"
        )),
    }
}

fn try_take_over(
    descriptors: Descriptors,
    inherited: (usize, usize, usize),
) -> Result<Scanner, &'static str> {
    // The fork may have come between a move into the trash and the drop of it.
    // SAFETY: 1. it is the agent's own, no thread but this one runs, and nobody refers to what lies there.
    let dropped = unsafe { memory::drop_pages(inherited.2, crate::platform::TRASH_BYTES) };
    dropped.map_err(|_| "its trash cannot be dropped")?;
    let (platform, files) = activate::build_platform(descriptors, Some(inherited))?;
    prepare_doorbell(&platform)?;
    let engine = activate::new_engine(platform)?;
    engine.rebuild_arena();
    engine.drop_free_chunks();
    register_everything(engine)?;
    if !handlers::start() {
        return Err("its engine threads cannot be started");
    }
    forkd::start();
    locks::guard(&engine.platform().app);
    activate::new_scanner(files)
}

/// Every mapping that may hold managed pages, small ones too, is registered; words of addresses that the child does not
/// have are dropped.
fn register_everything(engine: &'static state::AgentEngine) -> Result<(), &'static str> {
    let maps = Maps::open().map_err(|_| "/proc/self/maps cannot be read")?;
    let mut text = [0; 4096];
    let mut behind_last = 0;
    let mut failed = false;
    for vma in maps.iter(&mut text) {
        let Ok(vma) = vma else {
            failed = true;
            break;
        };
        if !is_candidate(&vma, PAGE_BYTES) {
            continue;
        }
        engine.forget_unmapped(PageRange::of_addresses(behind_last as u64, vma.start as u64));
        behind_last = vma.end;
        crate::scan::for_each_allowed_part(vma.start, vma.end, |start, end| {
            let range = PageRange::of_addresses(start as u64, end as u64);
            let registered = engine.platform().register(range);
            failed |= registered != uswap_engine::platform::Register::Done && engine.holds_content(range);
        });
    }
    engine.forget_unmapped(PageRange {
        start: PageId::of_address(behind_last as u64),
        end: PageId(uswap_core::page_table::PAGES_MAX),
    });
    if failed { Err("a mapping with swapped pages cannot be registered") } else { Ok(()) }
}
