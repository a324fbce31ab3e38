//! A system call of the program as a value: what it asks for, and how it is made.
//!
//! Must hold: each call of which a question here may be true is one of those that [`is_special`] knows: nobody asks
//! about the others. Called by most of this crate: whatever makes a call of the program.

use crate::program_copy;
use uswap_interpose::table::NumberSet;
use uswap_interpose::{Call, make_as_program};
use uswap_os::sys::prctl::{PR_SET_DUMPABLE, PR_SET_SECCOMP};
use uswap_os::sys::{Errno, abi};

pub(crate) const MAP_PRIVATE: usize = abi::MAP_PRIVATE as usize;
pub(crate) const MAP_ANONYMOUS: usize = abi::MAP_ANONYMOUS as usize;
pub(crate) const MAP_FIXED: usize = abi::MAP_FIXED as usize;
pub(crate) const MAP_STACK: usize = abi::MAP_STACK as usize;
pub(crate) const MAP_GROWSDOWN: usize = abi::MAP_GROWSDOWN as usize;
pub(crate) const MAP_LOCKED: usize = abi::MAP_LOCKED as usize;
pub(crate) const MAP_HUGETLB: usize = abi::MAP_HUGETLB as usize;
pub(crate) const MAP_POPULATE: usize = abi::MAP_POPULATE as usize;
pub(crate) const MAP_NONBLOCK: usize = abi::MAP_NONBLOCK as usize;
pub(crate) const MAP_NORESERVE: usize = abi::MAP_NORESERVE as usize;
pub(crate) const MREMAP_MAYMOVE: usize = abi::MREMAP_MAYMOVE as usize;
pub(crate) const MREMAP_FIXED: usize = abi::MREMAP_FIXED as usize;
pub(crate) const MREMAP_DONTUNMAP: usize = abi::MREMAP_DONTUNMAP as usize;
/// Of `shmat`.
pub(crate) const SHM_REMAP: usize = 0o40000;
pub(crate) const PROT_READ: usize = abi::PROT_READ as usize;
pub(crate) const PROT_WRITE: usize = abi::PROT_WRITE as usize;
pub(crate) const PROT_EXEC: usize = abi::PROT_EXEC as usize;
pub(crate) const MADV_GUARD_INSTALL: u32 = 102;
pub(crate) const MADV_GUARD_REMOVE: u32 = 103;

/// The calls that [`Process::before`](crate::Process) looks at for what they are. All others only have buffers.
static SPECIAL: NumberSet = NumberSet::of_kinds_beyond_buffers().union(NumberSet::of(&[
    abi::__NR_prctl,
    abi::__NR_ptrace,
    abi::__NR_seccomp,
    abi::__NR_ioctl,
    abi::__NR_sigaltstack,
    abi::__NR_process_madvise,
    // A second descriptor.
    abi::__NR_dup2,
    abi::__NR_dup3,
    abi::__NR_close_range,
    abi::__NR_setuid,
    abi::__NR_setgid,
    abi::__NR_setreuid,
    abi::__NR_setregid,
    abi::__NR_setresuid,
    abi::__NR_setresgid,
    abi::__NR_setfsuid,
    abi::__NR_setfsgid,
]));

/// Whether a call is one of these, or has a number that none has.
#[inline]
pub(crate) fn is_special(number: usize) -> bool {
    SPECIAL.contains(number, true)
}

/// Makes a call as it stands.
#[inline]
pub(crate) fn make(call: &Call) -> isize {
    // SAFETY:
    // 1. It is the program's own call, or one that asks less.
    unsafe { make_as_program(call) }
}

pub(crate) fn is_error(answer: isize) -> bool {
    (-4095..0).contains(&answer)
}

/// By how much a call lets the memory grow that counts; the heap ends at `program_break`.
pub(crate) fn growth(call: &Call, program_break: usize) -> usize {
    let [first, second, third, flags, ..] = call.arguments;
    match call.number as u32 {
        abi::__NR_mmap if flags & MAP_STACK != 0 => 0,
        abi::__NR_mmap if flags & MAP_ANONYMOUS != 0 => second,
        abi::__NR_mmap if flags & MAP_PRIVATE != 0 && third & PROT_WRITE != 0 => second,
        abi::__NR_brk => first.saturating_sub(program_break),
        abi::__NR_mremap => third.saturating_sub(second),
        _ => 0,
    }
}

/// The answer to a call of `process_madvise` with advice that changes what memory is: that of Linux before 6.13, which
/// knows it for no process. `madvise` does the same, and is seen.
pub(crate) fn refused(call: &Call) -> Option<isize> {
    let is_harmless = matches!(
        call.arguments[3] as u32,
        abi::MADV_COLD | abi::MADV_PAGEOUT | abi::MADV_WILLNEED | abi::MADV_COLLAPSE
    );
    let is_refused = call.number as u32 == abi::__NR_process_madvise && !is_harmless;
    is_refused.then_some(Errno::EINVAL.as_answer())
}

/// Whether `Process::note_stacks` has something to note of the call.
pub(crate) fn changes_stacks(call: &Call) -> bool {
    let [_, _, advice, flags, ..] = call.arguments;
    match call.number as u32 {
        abi::__NR_munmap | abi::__NR_mremap => true,
        abi::__NR_mmap => flags & (MAP_FIXED | MAP_STACK | MAP_GROWSDOWN) != 0,
        abi::__NR_madvise => advice as u32 == abi::MADV_WIPEONFORK,
        _ => false,
    }
}

/// Whether a call may change what the process is allowed to read. They name no memory.
pub(crate) fn changes_privileges(call: &Call) -> bool {
    match call.number as u32 {
        abi::__NR_setuid | abi::__NR_setgid | abi::__NR_setreuid | abi::__NR_setregid => true,
        abi::__NR_setresuid | abi::__NR_setresgid | abi::__NR_setfsuid | abi::__NR_setfsgid => true,
        abi::__NR_prctl => call.arguments[0] == PR_SET_DUMPABLE as usize && call.arguments[1] != 1,
        _ => false,
    }
}

/// Whether a call may change the stack that the program's handlers of signals use.
pub(crate) fn sets_alternate_stack(call: &Call) -> bool {
    call.number as u32 == abi::__NR_sigaltstack && call.arguments[0] != 0
}

/// The area of restartable sequences that a call is about to tell the kernel.
pub(crate) fn registered_rseq_area(call: &Call) -> Option<usize> {
    const RSEQ_FLAG_UNREGISTER: usize = 1;
    let [area, _, flags, ..] = call.arguments;
    let is_told = call.number as u32 == abi::__NR_rseq && flags & RSEQ_FLAG_UNREGISTER == 0;
    is_told.then_some(area)
}

/// Whether a call may forbid system calls to the thread that makes it.
pub(crate) fn sets_filter(call: &Call) -> bool {
    const SECCOMP_SET_MODE_FILTER: usize = 1;
    match call.number as u32 {
        abi::__NR_prctl => call.arguments[0] == PR_SET_SECCOMP as usize,
        abi::__NR_seccomp => call.arguments[0] <= SECCOMP_SET_MODE_FILTER,
        _ => false,
    }
}

/// Whether a call starts a process that shares the memory, and runs beside this one.
///
/// With it the leak checkers of sanitizers stop all threads of the program, to look through its memory. One of ours
/// would be stopped with the gate, or with the lock of a page, and the process that stops it would wait for either. Any
/// other may live longer than this one, and what this one has in the run ends with it.
pub(crate) fn runs_beside(flags: u64) -> bool {
    const VM: u64 = abi::CLONE_VM as u64;
    const OTHERS: u64 = (abi::CLONE_VFORK | abi::CLONE_THREAD) as u64;
    flags & (VM | OTHERS) == VM
}

/// Whether a child gets a copy of the memory, and its parent's table of descriptors itself.
pub(crate) fn shares_descriptors(flags: u64) -> bool {
    flags & (abi::CLONE_VM | abi::CLONE_FILES) as u64 == abi::CLONE_FILES as u64
}

/// Whether a child gets a copy of the memory, and its parent waits until it has executed a program or ended.
pub(crate) fn waits_for_copy(flags: u64) -> bool {
    flags & (abi::CLONE_VM | abi::CLONE_VFORK) as u64 == abi::CLONE_VFORK as u64
}

/// What a call that starts a thread or a process says of it (`CLONE_*`).
pub(crate) fn clone_flags(call: &Call) -> Option<u64> {
    match call.number as u32 {
        abi::__NR_clone => Some(call.arguments[0] as u32 as u64),
        abi::__NR_clone3 => {
            let mut flags = [0; 8];
            program_copy::read(call.arguments[0], &mut flags).then(|| u64::from_ne_bytes(flags))
        }
        _ => None,
    }
}

/// The pages of the stack that a call gives to a child; we write on it with all signals blocked.
pub(crate) fn child_stack(call: &Call) -> Option<u64> {
    match call.number as u32 {
        abi::__NR_clone if call.arguments[1] != 0 => Some(call.arguments[1] as u64),
        abi::__NR_clone3 => {
            let mut stack = [[0; 8]; 2];
            let is_read = program_copy::read(call.arguments[0] + 40, stack.as_flattened_mut());
            let [start, bytes] = stack.map(u64::from_ne_bytes);
            (is_read && start != 0).then_some(start.wrapping_add(bytes))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uswap_interpose::table::{Kind, row};

    /// Whatever their arguments are.
    #[test]
    fn calls_that_are_not_special_only_have_buffers() {
        let values = [0, 1, 2, 4, 22, 0xc020_aa00, 1 << 16, usize::MAX];
        for number in (0..512).filter(|&number| !is_special(number)) {
            for value in values {
                let call = Call { number, arguments: [value; 6] };
                assert!(!changes_privileges(&call) && !sets_filter(&call), "{call:?}");
                assert!(clone_flags(&call).is_none() && !sets_alternate_stack(&call), "{call:?}");
                assert!(refused(&call).is_none() && child_stack(&call).is_none(), "{call:?}");
                assert!(registered_rseq_area(&call).is_none(), "{call:?}");
            }
            let kind = row(number).map(|row| row.kind());
            let is_beyond = matches!(kind, Some(Kind::Mapping | Kind::Process | Kind::Asynchronous));
            assert!(!is_beyond, "{number}");
        }
    }
}
