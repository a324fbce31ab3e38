//! A call on its way: first the interposer, then what this crate must do itself for the calls that would undo it.
//!
//! Must hold: what the interposer lets pass reaches the kernel as it stands, unless it would undo the boundary; the
//! answer to such a call is what the kernel would have said. Called by the assembly of [`mod@crate::entry`], and by
//! [`crate::delivery`] for calls that are served in the handler.

use uswap_os::sys::prctl::{PR_SET_SECCOMP, PR_SET_SYSCALL_USER_DISPATCH};
use uswap_os::sys::{Errno, abi};

use crate::call::{Before, Call, Context, Interposer, interposer};
use crate::frame::{self, Frame, Step};
use crate::kernel::{self, nr};
use crate::table::NumberSet;
use crate::{birth, cancellation, patch, signals, thread};

/// Asks the interposer about a call ahead of the kernel, and answers how the call goes on. Called by `entry` and
/// `quick_entry` with the frame, and where they have kept `rbp` of the program.
///
/// # Safety
/// `frame` is that of a call of this thread, as `entry` or `quick_entry` has just built it, and `base` is that of the
/// frame. `I` is the type of the interposer.
pub(crate) unsafe extern "C" fn before<I: Interposer>(frame: &mut Frame, base: *const usize) -> Step {
    // SAFETY:
    // 1. The assembly passes the base of this frame.
    unsafe { frame::fill_context(frame, base) };
    let step = match interposer::<I>().before(&mut frame.call, &frame.context) {
        Before::Pass => Step::Pass,
        Before::PassThenAfter => Step::PassThenAfter,
        Before::Answer(answer) => {
            frame.answer = answer;
            return Step::Answer;
        }
    };
    if !SPECIAL.contains(frame.call.number, false) {
        return if cancellation::is_due(&frame.call) { interrupt::<I>(frame, step) } else { step };
    }
    // SAFETY:
    // 1. The assembly passes the base of this frame.
    unsafe { special::<I>(frame, base, step) }
}

/// The thread was cancelled on its way to the kernel.
#[cold]
fn interrupt<I: Interposer>(frame: &mut Frame, step: Step) -> Step {
    frame.answer = Errno::EINTR.as_answer();
    if step == Step::PassThenAfter {
        frame.answer = interposer::<I>().after(&frame.call, frame.answer, &frame.context);
    }
    Step::Answer
}

/// Asks the interposer what the program gets for the kernel's answer, which is in the frame.
///
/// # Safety
/// `before::<I>` has answered [`Step::PassThenAfter`] for `frame`, and the call has been made.
pub(crate) unsafe extern "C" fn after<I: Interposer>(frame: &mut Frame) {
    frame.answer = interposer::<I>().after(&frame.call, frame.answer, &frame.context);
    cancellation::forget();
}

/// Calls that this crate looks at.
static SPECIAL: NumberSet = NumberSet::of(&[
    abi::__NR_rt_sigaction,
    abi::__NR_rt_sigprocmask,
    abi::__NR_rt_sigtimedwait,
    abi::__NR_rt_sigsuspend,
    abi::__NR_sigaltstack,
    abi::__NR_signalfd,
    abi::__NR_signalfd4,
    abi::__NR_ppoll,
    abi::__NR_pselect6,
    abi::__NR_epoll_pwait,
    abi::__NR_epoll_pwait2,
    abi::__NR_io_pgetevents,
    abi::__NR_clone,
    abi::__NR_clone3,
    abi::__NR_fork,
    abi::__NR_vfork,
    abi::__NR_exit,
    abi::__NR_execve,
    abi::__NR_execveat,
    abi::__NR_prctl,
    abi::__NR_seccomp,
    abi::__NR_ptrace,
    abi::__NR_arch_prctl,
    abi::__NR_set_tid_address,
    abi::__NR_set_robust_list,
    abi::__NR_rseq,
]);

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
    const PTRACE_TRACEME: usize = 0;
    const ARCH_SET_FS: usize = 0x1002;
    let [first, second, ..] = frame.call.arguments;
    match frame.call.number {
        // As a kernel that does not have it.
        nr::PRCTL if first == PR_SET_SYSCALL_USER_DISPATCH as usize => Some(Errno::EINVAL.as_answer()),
        nr::ARCH_PRCTL if first == ARCH_SET_FS => {
            let slot = thread::current();
            // A handler that came between the two would be on a thread that is not known, and get it another slot.
            let blocked = kernel::set_mask(abi::SIG_SETMASK, u64::MAX);
            // SAFETY:
            // 1. The program's own call. This library uses no thread-local storage.
            let answer = unsafe { kernel::call(frame.call.number, &frame.call.arguments) };
            if answer == 0 {
                thread::change_key(slot, second);
            }
            kernel::set_mask(abi::SIG_SETMASK, blocked);
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
            // SAFETY:
            // 1. The program's own call: it gives the kernel memory of its own to write, or takes it back.
            let answer = unsafe { kernel::call(frame.call.number, &frame.call.arguments) };
            if answer == 0 {
                let is_leaving = frame.call.arguments[2] & 1 != 0;
                thread::current().note_rseq(if is_leaving { 0 } else { first });
            }
            Some(answer)
        }
        nr::EXECVE | nr::EXECVEAT => Some(signals::exec(&frame.call)),
        nr::SECCOMP => Some(set_filter(&frame.call)),
        nr::PRCTL if first == PR_SET_SECCOMP as usize => Some(set_filter(&frame.call)),
        nr::PTRACE if first == PTRACE_TRACEME => {
            // SAFETY:
            // 1. The program's own call, which takes numbers.
            let answer = unsafe { kernel::call(frame.call.number, &frame.call.arguments) };
            if answer == 0 {
                // From now on every signal stops this thread until its parent looks, which may wait in a vfork
                // for the exec that follows. Calls until then are seen only where they are patched.
                thread::current().note_undispatched();
                kernel::dispatch_off();
            }
            Some(answer)
        }
        nr::PTRACE | nr::PRCTL | nr::ARCH_PRCTL => None,
        _ => signals::serve(frame),
    }
}

/// `seccomp`, and what `prctl` has of it. The filter may be there for other threads, and for a handler of this one,
/// before the call is back: what it means for our own calls is seen to ahead of it.
fn set_filter(call: &Call) -> isize {
    patch::stop();
    // To find it may take calls, which a thread in strict mode could not make.
    let slot = thread::current();
    let announced = signals::filter::announce(call);
    let is_strict_mode = signals::filter::is_strict_mode(call);
    if is_strict_mode {
        slot.note_strict(true);
    }
    // SAFETY:
    // 1. The program's own call, which takes numbers and reads a structure.
    let answer = unsafe { kernel::call(call.number, &call.arguments) };
    announced.answered(call, answer);
    if is_strict_mode && answer != 0 {
        slot.note_strict(false);
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

/// Ends this thread, when the interposer has been told.
///
/// # Safety
/// All signals are blocked, and the program gives the thread up.
unsafe fn end_thread<I: Interposer>(interposer: &'static I, call: &Call, context: &Context) -> ! {
    let slot = thread::current();
    if slot.is_lent() {
        // A child that shares the memory (vfork) is in its parent's slot, which that needs when it goes on.
        // SAFETY:
        // 1. `exit` ends this thread only; nothing of it is needed any more (the caller's promise).
        let _never = unsafe { kernel::call(nr::EXIT, &call.arguments) };
    }
    interposer.thread_ends(context);
    // SAFETY:
    // 1. The caller's promise; the interposer was the last to need the slot.
    unsafe { thread::end(slot, call.arguments[0]) }
}
