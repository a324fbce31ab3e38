//! Signals: some stay ours, and the program cannot tell.
//!
//! *Ours* are SIGSYS, SIGSEGV, which patching needs, and those of `Options::faults`. Their action in the kernel is ours
//! for ever; what the program asks for is kept in [`actions`], shown to it, and run when the signal is not for us. They
//! are taken out of every set of blocked signals ([`masks`]). The alternate stack that the kernel knows is ours too, so
//! every handler that wants the program's alternate stack is started there by us ([`frame`]).
//!
//! What must hold: no code of the program runs while one of ours is blocked. The kernel kills a process
//! that has to take one then. One that the program has blocked ([`masks`]) ends the process as well, if it comes of a
//! fault of the program itself.
//!
//! Called by [`crate::serve`] for calls about signals, by [`crate::delivery`], and by [`mod@crate::install`],
//! [`crate::birth`] and [`crate::attach`], which make signals ours.

pub mod actions;
pub(crate) mod filter;
mod frame;
#[cfg(all(test, loom))]
mod loom_tests;
mod masks;
pub(crate) mod shared_action;

use core::sync::atomic::{AtomicU64, Ordering};

use uswap_os::sys::{Result, abi};

use crate::frame::Frame;
use crate::kernel::{self, Handler, nr};
use crate::thread;

pub(crate) use frame::{return_from_handler, start_handler};
use masks::SetIs;
pub(crate) use masks::{block, block_all, is_shown_blocked};

/// The signals that are ours, as a set.
static OURS: AtomicU64 = AtomicU64::new(0);

#[inline]
pub(crate) fn ours() -> u64 {
    OURS.load(Ordering::Relaxed)
}

/// Makes the signals ours. The alternate stack of this thread must be in place.
pub(crate) fn install(faults: u64, handler: Handler) -> Result<()> {
    let always = kernel::signal_bit(abi::SIGSYS) | kernel::signal_bit(abi::SIGSEGV);
    OURS.store(faults | always, Ordering::Relaxed);
    actions::install(handler)?;
    let slot = thread::current();
    let blocked = kernel::set_mask(abi::SIG_UNBLOCK, ours());
    masks::show(slot, blocked);
    Ok(())
}

/// A call about signals: `None` if the kernel may have it as it is.
pub(crate) fn serve(frame: &mut Frame) -> Option<isize> {
    let [_, _, _, _, _, last] = frame.call.arguments;
    match frame.call.number {
        nr::RT_SIGPROCMASK => masks::change(&frame.call),
        nr::RT_SIGACTION => actions::change(&frame.call),
        nr::SIGALTSTACK => Some(frame::change_stack(&frame.call, frame.context.stack_pointer)),
        nr::RT_SIGSUSPEND => masks::call_with_set(&frame.call, 0, 1, SetIs::BlockedMeanwhile),
        nr::RT_SIGTIMEDWAIT => masks::call_with_set(&frame.call, 0, 3, SetIs::WaitedFor),
        nr::SIGNALFD | nr::SIGNALFD4 => masks::call_with_set(&frame.call, 1, 2, SetIs::WaitedFor),
        nr::PPOLL => masks::call_with_set(&frame.call, 3, 4, SetIs::BlockedMeanwhile),
        nr::EPOLL_PWAIT | nr::EPOLL_PWAIT2 => {
            masks::call_with_set(&frame.call, 4, 5, SetIs::BlockedMeanwhile)
        }
        nr::PSELECT6 | nr::IO_PGETEVENTS if last != 0 => masks::call_with_nested_set(&frame.call, 5),
        _ => None,
    }
}

/// `execve` and `execveat`: comes back only with an error.
///
/// What the new program inherits is what this one asked for: our signals ignored, if it ignored them, and
/// blocked, if it blocked them. Until then no signal can arrive, but for the instant in which ours are blocked
/// as the program wants and the others are open.
pub(crate) fn exec(call: &crate::Call) -> isize {
    let shown = masks::shown(thread::current());
    let blocked = kernel::set_mask(abi::SIG_SETMASK, u64::MAX);
    let ignored = actions::ignore_for_exec();
    kernel::set_mask(abi::SIG_SETMASK, blocked | shown);
    // SAFETY:
    // 1. The program's own call.
    let answer = unsafe { kernel::call(call.number, &call.arguments) };
    kernel::set_mask(abi::SIG_SETMASK, u64::MAX);
    actions::restore_after_exec(ignored);
    kernel::set_mask(abi::SIG_SETMASK, blocked);
    answer
}
