//! What a call keeps on the stack while it is on its way, where its parts lie, and where calls enter.
//!
//! ```text
//!  program's stack pointer
//!    128 bytes of the program (red zone)
//!    [where to go on]        only if dispatched; on a call stack the words of `ELSEWHERE_BYTES`
//!    return address          into the trampoline, or `dispatched`
//!    flags
//!    rbp                     <- rbp, `base` of the functions that are called
//!    Frame, 16-byte aligned  <- rsp
//! ```
//!
//! Must hold: the drawing, the fields of [`Frame`] and the assembly in `entry` say the same. Whoever reads a frame has
//! its `base` from that assembly. Called by [`mod@crate::entry`], [`crate::serve`], [`crate::birth`],
//! [`crate::dispatch`], [`crate::patch`] and [`crate::signals`].

use core::mem::offset_of;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::call::{Call, Context};
use crate::trampoline_area::TRAMPOLINE_BYTES;

/// Bytes below the stack pointer that a program may use without telling.
pub const RED_ZONE_BYTES: usize = 128;

/// What a call keeps while it is on its way. The first fields are at fixed places, see `entry`.
#[derive(Debug)]
#[repr(C, align(16))]
pub struct Frame {
    /// The call as it goes to the kernel.
    pub call: Call,
    /// `rdi`, `rsi`, `rdx`, `r10`, `r8`, `r9` as the program gave them, and gets them back.
    pub saved: [usize; 6],
    /// What the program finds in `rax`.
    pub answer: isize,
    /// Where it came from.
    pub context: Context,
    /// Of `Step::NewStack`: the signals that were blocked, and the argument that was replaced.
    pub mask: u64,
    /// See `mask`.
    pub replaced: usize,
    /// See `mask`: the word that gives back the call stack which the child was lent, or 0.
    pub lent_stack: usize,
    xmm: [[u64; 2]; 16],
}

const _: () = assert!(size_of::<Frame>() == 416);
const _: () = assert!(offset_of!(Frame, call) == 0);
const _: () = assert!(offset_of!(Frame, saved) == 56);
const _: () = assert!(offset_of!(Frame, answer) == 104);
const _: () = assert!(offset_of!(Frame, context) == 112);
const _: () = assert!(offset_of!(Frame, xmm) == 160);

/// What the assembly does after `before`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Step {
    /// Makes the call, which is as the program made it, and goes back.
    Pass = 0,
    /// Makes the call and asks `after`.
    PassThenAfter = 1,
    /// `Frame::answer` is the answer.
    Answer = 2,
    /// `vfork`, and `clone` that does the same.
    ShareStack = 3,
    /// `clone` with a stack for the child, which has its `Birth` on it.
    NewStack = 4,
    /// As `ShareStack`, on a call stack: both come back through the frame, which the child leaves as it is.
    ShareCallStack = 5,
}

/// The assembly is generic over the interposer, so that no call on the way goes through memory: processors
/// forget in the kernel where such calls go. Whoever is not generic finds it here.
pub(crate) static ENTRY: AtomicUsize = AtomicUsize::new(0);
pub(crate) static QUICK_ENTRY: AtomicUsize = AtomicUsize::new(0);
pub(crate) static DISPATCHED: AtomicUsize = AtomicUsize::new(0);
pub(crate) static ELSEWHERE: AtomicUsize = AtomicUsize::new(0);
pub(crate) static GO_ON: AtomicUsize = AtomicUsize::new(0);

/// What a trampoline far from here calls: `entry`.
pub fn entry_address() -> usize {
    ENTRY.load(Ordering::Relaxed)
}

/// What a trampoline in [`area`](crate::trampoline_area::area) calls: `quick_entry`.
pub fn quick_entry_address() -> usize {
    QUICK_ENTRY.load(Ordering::Relaxed)
}

/// Where a dispatched call goes on: `dispatched`.
pub fn dispatched_address() -> usize {
    DISPATCHED.load(Ordering::Relaxed)
}

/// Where a call goes on that was dispatched from a stack without room: `elsewhere`.
pub fn elsewhere_address() -> usize {
    ELSEWHERE.load(Ordering::Relaxed)
}

/// Where most calls are made: `go_on`.
pub fn go_on_address() -> usize {
    GO_ON.load(Ordering::Relaxed)
}

/// Fills `Frame::context`. `base` as in `before`.
///
/// # Safety
/// `base` must be that of the frame.
#[inline]
pub unsafe fn fill_context(frame: &mut Frame, base: *const usize) {
    // SAFETY:
    // 1. `base` is where `entry` keeps rbp; above it lie flags and return address (the layout above).
    // 2. A dispatched call has the address to go on at above that, a patched one has it in the
    //    last word of its trampoline.
    unsafe {
        let back = *base.add(2);
        let is_dispatched = back == dispatched_return();
        frame.context.is_dispatched = is_dispatched as usize;
        if back == elsewhere_return() {
            frame.context.is_dispatched = 1;
            frame.context.instruction_pointer = *base.add(3);
            frame.context.stack_pointer = *base.add(4);
        } else if is_dispatched {
            frame.context.instruction_pointer = *base.add(3);
            frame.context.stack_pointer = base.add(4) as usize + RED_ZONE_BYTES;
        } else {
            let end = back | (TRAMPOLINE_BYTES - 1);
            frame.context.instruction_pointer = *((end - 7) as *const usize);
            frame.context.stack_pointer = base.add(3) as usize + RED_ZONE_BYTES;
        }
    }
}

/// The flags of the program, from the frame's base.
///
/// # Safety
/// `base` must be that of a frame.
pub unsafe fn flags(base: *const usize) -> usize {
    // SAFETY:
    // 1. `base` is that of a frame (the caller's promise): the flags are the word above it in the drawing at the top.
    unsafe { *base.add(1) }
}

/// Bytes of the `call` in `dispatched`.
const DISPATCHED_CALL_BYTES: usize = 5;

#[inline]
fn dispatched_return() -> usize {
    dispatched_address() + DISPATCHED_CALL_BYTES
}

/// In words from the base of a frame: the last of these.
const GIVE_BACK_AT: usize = 5;

#[inline]
fn elsewhere_return() -> usize {
    elsewhere_address() + DISPATCHED_CALL_BYTES
}

/// Is the frame on a call stack?
///
/// # Safety
/// `base` must be that of a frame.
pub unsafe fn is_elsewhere(base: *const usize) -> bool {
    // SAFETY:
    // 1. `base` is that of a frame (the caller's promise): the return address is the second word above it in the
    //    drawing at the top.
    unsafe { *base.add(2) == elsewhere_return() }
}

/// The word of a frame on a call stack that says which word gives the stack back.
///
/// # Safety
/// `base` must be that of a frame on a call stack.
pub unsafe fn give_back_word(base: *mut usize) -> *mut usize {
    // SAFETY:
    // 1. rbp, flags and return address lie at the base, then the words of `elsewhere`.
    unsafe { base.add(GIVE_BACK_AT) }
}
