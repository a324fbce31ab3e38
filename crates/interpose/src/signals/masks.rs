//! Sets of blocked signals: ours are taken out before the kernel sees them, and shown as if they were in.
//!
//! Must hold: no set that reaches the kernel blocks a signal of ours, and none that the program reads shows the
//! difference. Called by [`crate::signals`], by [`crate::delivery`], which asks what is shown, and by [`crate::birth`],
//! whose threads begin with all signals blocked.

use core::sync::atomic::Ordering;

use uswap_os::sys::abi;

use super::ours;
use crate::call::Call;
use crate::kernel::{self, SIGNAL_SET_BYTES};
use crate::thread::{self, Slot};

/// Signals of ours that the program has blocked.
pub(super) fn shown(slot: &Slot) -> u64 {
    slot.shown_blocked.load(Ordering::Relaxed) as u64
}

/// The program has blocked these signals, as far as they are ours.
pub(super) fn show(slot: &Slot, blocked: u64) {
    slot.shown_blocked.store((blocked & ours()) as usize, Ordering::Relaxed);
}

/// Whether the program has blocked a signal, which is one of ours. Of a thread whose calls are not seen that is not
/// known.
pub(crate) fn is_shown_blocked(signal: u32) -> bool {
    let slot = thread::current();
    shown(slot) & kernel::signal_bit(signal) != 0 && !slot.is_undispatched()
}

/// Blocks all signals of this thread, which has the slot. Answers what the program had blocked, ours included.
pub(crate) fn block_all(slot: &Slot) -> u64 {
    kernel::set_mask(abi::SIG_SETMASK, u64::MAX) & !ours() | shown(slot)
}

/// Blocks what the program has blocked, and no other signal.
pub(crate) fn block(slot: &Slot, blocked: u64) {
    show(slot, blocked);
    kernel::set_mask(abi::SIG_SETMASK, blocked & !ours());
}

/// `rt_sigprocmask`.
pub(super) fn change(call: &Call) -> Option<isize> {
    let [how, set_at, old_at, bytes, ..] = call.arguments;
    if bytes != SIGNAL_SET_BYTES || (set_at == 0 && old_at == 0) {
        return None;
    }
    let slot = thread::current();
    let shown = shown(slot);
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
    // A signal that the call lets in comes before the call is back: its handler may fault as if it were.
    show(slot, shown & shown_after);
    // SAFETY:
    // 1. The program's call; its set is a copy on this stack, and the kernel checks where the old one goes.
    let answer = unsafe { kernel::call(changed.number, &changed.arguments) };
    show(slot, if answer == 0 { shown_after } else { shown });
    if answer == 0 && old_at != 0 {
        let old = old_at as *mut u64;
        // SAFETY:
        // 1. The kernel has just written eight bytes there for the program.
        unsafe { old.write_unaligned(old.read_unaligned() & !ours() | shown) };
    }
    Some(answer)
}

/// What a call does with the set that it takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SetIs {
    /// It waits for these signals, or makes a descriptor of them.
    WaitedFor,
    /// They are blocked, and no others, until it is back.
    BlockedMeanwhile,
}

/// A call that takes a set at argument `set` with its bytes at argument `bytes`.
pub(super) fn call_with_set(call: &Call, set: usize, bytes: usize, is: SetIs) -> Option<isize> {
    let set_at = call.arguments[set];
    if set_at == 0 || call.arguments[bytes] != SIGNAL_SET_BYTES {
        return None;
    }
    let wanted = kernel::read_word(set_at).ok()?;
    let slot = thread::current();
    let before = shown(slot);
    if wanted & ours() == 0 && (is == SetIs::WaitedFor || before == 0) {
        return None;
    }
    let stripped = wanted & !ours();
    let mut changed = *call;
    changed.arguments[set] = &raw const stripped as usize;
    show(slot, if is == SetIs::BlockedMeanwhile { wanted } else { before });
    // SAFETY:
    // 1. The program's call; its set is a copy that lives until the call is done.
    let answer = unsafe { kernel::call(changed.number, &changed.arguments) };
    show(slot, before);
    Some(answer)
}

/// A call whose argument `pair` points to the address of a set and its bytes. They are blocked, and no others, until it
/// is back.
pub(super) fn call_with_nested_set(call: &Call, pair: usize) -> Option<isize> {
    let pair_at = call.arguments[pair];
    let (set_at, bytes) =
        (kernel::read_word(pair_at).ok()? as usize, kernel::read_word(pair_at + 8).ok()? as usize);
    if set_at == 0 || bytes != SIGNAL_SET_BYTES {
        return None;
    }
    let wanted = kernel::read_word(set_at).ok()?;
    let slot = thread::current();
    let before = shown(slot);
    if wanted & ours() == 0 && before == 0 {
        return None;
    }
    let stripped = wanted & !ours();
    let new_pair = [&raw const stripped as usize, bytes];
    let mut changed = *call;
    changed.arguments[pair] = &raw const new_pair as usize;
    show(slot, wanted);
    // SAFETY:
    // 1. The program's call; set and pair are copies that live until the call is done.
    let answer = unsafe { kernel::call(changed.number, &changed.arguments) };
    show(slot, before);
    Some(answer)
}
