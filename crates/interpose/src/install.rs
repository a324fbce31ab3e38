//! Puts everything in place, once.
//!
//! Must hold: there is one boundary in a process: an attempt that has changed anything is the last. The handlers are in
//! place before the first thread is armed. Called by `host`, when it arms a process.

use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};

use uswap_os::maps::{Kind, Maps, MapsSource, Vma};
use uswap_os::own_calls::OwnCall;
use uswap_os::process;
use uswap_os::sys::Errno;

use crate::call::{Call, Interposer, set_interposer};
use crate::delivery::on_signal;
use crate::patch::KnownFunction;
use crate::trampoline_area::area;
use crate::{attach, birth, dispatch, entry, kernel, patch, signals, thread};

/// How calls are interposed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Signals that go to [`Interposer::fault`] first, as a set: bit 0 is signal 1.
    pub faults: u64,
    /// A site is patched when this many of its calls came by dispatch; `None`: never.
    pub patch_after: Option<u32>,
    /// The text whose calls are not seen. `None`: the executable mapping that holds this crate.
    pub own_text: Option<Range<usize>>,
    /// The stack that the calling thread was given. `None`: the kernel is asked for the mapping.
    pub stack: Option<Range<usize>>,
    /// Calls that the interposer makes by itself: see [`ends_programs`](crate::ends_programs).
    pub own_calls: &'static [OwnCall],
    /// Threads that run already are stopped, armed and let go. It takes a child of this process that may trace it.
    pub arms_others: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            faults: 0,
            patch_after: Some(8),
            own_text: None,
            stack: None,
            own_calls: &[],
            arms_others: false,
        }
    }
}

/// What `install` found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The text whose calls are not seen.
    pub own_text: Range<usize>,
    /// Threads that ran already and are armed.
    pub armed_threads: u32,
    /// Threads that ran already and are not. Their calls from code that is not patched are not seen.
    pub other_threads: u32,
}

/// Why nothing is interposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// Done before; there is one boundary in a process.
    InstalledAlready,
    /// A call that this needs was refused.
    Refused {
        /// What it was for.
        what: &'static str,
        /// What the kernel said.
        errno: Errno,
        /// What to try.
        advice: &'static str,
    },
    /// Threads that run already could not be stopped, now: somebody else may trace them, or one waits for a disk.
    /// Nothing was changed.
    NotStopped(Errno),
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotStopped(errno) => write!(
                out,
                "system calls cannot be interposed: its threads cannot be stopped (ptrace): {errno}; {NO_TRACER}"
            ),
            Error::InstalledAlready => out.write_str("system calls of this process are interposed already"),
            Error::Refused { what, errno, advice } => {
                write!(out, "system calls cannot be interposed: {what}: {errno}; {advice}")
            }
        }
    }
}

impl core::error::Error for Error {}

const MORE_MEMORY: &str = "raise what limits its memory (ulimit -v, or a cgroup)";
const MORE_FILES: &str = "let it open more files (ulimit -n)";
const NEEDS_PROC: &str = "/proc must be mounted, and readable for it";
const NO_FILTER: &str = "a filter of system calls (seccomp) may be in the way";
const NO_TRACER: &str = "a debugger or a sandbox may be in the way";
const NEEDS_DISPATCH: &str =
    "Linux 5.11 or newer is needed, without a filter of system calls (seccomp) that refuses it";

/// Turns what the kernel said to `what` into an error. `advice` is for causes that do not say themselves what to try.
fn refused(what: &'static str, advice: &'static str) -> impl Fn(Errno) -> Error {
    move |errno| {
        let advice = match errno {
            Errno::ENOMEM => MORE_MEMORY,
            Errno::EMFILE | Errno::ENFILE => MORE_FILES,
            _ => advice,
        };
        Error::Refused { what, errno, advice }
    }
}

/// The stack of the first thread grows on demand, by default up to this.
pub const MAIN_STACK_BYTES: usize = 8 << 20;

static STATE: AtomicU32 = AtomicU32::new(0);

/// From now on every system call of this process passes through `interposer`.
///
/// The calling thread is armed, and every thread and process that begins later. Threads that run already are armed only
/// if [`Options::arms_others`] says so: without it call this early, best in a constructor.
pub fn install<I: Interposer>(interposer: &'static I, options: &Options) -> Result<Report, Error> {
    // Acquire pairs with the Release below: an attempt that came to nothing is over.
    if STATE.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return Err(Error::InstalledAlready);
    }
    set_interposer(interposer);
    thread::prepare().map_err(refused("memory for threads", MORE_MEMORY))?;
    let own_text = match &options.own_text {
        Some(range) => range.clone(),
        None => {
            let text =
                mapping_of(area as *const () as usize).map_err(refused("/proc/self/maps", NEEDS_PROC))?;
            text.start..text.end
        }
    };
    let threads = process::count_threads().map_err(refused("/proc/self/task", NEEDS_PROC))?;
    let stopped = match threads > 1 && options.arms_others {
        true => Some(attach::stop_others().map_err(|errno| {
            // Nothing has been changed yet.
            STATE.store(0, Ordering::Release);
            Error::NotStopped(errno)
        })?),
        false => None,
    };
    entry::choose::<I>();
    signals::filter::choose(options.own_calls);
    let slot = thread::begin().map_err(refused("memory for an alternate stack", MORE_MEMORY))?;
    let stack = match &options.stack {
        Some(range) => range.clone(),
        None => own_stack().map_err(refused("/proc/self/maps", NEEDS_PROC))?,
    };
    slot.note_own_stack(stack.start, stack.end);
    slot.note_robust_list(process::robust_list(slot.thread_id()).unwrap_or(0));
    slot.note_clear_child_tid(kernel::clear_child_tid());
    let old = birth::take_alternate_stack(slot);
    for (kept, value) in slot.program_stack.iter().zip([old.start, old.bytes, old.flags as usize]) {
        kept.store(value, Ordering::Relaxed);
    }
    signals::install(options.faults, on_signal::<I>).map_err(refused("rt_sigaction", NO_FILTER))?;
    dispatch::allow(own_text.start, own_text.len());
    let has_unknown_threads = threads > 1 && stopped.is_none();
    patch::start(options.patch_after, has_unknown_threads);
    dispatch::arm().map_err(refused("Syscall User Dispatch", NEEDS_DISPATCH))?;
    let armed_threads = match stopped {
        Some(stopped) => stopped.arm().map_err(refused("a thread cannot be armed (ptrace)", NO_TRACER))?,
        None => 0,
    };
    let other_threads = if has_unknown_threads { threads - 1 } else { 0 };
    Ok(Report { own_text, armed_threads, other_threads })
}

/// Calls of some functions pass through `interposer` from now on, given by their addresses in one object of a file,
/// and by what is known of each, or nothing. Nothing else is changed: no signal is ours, no thread is armed, and
/// [`install`] may follow or not.
///
/// Until it does the interposer has to make these calls itself ([`make_unarmed`]): [`Before::Answer`] is the only
/// answer that it may give, and there is no [`Context::slot`]. False: that cannot be done for each of them.
///
/// Called while the process has one thread.
///
/// [`Before::Answer`]: crate::Before::Answer
/// [`Context::slot`]: crate::Context::slot
pub fn install_in_functions<I: Interposer>(
    interposer: &'static I,
    functions: &[usize],
    known: &[KnownFunction],
) -> bool {
    set_interposer(interposer);
    entry::choose::<I>();
    patch::functions(functions, known).is_some()
}

/// Makes a call of the program, on a thread that need not be armed. An error is a small negative number.
///
/// # Safety
/// As the call itself. It is none by which a second flow of control goes on, and none that unmaps the stack.
pub unsafe fn make_unarmed(call: &Call) -> isize {
    // SAFETY:
    // 1. The caller's promise.
    unsafe { kernel::call(call.number, &call.arguments) }
}

/// Whether [`install`] has been called, and has not failed.
pub fn is_installed() -> bool {
    // Acquire pairs with `install`; whether slots are there `is_prepared` finds by an order of its own.
    STATE.load(Ordering::Acquire) != 0 && thread::is_prepared()
}

/// The stack of this thread.
fn own_stack() -> uswap_os::sys::Result<Range<usize>> {
    let here = 0u8;
    let stack = mapping_of(&raw const here as usize)?;
    let grows = if stack.kind == Kind::Stack { MAIN_STACK_BYTES } else { 0 };
    Ok(stack.start.min(stack.end.saturating_sub(grows))..stack.end)
}

/// The mapping that holds `address`.
fn mapping_of(address: usize) -> uswap_os::sys::Result<Vma> {
    let maps = Maps::open()?;
    let covers = |vma: &Vma| (vma.start..vma.end).contains(&address);
    if maps.source() == MapsSource::Query {
        return maps.covering_or_next(address)?.filter(covers).ok_or(Errno::ENOENT);
    }
    let mut buffer = [0; 1024];
    for vma in maps.iter(&mut buffer) {
        let vma = vma?;
        if covers(&vma) {
            return Ok(vma);
        }
    }
    Err(Errno::ENOENT)
}

#[cfg(test)]
mod tests {
    use std::string::ToString as _;

    use super::*;

    #[test]
    fn each_refusal_says_what_to_try() {
        let said = |what, advice, errno| refused(what, advice)(errno).to_string();
        let mounted = said("/proc/self/maps", NEEDS_PROC, Errno::ENOENT);
        assert!(mounted.contains("/proc/self/maps") && mounted.ends_with(NEEDS_PROC), "{mounted}");
        for errno in [Errno::EMFILE, Errno::ENFILE] {
            assert!(said("/proc/self/task", NEEDS_PROC, errno).ends_with(MORE_FILES));
        }
        assert!(said("memory for an alternate stack", MORE_MEMORY, Errno::ENOMEM).ends_with(MORE_MEMORY));
        assert!(said("a thread cannot be armed (ptrace)", NO_TRACER, Errno::ENOMEM).ends_with(MORE_MEMORY));
        assert!(said("Syscall User Dispatch", NEEDS_DISPATCH, Errno::EINVAL).contains("Linux 5.11"));
        assert!(!said("rt_sigaction", NO_FILTER, Errno::EPERM).contains("Linux 5.11"));
    }
}
