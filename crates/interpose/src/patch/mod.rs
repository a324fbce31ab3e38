//! Sites that make many calls are replaced by jumps, while the program runs.
//!
//! A site is patched when enough of its calls came by dispatch: programs that make few calls pay nothing at their
//! start, and only pages with busy sites become private. Called by [`crate::dispatch`] in the handler of SIGSYS, with
//! all signals blocked, on the alternate stack; [`mod@crate::install`] starts it, and [`crate::serve`] stops it ahead
//! of a filter.
//!
//! What must hold: only text that is mapped privately from a file, and not writable, is changed. Code that a
//! program writes itself (a JIT) may change again at any time: its calls stay dispatched.

mod functions;
mod lock;
#[cfg(all(test, loom))]
mod loom_tests;
mod memory;
mod sites_seen;
mod trampoline;
mod write;

use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};

use uswap_os::process;

use lock::PatchLock;
use memory::Threads;

use crate::kernel::{self, UserContext, nr};
use crate::sites::{self, Memory, Unpatchable, Way};
use crate::thread;

pub(crate) use trampoline::{behind_site, is_trampoline};
pub(crate) use write::interim;

pub(crate) use functions::functions;
pub use functions::{KNOWN_FUNCTION_BYTES, KnownFunction};
pub use sites_seen::{SiteReport, SiteState, sites_seen};

/// One patch at a time. Who finds another thread at work tries again at the next call.
#[cfg(not(loom))]
static LOCK: PatchLock = PatchLock::new();
#[cfg(loom)]
loom::lazy_static! {
    static ref LOCK: PatchLock = PatchLock::new();
}
/// Threads run that are not known: from before `install`.
static HAS_UNKNOWN_THREADS: AtomicBool = AtomicBool::new(false);

/// Sites are patched from now on.
pub(crate) fn start(patch_after: Option<u32>, has_unknown_threads: bool) {
    HAS_UNKNOWN_THREADS.store(has_unknown_threads, Ordering::Relaxed);
    write::prepare();
    LOCK.open(patch_after.unwrap_or(0));
}

/// The program is about to forbid itself calls (seccomp), and those that patching needs may be among them: none of them
/// is made from now on, by any thread.
pub(crate) fn stop() {
    LOCK.close_and_wait();
}

/// In the child of a fork: a patch that another thread of the parent was at is not under way here.
pub(crate) fn after_fork() {
    LOCK.forget_thread();
    HAS_UNKNOWN_THREADS.store(false, Ordering::Relaxed);
}

/// A call of the site that ends at `context.rip` was dispatched.
pub(crate) fn note_call(context: &UserContext) {
    let site_end = context.rip;
    let patch_after = LOCK.patch_after();
    if patch_after == 0 || is_never_patched(context.rax) {
        return;
    }
    let Some(site) = sites_seen::note(site_end) else { return };
    if !site.is_due(patch_after) {
        return;
    }
    let Some(_work) = LOCK.begin(kernel::thread_id) else { return };
    // The thread that was at work until now may have patched it.
    if site.is_due(patch_after) {
        site.set_state(patch(site_end, context.rax));
    }
}

/// Calls that must not come back through a frame of ours, or that make no second call.
fn is_never_patched(number: usize) -> bool {
    let numbers = [nr::RT_SIGRETURN, nr::CLONE, nr::CLONE3, nr::VFORK, nr::EXIT, nr::EXIT_GROUP, nr::EXECVE];
    numbers.contains(&number)
}

fn patch(site_end: usize, number: usize) -> SiteState {
    match try_patch(site_end, number) {
        Ok(state) | Err(state) => state,
    }
}

fn try_patch(site_end: usize, number: usize) -> Result<SiteState, SiteState> {
    let memory = memory::Process::open(threads()).ok_or(SiteState::Refused)?;
    let object = memory.object_at(site_end).ok_or(SiteState::NotOfAFile)?;
    let function =
        object.function(&memory, site_end - 1).ok_or(SiteState::Unpatchable(Unpatchable::NoFunction))?;
    patch_in(&memory, &memory, function, site_end, number == nr::MUNMAP)
}

/// A thread that was just asked for has no slot yet, so the kernel is asked too. It stays so: this thread is the one
/// that could ask for others.
fn threads() -> Threads {
    let is_alone = thread::is_only_thread()
        && !HAS_UNKNOWN_THREADS.load(Ordering::Relaxed)
        && process::count_threads() == Ok(1);
    if is_alone { Threads::This } else { Threads::Others }
}

/// Patches one call of a function; `text` is where code is read, and `memory` where it is written.
fn patch_in(
    memory: &memory::Process,
    text: &impl Memory,
    function: Range<usize>,
    site_end: usize,
    is_unmapping: bool,
) -> Result<SiteState, SiteState> {
    let way = sites::find_way(text, function, site_end, is_unmapping).map_err(SiteState::Unpatchable)?;
    go_way(memory, text, way, site_end)
}

fn go_way(
    memory: &memory::Process,
    text: &impl Memory,
    way: Way,
    site_end: usize,
) -> Result<SiteState, SiteState> {
    let (from, moved_from) = match way {
        Way::Ahead { at } => (at, at),
        Way::Pad { pad } => (pad, site_end - sites::SYSCALL_BYTES),
    };
    let moved = moved_from..site_end - sites::SYSCALL_BYTES;
    let target = trampoline::make(memory, text, from, moved, site_end).ok_or(SiteState::NoRoomNear)?;
    let is_written = match way {
        Way::Ahead { at } => write::ahead(memory, at, target),
        Way::Pad { pad } => {
            let site = site_end - sites::SYSCALL_BYTES;
            write::pad(memory, pad, target) && write::short(memory, site, pad)
        }
    };
    if is_written { Ok(SiteState::Patched(way)) } else { Err(SiteState::Refused) }
}
