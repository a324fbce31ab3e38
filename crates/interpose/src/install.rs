//! Puts everything in place, once, and holds the way of a call together: interposer, then what this
//! crate must do itself for the calls that would undo it.

use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use uswap_os::maps::{Kind, Maps, MapsSource, Vma};
use uswap_os::own_calls::OwnCall;
use uswap_os::process;
use uswap_os::sys::{Errno, abi};

use crate::call::{Before, Call, Context, Interposer};
use crate::entry::{self, Frame, Step};
use crate::kernel::{self, nr};
use crate::{birth, cancellation, dispatch, patch, signals, thread};

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
}

impl Default for Options {
    fn default() -> Options {
        Options { faults: 0, patch_after: Some(8), own_text: None, stack: None, own_calls: &[] }
    }
}

/// What `install` found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The text whose calls are not seen.
    pub own_text: Range<usize>,
    /// Threads that ran already. Their calls from code that is not patched are not seen.
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
    },
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::InstalledAlready => out.write_str("system calls of this process are interposed already"),
            Error::Refused { what, errno } => {
                write!(
                    out,
                    "system calls cannot be interposed: {what}: {errno}; Linux 5.11 or newer is needed"
                )
            }
        }
    }
}

impl core::error::Error for Error {}

/// The stack of the first thread grows on demand, by default up to this.
pub const MAIN_STACK_BYTES: usize = 8 << 20;

/// Address of the interposer; its type is that of the hooks.
static INTERPOSER: AtomicUsize = AtomicUsize::new(0);
static STATE: AtomicU32 = AtomicU32::new(0);

/// From now on every system call of this process passes through `interposer`.
///
/// The calling thread is armed, and every thread and process that begins later. Threads that run already
/// are not: call it early, best in a constructor.
pub fn install<I: Interposer>(interposer: &'static I, options: &Options) -> Result<Report, Error> {
    if STATE.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return Err(Error::InstalledAlready);
    }
    let refused = |what| move |errno| Error::Refused { what, errno };
    INTERPOSER.store(interposer as *const I as usize, Ordering::Release);
    thread::prepare().map_err(refused("memory for threads"))?;
    let own_text = match &options.own_text {
        Some(range) => range.clone(),
        None => {
            let text = mapping_of(entry::area as *const () as usize).map_err(refused("/proc/self/maps"))?;
            text.start..text.end
        }
    };
    let mut threads = 0;
    process::for_each_thread(None, |_| threads += 1).map_err(refused("/proc/self/task"))?;
    entry::choose::<I>();
    signals::filter::choose(options.own_calls);
    let slot = thread::begin().map_err(refused("memory for an alternate stack"))?;
    let stack = match &options.stack {
        Some(range) => range.clone(),
        None => own_stack().map_err(refused("/proc/self/maps"))?,
    };
    slot.note_own_stack(stack.start, stack.end);
    slot.note_robust_list(process::robust_list(slot.thread_id()).unwrap_or(0));
    slot.note_clear_child_tid(kernel::clear_child_tid());
    let old = birth::take_alternate_stack(slot);
    for (kept, value) in slot.program_stack.iter().zip([old.start, old.bytes, old.flags as usize]) {
        kept.store(value, Ordering::Relaxed);
    }
    signals::install::<I>(options.faults).map_err(refused("rt_sigaction"))?;
    dispatch::allow(own_text.start, own_text.len());
    patch::start(options.patch_after, threads > 1);
    dispatch::arm().map_err(refused("Syscall User Dispatch"))?;
    Ok(Report { own_text, other_threads: threads - 1 })
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

#[inline]
pub(crate) fn interposer<I: Interposer>() -> &'static I {
    // SAFETY:
    // 1. `install` has stored a `&'static I` before it made the hooks known, and only hooks of the same `I`
    //    call this.
    unsafe { &*(INTERPOSER.load(Ordering::Relaxed) as *const I) }
}

/// Ahead of the kernel: called by `entry` with the frame, and where it has kept `rbp` of the program.
pub(crate) unsafe extern "C" fn before<I: Interposer>(frame: &mut Frame, base: *const usize) -> Step {
    // SAFETY:
    // 1. The assembly passes the base of this frame.
    unsafe { entry::fill_context(frame, base) };
    let step = match interposer::<I>().before(&mut frame.call, &frame.context) {
        Before::Pass => Step::Pass,
        Before::PassThenAfter => Step::PassThenAfter,
        Before::Answer(answer) => {
            frame.answer = answer;
            return Step::Answer;
        }
    };
    if is_plain(frame.call.number) {
        return if cancellation::is_due(&frame.call) { interrupt::<I>(frame, step) } else { step };
    }
    // SAFETY:
    // 1. As above.
    unsafe { special::<I>(frame, base, step) }
}

/// The thread was cancelled on its way to the kernel.
#[cold]
fn interrupt<I: Interposer>(frame: &mut Frame, step: Step) -> Step {
    frame.answer = -(Errno::EINTR.number() as isize);
    if step == Step::PassThenAfter {
        frame.answer = interposer::<I>().after(&frame.call, frame.answer, &frame.context);
    }
    Step::Answer
}

/// The kernel's answer is in the frame.
pub(crate) unsafe extern "C" fn after<I: Interposer>(frame: &mut Frame) {
    frame.answer = interposer::<I>().after(&frame.call, frame.answer, &frame.context);
    cancellation::forget();
}

/// Calls that this crate has nothing to do with: one bit each, set for those it looks at.
#[inline]
fn is_plain(number: usize) -> bool {
    const SPECIAL: [u64; 8] = special_numbers();
    number >= 512 || SPECIAL[number / 64] >> (number % 64) & 1 == 0
}

const fn special_numbers() -> [u64; 8] {
    let numbers = [
        nr::RT_SIGACTION,
        nr::RT_SIGPROCMASK,
        nr::RT_SIGTIMEDWAIT,
        nr::RT_SIGSUSPEND,
        nr::SIGALTSTACK,
        nr::SIGNALFD,
        nr::SIGNALFD4,
        nr::PPOLL,
        nr::PSELECT6,
        nr::EPOLL_PWAIT,
        nr::EPOLL_PWAIT2,
        nr::IO_PGETEVENTS,
        nr::CLONE,
        nr::CLONE3,
        nr::FORK,
        nr::VFORK,
        nr::EXIT,
        nr::EXECVE,
        nr::EXECVEAT,
        nr::PRCTL,
        nr::SECCOMP,
        nr::PTRACE,
        nr::ARCH_PRCTL,
        nr::SET_TID_ADDRESS,
        nr::SET_ROBUST_LIST,
        nr::RSEQ,
    ];
    let mut words = [0; 8];
    let mut index = 0;
    while index < numbers.len() {
        words[numbers[index] / 64] |= 1 << (numbers[index] % 64);
        index += 1;
    }
    words
}

/// A call that this crate looks at. The interposer has let it pass.
///
/// # Safety
/// `base` is that of the frame.
#[cold]
unsafe fn special<I: Interposer>(frame: &mut Frame, base: *const usize, step: Step) -> Step {
    let interposer = interposer::<I>();
    match frame.call.number {
        nr::CLONE | nr::CLONE3 | nr::FORK | nr::VFORK => {
            // SAFETY:
            // 1. The caller's promise, and one of the four.
            unsafe { birth::begin(interposer, frame, base) }
        }
        // Any other call would kill it. Its slot is not given back: a signal may still come.
        nr::EXIT if thread::current().is_strict() => Step::Pass,
        nr::EXIT => {
            kernel::set_mask(abi::SIG_SETMASK, u64::MAX);
            // SAFETY:
            // 1. All signals are blocked, and the program gives the thread up.
            unsafe { end_thread(interposer, &frame.call, &frame.context) }
        }
        _ => match serve_special(frame) {
            None => step,
            Some(answer) => {
                frame.answer = answer;
                if step == Step::PassThenAfter {
                    frame.answer = interposer.after(&frame.call, answer, &frame.context);
                }
                Step::Answer
            }
        },
    }
}

/// `None`: the kernel may have the call as it is.
fn serve_special(frame: &mut Frame) -> Option<isize> {
    const PR_SET_SYSCALL_USER_DISPATCH: usize = 59;
    const PR_SET_SECCOMP: usize = 22;
    const PTRACE_TRACEME: usize = 0;
    const ARCH_SET_FS: usize = 0x1002;
    let [first, second, ..] = frame.call.arguments;
    match frame.call.number {
        // As a kernel that does not have it.
        nr::PRCTL if first == PR_SET_SYSCALL_USER_DISPATCH => Some(-(Errno::EINVAL.number() as isize)),
        nr::ARCH_PRCTL if first == ARCH_SET_FS => {
            let slot = thread::current();
            // SAFETY:
            // 1. The program's own call. This library uses no thread-local storage.
            let answer = unsafe { kernel::call(frame.call.number, &frame.call.arguments) };
            if answer == 0 {
                thread::change_key(slot, second);
            }
            Some(answer)
        }
        nr::SET_TID_ADDRESS => {
            thread::current().note_clear_child_tid(first);
            None
        }
        nr::SET_ROBUST_LIST => {
            thread::current().note_robust_list(first);
            None
        }
        nr::RSEQ => {
            let is_leaving = frame.call.arguments[2] & 1 != 0;
            thread::current().note_rseq(if is_leaving { 0 } else { first });
            None
        }
        nr::EXECVE | nr::EXECVEAT => Some(signals::exec(&frame.call)),
        nr::SECCOMP => Some(set_filter(&frame.call)),
        nr::PRCTL if first == PR_SET_SECCOMP => Some(set_filter(&frame.call)),
        nr::PTRACE if first == PTRACE_TRACEME => {
            // SAFETY:
            // 1. The program's own call, which takes numbers.
            let answer = unsafe { kernel::call(frame.call.number, &frame.call.arguments) };
            if answer == 0 {
                // From now on every signal stops this thread until its parent looks, which may wait in a vfork
                // for the exec that follows. Calls until then are seen only where they are patched.
                kernel::dispatch_off();
            }
            Some(answer)
        }
        nr::PTRACE | nr::PRCTL | nr::ARCH_PRCTL => None,
        _ => signals::serve(frame),
    }
}

/// `seccomp`, and what `prctl` has of it.
fn set_filter(call: &Call) -> isize {
    patch::stop();
    let asked = signals::filter::ask(call);
    // SAFETY:
    // 1. The program's own call, which takes numbers and reads a structure.
    let answer = unsafe { kernel::call(call.number, &call.arguments) };
    if answer >= 0 {
        signals::filter::is_set(asked);
        if signals::filter::is_strict_mode(call) {
            thread::current().note_strict();
        }
    }
    answer
}

/// Serves a call on the stack of the caller, which is not the program's: see `dispatch`.
///
/// # Safety
/// The call is the program's. For `exit`, all signals are blocked.
pub(crate) unsafe fn serve_here<I: Interposer>(call: &mut Call, context: &Context) -> isize {
    let interposer = interposer::<I>();
    let step = interposer.before(call, context);
    if let Before::Answer(answer) = step {
        return answer;
    }
    if call.number == nr::EXIT {
        // SAFETY:
        // 1. The caller's promise.
        unsafe { end_thread(interposer, call, context) };
    }
    // SAFETY:
    // 1. The caller's promise.
    let answer = unsafe { kernel::call(call.number, &call.arguments) };
    if step == Before::PassThenAfter { interposer.after(call, answer, context) } else { answer }
}

/// # Safety
/// All signals are blocked, and the program gives the thread up.
unsafe fn end_thread<I: Interposer>(interposer: &'static I, call: &Call, context: &Context) -> ! {
    let slot = thread::current();
    interposer.thread_ends(context);
    // SAFETY:
    // 1. The caller's promise; the interposer was the last to need the slot.
    unsafe { thread::end(slot, call.arguments[0]) }
}
