//! The calls that uswap makes, as a filter of system calls (seccomp) sees them, and whether such a filter ends a
//! process for one of them.
//!
//! A filter that a process inherits cannot be read by it, only tried: by a child that may be ended for it
//! ([`OwnCall::try_it`]). The lists are kept by hand; calls that any program makes to be there at all are not in them.
//!
//! Called by `cli` ahead of everything else, and by `host` and `interpose`, which read a filter that a program is about
//! to set.
//!
//! Must hold: each call that uswap makes is in one of the lists, but for those that any program makes.

use crate::fd::read_file;
use crate::sys::{self, abi, prctl};
use crate::text::{skip_spaces, take_number};

/// A call of ours: its number, and its first argument where a filter may look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnCall {
    number: u32,
    first: u64,
    name: &'static str,
}

macro_rules! calls {
    ($($number:ident $(($first:expr))?),* $(,)?) => {
        [$(OwnCall { number: abi::$number, first: 0 $(+ $first)?, name: stringify!($number) }),*]
    };
}

const PR_SET_SYSCALL_USER_DISPATCH: u64 = prctl::PR_SET_SYSCALL_USER_DISPATCH as u64;
const PR_GET_AUXV: u64 = prctl::PR_GET_AUXV as u64;
const PR_GET_MEMORY_MERGE: u64 = prctl::PR_GET_MEMORY_MERGE as u64;
const SIGBUS: u64 = abi::SIGBUS as u64;
const SIG_SETMASK: u64 = abi::SIG_SETMASK as u64;
const CLONE_FLAGS: u64 = abi::CLONE_VM as u64 | abi::CLONE_THREAD as u64;

/// By which a process comes under the boundary of its calls.
pub const START: [OwnCall; 17] = calls![
    __NR_prctl(PR_SET_SYSCALL_USER_DISPATCH),
    __NR_rt_sigaction(SIGBUS),
    __NR_rt_sigprocmask(SIG_SETMASK),
    __NR_rt_sigreturn,
    __NR_sigaltstack,
    __NR_mmap,
    __NR_mprotect,
    __NR_openat,
    __NR_read,
    __NR_pwrite64,
    __NR_prctl(PR_GET_AUXV),
    __NR_close,
    __NR_getdents64,
    __NR_fstat,
    __NR_gettid,
    __NR_getpid,
    __NR_get_robust_list,
];

/// Of threads of a managed program, and of the one that evicts there.
pub const MANAGED: [OwnCall; 22] = calls![
    __NR_ioctl,
    __NR_futex,
    __NR_fcntl,
    __NR_membarrier,
    __NR_madvise,
    __NR_process_madvise,
    __NR_pread64,
    __NR_munmap,
    __NR_write,
    __NR_fstat,
    __NR_userfaultfd,
    __NR_clone(CLONE_FLAGS),
    __NR_clock_gettime,
    __NR_getresuid,
    __NR_getresgid,
    __NR_setpriority,
    __NR_newfstatat,
    __NR_rt_sigpending,
    __NR_rt_sigtimedwait,
    __NR_prlimit64,
    __NR_poll,
    __NR_prctl(PR_GET_MEMORY_MERGE),
];

/// Of `uswap run` itself.
pub const COMMAND: [OwnCall; 23] = calls![
    __NR_memfd_create,
    __NR_fcntl,
    __NR_ftruncate,
    __NR_fallocate,
    __NR_fstatfs,
    __NR_statfs,
    __NR_pwrite64,
    __NR_io_uring_setup,
    __NR_io_uring_enter,
    __NR_eventfd2,
    __NR_socket,
    __NR_socketpair,
    __NR_bind,
    __NR_listen,
    __NR_accept4,
    __NR_pidfd_open,
    __NR_kcmp,
    __NR_process_vm_readv,
    __NR_sched_getaffinity,
    __NR_getrandom,
    __NR_sysinfo,
    __NR_madvise,
    __NR_clone3,
];

impl OwnCall {
    /// Its number.
    pub const fn number(self) -> u32 {
        self.number
    }

    /// Its first argument, 0 where that does not matter.
    pub const fn first(self) -> u64 {
        self.first
    }

    /// As in a manual.
    pub fn name(self) -> &'static str {
        match self.first {
            PR_SET_SYSCALL_USER_DISPATCH => "prctl(PR_SET_SYSCALL_USER_DISPATCH)",
            _ => self.name.strip_prefix("__NR_").unwrap_or(self.name),
        }
    }

    /// Makes the call with zeros as its other arguments, for a process that does nothing else: its standard input may
    /// be closed afterwards. What the call answers does not matter; a filter may end the process.
    pub fn try_it(self) {
        if self.number == abi::__NR_rt_sigreturn {
            // Outside of a handler it has nowhere to return to.
            return;
        }
        // SAFETY:
        // 1. It is one of the lists above, whose calls neither read nor write memory at address 0 or of no length, and
        //    map, unmap and protect nothing with a length of 0.
        // 2. None of them waits for ever then.
        // 3. The clone lacks a flag that its others need, and has no structure in its other form: no thread begins.
        let _whatever = unsafe { sys::syscall4(self.number, self.first as usize, 0, 0, 0) };
    }
}

/// Whether a filter looks at the calls of this process.
pub fn are_filtered() -> bool {
    const FILTER: u64 = 2;
    let mut buffer = [0; 8192];
    let text = read_file(c"/proc/self/status", &mut buffer).unwrap_or(&[]);
    let line = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Seccomp:"));
    line.and_then(|rest| take_number(skip_spaces(rest), 10)).is_some_and(|(mode, _)| mode == FILTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_of_the_command_comes_back() {
        // With zeros they change nothing; those of the other lists could close what a test has open.
        COMMAND.into_iter().filter(|call| call.number() != abi::__NR_ftruncate).for_each(OwnCall::try_it);
    }

    #[test]
    fn calls_have_the_names_of_their_manual_pages() {
        assert_eq!(START[0].name(), "prctl(PR_SET_SYSCALL_USER_DISPATCH)");
        assert_eq!(START[1].name(), "rt_sigaction");
        assert_eq!((MANAGED[11].name(), MANAGED[11].first()), ("clone", 0x1_0100));
        assert_eq!(COMMAND[0].name(), "memfd_create");
    }
}
