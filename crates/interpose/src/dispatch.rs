//! Syscall User Dispatch: what no patch covers arrives as SIGSYS.
//!
//! The handler only redirects: it writes where to go on below the red zone of the program's stack and
//! lets the thread go on in `entry::dispatched`, so that the call itself runs on the program's stack with
//! the program's mask, as a patched one does. A signal that interrupts it, a restart, a jump out of a
//! handler are then what they always were.
//!
//! A stack that is not the thread's own (a coroutine's, a goroutine's) may have a few hundred bytes left: then the
//! call runs on a call stack of ours, see `entry::elsewhere`.
//!
//! Served in the handler, because the stack may be gone behind the call or before it: `exit`,
//! `rt_sigreturn`, and an unmapping of the stack itself.
//!
//! What must hold: SIGSYS is never blocked while a program's code runs (`signals` sees to it), since the
//! kernel kills a process whose SIGSYS is blocked when a call is dispatched.
//!
//! Called by [`crate::delivery`], which has the signal, and by [`mod@crate::install`], [`crate::birth`] and
//! [`crate::attach`], which arm threads.

use core::sync::atomic::{AtomicUsize, Ordering};

use uswap_os::sys::Result;

use crate::call::Context;
use crate::frame::{self, RED_ZONE_BYTES};
use crate::kernel::{self, SignalInfo, UserContext, nr};
use crate::{patch, thread};

/// The text whose calls are ours, start and bytes.
static ALLOWED: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Notes the text whose calls are not seen.
pub(crate) fn allow(start: usize, bytes: usize) {
    ALLOWED[0].store(start, Ordering::Relaxed);
    ALLOWED[1].store(bytes, Ordering::Relaxed);
}

/// Whether it lies in the text whose calls are not seen.
pub(crate) fn is_allowed(place: usize) -> bool {
    place.wrapping_sub(ALLOWED[0].load(Ordering::Relaxed)) < ALLOWED[1].load(Ordering::Relaxed)
}

/// Arms this thread. First thing in each thread and process: the kernel switches it off at a clone.
pub(crate) fn arm() -> Result<()> {
    // SAFETY:
    // 1. `install` has set the handler before the first thread is armed, and `signals` keeps it there.
    unsafe { kernel::dispatch_on(ALLOWED[0].load(Ordering::Relaxed), ALLOWED[1].load(Ordering::Relaxed)) }
}

/// The arguments of `prctl` by which a thread is armed.
pub(crate) fn arming() -> [usize; 5] {
    kernel::dispatch_arguments(ALLOWED[0].load(Ordering::Relaxed), ALLOWED[1].load(Ordering::Relaxed))
}

/// Served on the alternate stack, see the top.
pub(crate) type ServeHere = unsafe fn(call: &mut crate::Call, context: &Context) -> isize;

/// How the thread goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handled {
    /// On the way of a call.
    Redirected,
    /// Somewhere else.
    Served,
    /// Where the handler of a signal was started that it returns from.
    Returns,
}

/// SIGSYS. Every signal is blocked. `None`: it does not come from dispatch.
pub(crate) fn handle(info: &SignalInfo, context: &mut UserContext, serve_here: ServeHere) -> Option<Handled> {
    if info.code != kernel::SYS_USER_DISPATCH {
        return None;
    }
    match context.rax {
        nr::RT_SIGRETURN => return Some(Handled::Returns),
        nr::EXIT => {
            let mut call = call_of(context);
            // SAFETY:
            // 1. Every signal is blocked (the action's mask), and the thread asked to end.
            unsafe { serve_here(&mut call, &context_of(context)) };
        }
        nr::MUNMAP if covers(context.rdi, context.rsi, context.rsp) => {
            let mut call = call_of(context);
            // SAFETY:
            // 1. The call is the program's own; this code runs on the alternate stack, which is ours.
            context.rax = unsafe { serve_here(&mut call, &context_of(context)) } as usize;
            context.rcx = context.rip;
        }
        _ => {
            redirect(context);
            return Some(Handled::Redirected);
        }
    }
    Some(Handled::Served)
}

/// Lets the thread go on at its call, on a stack with room.
fn redirect(context: &mut UserContext) {
    patch::note_call(context);
    let slot = thread::current();
    let call_stack = if slot.has_room_at(context.rsp) { None } else { slot.take_call_stack() };
    if let Some((end, used)) = call_stack {
        let words = [context.rip, context.rsp, used.as_ptr() as usize];
        let at = end - thread::ELSEWHERE_BYTES;
        // SAFETY:
        // 1. The end of a call stack, which is this thread's alone now.
        unsafe { (at as *mut [usize; 3]).write(words) };
        context.rsp = at;
        context.rip = frame::elsewhere_address();
        return;
    }
    let below = context.rsp - RED_ZONE_BYTES - size_of::<usize>();
    // SAFETY:
    // 1. The word lies below the red zone of the thread's stack, which no code uses without having moved
    //    the stack pointer. A stack without room for it would have had none for a signal either.
    unsafe { (below as *mut usize).write(context.rip) };
    context.rsp = below;
    context.rip = frame::dispatched_address();
}

fn call_of(context: &UserContext) -> crate::Call {
    let [r8, r9, r10, ..] = context.r8_to_r15;
    crate::Call { number: context.rax, arguments: [context.rdi, context.rsi, context.rdx, r10, r8, r9] }
}

fn context_of(context: &UserContext) -> Context {
    Context { stack_pointer: context.rsp, instruction_pointer: context.rip, is_dispatched: 1 }
}

fn covers(start: usize, bytes: usize, address: usize) -> bool {
    address.wrapping_sub(start) < bytes.saturating_add(RED_ZONE_BYTES + 4096)
}
