//! Calls behind which a second flow of control goes on: `clone`, `clone3`, `fork`, `vfork`.
//!
//! Three kinds. *Fork*: the child has a copy of the stack, so that both come back through their frame.
//! *A stack of its own* (threads, posix_spawn): the child's stack pointer is a [`Birth`], which says how
//! the program's registers were and where it goes on. A child that its parent waits for may get a few KiB
//! of its parent's stack, as musl's posix_spawn does: then it is lent one of our call stacks. *The same
//! stack* (vfork): the child may overwrite everything below the program's stack pointer, so what the
//! parent needs waits in [`VFORKS`].
//!
//! All signals are blocked from before the call until the child is armed: a handler of the program that
//! ran earlier would make calls that nobody sees.
//!
//! Must hold: no code of the program runs in a new thread or process before that is armed, and all signals are blocked
//! until then. One that cannot be armed does not go on. Called by [`crate::serve`], which hands these calls over, by
//! [`mod@crate::entry`] in the child, by [`mod@crate::install`], and by `host`, which asks whether a thread is just
//! beginning ([`Births`]).
//!
//! Memory order: the Release by which `born` takes a thread that has its slot from [`BIRTHS`] pairs with the Acquire of
//! [`Births::now`]. What the parent adds, and takes back when there is no child, publishes nothing.
//!
//! A place of [`VFORKS`] is taken by `keep` with Acquire, which pairs with the Release of who gives it up: what that
//! one reads there is not written over. What `keep` writes is read by the same thread, and by the child that the kernel
//! starts behind it: for that the Release of `order` and the Acquire of `latest` need no pair, and have none.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use uswap_os::sys::{Errno, Result, abi};

use crate::call::{Context, Interposer, NewProcess, interposer};
use crate::frame::{self, Frame, RED_ZONE_BYTES, Step};
use crate::kernel::{self, Stack, nr};
use crate::thread::Slot;
use crate::{dispatch, patch, signals, thread};

/// Bytes of `clone_args` that are carried over. Newer kernels than this may know a longer one.
const CLONE_ARGS_BYTES_MAX: usize = 128;
/// A smaller stack of a child has no room for its first steps, which are ours.
const CHILD_STACK_BYTES_MIN: usize = 1024;
/// `clone` does not say how long the stack is: this much is taken to belong to it. Below it calls are served
/// on call stacks, which is right for any stack.
const CLONE_STACK_BYTES_KNOWN: usize = 64 * 1024;
/// A child that its parent waits for is lent a stack if its own is smaller: a call of ours takes some KiB.
const CHILD_STACK_BYTES_ENOUGH: usize = 16 * 1024;
/// What a child may have been given at its stack pointer, as the arguments of its function: it is taken along.
const GIVEN_BYTES: usize = 256;
/// Threads that can be in `vfork` at a time, nested ones counted. 128 bytes each.
const VFORKS_MAX: usize = 128;

const VM: u64 = abi::CLONE_VM as u64;
const VFORK: u64 = abi::CLONE_VFORK as u64;
const SETTLS: u64 = abi::CLONE_SETTLS as u64;
const THREAD: u64 = abi::CLONE_THREAD as u64;
const SETTID: u64 = abi::CLONE_CHILD_SETTID as u64;
const CLEARTID: u64 = abi::CLONE_CHILD_CLEARTID as u64;
/// Of `clone3` alone.
const CLEAR_SIGHAND: u64 = abi::CLONE_CLEAR_SIGHAND;

/// Threads that were asked for: in the lower half those that are not known yet, in the upper half all that ever were.
static BIRTHS: AtomicU64 = AtomicU64::new(0);
const ASKED_FOR: u64 = 1 << 32;

/// The threads that were asked for at some moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Births(u64);

impl Births {
    /// At this one. If it is the same before and after a look at [`thread::slots`], and none is beginning, then all
    /// threads were among them. Else a thread may have begun behind the look, and the one that asked for it ended in
    /// front of it.
    pub fn now() -> Births {
        // Acquire pairs with `born`: a thread that is not counted any more is seen among the slots.
        Births(BIRTHS.load(Ordering::Acquire))
    }
    /// Whether a thread begins that is not among [`thread::slots`] yet.
    pub fn is_one_beginning(self) -> bool {
        self.0 as u32 != 0
    }
}

/// What a child with a stack of its own finds at its stack pointer. The first ten words are at fixed
/// places, see `entry::born`.
#[derive(Debug)]
#[repr(C, align(16))]
pub struct Birth {
    saved: [usize; 6],
    rbp: usize,
    flags_register: usize,
    instruction_pointer: usize,
    stack_pointer: usize,
    mask: u64,
    flags: u64,
    child_tid: usize,
    stack_bytes: usize,
    /// The slot of the parent's thread.
    parent: &'static Slot,
    clone_args: [u64; CLONE_ARGS_BYTES_MAX / 8],
}

/// What a clone asks for, in whichever form.
struct Asked {
    flags: u64,
    /// End of the child's stack, 0 for the parent's.
    stack_end: usize,
    stack_bytes: usize,
    /// The program has said `stack_bytes`.
    knows_length: bool,
    child_tid: usize,
}

/// Serves a call by which a child begins. `after` is the interposer's, if it wants to know.
///
/// # Safety
/// `base` is that of the frame, whose call is one of the four.
pub(crate) unsafe fn begin<I: Interposer>(
    interposer: &'static I,
    frame: &mut Frame,
    base: *const usize,
) -> Step {
    let asked = match asked(frame) {
        Ok(asked) => asked,
        // The kernel says what is wrong with it.
        Err(_) => return Step::PassThenAfter,
    };
    let mask = signals::block_all(thread::current());
    if asked.flags & VM != 0 && asked.flags & (SETTLS | VFORK) == 0 {
        thread::share_key();
    }
    let copies = asked.flags & VM == 0;
    let mut prepared = Ok(());
    if asked.stack_end != 0 {
        frame.mask = mask;
        // SAFETY:
        // 1. The caller's promise.
        prepared = unsafe { prepare_birth(frame, base, &asked) };
    }
    if copies && prepared.is_ok() {
        prepared = interposer.copy_begins(&frame.context);
    }
    if let Err(error) = prepared {
        signals::block(thread::current(), mask);
        frame.answer = error.as_answer();
        return Step::Answer;
    }
    if copies {
        signals::actions::copy_begins(locks_actions(asked.flags));
    }
    if asked.stack_end != 0 {
        if asked.flags & THREAD != 0 {
            BIRTHS.fetch_add(ASKED_FOR + 1, Ordering::SeqCst);
        }
        thread::current().lend_to_child();
        return Step::NewStack;
    }
    if asked.flags & VM != 0 {
        // SAFETY:
        // 1. The caller's promise.
        if unsafe { frame::is_elsewhere(base) } {
            frame.mask = mask;
            // SAFETY:
            // 1. `base` is that of the frame (the caller's promise), and the frame is on a call stack, as we just saw.
            frame.replaced = unsafe { *frame::give_back_word(base.cast_mut()) };
            thread::current().lend_to_child();
            return Step::ShareCallStack;
        }
        // SAFETY:
        // 1. The caller's promise.
        if !unsafe { Vfork::keep(frame, base, mask) } {
            signals::block(thread::current(), mask);
            frame.answer = Errno::EAGAIN.as_answer();
            return Step::Answer;
        }
        thread::current().lend_to_child();
        return Step::ShareStack;
    }
    let slot = thread::current();
    // SAFETY:
    // 1. A fork: the child has a copy of this stack and comes back from the same instruction.
    frame.answer = unsafe { kernel::call(frame.call.number, &frame.call.arguments) };
    if frame.answer == 0 {
        copied(interposer, slot, &frame.context, asked.flags, asked.child_tid);
    } else {
        signals::actions::copy_ends(locks_actions(asked.flags));
        interposer.copy_ends(frame.answer, &frame.context);
    }
    signals::block(slot, mask);
    if frame.answer != 0 {
        frame.answer = interposer.after(&frame.call, frame.answer, &frame.context);
    }
    Step::Answer
}

/// Whether actions of signals stay as they are while the child is made: not while its parent waits for more than that.
fn locks_actions(flags: u64) -> bool {
    flags & (VM | VFORK) == 0
}

/// In the only thread of a process with a copy of the memory.
fn copied<I: Interposer>(
    interposer: &'static I,
    slot: &'static Slot,
    context: &Context,
    flags: u64,
    child_tid: usize,
) {
    arm_or_die();
    BIRTHS.store(0, Ordering::Relaxed);
    thread::keep_only_this(slot);
    signals::actions::after_fork();
    clear_handlers(slot, flags);
    patch::after_fork();
    slot.note_clear_child_tid(if flags & CLEARTID != 0 { child_tid } else { 0 });
    slot.note_robust_list(0);
    Vfork::forget_all();
    interposer.process_begins(NewProcess::Copied, context);
}

/// A thread that cannot be armed would make calls that nobody sees: the process cannot go on.
fn arm_or_die() {
    dispatch::arm().expect("the parent was armed, so the kernel knows how");
}

/// Before the program's mask is in force again, so that ours are there for the first signal.
fn clear_handlers(slot: &Slot, flags: u64) {
    if flags & CLEAR_SIGHAND != 0 {
        signals::actions::after_clear(slot);
    }
}

fn asked(frame: &Frame) -> Result<Asked> {
    let [first, second, _, fourth, ..] = frame.call.arguments;
    match frame.call.number {
        nr::FORK => Ok(Asked { flags: 0, stack_end: 0, stack_bytes: 0, knows_length: true, child_tid: 0 }),
        nr::VFORK => {
            Ok(Asked { flags: VM | VFORK, stack_end: 0, stack_bytes: 0, knows_length: true, child_tid: 0 })
        }
        nr::CLONE => {
            let stack_bytes = CLONE_STACK_BYTES_KNOWN;
            let (flags, stack_end, child_tid) = (u64::from(first as u32), second, fourth);
            Ok(Asked { flags, stack_end, stack_bytes, knows_length: false, child_tid })
        }
        _ => {
            // flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, ...
            if second < 64 {
                return Err(Errno::EINVAL);
            }
            let word = |index: usize| kernel::read_word(first + index * 8);
            let (stack, stack_bytes) = (word(5)? as usize, word(6)? as usize);
            let stack_end = stack.wrapping_add(stack_bytes);
            let (flags, child_tid) = (word(0)?, word(2)? as usize);
            Ok(Asked { flags, stack_end, stack_bytes, knows_length: true, child_tid })
        }
    }
}

/// Writes the `Birth` on the child's stack and makes the call start the child there.
///
/// # Safety
/// `base` is that of the frame.
unsafe fn prepare_birth(frame: &mut Frame, base: *const usize, asked: &Asked) -> Result<()> {
    if asked.stack_bytes < CHILD_STACK_BYTES_MIN {
        return Err(Errno::ENOMEM);
    }
    let (stack_pointer, used) = lent_stack(asked).unwrap_or((asked.stack_end, 0));
    let at = (stack_pointer - RED_ZONE_BYTES - size_of::<Birth>()) & !15;
    frame.lent_stack = used;
    let mut clone_args = [0; CLONE_ARGS_BYTES_MAX / 8];
    frame.replaced = frame.call.arguments[0];
    if frame.call.number == nr::CLONE3 {
        let bytes = frame.call.arguments[1];
        if bytes > CLONE_ARGS_BYTES_MAX {
            // E2BIG: the kernel says so for a structure that it does not know.
            return Err(Errno::from_number(7));
        }
        for (index, word) in clone_args.iter_mut().enumerate().take(bytes / 8) {
            *word = kernel::read_word(frame.replaced + index * 8)?;
        }
        if used != 0 {
            clone_args[5] = (at - CHILD_STACK_BYTES_ENOUGH) as u64;
        }
        clone_args[6] = (at - clone_args[5] as usize) as u64;
        frame.call.arguments[0] = at + core::mem::offset_of!(Birth, clone_args);
    } else {
        frame.replaced = frame.call.arguments[1];
        frame.call.arguments[1] = at;
    }
    kernel::read_word(at)?;
    let birth = Birth {
        saved: frame.saved,
        // SAFETY:
        // 1. `base` is that of the frame: rbp lies there, the flags above it.
        rbp: unsafe { *base },
        // SAFETY:
        // 1. `base` is that of the frame (the caller's promise).
        flags_register: unsafe { frame::flags(base) },
        instruction_pointer: frame.context.instruction_pointer,
        stack_pointer,
        mask: frame.mask,
        flags: asked.flags,
        child_tid: asked.child_tid,
        stack_bytes: asked.stack_bytes,
        parent: thread::current(),
        clone_args,
    };
    // SAFETY:
    // 1. The program gave this memory to the child as its stack, or it is a call stack that nobody else uses; the
    //    child does not run yet. It is mapped: the kernel's answer above.
    unsafe { (at as *mut Birth).write(birth) };
    Ok(())
}

/// A call stack for a child whose own stack may be too small: where its stack pointer is there, with what lies at the
/// one that it was given, and the word that gives the stack back. Only if the parent, whose call stack it is, waits
/// for the child.
fn lent_stack(asked: &Asked) -> Option<(usize, usize)> {
    let waits = asked.flags & (VM | VFORK | SETTLS) == VM | VFORK;
    let slot = thread::current();
    // Where the stack ends is no part of it: another mapping may begin there. `clone3` says how long it is.
    let is_part_of_ours = !asked.knows_length && slot.is_on_own_stack(asked.stack_end - 1);
    if !waits || !is_part_of_ours && asked.stack_bytes >= CHILD_STACK_BYTES_ENOUGH {
        return None;
    }
    let (end, used) = slot.take_call_stack()?;
    // As far from a cache line as it was, above all for code that wants its stack aligned.
    let below = (end - thread::ELSEWHERE_BYTES - GIVEN_BYTES - 64) & !63;
    let stack_pointer = below + asked.stack_end % 64;
    let given =
        if is_part_of_ours { GIVEN_BYTES.min(slot.stack_end().saturating_sub(asked.stack_end)) } else { 0 };
    let words = [0, asked.stack_end, used.as_ptr() as usize];
    // SAFETY:
    // 1. The end of a call stack that is in nobody's use, and what lies there of the stack that the thread is on.
    unsafe {
        core::ptr::copy_nonoverlapping(asked.stack_end as *const u8, stack_pointer as *mut u8, given);
        ((end - thread::ELSEWHERE_BYTES) as *mut [usize; 3]).write(words);
    }
    Some((stack_pointer, used.as_ptr() as usize))
}

/// In the parent of a child with a stack of its own: puts back what `begin` changed for the call, and ends the call.
///
/// # Safety
/// `begin::<I>` has answered [`Step::NewStack`] for `frame`, on this thread. The kernel's answer to the parent, which
/// is not 0, is in the frame. All signals are blocked.
pub(crate) unsafe extern "C" fn parted<I: Interposer>(frame: &mut Frame) {
    let replaced = if frame.call.number == nr::CLONE3 { 0 } else { 1 };
    frame.call.arguments[replaced] = frame.replaced;
    if frame.lent_stack != 0 {
        // SAFETY:
        // 1. It is a word of this thread's slot (`take_call_stack`). The child has gone: it shared our memory, and the
        //    kernel let us wait for that.
        unsafe { &*(frame.lent_stack as *const AtomicU32) }.store(thread::FREE, Ordering::Relaxed);
    }
    let flags = asked(frame).map_or(VM, |asked| asked.flags);
    if flags & VM == 0 {
        signals::actions::copy_ends(locks_actions(flags));
        interposer::<I>().copy_ends(frame.answer, &frame.context);
    }
    if flags & THREAD != 0 && frame.answer < 0 {
        BIRTHS.fetch_sub(1, Ordering::SeqCst);
    }
    let slot = thread::current();
    slot.forget_child();
    signals::block(slot, frame.mask);
    frame.answer = interposer::<I>().after(&frame.call, frame.answer, &frame.context);
}

/// In a child with a stack of its own: arms it and makes it known.
///
/// # Safety
/// This thread is the child for which `prepare_birth` wrote `birth`, and has just begun, with all signals blocked. `I`
/// is the type of the interposer.
pub(crate) unsafe extern "C" fn born<I: Interposer>(birth: &Birth) {
    let interposer = interposer::<I>();
    let context = Context {
        stack_pointer: birth.stack_pointer,
        instruction_pointer: birth.instruction_pointer,
        is_dispatched: 1,
    };
    let mut slot = birth.parent;
    if birth.flags & VM == 0 {
        copied(interposer, birth.parent, &context, birth.flags, birth.child_tid);
    } else if birth.flags & VFORK != 0 && birth.flags & SETTLS == 0 {
        arm_or_die();
        clear_handlers(birth.parent, birth.flags);
        interposer.process_begins(NewProcess::SharesMemory, &context);
    } else {
        arm_or_die();
        slot = thread::begin().expect("fewer threads than slots, and memory for one more stack");
        clear_handlers(slot, birth.flags);
        if birth.flags & (SETTID | CLEARTID) != 0 {
            slot.note_clear_child_tid(birth.child_tid);
        }
        let stack_start = birth.stack_pointer.saturating_sub(birth.stack_bytes);
        slot.note_own_stack(stack_start, birth.stack_pointer);
        take_alternate_stack(slot);
        if birth.flags & THREAD != 0 {
            BIRTHS.fetch_sub(1, Ordering::Release);
            interposer.thread_begins(&context);
        } else {
            interposer.process_begins(NewProcess::SharesMemory, &context);
        }
    }
    signals::block(slot, birth.mask);
}

/// Tells the kernel of the slot's alternate stack; answers what this thread had before.
pub(crate) fn take_alternate_stack(slot: &'static Slot) -> Stack {
    let stack =
        Stack { start: slot.alternate_stack(), flags: 0, padding: 0, bytes: thread::ALTERNATE_STACK_BYTES };
    // SAFETY:
    // 1. The stack belongs to the slot, which is this thread's, and is never unmapped.
    unsafe { kernel::set_alternate_stack(&stack) }.expect("the thread is not on an alternate stack now")
}

/// What a thread in `vfork` needs when it comes back. The child sees it too: memory is shared.
#[derive(Debug, Default)]
struct Vfork {
    /// 0: free.
    thread_id: AtomicU32,
    number: AtomicUsize,
    /// Or [`NOBODYS`].
    slot: AtomicUsize,
    /// Later ones have larger numbers.
    order: AtomicU64,
    mask: AtomicU64,
    instruction_pointer: AtomicUsize,
    flags_register: AtomicUsize,
    saved: [AtomicUsize; 6],
    arguments: [AtomicUsize; 6],
}

static VFORKS: [Vfork; VFORKS_MAX] = [const {
    Vfork {
        thread_id: AtomicU32::new(0),
        number: AtomicUsize::new(0),
        slot: AtomicUsize::new(NOBODYS),
        order: AtomicU64::new(0),
        mask: AtomicU64::new(0),
        instruction_pointer: AtomicUsize::new(0),
        flags_register: AtomicUsize::new(0),
        saved: [const { AtomicUsize::new(0) }; 6],
        arguments: [const { AtomicUsize::new(0) }; 6],
    }
}; VFORKS_MAX];
static VFORK_ORDER: AtomicU64 = AtomicU64::new(1);
/// The slot of a place that is free, or that somebody has just taken.
const NOBODYS: usize = usize::MAX;

impl Vfork {
    /// Keeps what `stack_shared` needs. False: too many at once.
    ///
    /// # Safety
    /// `base` is that of the frame.
    unsafe fn keep(frame: &Frame, base: *const usize, mask: u64) -> bool {
        let thread_id = kernel::thread_id();
        let free = VFORKS.iter().find(|vfork| {
            vfork.thread_id.compare_exchange(0, thread_id, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        });
        let Some(vfork) = free else { return false };
        vfork.number.store(frame.call.number, Ordering::Relaxed);
        vfork.slot.store(thread::current().index(), Ordering::Relaxed);
        vfork.mask.store(mask, Ordering::Relaxed);
        vfork.instruction_pointer.store(frame.context.instruction_pointer, Ordering::Relaxed);
        // SAFETY:
        // 1. The caller's promise.
        vfork.flags_register.store(unsafe { frame::flags(base) }, Ordering::Relaxed);
        for (kept, value) in vfork.saved.iter().zip(frame.saved) {
            kept.store(value, Ordering::Relaxed);
        }
        for (kept, value) in vfork.arguments.iter().zip(frame.call.arguments) {
            kept.store(value, Ordering::Relaxed);
        }
        vfork.order.store(VFORK_ORDER.fetch_add(1, Ordering::Relaxed), Ordering::Release);
        true
    }

    /// The latest of this slot: in the child, that of its parent.
    fn latest(slot: usize) -> Option<&'static Vfork> {
        let is_of_slot = |vfork: &&Vfork| {
            vfork.thread_id.load(Ordering::Acquire) != 0 && vfork.slot.load(Ordering::Relaxed) == slot
        };
        VFORKS.iter().filter(is_of_slot).max_by_key(|vfork| vfork.order.load(Ordering::Relaxed))
    }

    /// That of this thread. Later ones of the slot are gone: children that were killed in a vfork of theirs.
    fn of_this_thread(slot: usize) -> Option<&'static Vfork> {
        let thread_id = kernel::thread_id();
        while let Some(vfork) = Vfork::latest(slot) {
            if vfork.thread_id.load(Ordering::Relaxed) == thread_id {
                return Some(vfork);
            }
            vfork.give_up();
        }
        None
    }

    /// The place is free. Who takes it writes its slot only then, and other threads look for theirs meanwhile: they
    /// must not find the slot of who had it before. Release pairs with the Acquire of `keep`.
    fn give_up(&self) {
        self.slot.store(NOBODYS, Ordering::Relaxed);
        self.thread_id.store(0, Ordering::Release);
    }

    fn forget_all() {
        // A write of a forked child copies a page: most of these are free already.
        let is_taken = |vfork: &&Vfork| vfork.thread_id.load(Ordering::Relaxed) != 0;
        VFORKS.iter().filter(is_taken).for_each(Vfork::give_up);
    }
}

/// Behind a `vfork` on a call stack: arms the child and makes it known, or ends the call in the parent. The child
/// leaves the call stack in use: the parent comes back on it.
///
/// # Safety
/// `begin::<I>` has answered [`Step::ShareCallStack`] for `frame`, and `base` is that of the frame. The kernel's
/// answer, which is 0 in the child alone, is in the frame. All signals are blocked.
pub(crate) unsafe extern "C" fn call_stack_shared<I: Interposer>(frame: &mut Frame, base: *mut usize) {
    /// What the child clears instead of its parent's word.
    static NOTHING: AtomicU32 = AtomicU32::new(0);
    let interposer = interposer::<I>();
    // SAFETY:
    // 1. The assembly passes the base of this frame, which is on a call stack: `begin` has looked.
    let give_back = unsafe { frame::give_back_word(base) };
    if frame.answer == 0 {
        arm_or_die();
        // SAFETY:
        // 1. It is a word of the frame's call stack, on which this thread runs.
        // 2. What it gets is the address of a word that may be cleared.
        unsafe { give_back.write(NOTHING.as_ptr() as usize) };
        clear_handlers(thread::current(), asked(frame).map_or(0, |asked| asked.flags));
        interposer.process_begins(NewProcess::SharesMemory, &frame.context);
    } else {
        // SAFETY:
        // 1. It is a word of the frame's call stack, on which this thread runs.
        // 2. What it gets is what `begin` has found there: the address of the word that gives the stack back.
        unsafe { give_back.write(frame.replaced) };
        thread::current().forget_child();
        frame.answer = interposer.after(&frame.call, frame.answer, &frame.context);
    }
    // The child may have blocked others: it is in the same slot.
    signals::block(thread::current(), frame.mask);
}

/// Behind a `vfork`: fills the frame with what [`Vfork::keep`] kept; arms the child and makes it known, or ends the
/// call in the parent.
///
/// # Safety
/// `begin::<I>` has answered [`Step::ShareStack`] on this thread, or on its parent if it is the child, and the kernel
/// has just answered. That answer, which is 0 in the child alone, and the program's stack pointer are in `frame`, which
/// lies below the red zone of the program's stack. All signals are blocked.
pub(crate) unsafe extern "C" fn stack_shared<I: Interposer>(frame: &mut Frame) {
    let interposer = interposer::<I>();
    let is_child = frame.answer == 0;
    if is_child {
        arm_or_die();
    }
    let slot = thread::current().index();
    let found = if is_child { Vfork::latest(slot) } else { Vfork::of_this_thread(slot) };
    let vfork = found.expect("it was kept before the call, and only its own thread gives it up");
    for (saved, kept) in frame.saved.iter_mut().zip(&vfork.saved) {
        *saved = kept.load(Ordering::Relaxed);
    }
    for (argument, kept) in frame.call.arguments.iter_mut().zip(&vfork.arguments) {
        *argument = kept.load(Ordering::Relaxed);
    }
    frame.call.number = vfork.number.load(Ordering::Relaxed);
    frame.context.instruction_pointer = vfork.instruction_pointer.load(Ordering::Relaxed);
    frame.context.is_dispatched = 1;
    let (mask, flags) = (vfork.mask.load(Ordering::Relaxed), vfork.flags_register.load(Ordering::Relaxed));
    if is_child {
        clear_handlers(thread::current(), asked(frame).map_or(0, |asked| asked.flags));
        interposer.process_begins(NewProcess::SharesMemory, &frame.context);
    } else {
        vfork.give_up();
        thread::current().forget_child();
        frame.answer = interposer.after(&frame.call, frame.answer, &frame.context);
    }
    // As behind `call_stack_shared`.
    signals::block(thread::current(), mask);
    // The assembly puts them back.
    frame.call.number = flags;
}
