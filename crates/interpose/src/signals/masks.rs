//! Sets of blocked signals: ours are taken out before the kernel sees them, and shown as if they were in.
//!
//! Must hold: no set that reaches the kernel blocks a signal of ours, and none that the program reads shows the
//! difference. Called by [`crate::signals`].

use core::sync::atomic::Ordering;

use uswap_os::sys::abi;

use super::ours;
use crate::call::Call;
use crate::kernel::{self, SIGNAL_SET_BYTES};
use crate::thread;

/// `rt_sigprocmask`.
pub(super) fn change(call: &Call) -> Option<isize> {
    let [how, set_at, old_at, bytes, ..] = call.arguments;
    if bytes != SIGNAL_SET_BYTES || (set_at == 0 && old_at == 0) {
        return None;
    }
    let slot = thread::current();
    let shown = slot.shown_blocked.load(Ordering::Relaxed) as u64;
    let mut changed = *call;
    let stripped;
    let mut shown_after = shown;
    if set_at != 0 {
        let Ok(set) = kernel::read_word(set_at) else { return None };
        if set & ours() == 0 && shown == 0 {
            return None;
        }
        stripped = set & !ours();
        shown_after = match how as u32 {
            abi::SIG_BLOCK => shown | set & ours(),
            abi::SIG_UNBLOCK => shown & !set,
            _ => set & ours(),
        };
        changed.arguments[1] = &raw const stripped as usize;
    } else if shown == 0 {
        return None;
    }
    // SAFETY:
    // 1. The program's call; its set is a copy on this stack, and the kernel checks where the old one goes.
    let answer = unsafe { kernel::call(changed.number, &changed.arguments) };
    if answer == 0 {
        slot.shown_blocked.store(shown_after as usize, Ordering::Relaxed);
        if old_at != 0 {
            let old = old_at as *mut u64;
            // SAFETY:
            // 1. The kernel has just written eight bytes there for the program.
            unsafe { old.write_unaligned(old.read_unaligned() & !ours() | shown) };
        }
    }
    Some(answer)
}

/// A call that takes a set at argument `set` with its bytes at argument `bytes`.
pub(super) fn call_with_set(call: &Call, set: usize, bytes: usize) -> Option<isize> {
    let set_at = call.arguments[set];
    if set_at == 0 || call.arguments[bytes] != SIGNAL_SET_BYTES {
        return None;
    }
    let wanted = kernel::read_word(set_at).ok()?;
    if wanted & ours() == 0 {
        return None;
    }
    let stripped = wanted & !ours();
    let mut changed = *call;
    changed.arguments[set] = &raw const stripped as usize;
    // SAFETY:
    // 1. The program's call; its set is a copy that lives until the call is done.
    Some(unsafe { kernel::call(changed.number, &changed.arguments) })
}

/// A call whose argument `pair` points to the address of a set and its bytes.
pub(super) fn call_with_nested_set(call: &Call, pair: usize) -> Option<isize> {
    let pair_at = call.arguments[pair];
    let (set_at, bytes) =
        (kernel::read_word(pair_at).ok()? as usize, kernel::read_word(pair_at + 8).ok()? as usize);
    if set_at == 0 || bytes != SIGNAL_SET_BYTES {
        return None;
    }
    let wanted = kernel::read_word(set_at).ok()?;
    if wanted & ours() == 0 {
        return None;
    }
    let stripped = wanted & !ours();
    let new_pair = [&raw const stripped as usize, bytes];
    let mut changed = *call;
    changed.arguments[pair] = &raw const new_pair as usize;
    // SAFETY:
    // 1. The program's call; set and pair are copies that live until the call is done.
    Some(unsafe { kernel::call(changed.number, &changed.arguments) })
}
