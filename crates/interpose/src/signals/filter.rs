//! Filters that a program sets on its own calls (seccomp), and what they mean for ours.
//!
//! A handler returns by a call of its own, `rt_sigreturn`. A program whose code has no handlers may forbid that to
//! itself, as sshd does in its sandbox, and is killed at its first dispatched call. So the filter is asked ahead, with
//! a small machine for its instructions, and where it does not allow that call, [`resume`] goes back without it.
//!
//! Programs that the process executes inherit the filter. If it ends a process that makes the calls by which a program
//! comes under this library, [`ends_programs`] says so.
//!
//! Must hold: a filter is noted before it can be in force for any thread. One that was refused counts no more. Called
//! by [`crate::serve`] ahead of a call that sets one, by [`crate::delivery`], which asks how a handler goes back, by
//! [`mod@crate::install`], and by `host`, which asks about programs ([`ends_programs`]).

use core::arch::naked_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use uswap_os::own_calls::{OwnCall, START};
use uswap_os::sys::abi;
use uswap_os::sys::prctl::PR_SET_SECCOMP;

use super::frame::{EXTENDED_MAGIC, EXTENDED_MAGIC_AT};
use crate::call::Call;
use crate::kernel::{self, SIGNAL_SET_BYTES, UserContext, nr};

/// The kernel takes no longer program.
const INSTRUCTIONS_MAX: usize = 4096;
/// Words of scratch memory that a program has.
const SCRATCH_WORDS: usize = 16;
/// `AUDIT_ARCH_X86_64`.
const ARCHITECTURE: u32 = 0xC000_003E;
/// What a program answers for a call that may be made; the upper half.
const ALLOW: u32 = 0x7FFF;
/// The same, and it is noted in a log.
const LOG: u32 = 0x7FFC;

/// Filters of this process that do not let a handler return by its call. Those that are about to be set count too:
/// threads and handlers may have them before the call is back.
static FORBID_RETURN: AtomicU32 = AtomicU32::new(0);
/// The same of those that end a process which makes a call of ours.
static END_PROGRAMS: AtomicU32 = AtomicU32::new(0);

/// What a program answers for a call that ends the thread, the process, or is answered by a signal that nobody expects.
const ENDS: [u32; 3] = [0x0000, 0x8000, 0x0003];

/// Those of the interposer.
static OF_INTERPOSER: AtomicPtr<OwnCall> = AtomicPtr::new(core::ptr::null_mut());
static OF_INTERPOSER_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Notes the calls that the interposer makes.
pub(crate) fn choose(calls: &'static [OwnCall]) {
    OF_INTERPOSER_COUNT.store(calls.len(), Ordering::Relaxed);
    // Release pairs with `own_calls`: who finds the slice finds its length.
    OF_INTERPOSER.store(calls.as_ptr().cast_mut(), Ordering::Release);
}

fn own_calls() -> impl Iterator<Item = OwnCall> {
    // Acquire pairs with `choose`.
    let first = OF_INTERPOSER.load(Ordering::Acquire);
    let of_interposer = match first.is_null() {
        true => &[],
        // SAFETY:
        // 1. It is the slice that `choose` was given, of that length; the interposer's calls are chosen once.
        false => unsafe { core::slice::from_raw_parts(first, OF_INTERPOSER_COUNT.load(Ordering::Relaxed)) },
    };
    START.iter().chain(of_interposer).copied()
}

/// True when a filter that this process has set, or is about to set, would end the programs that it executes if they
/// came under this library: they have to be left alone.
pub fn ends_programs() -> bool {
    END_PROGRAMS.load(Ordering::Relaxed) != 0
}

/// A filter that is about to be set, and is counted.
#[derive(Debug)]
#[must_use]
pub(crate) struct Announced {
    forbids_return: bool,
    ends_programs: bool,
}

/// The program is about to set a filter: `prctl` or `seccomp` as it made it. What it says is noted before it is true:
/// the kernel orders that ahead of the filter for every thread that gets it, and every child. A thread that does not
/// come back to say what became of it (a handler that jumps) leaves it noted.
pub(crate) fn announce(call: &Call) -> Announced {
    const BY_PRCTL: usize = 2;
    const BY_SECCOMP: usize = 1;
    let [first, second, third, ..] = call.arguments;
    let program_at = match call.number {
        nr::PRCTL if first == PR_SET_SECCOMP as usize && second == BY_PRCTL => Some(third),
        nr::SECCOMP if first == BY_SECCOMP => Some(third),
        _ => None,
    };
    let filter = program_at.and_then(Filter::at);
    let announced = Announced {
        forbids_return: filter.as_ref().is_some_and(|filter| !filter.allows(abi::__NR_rt_sigreturn)),
        ends_programs: filter.as_ref().is_some_and(|filter| own_calls().any(|call| filter.ends(call))),
    };
    for count in announced.counts() {
        count.fetch_add(1, Ordering::Relaxed);
    }
    announced
}

impl Announced {
    /// The kernel has answered the call. A filter that was refused counts no more.
    pub(crate) fn answered(self, call: &Call, answer: isize) {
        if is_refused(call, answer) {
            for count in self.counts() {
                count.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    fn counts(&self) -> impl Iterator<Item = &'static AtomicU32> {
        let of = |is_counted: bool, count| is_counted.then_some(count);
        of(self.forbids_return, &FORBID_RETURN).into_iter().chain(of(self.ends_programs, &END_PROGRAMS))
    }
}

/// Whether no filter was set. Where all threads should get it, the answer may be the id of one that could not. Where
/// somebody is to be told of calls, it is a descriptor.
fn is_refused(call: &Call, answer: isize) -> bool {
    const NEW_LISTENER: usize = 1 << 3;
    let is_descriptor = call.number == nr::SECCOMP && call.arguments[1] & NEW_LISTENER != 0;
    answer < 0 || answer > 0 && !is_descriptor
}

/// Whether a call asks for the strict mode, which is no filter.
pub(crate) fn is_strict_mode(call: &Call) -> bool {
    let [first, second, ..] = call.arguments;
    match call.number {
        nr::PRCTL => first == PR_SET_SECCOMP as usize && second == 1,
        nr::SECCOMP => first == 0,
        _ => false,
    }
}

/// Is a handler to go back by [`resume`]?
#[inline]
pub(crate) fn forbids_return() -> bool {
    FORBID_RETURN.load(Ordering::Relaxed) != 0
}

/// A program of the kernel's classic filter machine, in the program's memory.
struct Filter {
    start: usize,
    count: usize,
}

/// One instruction.
#[derive(Clone, Copy)]
struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    operand: u32,
}

impl Instruction {
    fn of_word(word: u64) -> Instruction {
        Instruction {
            code: word as u16,
            if_true: (word >> 16) as u8,
            if_false: (word >> 24) as u8,
            operand: (word >> 32) as u32,
        }
    }
}

impl Filter {
    /// The `sock_fprog` at that address.
    fn at(address: usize) -> Option<Filter> {
        let count = kernel::read_word(address).ok()? as u16 as usize;
        let start = kernel::read_word(address + 8).ok()? as usize;
        (count <= INSTRUCTIONS_MAX).then_some(Filter { start, count })
    }

    fn answer(&self, call: (u32, u64)) -> Option<u32> {
        let fetch = |index: usize| -> Option<u64> {
            if index < self.count { kernel::read_word(self.start + index * 8).ok() } else { None }
        };
        answer(fetch, call)
    }

    fn allows(&self, number: u32) -> bool {
        self.answer((number, 0)).is_some_and(|answer| matches!(answer >> 16, ALLOW | LOG))
    }

    fn ends(&self, call: OwnCall) -> bool {
        self.answer((call.number(), call.first())).is_some_and(|answer| ENDS.contains(&(answer >> 16)))
    }
}

/// What a program says of a call with this number and first argument, and zeros as the others. `None`: it is not a
/// program that the kernel would take.
fn answer(fetch: impl Fn(usize) -> Option<u64>, (number, first): (u32, u64)) -> Option<u32> {
    const X: u16 = 0x08;
    let (mut accumulator, mut index_register) = (0u32, 0u32);
    let mut scratch = [0u32; SCRATCH_WORDS];
    let data = |offset: u32| match offset {
        0 => number,
        4 => ARCHITECTURE,
        16 => first as u32,
        20 => (first >> 32) as u32,
        _ => 0,
    };
    let mut at = 0usize;
    // Jumps go forward only.
    loop {
        let Instruction { code, if_true, if_false, operand } = Instruction::of_word(fetch(at)?);
        at += 1;
        let source = if code & X != 0 { index_register } else { operand };
        let slot = operand as usize % SCRATCH_WORDS;
        match code & 0x07 {
            // Loads: constant, scratch, length of the data, the data.
            0x00 | 0x01 => {
                let value = match code & 0xE0 {
                    0x00 => operand,
                    0x60 => scratch[slot],
                    0x80 => 64,
                    _ => data(operand),
                };
                *(if code & 0x07 == 0 { &mut accumulator } else { &mut index_register }) = value;
            }
            0x02 => scratch[slot] = accumulator,
            0x03 => scratch[slot] = index_register,
            0x04 => accumulator = calculate(code & 0xF0, accumulator, source)?,
            0x05 => {
                let is_so = match code & 0xF0 {
                    0x00 => {
                        at += operand as usize;
                        continue;
                    }
                    0x10 => accumulator == source,
                    0x20 => accumulator > source,
                    0x30 => accumulator >= source,
                    0x40 => accumulator & source != 0,
                    _ => return None,
                };
                at += usize::from(if is_so { if_true } else { if_false });
            }
            0x06 => return Some(if code & 0x18 == 0x10 { accumulator } else { operand }),
            _ if code & 0xF8 == 0x80 => accumulator = index_register,
            _ => index_register = accumulator,
        }
    }
}

fn calculate(operation: u16, left: u32, right: u32) -> Option<u32> {
    Some(match operation {
        0x00 => left.wrapping_add(right),
        0x10 => left.wrapping_sub(right),
        0x20 => left.wrapping_mul(right),
        0x30 => left.checked_div(right)?,
        0x40 => left | right,
        0x50 => left & right,
        0x60 => left.checked_shl(right).unwrap_or(0),
        0x70 => left.checked_shr(right).unwrap_or(0),
        0x80 => left.wrapping_neg(),
        0xA0 => left ^ right,
        _ => return None,
    })
}

/// What [`go_back`] takes from the stack on which the thread goes on.
#[repr(C)]
struct Registers {
    mask: u64,
    r8_to_r15: [usize; 8],
    rdi: usize,
    rsi: usize,
    rbp: usize,
    rbx: usize,
    rdx: usize,
    rax: usize,
    rsp: usize,
    rip: usize,
    flags: usize,
}

const _: () = assert!(size_of::<Registers>() == 144);
const _: () = assert!(offset_of!(Registers, rdi) == 72);
const _: () = assert!(offset_of!(Registers, rsp) == 120);

/// Goes on as the context says, without a call of the kernel but that which sets the signals blocked. `rcx` and `r11`
/// are not restored.
///
/// # Safety
/// `context` is the kernel's frame of the handler that runs; the thread goes on where `rcx` and `r11` mean nothing, and
/// below its stack pointer is room and nothing of worth.
pub(crate) unsafe fn resume(context: &UserContext) -> ! {
    let at = (context.rsp - size_of::<Registers>()) & !15;
    let registers = Registers {
        mask: context.mask,
        r8_to_r15: context.r8_to_r15,
        rdi: context.rdi,
        rsi: context.rsi,
        rbp: context.rbp,
        rbx: context.rbx,
        rdx: context.rdx,
        rax: context.rax,
        rsp: context.rsp,
        rip: context.rip,
        flags: context.flags_register,
    };
    // SAFETY:
    // 1. The caller's promise: there is room.
    unsafe { (at as *mut Registers).write(registers) };
    // SAFETY:
    // 1. The kernel's area for the vector registers is at least 512 bytes long; behind the magic it says which are
    //    there.
    let parts = unsafe {
        let is_extended = (context.vectors + EXTENDED_MAGIC_AT) as *const u32;
        if is_extended.read() == EXTENDED_MAGIC { is_extended.add(2).cast::<u64>().read() } else { 0 }
    };
    // SAFETY:
    // 1. The registers were just written there, the vectors are the kernel's.
    unsafe { go_back(at, context.vectors, parts as u32, (parts >> 32) as u32) }
}

/// Goes on with the [`Registers`] at `registers` and the vector registers in the area at `vectors`. `parts`: which of
/// these are in the area, 0 for the first ones only. The stack changes before signals are open: a handler that comes
/// then may use the one on which ours ran.
///
/// # Safety
/// `registers` is the address of a [`Registers`] on the stack on which the thread goes on, with free memory below.
/// `vectors` is that of the kernel's area in the frame of the handler that runs, and `parts` is what the kernel says of
/// it. All signals are blocked, and where the thread goes on `rcx` and `r11` mean nothing.
#[unsafe(naked)]
unsafe extern "C" fn go_back(registers: usize, vectors: usize, parts_low: u32, parts_high: u32) -> ! {
    naked_asm!(
        "mov eax, edx",
        "or edx, ecx",
        "jz 20f",
        "mov edx, ecx",
        "xrstor64 [rsi]",
        "jmp 21f",
        "20: fxrstor64 [rsi]",
        "21:",
        "mov rsp, rdi",
        "mov eax, {set_mask}",
        "mov edi, {how}",
        "mov rsi, rsp",
        "xor edx, edx",
        "mov r10d, {set_bytes}",
        "syscall",
        "mov r8, [rsp + 8]",
        "mov r9, [rsp + 16]",
        "mov r10, [rsp + 24]",
        "mov r12, [rsp + 40]",
        "mov r13, [rsp + 48]",
        "mov r14, [rsp + 56]",
        "mov r15, [rsp + 64]",
        "mov rdi, [rsp + 72]",
        "mov rsi, [rsp + 80]",
        "mov rbp, [rsp + 88]",
        "mov rbx, [rsp + 96]",
        "mov rdx, [rsp + 104]",
        "mov rax, [rsp + 112]",
        "mov r11, [rsp + 128]",
        "push qword ptr [rsp + 136]",
        "popfq",
        "mov rsp, [rsp + 120]",
        "jmp r11",
        set_mask = const nr::RT_SIGPROCMASK,
        how = const abi::SIG_SETMASK,
        set_bytes = const SIGNAL_SET_BYTES,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instruction(code: u16, if_true: u8, if_false: u8, operand: u32) -> u64 {
        u64::from(code) | u64::from(if_true) << 16 | u64::from(if_false) << 24 | u64::from(operand) << 32
    }

    fn says(program: &[u64], number: u32) -> Option<u32> {
        answer(|index| program.get(index).copied(), (number, 59))
    }

    #[test]
    fn a_filter_says_which_calls_it_allows() {
        let program = [
            instruction(0x20, 0, 0, 4),
            instruction(0x15, 1, 0, ARCHITECTURE),
            instruction(0x06, 0, 0, 0),
            instruction(0x20, 0, 0, 0),
            instruction(0x15, 0, 1, 14),
            instruction(0x06, 0, 0, 0x7FFF_0000),
            instruction(0x35, 0, 1, 300),
            instruction(0x06, 0, 0, 0x7FFC_0000),
            instruction(0x06, 0, 0, 0x8000_0000),
        ];
        assert_eq!(says(&program, 14), Some(0x7FFF_0000));
        assert_eq!(says(&program, 15), Some(0x8000_0000));
        assert_eq!(says(&program, 301), Some(0x7FFC_0000));
    }

    /// The only test that counts filters.
    #[test]
    fn a_filter_counts_from_before_it_is_set_and_until_it_is_refused() {
        let program = |answer: u32| [instruction(0x06, 0, 0, answer)];
        let announce_and_answer = |answer_of_all: u32, flags: usize, answer: isize| {
            let program = program(answer_of_all);
            let named = [program.len(), program.as_ptr() as usize];
            let arguments = [1, flags, named.as_ptr() as usize, 0, 0, 0];
            let call = Call { number: nr::SECCOMP, arguments };
            let announced = announce(&call);
            let before = (ends_programs(), forbids_return());
            announced.answered(&call, answer);
            (before, (ends_programs(), forbids_return()))
        };
        let (all, none) = ((true, true), (false, false));
        let kills = 0x8000_0000;
        assert_eq!(announce_and_answer(0x7FFF_0000, 0, 0), (none, none));
        assert_eq!(announce_and_answer(0x0005_0001, 0, -1), ((false, true), none), "it only fails");
        assert_eq!(announce_and_answer(kills, 0, -1), (all, none));
        // The id of a thread that cannot have it.
        assert_eq!(announce_and_answer(kills, 1, 4711), (all, none));
        // A descriptor.
        assert_eq!(announce_and_answer(kills, 8, 3), (all, all));
        // Another one that is refused does not matter to the first.
        assert_eq!(announce_and_answer(kills, 0, -1), (all, all));
    }

    #[test]
    fn calculations_and_scratch_memory_count() {
        let program = [
            instruction(0x20, 0, 0, 0),
            instruction(0x02, 0, 0, 3),
            instruction(0x61, 0, 0, 3),
            instruction(0x0C, 0, 0, 0),
            instruction(0x54, 0, 0, 0xFF),
            instruction(0x05, 0, 0, 1),
            instruction(0x06, 0, 0, 1),
            instruction(0x16, 0, 0, 0),
        ];
        assert_eq!(says(&program, 21), Some(42));
    }

    #[test]
    fn what_has_no_end_says_nothing() {
        assert_eq!(says(&[instruction(0x20, 0, 0, 0)], 1), None);
        assert_eq!(says(&[instruction(0x05, 0, 0, u32::MAX)], 1), None);
    }
}
