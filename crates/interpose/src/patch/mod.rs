//! Sites that make many calls are replaced by jumps, while the program runs.
//!
//! A site is patched when enough of its calls came by dispatch: programs that make few calls pay nothing at
//! their start, and only pages with busy sites become private. Called by the handler of SIGSYS, with all
//! signals blocked, on the alternate stack.
//!
//! What must hold: only text that is mapped privately from a file, and not writable, is changed. Code that a
//! program writes itself (a JIT) may change again at any time: its calls stay dispatched.

mod functions;
mod memory;
mod sites_seen;
mod trampoline;
mod write;

use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::kernel::{UserContext, nr};
use crate::sites::{self, Memory, Unpatchable, Way};
use crate::thread;

pub(crate) use trampoline::{behind_site, is_trampoline};
pub(crate) use write::interim;

pub(crate) use functions::functions;
pub use functions::{KNOWN_FUNCTION_BYTES, KnownFunction};
pub use sites_seen::{SiteReport, SiteState, sites_seen};

/// Calls of a site before it is patched; 0: never.
static PATCH_AFTER: AtomicU32 = AtomicU32::new(0);
/// One patch at a time. Who finds it taken tries again at the next call.
static BUSY: AtomicBool = AtomicBool::new(false);
/// Threads run that are not known: from before `install`.
static HAS_UNKNOWN_THREADS: AtomicBool = AtomicBool::new(false);

/// Sites are patched from now on.
pub(crate) fn start(patch_after: Option<u32>, has_unknown_threads: bool) {
    HAS_UNKNOWN_THREADS.store(has_unknown_threads, Ordering::Relaxed);
    write::prepare();
    PATCH_AFTER.store(patch_after.unwrap_or(0), Ordering::Relaxed);
}

/// The program forbids itself calls (seccomp), and those that patching needs may be among them.
pub(crate) fn stop() {
    PATCH_AFTER.store(0, Ordering::Relaxed);
}

/// In the child of a fork: a patch that another thread of the parent was at is not under way here.
pub(crate) fn after_fork() {
    BUSY.store(false, Ordering::Relaxed);
    HAS_UNKNOWN_THREADS.store(false, Ordering::Relaxed);
}

/// A call of the site that ends at `context.rip` was dispatched.
pub(crate) fn note_call(context: &UserContext) {
    let site_end = context.rip;
    let patch_after = PATCH_AFTER.load(Ordering::Relaxed);
    if patch_after == 0 || is_never_patched(context.rax) {
        return;
    }
    let Some(site) = sites_seen::note(site_end) else { return };
    // Acquire pairs with the Release below: what the patch before has noted is seen.
    if site.is_due(patch_after) && !BUSY.swap(true, Ordering::Acquire) {
        if site.is_due(patch_after) {
            site.settle(patch(site_end, context.rax));
        }
        BUSY.store(false, Ordering::Release);
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
    let memory = memory::Process::open().ok_or(SiteState::Refused)?;
    let object = memory.object_at(site_end).ok_or(SiteState::NotOfAFile)?;
    let function =
        object.function(&memory, site_end - 1).ok_or(SiteState::Unpatchable(Unpatchable::NoFunction))?;
    patch_in(&memory, &memory, function, site_end, number == nr::MUNMAP)
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
    let is_alone = thread::is_only_thread() && !HAS_UNKNOWN_THREADS.load(Ordering::Relaxed);
    let is_written = match way {
        Way::Ahead { at } => write::ahead(memory, at, target, is_alone),
        Way::Pad { pad } => {
            let site = site_end - sites::SYSCALL_BYTES;
            write::pad(memory, pad, target) && write::short(memory, site, pad, is_alone)
        }
    };
    if is_written { Ok(SiteState::Patched(way)) } else { Err(SiteState::Refused) }
}
