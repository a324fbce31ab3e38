//! Frames of signal handlers: started on the stack that the program chose, and returned from.
//!
//! The kernel has written a frame on our alternate stack. It is copied to where the kernel would have put
//! it for the program, and the thread goes on in the program's handler as if that had happened.
//!
//! ```text
//! low                                                              high
//! | return address | ucontext 304 | siginfo 128 | mask 8 | .. | vector registers | red zone
//! ^ 16 n + 8                                                  ^ 64-byte aligned
//! ```
//!
//! Must hold: the handler finds registers, mask, stack and frame as the kernel would have made them, and what it
//! changes in there is in force when it returns. We write nothing beyond the end of the program's alternate stack.
//!
//! A frame of the kernel itself, of a handler that does not go by us, says that the thread has an alternate stack of
//! ours, and of our signals it says nothing. No other frame has that stack: neither ours, nor one from before the
//! thread was armed.
//!
//! Called by [`crate::delivery`], and by [`crate::signals`] for returns and for `sigaltstack`.

use core::arch::asm;
use core::sync::atomic::Ordering;

use uswap_os::sys::{Errno, abi};

use super::{actions, masks, ours};
use crate::call::Call;
use crate::cancellation;
use crate::frame::RED_ZONE_BYTES;
use crate::kernel::{
    self, Action, SS_AUTODISARM, SS_DISABLE, SignalInfo, Stack, UserContext, nr, signal_bit,
};
use crate::thread::{self, Slot};

const CONTEXT_BYTES: usize = size_of::<UserContext>();
const INFO_BYTES: usize = 128;
/// The vector registers of a frame without the extended ones.
const LEGACY_VECTOR_BYTES: usize = 512;
/// Where the kernel says how long the extended registers are, and the word that says that it does.
pub(super) const EXTENDED_MAGIC_AT: usize = 464;
pub(super) const EXTENDED_MAGIC: u32 = 0x4650_5853;
/// `MINSIGSTKSZ`.
const STACK_BYTES_MIN: usize = 2048;

/// Behind the frame of a handler that was shown the thread as it would stand without us: how it stands.
#[repr(C)]
struct Real {
    mark: usize,
    shown_rip: usize,
    context: UserContext,
}

/// What tells such a frame from others.
fn mark(context_at: usize) -> usize {
    context_at ^ 0x7265_616C_5F6F_6E65
}

/// Starts the program's handler. Comes back only if there is no room for its frame on the program's alternate stack.
///
/// # Safety
/// `info` and `context` are the kernel's frame of this signal, and `action` is the program's.
pub(crate) unsafe fn start_handler(signal: u32, action: &Action, info: &SignalInfo, context: &UserContext) {
    let slot = thread::current();
    let stack = slot.stack_in_force();
    let wants_stack = action.flags & abi::SA_ONSTACK as usize != 0 && stack.flags as usize & SS_DISABLE == 0;
    let program_sp = slot.program_stack_pointer(context.rsp);
    let (top, is_there) = match stack.has(program_sp) {
        // It may be one of our call stacks, for a call from there.
        true if wants_stack => (program_sp.wrapping_sub(RED_ZONE_BYTES), true),
        false if wants_stack => (stack.start.wrapping_add(stack.bytes), true),
        _ => (context.rsp.wrapping_sub(RED_ZONE_BYTES), stack.has(context.rsp)),
    };
    let vector_bytes = if context.vectors == 0 { 0 } else { vector_bytes(context.vectors) };
    let vectors_at = top.wrapping_sub(vector_bytes) & !63;
    let shown = cancellation::native_context(signal, context);
    let real_bytes = if shown.is_some() { size_of::<Real>() } else { 0 };
    let below_bytes = real_bytes + 8 + INFO_BYTES + CONTEXT_BYTES + 8;
    let frame_at = (vectors_at.wrapping_sub(below_bytes) & !15).wrapping_sub(8);
    if is_there && !stack.has(frame_at) {
        return;
    }
    let (context_at, info_at) = (frame_at + 8, frame_at + 8 + CONTEXT_BYTES);
    let mask_at = info_at + INFO_BYTES;
    let own = if action.flags & abi::SA_NODEFER as usize == 0 { signal_bit(signal) } else { 0 };
    // Then the kernel itself takes the frame as it is, and nothing is noted that nobody would take back.
    let returns_unseen = slot.is_undispatched();
    let blocked_before = context.mask & !ours() | masks::shown(slot);
    let blocked = blocked_before | action.mask | own;
    // SAFETY:
    // 1. The destination is below the red zone of the interrupted stack, or on the alternate stack that the program
    //    named, and is below what is in use there: the kernel would have written its frame there.
    // 2. The sources are the kernel's frame, `info` with its 128 bytes included.
    unsafe {
        core::ptr::copy_nonoverlapping(context.vectors as *const u8, vectors_at as *mut u8, vector_bytes);
        core::ptr::copy_nonoverlapping(shown.as_ref().unwrap_or(context), context_at as *mut UserContext, 1);
        if let Some(shown) = &shown {
            let real = Real { mark: mark(context_at), shown_rip: shown.rip, context: *context };
            ((mask_at + 8) as *mut Real).write(real);
        }
        core::ptr::copy_nonoverlapping(
            (info as *const SignalInfo).cast::<u8>(),
            info_at as *mut u8,
            INFO_BYTES,
        );
        (frame_at as *mut usize).write(action.restorer);
        (mask_at as *mut u64).write(blocked & !ours());
        let context_there = context_at as *mut UserContext;
        if !returns_unseen {
            (&raw mut (*context_there).mask).write(blocked_before);
            (&raw mut (*context_there).stack).write(stack);
        }
        if context.vectors != 0 {
            (&raw mut (*context_there).vectors).write(vectors_at);
        }
    }
    if !returns_unseen {
        masks::show(slot, blocked);
        slot.disarm_stack();
    }
    // SAFETY:
    // 1. All signals are blocked until the stack is the program's; then its mask goes into force.
    // 2. The handler finds its arguments and return address where the convention has them.
    unsafe {
        asm!(
            "mov rsp, {frame}",
            "syscall",
            "mov rdi, r12",
            "mov rsi, r13",
            "mov rdx, r14",
            "xor eax, eax",
            "jmp r15",
            frame = in(reg) frame_at,
            in("rax") nr::RT_SIGPROCMASK, in("rdi") abi::SIG_SETMASK as usize, in("rsi") mask_at,
            in("rdx") 0, in("r10") 8, in("r12") signal as usize, in("r13") info_at,
            in("r14") context_at, in("r15") action.handler,
            options(noreturn));
    }
}

/// `rt_sigreturn` of the program: `frame` is its stack pointer at the call, where the ucontext lies.
///
/// # Safety
/// The thread gives up all that it was doing.
pub(crate) unsafe fn return_from_handler(frame: usize) -> ! {
    let context = frame as *mut UserContext;
    let slot = thread::current();
    // SAFETY:
    // 1. The kernel is about to read the structure there; if it cannot, this ends the process as well.
    unsafe {
        let mask = &raw mut (*context).mask;
        let stack = &raw mut (*context).stack;
        let (blocked, asked) = (mask.read_unaligned(), stack.read_unaligned());
        if is_of_kernel(slot, &asked) {
            masks::show(slot, blocked | masks::shown(slot));
        } else {
            masks::show(slot, blocked);
            restore_stack(slot, &asked, (&raw const (*context).rsp).read_unaligned());
        }
        mask.write_unaligned(blocked & !ours());
        stack.write_unaligned(Stack {
            start: slot.alternate_stack(),
            flags: 0,
            padding: 0,
            bytes: thread::ALTERNATE_STACK_BYTES,
        });
    }
    if cancellation::may_return() {
        // It lies in the frame, and is only set if the handler asked for it.
        // SAFETY:
        // 1. Behind the structure lie 128 bytes of `siginfo_t`, and behind those what `start_handler` has put there, or
        //    the kernel's 512 bytes of vector registers and more.
        unsafe {
            let info = context.add(1).cast::<SignalInfo>();
            let real = &*info.cast::<u8>().add(INFO_BYTES + 8).cast::<Real>();
            if real.mark == mark(frame) && real.shown_rip == (*context).rip {
                (*context).go_on_at(&real.context);
            }
            cancellation::on_return(&mut *context, &*info, &actions::of_cancellation());
        }
    }
    // SAFETY:
    // 1. The call takes its frame from the stack pointer and does not come back.
    unsafe {
        asm!("mov rsp, {frame}", "syscall", "ud2",
            frame = in(reg) frame, in("rax") nr::RT_SIGRETURN, options(noreturn));
    }
}

fn vector_bytes(at: usize) -> usize {
    // SAFETY:
    // 1. The kernel's area is at least 512 bytes long; the last 48 of them are its own notes.
    let (magic, bytes) = unsafe {
        let notes = (at + EXTENDED_MAGIC_AT) as *const u32;
        (notes.read(), notes.add(1).read())
    };
    if magic == EXTENDED_MAGIC { bytes as usize } else { LEGACY_VECTOR_BYTES }
}

/// The alternate stack that the program has from now on. An error, as the kernel has it: it stays as it was.
fn set_stack(slot: &Slot, new: &Stack, stack_pointer: usize) -> Result<(), Errno> {
    let now = slot.stack_in_force();
    if now.flags & SS_AUTODISARM == 0 && now.has(stack_pointer) {
        return Err(Errno::EPERM);
    }
    let mode = new.flags & !SS_AUTODISARM;
    if mode != 0 && mode != abi::SS_DISABLE && mode != abi::SS_ONSTACK {
        return Err(Errno::EINVAL);
    }
    let is_off = mode == abi::SS_DISABLE;
    if !is_off && new.bytes < STACK_BYTES_MIN {
        return Err(Errno::ENOMEM);
    }
    let (start, bytes) = if is_off { (0, 0) } else { (new.start, new.bytes) };
    // The words belong together: a signal that came between them would start its handler on a stack that is none.
    let blocked = kernel::set_mask(abi::SIG_SETMASK, u64::MAX);
    for (word, value) in slot.program_stack.iter().zip([start, bytes, new.flags as usize]) {
        word.store(value, Ordering::Relaxed);
    }
    kernel::set_mask(abi::SIG_SETMASK, blocked);
    Ok(())
}

/// Whether a frame that says so of the alternate stack is the kernel's own. It may have been another thread's.
fn is_of_kernel(slot: &Slot, asked: &Stack) -> bool {
    let is_as_now = asked.start == slot.stack_in_force().start;
    asked.start == slot.alternate_stack() || (!is_as_now && thread::is_alternate_stack(asked.start))
}

/// A handler returns whose frame says that the program had this alternate stack. What the kernel would not take is
/// passed over.
fn restore_stack(slot: &Slot, asked: &Stack, stack_pointer: usize) {
    let now = slot.stack_in_force();
    if (now.start, now.bytes, now.flags) != (asked.start, asked.bytes, asked.flags) {
        let _as_the_kernel_has_it = set_stack(slot, asked, stack_pointer);
    }
}

/// `sigaltstack`, as the kernel would answer it.
pub(super) fn change_stack(call: &Call, stack_pointer: usize) -> isize {
    let [new_at, old_at, ..] = call.arguments;
    let slot = thread::current();
    let now = slot.stack_in_force();
    let is_on_it = now.flags & SS_AUTODISARM == 0 && now.has(stack_pointer);
    let shown = Stack { flags: now.flags & (SS_AUTODISARM | abi::SS_DISABLE) | u32::from(is_on_it), ..now };
    if new_at != 0 {
        let (Ok(start), Ok(flags), Ok(bytes)) =
            (kernel::read_word(new_at), kernel::read_word(new_at + 8), kernel::read_word(new_at + 16))
        else {
            return Errno::EFAULT.as_answer();
        };
        let new = Stack { start: start as usize, flags: flags as u32, padding: 0, bytes: bytes as usize };
        if let Err(errno) = set_stack(slot, &new, stack_pointer) {
            return errno.as_answer();
        }
    }
    if old_at != 0 {
        if !kernel::is_readable(old_at, size_of::<Stack>()) {
            return Errno::EFAULT.as_answer();
        }
        // SAFETY:
        // 1. The program named the place; it is mapped.
        unsafe { (old_at as *mut Stack).write_unaligned(shown) };
    }
    0
}
