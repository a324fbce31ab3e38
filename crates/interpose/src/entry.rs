//! The way of one call: from a trampoline or the dispatcher, past the interposer, to the kernel and back.
//!
//! Assembly, because the program is promised what the kernel promises at a `syscall`: all registers
//! but `rax`, `rcx` and `r11` stay, the flags too, and nothing above or in the 128 bytes below its
//! stack pointer changes. Rust keeps `rbx`, `rbp` and `r12` to `r15`; the frame keeps the others and
//! the sixteen `xmm`. Code for plain x86-64 does not touch the upper halves of wider registers.
//!
//! ```text
//!  program's stack pointer
//!    128 bytes of the program (red zone)
//!    [where to go on]        only if dispatched
//!    return address          into the trampoline, or `dispatched`
//!    flags
//!    rbp                     <- rbp, `base` of the hooks
//!    Frame, 16-byte aligned  <- rsp
//! ```
//!
//! Calls by which a second flow of control goes on from the same place (`vfork`, `clone` with a stack)
//! do not come back through a frame: see `birth`.

use core::arch::naked_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::call::{Call, Context};

/// Bytes below the stack pointer that a program may use without telling.
pub const RED_ZONE_BYTES: usize = 128;
/// Behind the return address into a trampoline: where the tail ends and the address of the site's end
/// is kept. See `patch::trampoline`.
pub const TRAMPOLINE_TAIL_BYTES: usize = 13;

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
    padding: usize,
    xmm: [[u64; 2]; 16],
}

const _: () = assert!(size_of::<Frame>() == 416);
const _: () = assert!(offset_of!(Frame, call) == 0);
const _: () = assert!(offset_of!(Frame, saved) == 56);
const _: () = assert!(offset_of!(Frame, answer) == 104);
const _: () = assert!(offset_of!(Frame, context) == 112);
const _: () = assert!(offset_of!(Frame, xmm) == 160);

/// What the assembly does after [`Hooks::before`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Step {
    /// Makes the call and goes back.
    Pass = 0,
    /// Makes the call and asks [`Hooks::after`].
    PassThenAfter = 1,
    /// `Frame::answer` is the answer.
    Answer = 2,
    /// `vfork`, and `clone` that does the same.
    ShareStack = 3,
    /// `clone` with a stack for the child, which has its `Birth` on it.
    NewStack = 4,
}

/// The functions that the assembly calls: those of one interposer.
#[derive(Debug, Clone, Copy)]
pub struct Hooks {
    /// Ahead of the kernel. `base` is where `rbp` of the program was saved.
    pub before: unsafe extern "C" fn(frame: &mut Frame, base: *const usize) -> Step,
    /// The kernel's answer is in the frame.
    pub after: unsafe extern "C" fn(frame: &mut Frame),
    /// Behind a `clone` of `Step::NewStack`, in the parent; the answer is in the frame.
    pub parted: unsafe extern "C" fn(frame: &mut Frame),
    /// Behind a `vfork`, in the parent and in the child; `saved` and `call` of the frame are garbage
    /// until it has filled them; it gives the flags in `Call::number`. See `birth`.
    pub stack_shared: unsafe extern "C" fn(frame: &mut Frame),
    /// In a child with a stack of its own.
    pub born: unsafe extern "C" fn(birth: &crate::birth::Birth),
}

static BEFORE: AtomicUsize = AtomicUsize::new(0);
static AFTER: AtomicUsize = AtomicUsize::new(0);
static PARTED: AtomicUsize = AtomicUsize::new(0);
static STACK_SHARED: AtomicUsize = AtomicUsize::new(0);
static BORN: AtomicUsize = AtomicUsize::new(0);

/// Sets the functions. Before the first call can come.
pub fn set_hooks(hooks: &Hooks) {
    BEFORE.store(hooks.before as usize, Ordering::Release);
    AFTER.store(hooks.after as usize, Ordering::Release);
    PARTED.store(hooks.parted as usize, Ordering::Release);
    STACK_SHARED.store(hooks.stack_shared as usize, Ordering::Release);
    BORN.store(hooks.born as usize, Ordering::Release);
}

/// Fills `Frame::context`. `base` as in [`Hooks::before`].
///
/// # Safety
/// `base` must be that of the frame.
#[inline]
pub unsafe fn fill_context(frame: &mut Frame, base: *const usize) {
    // SAFETY:
    // 1. `base` is where `entry` keeps rbp; above it lie flags and return address (the layout above).
    // 2. A dispatched call has the address to go on at above that, a patched one has it in its
    //    trampoline, at a fixed distance behind the return address.
    unsafe {
        let back = *base.add(2);
        let is_dispatched = back == dispatched_return();
        frame.context.is_dispatched = is_dispatched as usize;
        if is_dispatched {
            frame.context.instruction_pointer = *base.add(3);
            frame.context.stack_pointer = base.add(4) as usize + RED_ZONE_BYTES;
        } else {
            frame.context.instruction_pointer =
                ((back + TRAMPOLINE_TAIL_BYTES) as *const usize).read_unaligned();
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
    // 1. The layout above.
    unsafe { *base.add(1) }
}

/// Bytes of the `call` in `dispatched`: `ff 15` and a distance, or `e8` and one.
const DISPATCHED_CALL_BYTES: usize = 5;

fn dispatched_return() -> usize {
    dispatched as *const () as usize + DISPATCHED_CALL_BYTES
}

/// Where the handler of SIGSYS lets a thread go on: at the stack pointer lies the address behind its
/// call, above it the red zone. Like the kernel it leaves that address in `rcx`; no `ret`, since no call
/// matches it on a shadow stack.
#[unsafe(naked)]
pub unsafe extern "C" fn dispatched() {
    naked_asm!(
        ".byte 0xe8",
        ".long {entry} - . - 4",
        "mov rcx, [rsp]",
        "lea rsp, [rsp + 8 + 128]",
        "jmp rcx",
        entry = sym entry,
    )
}

macro_rules! save_vectors {
    () => {
        "movaps [rsp + 160], xmm0
         movaps [rsp + 176], xmm1
         movaps [rsp + 192], xmm2
         movaps [rsp + 208], xmm3
         movaps [rsp + 224], xmm4
         movaps [rsp + 240], xmm5
         movaps [rsp + 256], xmm6
         movaps [rsp + 272], xmm7
         movaps [rsp + 288], xmm8
         movaps [rsp + 304], xmm9
         movaps [rsp + 320], xmm10
         movaps [rsp + 336], xmm11
         movaps [rsp + 352], xmm12
         movaps [rsp + 368], xmm13
         movaps [rsp + 384], xmm14
         movaps [rsp + 400], xmm15"
    };
}

macro_rules! load_vectors {
    () => {
        "movaps xmm0, [rsp + 160]
         movaps xmm1, [rsp + 176]
         movaps xmm2, [rsp + 192]
         movaps xmm3, [rsp + 208]
         movaps xmm4, [rsp + 224]
         movaps xmm5, [rsp + 240]
         movaps xmm6, [rsp + 256]
         movaps xmm7, [rsp + 272]
         movaps xmm8, [rsp + 288]
         movaps xmm9, [rsp + 304]
         movaps xmm10, [rsp + 320]
         movaps xmm11, [rsp + 336]
         movaps xmm12, [rsp + 352]
         movaps xmm13, [rsp + 368]
         movaps xmm14, [rsp + 384]
         movaps xmm15, [rsp + 400]"
    };
}

/// `rdi`, `rsi`, `rdx`, `r10`, `r8`, `r9` from six words of the frame.
macro_rules! load_arguments {
    ($first:literal) => {
        concat!(
            "mov rdi, [rsp + ",
            $first,
            "]
         mov rsi, [rsp + ",
            $first,
            " + 8]
         mov rdx, [rsp + ",
            $first,
            " + 16]
         mov r10, [rsp + ",
            $first,
            " + 24]
         mov r8, [rsp + ",
            $first,
            " + 32]
         mov r9, [rsp + ",
            $first,
            " + 40]"
        )
    };
}

/// The arithmetic flags from `[rbp + 8]`: `popf` takes 20 cycles, this 4. Destroys rax and rcx.
macro_rules! load_flags {
    () => {
        "mov rcx, [rbp + 8]
         mov eax, ecx
         shr eax, 11
         and eax, 1
         mov ah, cl
         add al, 0x7f
         sahf"
    };
}

/// The common way. Called with the registers of the program; see the drawing at the top.
#[unsafe(naked)]
pub unsafe extern "C" fn entry() {
    naked_asm!(
        "pushfq",
        "push rbp",
        "mov rbp, rsp",
        "and rsp, -16",
        "sub rsp, 416",
        "mov [rsp], rax",
        "mov [rsp + 8], rdi",
        "mov [rsp + 16], rsi",
        "mov [rsp + 24], rdx",
        "mov [rsp + 32], r10",
        "mov [rsp + 40], r8",
        "mov [rsp + 48], r9",
        "mov [rsp + 56], rdi",
        "mov [rsp + 64], rsi",
        "mov [rsp + 72], rdx",
        "mov [rsp + 80], r10",
        "mov [rsp + 88], r8",
        "mov [rsp + 96], r9",
        save_vectors!(),
        // Rust wants the direction flag clear.
        "test dword ptr [rbp + 8], 0x400",
        "jnz 20f",
        "21:",
        "mov rdi, rsp",
        "mov rsi, rbp",
        "call [rip + {before}]",
        "cmp eax, 2",
        "ja 30f",
        "je 10f",
        "mov r11d, eax",
        "push r11",
        "push r11",
        load_arguments!("16 + 8"),
        "mov rax, [rsp + 16]",
        "syscall",
        "pop r11",
        "pop r11",
        "mov [rsp + 104], rax",
        "test r11d, r11d",
        "jz 10f",
        "mov rdi, rsp",
        "call [rip + {after}]",
        // Back.
        "10:",
        load_vectors!(),
        load_arguments!("56"),
        "test dword ptr [rbp + 8], 0x400",
        "jnz 22f",
        load_flags!(),
        "mov rax, [rsp + 104]",
        "mov rsp, rbp",
        "pop rbp",
        "lea rsp, [rsp + 8]",
        "ret",
        // The direction flag was set.
        "20: cld",
        "jmp 21b",
        "22:",
        "mov rax, [rsp + 104]",
        "mov rsp, rbp",
        "pop rbp",
        "popfq",
        "ret",
        // Two flows of control behind the call: 3 or 4.
        "30:",
        load_vectors!(),
        "cmp eax, 4",
        "je 40f",
        // vfork: nothing of ours may lie below the program's stack pointer when the call is made, and what
        // is needed afterwards lies in the slot. The flags are restored by the hook's frame.
        load_arguments!("8"),
        "mov rax, [rsp]",
        "mov rcx, [rsp + 112]",
        "mov rbp, [rbp]",
        "mov rsp, rcx",
        "syscall",
        "jmp {shared}",
        // clone with a stack: the child starts with its stack pointer at its `Birth`.
        "40:",
        load_arguments!("8"),
        "mov rax, [rsp]",
        "syscall",
        "test rax, rax",
        "jz {born}",
        "mov [rsp + 104], rax",
        "mov rdi, rsp",
        "call [rip + {parted}]",
        "jmp 10b",
        before = sym BEFORE,
        after = sym AFTER,
        parted = sym PARTED,
        shared = sym stack_shared,
        born = sym born,
    )
}

/// Behind a `vfork`, in child and parent: the stack pointer is the program's, the answer in `rax`.
#[unsafe(naked)]
unsafe extern "C" fn stack_shared() {
    naked_asm!(
        "lea rsp, [rsp - 128]",
        "push rax", // Where to go on, when the hook has been here.
        "push rax", // The flags, likewise.
        "push rbp",
        "mov rbp, rsp",
        "and rsp, -16",
        "sub rsp, 416",
        "mov [rsp + 104], rax",
        "lea rcx, [rbp + 24 + 128]",
        "mov [rsp + 112], rcx",
        save_vectors!(),
        "cld",
        "mov rdi, rsp",
        "call [rip + {hook}]",
        // The flags that the program had came in `call.number`.
        "mov rax, [rsp]",
        "mov [rbp + 8], rax",
        "mov rax, [rsp + 120]",
        "mov [rbp + 16], rax",
        load_vectors!(),
        load_arguments!("56"),
        "mov rax, [rsp + 104]",
        "mov rsp, rbp",
        "pop rbp",
        "popfq",
        "mov rcx, [rsp]",
        "lea rsp, [rsp + 8 + 128]",
        "jmp rcx",
        hook = sym STACK_SHARED,
    )
}

/// The first code of a child with a stack of its own. The stack pointer is at its `Birth`.
#[unsafe(naked)]
unsafe extern "C" fn born() {
    naked_asm!(
        "mov rbp, rsp",
        "and rsp, -16",
        "sub rsp, 416",
        save_vectors!(),
        "cld",
        "mov rdi, rbp",
        "call [rip + {hook}]",
        load_vectors!(),
        "mov rsp, rbp",
        // See `birth::Birth`: saved, rbp, flags, where to go on, stack.
        load_arguments!("0"),
        "mov rbp, [rsp + 48]",
        "push qword ptr [rsp + 56]",
        "popfq",
        "mov rcx, [rsp + 64]",
        "mov rsp, [rsp + 72]",
        "mov eax, 0",
        "jmp rcx",
        hook = sym BORN,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_in_dispatched_is_as_long_as_its_return_address_says() {
        // SAFETY:
        // 1. The function is code of this program, longer than one byte.
        assert_eq!(unsafe { *(dispatched as *const u8) }, 0xe8);
    }
}
