//! A mode in which the kernel puts zeros where pages are missing, as khugepaged may: while a mapping that was moved, or
//! that a child has got, is not registered. A debugger, which it plays itself, stops the program there.

use crate::support::{Case, Filled, fail, in_child, must, wait_good};
use crate::traced::must_stop;
use uswap_test_programs::PAGE_BYTES;
use uswap_test_programs::memory;
use uswap_test_programs::message::errno;

const HUGE_BYTES: usize = 2 << 20;
const COLLAPSE: i32 = 25;
const TRIES: u32 = 100;

/// The program says so that it is about to move its memory.
const MOVES: i32 = libc::SIGUSR1;

/// Memory that moves, and that a child gets then, is made of huge pages in both moments.
pub fn by_the_kernel(case: &Case) {
    let (bytes, seed) = (case.bytes, case.seed);
    let mut ends = [0; 2];
    // SAFETY:
    // 1. There is room for two numbers.
    must(unsafe { libc::pipe(ends.as_mut_ptr()) }, "pipe");
    let traced = in_child(move || {
        let mut byte = 0u8;
        // SAFETY:
        // 1. One live byte is written.
        unsafe { libc::read(ends[0], (&raw mut byte).cast(), 1) };
        move_and_fork(bytes, seed);
    });
    let options = libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACESYSGOOD;
    // SAFETY:
    // 1. The request takes numbers. 2. One live byte is read.
    unsafe {
        must(libc::ptrace(libc::PTRACE_SEIZE, traced, 0, options) as i32, "PTRACE_SEIZE");
        must(libc::write(ends[1], (&raw const options).cast(), 1) as i32 - 1, "write");
    }
    wait_until(traced, libc::PTRACE_CONT, |status| libc::WSTOPSIG(status) == MOVES);
    let mut range = 0..0;
    resume(traced, libc::PTRACE_SYSCALL, 0);
    wait_until(traced, libc::PTRACE_SYSCALL, |status| {
        let is_call = libc::WSTOPSIG(status) == libc::SIGTRAP | 0x80;
        range = moved_by_call(traced).filter(|_| is_call).unwrap_or_default();
        !range.is_empty()
    });
    let in_parent = collapse(traced, &range);
    resume(traced, libc::PTRACE_CONT, 0);
    wait_until(traced, libc::PTRACE_CONT, |status| status >> 16 == libc::PTRACE_EVENT_FORK);
    let mut child: libc::c_ulong = 0;
    // SAFETY:
    // 1. `traced` is stopped and traced by this thread; 2. the kernel writes one word to `child`.
    let told = unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, traced, 0, &raw mut child) };
    must(told as i32, "PTRACE_GETEVENTMSG");
    let child = child as i32;
    must_stop(child, libc::SIGTRAP, libc::PTRACE_EVENT_STOP);
    let in_child = collapse(child, &range);
    for pid in [child, traced] {
        resume(pid, libc::PTRACE_DETACH, 0);
    }
    wait_good(traced, "the program whose memory the kernel has filled");
    if in_parent == Ok(0) || in_child == Ok(0) {
        fail!("no huge page was made: the test shows nothing ({in_parent:?}, {in_child:?})");
    }
}

fn move_and_fork(bytes: usize, seed: u64) {
    let filled = Filled::new(bytes, seed, 1);
    // What lies behind it keeps it from growing in place.
    let kept = bytes - HUGE_BYTES;
    memory::protect(filled.address + kept, HUGE_BYTES, libc::PROT_READ)
        .unwrap_or_else(|error| fail!("mprotect: errno {error}"));
    // SAFETY:
    // 1. It takes a number.
    must(unsafe { libc::raise(MOVES) }, "raise");
    let address = memory::remap(filled.address, kept, bytes, libc::MREMAP_MAYMOVE, 0)
        .unwrap_or_else(|error| fail!("mremap: errno {error}"));
    let moved = Filled { address, pages: kept / PAGE_BYTES, ..filled };
    let child = in_child(|| moved.verify("what a child has got"));
    wait_good(child, "the child");
    moved.verify("what was moved");
}

fn resume(pid: i32, request: libc::c_uint, signal: i32) {
    // SAFETY:
    // 1. `pid` is stopped and traced by this thread.
    must(unsafe { libc::ptrace(request, pid, 0, signal) } as i32, "PTRACE_CONT, _SYSCALL or _DETACH");
}

/// Lets the process go on, from stop to stop, until one `is_it`. Signals are passed on.
fn wait_until(pid: i32, request: libc::c_uint, mut is_it: impl FnMut(i32) -> bool) {
    loop {
        let mut status = 0;
        // SAFETY:
        // 1. The kernel writes one word to `status`.
        let stopped = unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) };
        if stopped != pid || !libc::WIFSTOPPED(status) {
            fail!("process {pid}: waitpid gave {stopped} with status {status:#x}, not a stop");
        }
        if is_it(status) {
            return;
        }
        let is_no_signal = libc::WSTOPSIG(status) & 0x80 != 0 || status >> 16 != 0;
        resume(pid, request, if is_no_signal { 0 } else { libc::WSTOPSIG(status) });
    }
}

/// Where memory is that has just been moved, if the process stands behind such a call.
fn moved_by_call(pid: i32) -> Option<core::ops::Range<usize>> {
    // SAFETY:
    // 1. Plain integers.
    // 2. `pid` is stopped and traced by this thread, and the kernel writes its registers there.
    let registers = unsafe {
        let mut registers: libc::user_regs_struct = core::mem::zeroed();
        must(libc::ptrace(libc::PTRACE_GETREGS, pid, 0, &raw mut registers) as i32, "PTRACE_GETREGS");
        registers
    };
    let answer = registers.rax as isize;
    let is_behind = registers.orig_rax == libc::SYS_mremap as u64 && answer > 0;
    let start = answer as usize;
    (is_behind && start != registers.rdi as usize).then(|| start..start + registers.rdx as usize)
}

/// Makes huge pages of what a process has in a range: how many. An error: the caller may not.
fn collapse(pid: i32, range: &core::ops::Range<usize>) -> Result<usize, i32> {
    // SAFETY:
    // 1. The call takes numbers.
    let process = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as i32;
    if process < 0 {
        fail!("pidfd_open: errno {}", errno());
    }
    let mut count = 0;
    for start in (range.start.next_multiple_of(HUGE_BYTES)..range.end).step_by(HUGE_BYTES) {
        if start + HUGE_BYTES > range.end {
            break;
        }
        let block = libc::iovec { iov_base: start as *mut libc::c_void, iov_len: HUGE_BYTES };
        for _ in 0..TRIES {
            // SAFETY:
            // 1. One live part is read, and what it names is another process's.
            let done = unsafe {
                libc::syscall(libc::SYS_process_madvise, process, &raw const block, 1, COLLAPSE, 0)
            };
            match errno() {
                _ if done > 0 => count += 1,
                libc::EAGAIN | libc::EBUSY => continue,
                libc::EPERM => return Err(libc::EPERM),
                // Nothing is there, for instance.
                _ => (),
            }
            break;
        }
    }
    // SAFETY:
    // 1. The number is this function's own.
    unsafe { libc::close(process) };
    Ok(count)
}
