//! The kernel's numbers and structures for signals, dispatch and clones, and the calls that this crate
//! makes itself. Every caller is in this crate.
//!
//! Must hold: structures are laid out as the kernel's. Calls that are made here come from our own text, so they pass no
//! interposer. Called by most of this crate.

use core::arch::naked_asm;
use core::arch::x86_64::{__cpuid_count, _xgetbv};
use core::ffi::c_void;

use uswap_os::sys::prctl::{
    PR_GET_TID_ADDRESS, PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, PR_SYS_DISPATCH_ON,
};
use uswap_os::sys::{self, Errno, Result, abi};

/// Numbers of calls that this crate looks at, as words.
pub mod nr {
    use uswap_os::sys::abi;

    macro_rules! numbers {
        ($($name:ident = $number:ident),* $(,)?) => {
            $(#[doc = stringify!($number)] pub const $name: usize = abi::$number as usize;)*
        };
    }
    numbers! {
        MUNMAP = __NR_munmap, RT_SIGACTION = __NR_rt_sigaction, RT_SIGPROCMASK = __NR_rt_sigprocmask,
        RT_SIGRETURN = __NR_rt_sigreturn, CLONE = __NR_clone, FORK = __NR_fork, VFORK = __NR_vfork,
        EXIT = __NR_exit, EXIT_GROUP = __NR_exit_group,
        RT_SIGTIMEDWAIT = __NR_rt_sigtimedwait, RT_SIGSUSPEND = __NR_rt_sigsuspend,
        SIGALTSTACK = __NR_sigaltstack, PRCTL = __NR_prctl, ARCH_PRCTL = __NR_arch_prctl,
        SET_TID_ADDRESS = __NR_set_tid_address, SET_ROBUST_LIST = __NR_set_robust_list,
        RSEQ = __NR_rseq, CLONE3 = __NR_clone3, PPOLL = __NR_ppoll, PSELECT6 = __NR_pselect6,
        EPOLL_PWAIT = __NR_epoll_pwait, EPOLL_PWAIT2 = __NR_epoll_pwait2, SIGNALFD = __NR_signalfd,
        SIGNALFD4 = __NR_signalfd4, IO_PGETEVENTS = __NR_io_pgetevents,
        EXECVE = __NR_execve, EXECVEAT = __NR_execveat, SECCOMP = __NR_seccomp,
        PTRACE = __NR_ptrace,
    }
}

/// Entry of the auxiliary vector with more processor features.
pub const AT_HWCAP2: u64 = 26;
/// `ss_flags` of an alternate stack that is off.
pub const SS_DISABLE: usize = abi::SS_DISABLE as usize;
/// In `ss_flags`: no handler finds the stack while one runs.
pub const SS_AUTODISARM: u32 = 1 << 31;
/// Bytes of a set of signals.
pub const SIGNAL_SET_BYTES: usize = 8;
/// `si_code` of a SIGSYS that dispatch sent.
pub const SYS_USER_DISPATCH: i32 = 2;
/// `si_code` of a signal for what only the kernel may do.
pub const SI_KERNEL: i32 = 0x80;

/// Signals by which glibc and musl cancel a thread.
pub const GLIBC_CANCEL: u32 = 32;
/// See `GLIBC_CANCEL`.
pub const MUSL_CANCEL: u32 = 33;

/// Whether it is one of them.
pub fn cancels(signal: u32) -> bool {
    signal == GLIBC_CANCEL || signal == MUSL_CANCEL
}

/// Bytes that `with_vectors` has for the registers.
pub const VECTOR_AREA_BYTES: usize = 2816;

/// The kernel's `struct sigaction`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Action {
    /// `SIG_DFL`, `SIG_IGN` or the address of a function.
    pub handler: usize,
    /// `SA_*`.
    pub flags: usize,
    /// Where the handler returns to.
    pub restorer: usize,
    /// Signals that are blocked while it runs.
    pub mask: u64,
}

/// The kernel's `stack_t`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Stack {
    /// First byte.
    pub start: usize,
    /// `SS_*`.
    pub flags: u32,
    /// Fills the word.
    pub padding: u32,
    /// Length.
    pub bytes: usize,
}

impl Stack {
    /// Whether a thread with this stack pointer is on it. The stack that ends where it begins is another one.
    pub fn has(&self, stack_pointer: usize) -> bool {
        let is_off = self.flags as usize & SS_DISABLE != 0;
        !is_off && stack_pointer > self.start && stack_pointer - self.start <= self.bytes
    }
}

/// The kernel's `ucontext_t`, without what lies behind the mask.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct UserContext {
    /// `UC_*`.
    pub flags: usize,
    /// Always zero.
    pub link: usize,
    /// The alternate stack that is in force again after the handler.
    pub stack: Stack,
    /// `r8` to `r15`.
    pub r8_to_r15: [usize; 8],
    /// Register.
    pub rdi: usize,
    /// Register.
    pub rsi: usize,
    /// Register.
    pub rbp: usize,
    /// Register.
    pub rbx: usize,
    /// Register.
    pub rdx: usize,
    /// Register.
    pub rax: usize,
    /// Register.
    pub rcx: usize,
    /// Register.
    pub rsp: usize,
    /// Register.
    pub rip: usize,
    /// Register.
    pub flags_register: usize,
    /// `cs`, `gs`, `fs`, `ss`, 16 bits each.
    pub segments: usize,
    /// Error code of a fault.
    pub error: usize,
    /// Number of the trap.
    pub trap: usize,
    /// Unused here.
    pub old_mask: usize,
    /// Address of a fault.
    pub cr2: usize,
    /// Where the vector registers lie, in the same frame.
    pub vectors: usize,
    /// Unused.
    pub reserved: [usize; 8],
    /// Signals that are blocked again after the handler.
    pub mask: u64,
}

const _: () = assert!(core::mem::offset_of!(UserContext, mask) == 296);

impl UserContext {
    /// Takes the general registers of another.
    pub fn go_on_at(&mut self, other: &UserContext) {
        *self = UserContext {
            flags: self.flags,
            stack: self.stack,
            vectors: self.vectors,
            mask: self.mask,
            ..*other
        };
    }
}

/// The kernel's `siginfo_t`, as far as it is looked at: of a fault, or of a SIGSYS.
#[derive(Debug)]
#[repr(C)]
pub struct SignalInfo {
    /// The signal.
    pub signal: i32,
    /// Unused.
    pub errno: i32,
    /// Why it was sent.
    pub code: i32,
    /// Fills the word.
    pub padding: i32,
    /// Address of the fault, or of the call.
    pub address: usize,
    /// Number of the call.
    pub number: i32,
}

/// The bit of `signal` in a set.
pub const fn signal_bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// The kernel's id of this thread.
pub fn thread_id() -> u32 {
    // SAFETY:
    // 1. gettid takes nothing and changes nothing.
    unsafe { sys::syscall3(abi::__NR_gettid, 0, 0, 0) }.unwrap_or(0) as u32
}

/// The word that the kernel clears when this thread ends; 0 if there is none, or the kernel does not tell.
pub fn clear_child_tid() -> usize {
    let mut word = 0usize;
    // SAFETY:
    // 1. The call writes one word, to `word`.
    let _ = unsafe { sys::syscall3(abi::__NR_prctl, PR_GET_TID_ADDRESS as usize, &raw mut word as usize, 0) };
    word
}

/// `fs`, asked of the kernel.
pub fn thread_pointer() -> usize {
    const ARCH_GET_FS: usize = 0x1003;
    let mut value = 0usize;
    // SAFETY:
    // 1. The call writes one word, to `value`.
    let _ = unsafe { sys::syscall3(abi::__NR_arch_prctl, ARCH_GET_FS, &raw mut value as usize, 0) };
    value
}

/// Components of the processor state that Rust code may change and that fit `VECTOR_AREA_BYTES`: x87,
/// SSE, AVX, and the three of AVX-512.
pub fn vector_mask() -> u32 {
    const WANTED: u64 = 0b1110_0111;
    // SAFETY:
    // 1. The kernel runs dispatch only on machines of this century: xgetbv came with AVX in 2011, and
    //    `install` refuses a processor without xsave.
    let enabled = unsafe { _xgetbv(0) } & WANTED;
    let fits = |component: u32| {
        let leaf = __cpuid_count(0xD, component);
        component < 2 || (leaf.ebx + leaf.eax) as usize <= VECTOR_AREA_BYTES
    };
    (0..8)
        .filter(|component| enabled & 1 << component != 0 && fits(*component))
        .fold(0, |mask, c| mask | 1 << c)
}

/// Sets the blocked signals of this thread; answers those before. `how` is `SIG_BLOCK` and so on.
pub fn set_mask(how: u32, mask: u64) -> u64 {
    let mut old = 0u64;
    let (new_at, old_at) = (&raw const mask as usize, &raw mut old as usize);
    // SAFETY:
    // 1. Both sets are eight bytes of this frame.
    let _ = unsafe {
        sys::syscall6(abi::__NR_rt_sigprocmask, how as usize, new_at, old_at, SIGNAL_SET_BYTES, 0, 0)
    };
    old
}

/// Sets the action of a signal; answers the one before.
///
/// # Safety
/// The handler must be a function that can serve the signal at any instruction of the program.
pub unsafe fn set_action(signal: u32, action: Option<&Action>) -> Result<Action> {
    let mut old = Action::default();
    let new_at = action.map_or(0, |action| action as *const Action as usize);
    // SAFETY:
    // 1. Both structures are the kernel's; the handler is the caller's promise.
    unsafe {
        let old_at = &raw mut old as usize;
        sys::syscall6(abi::__NR_rt_sigaction, signal as usize, new_at, old_at, SIGNAL_SET_BYTES, 0, 0)
    }?;
    Ok(old)
}

/// Sets this thread's alternate stack; answers the one before.
///
/// # Safety
/// The stack must stay mapped and be nobody else's while the thread lives.
pub unsafe fn set_alternate_stack(stack: &Stack) -> Result<Stack> {
    let mut old = Stack::default();
    let (new_at, old_at) = (stack as *const Stack as usize, &raw mut old as usize);
    // SAFETY:
    // 1. Both structures are the kernel's; the stack is the caller's promise.
    unsafe { sys::syscall3(abi::__NR_sigaltstack, new_at, old_at, 0) }?;
    Ok(old)
}

/// The arguments of `prctl` that ask for SIGSYS at every call from outside of `start .. start + bytes`. No selector
/// byte is given.
pub fn dispatch_arguments(start: usize, bytes: usize) -> [usize; 5] {
    [PR_SET_SYSCALL_USER_DISPATCH as usize, PR_SYS_DISPATCH_ON as usize, start, bytes, 0]
}

/// Asks for SIGSYS at every call of this thread from outside of `start .. start + bytes`.
///
/// # Safety
/// A handler of SIGSYS must be in place, and the signal must not be blocked.
pub unsafe fn dispatch_on(start: usize, bytes: usize) -> Result<()> {
    let [option, on, start, bytes, selector] = dispatch_arguments(start, bytes);
    // SAFETY:
    // 1. The call takes numbers; no selector byte is given, so the kernel reads no memory for it.
    unsafe { sys::syscall6(abi::__NR_prctl, option, on, start, bytes, selector, 0) }?;
    Ok(())
}

/// Asks for no more of them.
pub fn dispatch_off() {
    // SAFETY:
    // 1. The call takes numbers.
    let _ = unsafe {
        let (option, off) = (PR_SET_SYSCALL_USER_DISPATCH as usize, PR_SYS_DISPATCH_OFF as usize);
        sys::syscall6(abi::__NR_prctl, option, off, 0, 0, 0, 0)
    };
}

/// Copies eight bytes from an address that the program gave: EFAULT where the kernel would say so.
pub fn read_word(address: usize) -> Result<u64> {
    probe_read(address)?;
    // SAFETY:
    // 1. The kernel has just read eight bytes there. A program that unmaps them in this instant, from
    //    another thread, gets SIGSEGV where it would have had EFAULT.
    Ok(unsafe { (address as *const u64).read_unaligned() })
}

/// Are eight bytes at `address` readable? By a call that reads a set of signals and then refuses.
fn probe_read(address: usize) -> Result<()> {
    const NO_SUCH_WAY: usize = 99;
    // SAFETY:
    // 1. The kernel copies the set, finds that it does not know the way, and changes nothing.
    let answer =
        unsafe { sys::syscall6(abi::__NR_rt_sigprocmask, NO_SUCH_WAY, address, 0, SIGNAL_SET_BYTES, 0, 0) };
    match answer {
        Err(Errno::EFAULT) => Err(Errno::EFAULT),
        _ => Ok(()),
    }
}

/// Are `bytes` (1 to 8) at `address` readable?
pub fn is_readable(address: usize, bytes: usize) -> bool {
    probe_read(address).is_ok() && probe_read(address + bytes.saturating_sub(8)).is_ok()
}

/// A call of the program's, made by us as it stands. An error is a small negative number.
///
/// A function of its own, so that a thread which waits in it is found there (see `cancellation`).
///
/// # Safety
/// As the call itself.
#[unsafe(naked)]
pub unsafe extern "C" fn call(number: usize, arguments: *const [usize; 6]) -> isize {
    naked_asm!(
        "mov rax, rdi",
        "mov r11, rsi",
        "mov rdi, [r11]",
        "mov rsi, [r11 + 8]",
        "mov rdx, [r11 + 16]",
        "mov r10, [r11 + 24]",
        "mov r8, [r11 + 32]",
        "mov r9, [r11 + 40]",
        "syscall",
        "ret",
    )
}

/// What a handler of signals is to the kernel.
pub type Handler = extern "C" fn(i32, *mut SignalInfo, *mut UserContext);

/// `info` and `context` as the interposer gets them.
pub fn opaque(info: *const SignalInfo, context: *mut UserContext) -> (*const c_void, *mut c_void) {
    (info.cast(), context.cast())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_made_with_its_arguments_in_order() {
        let mut bytes = [0_u8; 8];
        let text = *b"argument";
        let process = std::process::id() as usize;
        let (local, remote) = ([bytes.as_mut_ptr() as usize, 8], [text.as_ptr() as usize, 8]);
        let arguments = [process, local.as_ptr() as usize, 1, remote.as_ptr() as usize, 1, 0];
        // SAFETY:
        // 1. Both ranges are variables of this test.
        let answer = unsafe { call(abi::__NR_process_vm_readv as usize, &arguments) };
        assert_eq!((answer, core::hint::black_box(bytes)), (8, text));
        // SAFETY:
        // 1. There is no such call.
        let answer = unsafe { call(9999, &[0; 6]) };
        assert_eq!(answer, Errno::ENOSYS.as_answer());
    }
}
