//! Threads that are cancelled while they wait in a call (`pthread_cancel`).
//!
//! A C library sends a signal for that. musl's handler, and glibc's from 2.41 on, looks whether the thread stands at
//! the library's own `syscall` instruction: then musl's changes where the thread goes on, and glibc's unwinds from
//! there. Under us the thread waits in a call that is made elsewhere. So the handler is shown the thread as it would
//! stand without us, and if it leaves that alone the call goes on where it really is.
//!
//! A thread that is still on its way to a call has no such place. The handlers leave it then, musl's with its signal
//! blocked; and a call that may wait is answered with EINTR, at which both libraries look again.
//!
//! Not seen: a signal that arrives behind the last look in `before` and ahead of the `syscall` instruction. Some thirty
//! instructions lie between them.
//!
//! Must hold: a thread that was cancelled does not begin to wait in a call: it goes on where the handler sends it, or
//! its call is answered with EINTR. But for the gap named above, that holds wherever the signal meets it. Called by
//! [`crate::serve`], [`crate::signals`] and [`crate::attach`], and by `host`, which makes calls of the program.

use core::sync::atomic::{AtomicBool, Ordering};

use uswap_os::Errno;
use uswap_os::sys::abi;

use crate::buffers::may_wait;
use crate::call::Call;
use crate::frame::{self, Frame, RED_ZONE_BYTES};
use crate::kernel::{self, Action, GLIBC_CANCEL, MUSL_CANCEL, SignalInfo, UserContext, cancels, signal_bit};
use crate::thread::{self, Slot};
use crate::{dispatch, patch};

/// `si_code` of a signal that was sent to one thread.
const SI_TKILL: i32 = -6;
/// The instruction.
const SYSCALL: [u8; 2] = [0x0F, 0x05];
/// Most bytes of `kernel::call` and of `entry::go_on` ahead of it.
const AHEAD_MAX: usize = 64;
/// More than the code of `entry::go_on` behind it.
const BEHIND_MAX: usize = 512;

/// A handler of such a signal was started, once: who returns from one may have been cancelled.
static WAS_STARTED: AtomicBool = AtomicBool::new(false);
/// A thread was cancelled ahead of a call, once.
static WAS_CANCELLED: AtomicBool = AtomicBool::new(false);

/// The `syscall` instruction of `entry::go_on`.
fn common_call() -> usize {
    syscall_behind(frame::go_on_address())
}

/// The `syscall` instruction of `kernel::call`.
pub(crate) fn own_call() -> usize {
    syscall_behind(kernel::call as *const () as usize)
}

/// The first `syscall` instruction of a function.
fn syscall_behind(start: usize) -> usize {
    // SAFETY:
    // 1. The callers name functions of this library that are longer than this, or have another one behind them.
    let code = unsafe { core::slice::from_raw_parts(start as *const u8, AHEAD_MAX) };
    let at = code.windows(SYSCALL.len()).position(|bytes| bytes == SYSCALL);
    start + at.expect("the function makes a call")
}

/// Makes a call of the program, where a thread that is cancelled is found. An error is a small negative number.
///
/// # Safety
/// As the call itself.
pub unsafe fn make_as_program(call: &Call) -> isize {
    // SAFETY:
    // 1. The caller's promise.
    unsafe { kernel::call(call.number, &call.arguments) }
}

/// Whether a handler is one that looks where the thread stands: glibc's before 2.41 does not, and lets calls fail.
pub(crate) fn looks(signal: u32, action: &Action) -> bool {
    cancels(signal) && action.flags & abi::SA_RESTART as usize != 0
}

/// How the thread would stand without us at a signal that may cancel it, if it is in a call.
pub(crate) fn native_context(signal: u32, context: &UserContext) -> Option<UserContext> {
    if !cancels(signal) {
        return None;
    }
    WAS_STARTED.store(true, Ordering::Relaxed);
    let mut shown = *context;
    let behind_site = if context.rip == common_call() {
        // SAFETY:
        // 1. `go_on` has pushed two words below its frame, and keeps the program's rbp at its own.
        let (frame, base) =
            unsafe { (&*((context.rsp + 16) as *const Frame), *(context.rbp as *const usize)) };
        let [rdi, rsi, rdx, r10, r8, r9] = frame.saved;
        (shown.rdi, shown.rsi, shown.rdx) = (rdi, rsi, rdx);
        shown.r8_to_r15[..3].copy_from_slice(&[r8, r9, r10]);
        (shown.rbp, shown.rsp) = (base, frame.context.stack_pointer);
        frame.context.instruction_pointer
    } else {
        shown.rsp += RED_ZONE_BYTES;
        patch::behind_site(context.rip)?
    };
    shown.rip = behind_site - SYSCALL.len();
    Some(shown)
}

/// Whether a handler that returns may be one of these.
pub(crate) fn may_return() -> bool {
    WAS_STARTED.load(Ordering::Relaxed)
}

/// A handler returns to `context`, which is no place in a call: see the top. `glibc` is the program's action for
/// glibc's signal.
pub(crate) fn on_return(context: &mut UserContext, info: &SignalInfo, glibc: &Action) {
    let is_musl = info.signal == MUSL_CANCEL as i32 && context.mask & signal_bit(MUSL_CANCEL) != 0;
    let is_glibc = info.signal == GLIBC_CANCEL as i32
        && info.code == SI_TKILL
        && glibc.flags & abi::SA_RESTART as usize != 0;
    let (place, common) = (context.rip, common_call());
    if (!is_musl && !is_glibc) || !dispatch::is_allowed(place) {
        return;
    }
    if place == own_call() {
        // Part of a call that goes in parts, or one about signals.
        context.rip += SYSCALL.len();
        context.rax = Errno::EINTR.as_answer() as usize;
    } else if !(common..common + BEHIND_MAX).contains(&place) && !patch::is_trampoline(place) {
        // If it is on its way from a call, this is forgotten at its end.
        thread::current().is_cancelled.store(1, Ordering::Relaxed);
        WAS_CANCELLED.store(true, Ordering::Relaxed);
    }
}

/// Whether the call that is about to be made is answered with EINTR.
#[inline]
pub(crate) fn is_due(call: &Call) -> bool {
    WAS_CANCELLED.load(Ordering::Relaxed) && take(thread::current()) && may_wait(call)
}

/// A call has been made.
#[inline]
pub(crate) fn forget() {
    if WAS_CANCELLED.load(Ordering::Relaxed) {
        take(thread::current());
    }
}

#[cold]
fn take(slot: &Slot) -> bool {
    slot.is_cancelled.swap(0, Ordering::Relaxed) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_way_has_its_call_near_its_beginning() {
        struct Nothing;
        impl crate::Interposer for Nothing {
            fn before(&self, _: &mut crate::Call, _: &crate::Context) -> crate::Before {
                crate::Before::Pass
            }
        }
        crate::entry::choose::<Nothing>();
        assert!(common_call() > frame::go_on_address());
    }
}
