//! What the program wants to be done at each signal, and what the kernel is told instead.
//!
//! The kernel gets ours for signals that are ours, for each handler with SA_ONSTACK, because the alternate stack is
//! ours, with SA_RESETHAND, so that what is kept changes with it, and for one that may cancel a thread. Every other
//! action goes through with our signals taken out of its mask. What the program asks for is shown when it asks again.
//!
//! Must hold: in the kernel the action of a signal of ours is ours, until an exec. What is kept ([`SharedAction`]) is
//! what the program asked for last; who changes it has `LOCK`, or is the only thread of a child. Called by
//! [`crate::signals`], [`crate::delivery`], which asks what to run, and [`crate::birth`]; by `host`, which asks where
//! handlers run.

use core::arch::naked_asm;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use uswap_os::gate::Gate;
use uswap_os::process;
use uswap_os::sys::{Result, abi};

use super::ours;
pub use super::shared_action::{DEFAULT, IGNORE};
use super::shared_action::{SharedAction, has_handler};
use crate::call::Call;
use crate::cancellation;
use crate::kernel::{self, Action, Handler, SIGNAL_SET_BYTES, signal_bit};
use crate::thread::{self, Slot};

const SIGNALS: usize = 64;
const SIGNAL_MAX: u32 = SIGNALS as u32;

const ONSTACK: usize = abi::SA_ONSTACK as usize;
const RESETHAND: usize = abi::SA_RESETHAND as usize;
const RESTART: usize = abi::SA_RESTART as usize;
/// Flags that mean the same whoever's handler runs.
const CARRIED: usize = (abi::SA_RESTART | abi::SA_NOCLDSTOP | abi::SA_NOCLDWAIT) as usize;

#[cfg(not(loom))]
static ACTIONS: [SharedAction; SIGNALS] = [const { SharedAction::new() }; SIGNALS];
#[cfg(loom)]
loom::lazy_static! {
    static ref ACTIONS: [SharedAction; SIGNALS] = core::array::from_fn(|_| SharedAction::new());
}
/// Held while an action changes, here and in the kernel, with all signals blocked; and while the process is copied, so
/// that a child finds each action whole, and the kernel's the same.
static LOCK: Gate = Gate::new();
static HANDLER: AtomicUsize = AtomicUsize::new(0);
/// Threads that execute a program while the kernel ignores signals of ours: in the lower half those that are at it, in
/// the upper half all that ever were. And what it was when the process was about to be copied.
static EXECS: AtomicU64 = AtomicU64::new(0);
static EXECS_AT_COPY: AtomicU64 = AtomicU64::new(0);
const EXEC: u64 = 1 << 32;
/// The process whose actions are kept. A child that shares the memory has actions of its own.
static PROCESS: AtomicU32 = AtomicU32::new(0);

fn kept(signal: u32) -> &'static SharedAction {
    &ACTIONS[signal as usize - 1]
}

/// Reads what is in force and makes ours of it.
pub(super) fn install(handler: Handler) -> Result<()> {
    HANDLER.store(handler as *const () as usize, Ordering::Relaxed);
    PROCESS.store(process::process_id(), Ordering::Relaxed);
    let blocked = kernel::set_mask(abi::SIG_SETMASK, u64::MAX);
    let locked = LOCK.exclusive();
    let installed = install_all();
    drop(locked);
    kernel::set_mask(abi::SIG_SETMASK, blocked);
    installed
}

fn install_all() -> Result<()> {
    for signal in 1..=SIGNAL_MAX {
        // SAFETY:
        // 1. Nothing is changed.
        let action = unsafe { kernel::set_action(signal, None) }?;
        kept(signal).store(&action);
        let told = told(signal, &action);
        if told != action && signal != abi::SIGKILL && signal != abi::SIGSTOP {
            // SAFETY:
            // 1. `on_signal` serves any signal at any instruction; others stay the program's own.
            unsafe { kernel::set_action(signal, Some(&told)) }?;
        }
    }
    Ok(())
}

/// The process is about to be copied, with all signals blocked: no action changes until [`copy_ends`], if it `locks`
/// them.
pub(crate) fn copy_begins(locks: bool) {
    if locks {
        core::mem::forget(LOCK.exclusive());
    }
    EXECS_AT_COPY.store(EXECS.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// In the parent, behind the copy.
pub(crate) fn copy_ends(locks: bool) {
    if locks {
        LOCK.unlock_exclusive_forgotten();
    }
}

/// In the child of a fork, whose actions are a copy of its parent's. Another thread may have been about to execute a
/// program; or to change an action, if the parent waits for the child (CLONE_VFORK) and has not locked them for that.
pub(crate) fn after_fork() {
    PROCESS.store(process::process_id(), Ordering::Relaxed);
    LOCK.reset();
    ACTIONS.iter().for_each(SharedAction::end_of_a_store);
    let execs = EXECS.swap(0, Ordering::Relaxed);
    if execs as u32 != 0 || execs != EXECS_AT_COPY.load(Ordering::Relaxed) {
        tell_again(ours());
    }
}

/// In a child that began with CLONE_CLEAR_SIGHAND (glibc's posix_spawn since 2.38), where the kernel has made the
/// default of each handler, ours too: those are set again. `slot` is that of the thread whose memory a child shares,
/// else its own.
pub(crate) fn after_clear(slot: &Slot) {
    let has_a_copy = !is_sharing_child();
    for signal in 1..=SIGNAL_MAX {
        let is_ours = ours() & signal_bit(signal) != 0;
        if is_ours {
            let told = told(signal, &kept(signal).load());
            // SAFETY:
            // 1. `on_signal` serves any signal at any instruction.
            unsafe { kernel::set_action(signal, Some(&told)) }.expect("the parent has it too");
        }
        if has_a_copy && kept(signal).load().handler != IGNORE {
            kept(signal).store(&Action::default());
        } else if is_ours && in_sharing_child(slot, signal).handler != IGNORE {
            slot.child_default.fetch_or(signal_bit(signal) as usize, Ordering::Relaxed);
        }
    }
}

/// What the kernel is told.
fn told(signal: u32, action: &Action) -> Action {
    let is_ours = ours() & signal_bit(signal) != 0;
    let goes_by_us = has_handler(action)
        && (action.flags & (ONSTACK | RESETHAND) != 0 || cancellation::looks(signal, action));
    if !is_ours && !goes_by_us {
        return Action { mask: action.mask & !ours(), ..*action };
    }
    let carried = if is_ours { RESTART } else { action.flags & CARRIED };
    let flags = carried | ONSTACK | (abi::SA_SIGINFO | abi::SA_RESTORER) as usize;
    Action {
        handler: HANDLER.load(Ordering::Relaxed),
        flags,
        restorer: restorer as *const () as usize,
        mask: u64::MAX,
    }
}

/// The program's action for a signal that is being delivered to it, with all signals blocked.
pub(crate) fn take_for_delivery(signal: u32) -> Action {
    loop {
        let (action, former) = kept(signal).load_both();
        if !has_handler(&action) {
            // The kernel took the signal for a handler. The program has changed its mind meanwhile, in another thread.
            let is_ours = ours() & signal_bit(signal) != 0;
            let had_it = !is_ours && has_handler(&former) && former.flags & RESETHAND == 0;
            return if had_it { former } else { action };
        }
        if action.flags & RESETHAND == 0 || reset(signal, &action) {
            return action;
        }
    }
}

/// Makes the default of an action that is taken once. False: another thread has changed it meanwhile.
fn reset(signal: u32, action: &Action) -> bool {
    let kept = kept(signal);
    let reset = Action { handler: DEFAULT, ..*action };
    let tell = || {
        if ours() & signal_bit(signal) == 0 {
            // SAFETY:
            // 1. The default action runs no code.
            let _ = unsafe { kernel::set_action(signal, Some(&told(signal, &reset))) };
        }
    };
    if is_sharing_child() {
        tell();
        return true;
    }
    let _locked = LOCK.exclusive();
    let is_the_same = kept.load() == *action;
    if is_the_same {
        kept.store(&reset);
        tell();
    }
    is_the_same
}

/// Whether a signal may start a handler of the program on the stack that the thread of `slot` is on, whichever that is.
pub fn has_handler_in_place(slot: &Slot) -> bool {
    let has_stack = slot.stack_in_force().flags as usize & kernel::SS_DISABLE == 0;
    ACTIONS.iter().map(SharedAction::load).any(|action| {
        let wants_stack = action.flags & ONSTACK != 0;
        has_handler(&action) && !(wants_stack && has_stack)
    })
}

/// The program's action for glibc's signal that cancels a thread.
pub(super) fn of_cancellation() -> Action {
    kept(kernel::GLIBC_CANCEL).load()
}

/// Tells the kernel to ignore those of our signals that the program ignores; answers which. A child that is forked
/// before [`restore_after_exec`] sets them again.
pub(super) fn ignore_for_exec() -> u64 {
    let slot = thread::current();
    let is_ignored =
        |signal: &u32| ours() & signal_bit(*signal) != 0 && in_sharing_child(slot, *signal).handler == IGNORE;
    let ignored = (1..=SIGNAL_MAX).filter(is_ignored).fold(0, |set, signal| set | signal_bit(signal));
    if ignored != 0 && !is_sharing_child() {
        EXECS.fetch_add(EXEC + 1, Ordering::Relaxed);
    }
    for signal in signals_of(ignored) {
        // SAFETY:
        // 1. No code runs.
        let _ = unsafe { kernel::set_action(signal, Some(&Action { handler: IGNORE, ..Action::default() })) };
    }
    ignored
}

/// After an exec that failed.
pub(super) fn restore_after_exec(ignored: u64) {
    tell_again(ignored);
    if ignored != 0 && !is_sharing_child() {
        EXECS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The kernel has another action for these, which are ours.
fn tell_again(signals: u64) {
    for signal in signals_of(signals) {
        let told = told(signal, &kept(signal).load());
        // SAFETY:
        // 1. `on_signal` serves any signal at any instruction.
        let _ = unsafe { kernel::set_action(signal, Some(&told)) };
    }
}

fn signals_of(set: u64) -> impl Iterator<Item = u32> {
    (1..=SIGNAL_MAX).filter(move |signal| set & signal_bit(*signal) != 0)
}

/// Whether this is a child that shares the memory, and what is kept is its parent's.
fn is_sharing_child() -> bool {
    process::process_id() != PROCESS.load(Ordering::Relaxed)
}

/// `rt_sigaction`.
pub(super) fn change(call: &Call) -> Option<isize> {
    let [signal, new_at, old_at, bytes, ..] = call.arguments;
    let signal = signal as u32;
    let is_settable = signal != abi::SIGKILL && signal != abi::SIGSTOP;
    if bytes != SIGNAL_SET_BYTES || signal == 0 || signal > SIGNAL_MAX || (new_at != 0 && !is_settable) {
        return None;
    }
    let new = if new_at == 0 { None } else { Some(read_action(new_at)?) };
    if is_sharing_child() {
        return Some(change_in_sharing_child(call, signal, new));
    }
    let blocked = kernel::set_mask(abi::SIG_SETMASK, u64::MAX);
    let locked = LOCK.exclusive();
    let kept = kept(signal);
    let old = kept.load();
    if let Some(new) = &new {
        kept.store(new);
    }
    let told = new.map(|new| told(signal, &new));
    let answer = tell(call, told.as_ref());
    if answer == 0 {
        // SAFETY:
        // 1. The kernel has just written the structure there for the program, if the address is not zero.
        unsafe { show(old_at, &old) };
    } else if new.is_some() && answer != uswap_os::Errno::EFAULT.as_answer() {
        kept.store(&old);
    }
    drop(locked);
    kernel::set_mask(abi::SIG_SETMASK, blocked);
    Some(answer)
}

/// posix_spawn and vfork: what is kept is the parent's. Ours stay in force in the child, and what it asks for them
/// is noted for its exec; others are its own business.
fn change_in_sharing_child(call: &Call, signal: u32, new: Option<Action>) -> isize {
    let bit = signal_bit(signal);
    if ours() & bit == 0 {
        let told = new.map(|new| told(signal, &new));
        return tell(call, told.as_ref());
    }
    let slot = thread::current();
    let old = in_sharing_child(slot, signal);
    let answer = tell(call, None);
    if answer == 0 {
        // SAFETY:
        // 1. The kernel has just written the structure there for the program, if the address is not zero.
        unsafe { show(call.arguments[2], &old) };
        if let Some(new) = new {
            let bit = bit as usize;
            slot.child_default.fetch_and(!bit, Ordering::Relaxed);
            slot.child_ignored.fetch_and(!bit, Ordering::Relaxed);
            match new.handler {
                IGNORE => slot.child_ignored.fetch_or(bit, Ordering::Relaxed),
                // A handler becomes the default in the new program.
                _ => slot.child_default.fetch_or(bit, Ordering::Relaxed),
            };
        }
    }
    answer
}

/// The action of one of our signals as the child has it that shares the slot's memory.
fn in_sharing_child(slot: &Slot, signal: u32) -> Action {
    let has = |set: &AtomicUsize| set.load(Ordering::Relaxed) as u64 & signal_bit(signal) != 0;
    match (has(&slot.child_default), has(&slot.child_ignored)) {
        (true, _) => Action { handler: DEFAULT, ..Action::default() },
        (_, true) => Action { handler: IGNORE, ..Action::default() },
        _ => kept(signal).load(),
    }
}

/// Makes the call with another action.
fn tell(call: &Call, told: Option<&Action>) -> isize {
    let mut changed = *call;
    changed.arguments[1] = told.map_or(0, |told| told as *const Action as usize);
    // SAFETY:
    // 1. The action is the program's, or ours, which serves any signal at any instruction; the kernel
    //    checks where the old one goes.
    unsafe { kernel::call(changed.number, &changed.arguments) }
}

/// Writes an action where the program wants to see it; nowhere for zero.
///
/// # Safety
/// `at` is zero or writable.
unsafe fn show(at: usize, action: &Action) {
    if at != 0 {
        // SAFETY:
        // 1. The caller's promise.
        unsafe { (at as *mut Action).write_unaligned(*action) };
    }
}

/// The program's structure; `None` where the kernel would answer EFAULT, so that it does.
fn read_action(at: usize) -> Option<Action> {
    let word = |index: usize| kernel::read_word(at + index * 8).ok();
    Some(Action {
        handler: word(0)? as usize,
        flags: word(1)? as usize,
        restorer: word(2)? as usize,
        mask: word(3)?,
    })
}

/// Where our own handlers return to.
///
/// # Safety
/// Only the `ret` of a handler that the kernel has started comes here: the stack pointer is at the `ucontext` of the
/// kernel's frame.
#[unsafe(naked)]
unsafe extern "C" fn restorer() {
    naked_asm!("mov rax, 15", "syscall")
}
