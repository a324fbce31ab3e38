//! Time: the clocks of the kernel. A reading is a system call of 0.1 to 0.3 us; threads of the engine have a cheaper
//! one.
//!
//! Must hold: a reading never goes back, whichever way it was taken; a sleep is not cut short by a signal. Called by
//! `host`, `interpose`, the supervisor and `bench`, and by [`crate::futex`] and [`crate::ptrace`] for deadlines.

use core::mem::MaybeUninit;

use crate::fd::Timeout;
use crate::sys::prctl::{PR_GET_TSC, PR_TSC_SIGSEGV};
use crate::sys::{self, Errno, abi};
use crate::vdso;

/// Nanoseconds of the monotonic clock, by a system call.
pub fn now_ns() -> u64 {
    read_clock(abi::CLOCK_MONOTONIC)
}

/// The same for threads of the engine, without a system call where the kernel offers that: see [`crate::vdso`].
pub fn engine_now_ns() -> u64 {
    vdso::read_clock(abi::CLOCK_MONOTONIC).unwrap_or_else(now_ns)
}

/// A thread of this process may not read time stamps (`PR_SET_TSC`), and its children neither: [`engine_now_ns`] goes
/// by system calls from now on.
pub fn no_time_stamps() {
    vdso::no_time_stamps();
}

/// Whether the calling thread may read time stamps.
pub fn has_time_stamps() -> bool {
    let mut allowed = 0u32;
    // SAFETY:
    // 1. The kernel writes one number of 32 bits.
    let answer = unsafe { sys::syscall3(abi::__NR_prctl, PR_GET_TSC as usize, &raw mut allowed as usize, 0) };
    answer.is_err() || allowed != PR_TSC_SIGSEGV
}

/// Nanoseconds of processor time that the calling thread has used.
pub fn thread_cpu_ns() -> u64 {
    read_clock(abi::CLOCK_THREAD_CPUTIME_ID)
}

/// Nanoseconds of processor time that all threads of the process have used.
pub fn process_cpu_ns() -> u64 {
    read_clock(abi::CLOCK_PROCESS_CPUTIME_ID)
}

fn read_clock(clock: u32) -> u64 {
    let mut time = MaybeUninit::<abi::__kernel_timespec>::zeroed();
    // SAFETY:
    // 1. The kernel writes one timespec of two 64-bit numbers. A failure (there is none for these clocks) leaves zeros.
    // 2. Zeros are a valid value, so the value is initialised either way.
    let time = unsafe {
        let _ = sys::syscall3(abi::__NR_clock_gettime, clock as usize, time.as_mut_ptr() as usize, 0);
        time.assume_init()
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps that long, also across signals.
pub fn sleep_ns(nanoseconds: u64) {
    let end = now_ns().saturating_add(nanoseconds);
    loop {
        let left = end.saturating_sub(now_ns());
        if left == 0 {
            return;
        }
        match crate::fd::poll(&mut [], Timeout::Nanoseconds(left)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}
