//! Builds the engine when memory gets short for the first time.

use crate::handlers::Preferred;
use crate::platform::{LinuxPlatform, TRASH_BYTES};
use crate::scan::{PageScanner, Scanner, ScannerFiles};
use crate::state::{self, ENGINE, Phase, SEGMENT};
use crate::{fork, forkd, handlers, locks};
use core::cell::OnceCell;
use core::sync::atomic::{AtomicUsize, Ordering};
use uswap_engine::{Engine, EngineOptions};
use uswap_host::supervisor;
use uswap_host::swap_files::OpenFiles;
use uswap_os::fd::Fd;
use uswap_os::gate::{Gate, Lock};
use uswap_os::memory::{self, Access, Mapping};
use uswap_os::pagemap::Pagemap;
use uswap_os::uffd::{Features, Mode, Uffd, UffdError};
use uswap_os::{message, process};
use uswap_units::limits::STAGED_CHUNKS_MAX;
use uswap_units::{CHUNK_PAGES, PAGE_BYTES};

const CHUNK_BYTES: usize = CHUNK_PAGES as usize * PAGE_BYTES;

/// Chunks of the arena: room to stage a quarter of the budget.
pub fn arena_chunks() -> u32 {
    let ram = SEGMENT.get().map_or(0, |segment| segment.budget().ram().0);
    ((ram / 4) as usize / CHUNK_BYTES).clamp(8, STAGED_CHUNKS_MAX as usize) as u32
}

/// Files that the engine will need. Opened when kswapd starts: later the program may have lowered its limits, changed
/// its root, or be out of descriptors.
pub struct Descriptors {
    app: Uffd,
    trash: Uffd,
    pagemap: Pagemap,
    pub swap_files: OpenFiles,
    files: ScannerFiles,
}

impl Descriptors {
    /// Opens all of them, in the descriptor table of the calling thread.
    pub fn open() -> Result<Descriptors, &'static str> {
        const NO_UFFD: &str = "userfaultfd is not available to it";
        if !handlers::prepare() || !forkd::prepare() {
            return Err("it has no descriptor free for the engine");
        }
        let device = OnceCell::new();
        let open = |features| open_userfaultfd(features, &device);
        let app = open(Features::EVENTS)
            .or_else(|| open(Features::EVENTS.without(Features::EVENT_FORK)))
            .ok_or(NO_UFFD)?;
        Ok(Descriptors {
            app,
            trash: open(Features::NONE).ok_or(NO_UFFD)?,
            pagemap: Pagemap::open().map_err(|_| "/proc/self/pagemap cannot be opened")?,
            swap_files: open_swap_files()?,
            files: ScannerFiles::open().ok_or("/proc/self/maps cannot be read")?,
        })
    }
}

/// By the rights of this process, else by those of the supervisor, which the process may have given up.
fn open_userfaultfd(features: Features, device: &OnceCell<Option<Fd>>) -> Option<Uffd> {
    match Uffd::open(features) {
        Ok(uffd) => Some(uffd),
        Err(UffdError::Features { .. }) => None,
        Err(UffdError::NoWayIn { .. }) => {
            let device = device.get_or_init(|| supervisor::userfaultfd_device().ok()).as_ref()?;
            Uffd::open_by(device, features).ok()
        }
    }
}

/// Builds everything. None: this process is left alone, and the reason was said.
pub fn activate(descriptors: Result<Descriptors, &'static str>) -> Option<Scanner> {
    state::set_phase(Phase::Activating);
    match descriptors.and_then(build) {
        Ok(scanner) => {
            state::set_phase(Phase::Active);
            Some(scanner)
        }
        Err(reason) => {
            state::set_phase(Phase::Left);
            message::write_message(
                state::MESSAGES_FD,
                format_args!(
                    "uswap: process {} is left alone: {reason}. Run 'uswap doctor'.\n",
                    process::process_id()
                ),
            );
            None
        }
    }
}

fn build(descriptors: Descriptors) -> Result<Scanner, &'static str> {
    // What is there already may be locked as part of all that is mapped.
    locks::unlock_own();
    let (platform, files) = build_platform(descriptors, None)?;
    fork::prepare_doorbell(&platform)?;
    let engine = new_engine(platform)?;
    if !handlers::start() {
        return Err("its engine threads cannot be started");
    }
    forkd::start();
    locks::guard(&engine.platform().app);
    new_scanner(files)
}

/// The engine over a platform; known to everyone from now on.
pub fn new_engine(platform: LinuxPlatform) -> Result<&'static state::AgentEngine, &'static str> {
    let segment = SEGMENT.get().ok_or("it is not part of a run")?;
    let root = segment.mms().record(state::mm()).root().ok_or("it has no page table")?;
    let options = EngineOptions::of_budget(segment.budget().ram(), arena_chunks());
    Ok(ENGINE.set(Engine::new(segment.acting_as(state::mm()), state::mm(), root, platform, options)))
}

/// What kswapd works with.
pub fn new_scanner(files: ScannerFiles) -> Result<Scanner, &'static str> {
    // SAFETY: 1. this runs on kswapd, once in the life of a process: when it activates, or when it takes over as a
    // forked child.
    let workspace = unsafe { state::workspace(state::WorkspaceOf::Kswapd) };
    Ok(Scanner { workspace, pages: PageScanner::new(files), preferred: Preferred::Yes })
}

fn open_swap_files() -> Result<OpenFiles, &'static str> {
    let segment = SEGMENT.get().ok_or("it is not part of a run")?;
    let record = segment.mms().record(state::mm());
    OpenFiles::of_the_run(*segment, record, core::convert::identity)
        .ok_or("a swap file of the run cannot be opened")
}

/// Descriptors and mappings. `inherited_arena`: in a forked child the arena that it has already.
pub fn build_platform(
    descriptors: Descriptors,
    inherited_arena: Option<(usize, usize, usize)>,
) -> Result<(LinuxPlatform, ScannerFiles), &'static str> {
    let Descriptors { app, trash, pagemap, swap_files, files } = descriptors;
    // One page more is for event probes.
    let arena_bytes = uswap_engine::arena_frames(arena_chunks()) as usize * PAGE_BYTES + PAGE_BYTES;
    let (arena_start, arena_bytes, trash_start) = match inherited_arena {
        Some(inherited) => inherited,
        None => (own_mapping(arena_bytes)?, arena_bytes, own_mapping(TRASH_BYTES)?),
    };
    let unreadable = make_unreadable_page()?;
    app.register(arena_start, arena_bytes, Mode::WriteProtect)
        .map_err(|_| "its arena cannot be registered")?;
    trash
        .register(trash_start, TRASH_BYTES, Mode::WriteProtect)
        .map_err(|_| "its arena cannot be registered")?;
    let probe = arena_start + arena_bytes - PAGE_BYTES;
    let (gate, trash_lock) = (Gate::new(), Lock::new());
    let platform = LinuxPlatform {
        app,
        trash,
        pagemap,
        swap_files,
        arena_start,
        arena_bytes,
        trash_start,
        probe,
        unreadable,
        gate,
        trash_lock,
    };
    Ok((platform, files))
}

static UNREADABLE: AtomicUsize = AtomicUsize::new(0);

/// Its address, or 0.
pub fn unreadable_page() -> usize {
    UNREADABLE.load(Ordering::Acquire)
}

/// Made once, and inherited by forked children.
fn make_unreadable_page() -> Result<usize, &'static str> {
    if UNREADABLE.load(Ordering::Acquire) == 0 {
        let page = Mapping::anonymous(PAGE_BYTES, PAGE_BYTES, Access::None)
            .map_err(|_| "there is no address space for a page")?;
        UNREADABLE.store(page.leak(), Ordering::Release);
    }
    Ok(unreadable_page())
}

fn own_mapping(bytes: usize) -> Result<usize, &'static str> {
    let mapping = Mapping::anonymous(bytes, 2 << 20, Access::ReadWrite)
        .map_err(|_| "there is no address space for its arena")?;
    let start = mapping.leak();
    let _advice = memory::no_huge_pages(start, bytes);
    Ok(start)
}
