//! A signal arrives: at a call that was dispatched, at the interposer, or at a handler of the program.
//!
//! Must hold: a signal that is not for us reaches the program's handler as the kernel would bring it: the same
//! information, mask and registers, on the stack that the program asked for. One that a fault of the program has raised
//! while the program had it blocked ends the process, as the kernel has it. Called by the kernel, for each signal that
//! has our action; [`mod@crate::install`] names it.

use uswap_os::sys::{self, abi};

use crate::call::{Fault, Interposer, interposer};
use crate::dispatch::{self, Handled};
use crate::kernel::{self, Action, SignalInfo, UserContext};
use crate::patch;
use crate::serve::serve_here;
use crate::signals::{self, actions, filter};

/// `BUS_MCEERR_AO`: memory is broken that the thread has not touched.
const MEMORY_ERROR_SEEN_AHEAD: i32 = 5;

/// Every signal that is ours, and every one whose handler wants the program's alternate stack.
///
/// Runs on our alternate stack with all signals blocked.
pub(crate) extern "C" fn on_signal<I: Interposer>(
    signal: i32,
    info: *mut SignalInfo,
    context: *mut UserContext,
) {
    // SAFETY:
    // 1. The kernel has written both for this handler (SA_SIGINFO); nobody else knows them.
    let (info, context) = unsafe { (&*info, &mut *context) };
    let signal = signal as u32;
    if signal == abi::SIGSYS {
        match dispatch::handle(info, context, serve_here::<I>) {
            // SAFETY:
            // 1. The frame is the kernel's. The thread goes on at the way of a call, which is as a `syscall` to the
            //    registers, on a stack with room for a frame of ours.
            Some(Handled::Redirected) if filter::forbids_return() => unsafe { filter::resume(context) },
            // SAFETY:
            // 1. The program stands at its call: its frame is at its stack pointer.
            Some(Handled::Returns) => unsafe { signals::return_from_handler(context.rsp) },
            Some(_) => return,
            None => (),
        }
    }
    if signal == abi::SIGSEGV
        && info.code == kernel::SI_KERNEL
        && let Some(trampoline) = patch::interim(context.rip)
    {
        context.rip = trampoline;
        return;
    }
    let is_ours = signals::ours() & kernel::signal_bit(signal) != 0;
    // What a process sends has a code of zero or below.
    if is_ours && signal != abi::SIGSYS && info.code > 0 {
        let (info_at, context_at) = kernel::opaque(info, context);
        if interposer::<I>().fault(signal, info_at, context_at) == Fault::Handled {
            return;
        }
    }
    // What hardware says of memory that nobody reads can wait, and comes in time all the same.
    let comes_of_thread = info.code > 0 && !(signal == abi::SIGBUS && info.code == MEMORY_ERROR_SEEN_AHEAD);
    if is_ours && comes_of_thread && signals::is_shown_blocked(signal) {
        // It comes of what the thread does, and cannot wait: as in a handler for faults that faults itself.
        return die_of(signal);
    }
    let action = actions::take_for_delivery(signal);
    match action.handler {
        actions::IGNORE if info.code <= 0 => {}
        actions::DEFAULT | actions::IGNORE => die_of(signal),
        _ => {
            // SAFETY:
            // 1. The program asked for this handler; frame and stack are those that it would have had.
            unsafe { signals::start_handler(signal, &action, info, context) };
            // For that the kernel has SIGSEGV, and there is no room for a handler of it either.
            die_of(abi::SIGSEGV);
        }
    }
}

/// The default of our signals is the end of the process, with a core.
fn die_of(signal: u32) {
    // SAFETY:
    // 1. The default action runs no code.
    let _ = unsafe { kernel::set_action(signal, Some(&Action::default())) };
    // SAFETY:
    // 1. tgkill takes numbers; the signal is for this thread.
    let _ = unsafe {
        let process_id = uswap_os::process::process_id() as usize;
        sys::syscall3(abi::__NR_tgkill, process_id, kernel::thread_id() as usize, signal as usize)
    };
    kernel::set_mask(abi::SIG_UNBLOCK, kernel::signal_bit(signal));
}
