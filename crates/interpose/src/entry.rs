//! The way of one call: from a trampoline or the dispatcher, past the interposer, to the kernel and back.
//!
//! Assembly, because the program is promised what the kernel promises at a `syscall`: all registers
//! but `rax`, `rcx` and `r11` stay, the flags too, and nothing above or in the 128 bytes below its
//! stack pointer changes. Rust keeps `rbx`, `rbp` and `r12` to `r15`; the frame keeps the others and
//! the sixteen `xmm`. Code for plain x86-64 does not touch the upper halves of wider registers.
//!
//! What lies on the stack meanwhile is drawn in [`frame`](crate::frame).
//!
//! Calls by which a second flow of control goes on from the same place (`vfork`, `clone` with a stack)
//! do not come back through a frame: see `birth`.
//!
//! Must hold: what the program is promised above holds on each way: also where a handler interrupts it, jumps out of
//! it, or the call is made on another stack. Called by trampolines and behind the handler of SIGSYS, by address;
//! [`mod@crate::install`] says whose way it is, and `host` hands on the address of [`interrupted`].

use core::arch::naked_asm;
use core::sync::atomic::Ordering;

use crate::birth;
use crate::call::Interposer;
use crate::frame::{DISPATCHED, ELSEWHERE, ENTRY, GO_ON, QUICK_ENTRY};
use crate::serve;

/// Makes the way of `I` the way of all calls. Before the first call can come.
pub fn choose<I: Interposer>() {
    // Release has no Acquire to pair with, and needs none: who reads these has come by a hook, and a call of the
    // kernel, or the text that was patched, has made that known behind this.
    ENTRY.store(entry::<I> as *const () as usize, Ordering::Release);
    QUICK_ENTRY.store(quick_entry::<I> as *const () as usize, Ordering::Release);
    DISPATCHED.store(dispatched::<I> as *const () as usize, Ordering::Release);
    ELSEWHERE.store(elsewhere::<I> as *const () as usize, Ordering::Release);
    GO_ON.store(go_on::<I> as *const () as usize, Ordering::Release);
}

/// Where the handler of SIGSYS lets a thread go on: at the stack pointer lies the address behind its
/// call, above it the red zone. Like the kernel it leaves that address in `rcx`; no `ret`, since no call
/// matches it on a shadow stack.
///
/// # Safety
/// The thread has the registers of its program as at a call, but for the stack pointer. That is as said above, on a
/// stack with room for a call. `I` is the type of the interposer.
#[unsafe(naked)]
pub unsafe extern "C" fn dispatched<I: Interposer>() {
    naked_asm!(
        ".cfi_startproc",
        // The program's stack pointer is above the red zone; where it goes on is at ours.
        ".cfi_def_cfa rsp, 8 + 128",
        ".cfi_offset rip, -(8 + 128)",
        ".byte 0xe8",
        ".long {entry} - . - 4",
        "mov rcx, [rsp]",
        "lea rsp, [rsp + 8 + 128]",
        "jmp rcx",
        ".cfi_endproc",
        entry = sym entry::<I>,
    )
}

/// As [`dispatched`], on a call stack: at the stack pointer lie the words of `thread::ELSEWHERE_BYTES`.
///
/// # Safety
/// As [`dispatched`], but for what lies at the stack pointer. The call stack is one of this thread's that it has taken
/// for this call.
#[unsafe(naked)]
pub unsafe extern "C" fn elsewhere<I: Interposer>() {
    naked_asm!(
        ".cfi_startproc",
        // DW_CFA_def_cfa_expression: the word at rsp + 8. DW_CFA_expression of rip: rsp.
        ".cfi_escape 0x0f, 3, 0x77, 8, 0x06",
        ".cfi_escape 0x10, 16, 2, 0x77, 0",
        ".byte 0xe8",
        ".long {entry} - . - 4",
        "mov rcx, [rsp]",
        "mov r11, [rsp + 16]",
        "mov rsp, [rsp + 8]",
        "mov dword ptr [r11], 0",
        "jmp rcx",
        ".cfi_endproc",
        entry = sym entry::<I>,
    )
}

/// A number that no system call has: that of the call by which [`interrupted`] comes past the interposer.
pub const INTERRUPTED: usize = 0x7573_7700;

/// Where a tracer lets a thread of another process go on that it has stopped between two instructions. At the stack
/// pointer lies the address where the thread was, above it the red zone. The thread comes past the interposer as if it
/// made the call [`INTERRUPTED`], and goes on where it was, with all that its registers held. Before there is an
/// interposer it goes on at once. Not with a shadow stack, which knows of no such return.
///
/// # Safety
/// For a thread that was stopped in code of its program, on a stack with room for a call.
#[unsafe(naked)]
pub unsafe extern "C" fn interrupted<I: Interposer>() {
    naked_asm!(
        "pushfq",
        "push rax",
        "push rcx",
        "push r11",
        "cmp qword ptr [rip + {chosen}], 0",
        "je 30f",
        // As the handler of SIGSYS leaves it: a red zone, and where to go on.
        "lea rsp, [rsp - 128]",
        "lea rax, [rip + 30f]",
        "push rax",
        "mov eax, {number}",
        "jmp {dispatched}",
        "30:",
        "pop r11",
        "pop rcx",
        "pop rax",
        "popfq",
        "ret 128",
        chosen = sym crate::frame::ENTRY,
        number = const INTERRUPTED,
        dispatched = sym dispatched::<I>,
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

/// Builds the frame from the registers of the program.
macro_rules! build_frame {
    () => {
        ".cfi_def_cfa rsp, 8
         pushfq
         .cfi_def_cfa_offset 16
         push rbp
         .cfi_def_cfa_offset 24
         .cfi_offset rbp, -24
         mov rbp, rsp
         .cfi_def_cfa_register rbp
         and rsp, -16
         sub rsp, 416
         mov [rsp], rax
         mov [rsp + 8], rdi
         mov [rsp + 16], rsi
         mov [rsp + 24], rdx
         mov [rsp + 32], r10
         mov [rsp + 40], r8
         mov [rsp + 48], r9
         mov [rsp + 56], rdi
         mov [rsp + 64], rsi
         mov [rsp + 72], rdx
         mov [rsp + 80], r10
         mov [rsp + 88], r8
         mov [rsp + 96], r9"
    };
}

/// The common way. Called with the registers of the program; see the drawing at the top.
///
/// # Safety
/// Only trampolines, [`dispatched`] and [`elsewhere`] call this: where it comes back to tells what lies above, as drawn
/// in [`frame`](crate::frame). The registers are those of the program at its call, the stack has room for a call, and
/// `I` is the type of the interposer.
#[unsafe(naked)]
pub unsafe extern "C" fn entry<I: Interposer>() {
    naked_asm!(
        ".cfi_startproc",
        build_frame!(),
        save_vectors!(),
        // Rust wants the direction flag clear.
        "test dword ptr [rbp + 8], 0x400",
        "jnz 20f",
        "21:",
        "mov rdi, rsp",
        "mov rsi, rbp",
        "call {before}",
        "jmp {go_on}",
        // The direction flag was set.
        "20: cld",
        "jmp 21b",
        ".cfi_endproc",
        before = sym serve::before::<I>,
        go_on = sym go_on::<I>,
    )
}

/// Behind `before`, with its answer, a `Step`, in eax: makes the call or not, and goes back to the program.
///
/// # Safety
/// Only [`entry`] and [`quick_entry`] jump here: the stack pointer is at the frame for which `before::<I>` gave its
/// answer, and the base of the frame is in rbp.
#[unsafe(naked)]
unsafe extern "C" fn go_on<I: Interposer>() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_def_cfa rbp, 24",
        ".cfi_offset rbp, -24",
        "cmp eax, 2",
        "ja 30f",
        "je 60f",
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
        "jz 60f",
        "mov rdi, rsp",
        "call {after}",
        // Back.
        "60:",
        load_vectors!(),
        load_arguments!("56"),
        "test dword ptr [rbp + 8], 0x400",
        "jnz 22f",
        load_flags!(),
        "mov rax, [rsp + 104]",
        ".cfi_remember_state",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 16",
        ".cfi_restore rbp",
        "lea rsp, [rsp + 8]",
        ".cfi_def_cfa_offset 8",
        "ret",
        ".cfi_restore_state",
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
        "ja 50f",
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
        "call {parted}",
        "jmp 60b",
        // vfork on a call stack.
        "50:",
        load_arguments!("8"),
        "mov rax, [rsp]",
        "syscall",
        "mov [rsp + 104], rax",
        "mov rdi, rsp",
        "mov rsi, rbp",
        "call {elsewhere}",
        "jmp 60b",
        ".cfi_endproc",
        after = sym serve::after::<I>,
        parted = sym birth::parted::<I>,
        elsewhere = sym birth::call_stack_shared::<I>,
        shared = sym stack_shared::<I>,
        born = sym born::<I>,
    )
}

/// As [`entry`], for trampolines that make the common call themselves: no jump through memory lies behind
/// the kernel, where processors have forgotten where such jumps go (20 ns each). Comes back to the return
/// address for the call to be made, or two bytes behind it with the answer.
///
/// # Safety
/// As [`entry`], but only a trampoline of [`area`](crate::trampoline_area::area) calls this: at the return address lies
/// its `syscall`, two bytes long.
#[unsafe(naked)]
pub unsafe extern "C" fn quick_entry<I: Interposer>() {
    naked_asm!(
        ".cfi_startproc",
        build_frame!(),
        save_vectors!(),
        "test dword ptr [rbp + 8], 0x400",
        "jnz 20f",
        "21:",
        "mov rdi, rsp",
        "mov rsi, rbp",
        "call {before}",
        "test eax, eax",
        "jnz 30f",
        "test dword ptr [rbp + 8], 0x400",
        "jnz 30f",
        load_vectors!(),
        load_arguments!("56"),
        load_flags!(),
        "mov rax, [rsp]",
        ".cfi_remember_state",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 16",
        ".cfi_restore rbp",
        "lea rsp, [rsp + 8]",
        ".cfi_def_cfa_offset 8",
        "ret",
        ".cfi_restore_state",
        "20: cld",
        "jmp 21b",
        "30:",
        "add qword ptr [rbp + 16], 2",
        "jmp {go_on}",
        ".cfi_endproc",
        before = sym serve::before::<I>,
        go_on = sym go_on::<I>,
    )
}

/// Behind a `vfork`, in child and parent: the stack pointer is the program's, the answer in `rax`.
///
/// # Safety
/// Only [`go_on`] jumps here, right behind the call of a `Step::ShareStack`. All signals are blocked, and below the red
/// zone of the program's stack is room for a call.
#[unsafe(naked)]
unsafe extern "C" fn stack_shared<I: Interposer>() {
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
        "call {hook}",
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
        hook = sym birth::stack_shared::<I>,
    )
}

/// The first code of a child with a stack of its own. The stack pointer is at its `Birth`.
///
/// # Safety
/// Only [`go_on`] jumps here, in the child of a `Step::NewStack`. All signals are blocked, and below the `Birth` is
/// room for the child's first steps, which are ours.
#[unsafe(naked)]
unsafe extern "C" fn born<I: Interposer>() {
    naked_asm!(
        "mov rbp, rsp",
        "and rsp, -16",
        "sub rsp, 416",
        save_vectors!(),
        "cld",
        "mov rdi, rbp",
        "call {hook}",
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
        hook = sym birth::born::<I>,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Before, Call, Context};

    struct Nothing;

    impl Interposer for Nothing {
        fn before(&self, _: &mut Call, _: &Context) -> Before {
            Before::Pass
        }
    }

    #[test]
    fn the_call_in_dispatched_is_as_long_as_its_return_address_says() {
        // SAFETY:
        // 1. The function is code of this program, longer than one byte.
        assert_eq!(unsafe { *(dispatched::<Nothing> as *const u8) }, 0xe8);
    }
}
