//! What the tests with the real kernel share: raw calls, the ranges of a call, children that make one call.

use crate::Call;
use crate::table::{BufferRange, Memory, Unreadable, for_each_range, row};
use core::arch::asm;
use std::vec::Vec;

/// Makes a system call. The answer is as the kernel gives it: an error is a small negative number.
pub fn raw(number: i64, arguments: [u64; 6]) -> i64 {
    let answer: i64;
    // SAFETY:
    // 1. The kernel checks what it is given; the tests give it memory that they own, or none.
    // 2. It clobbers `rcx` and `r11` and nothing else.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => answer,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            in("r9") arguments[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    answer
}

/// As [`raw`], for calls that need few arguments.
pub fn make<const N: usize>(number: i64, given: [u64; N]) -> i64 {
    raw(number, six(given))
}

pub fn six<const N: usize>(given: [u64; N]) -> [u64; 6] {
    let mut arguments = [0; 6];
    arguments[..N].copy_from_slice(&given);
    arguments
}

pub fn call(number: i64, arguments: [u64; 6]) -> Call {
    Call { number: number as usize, arguments: arguments.map(|argument| argument as usize) }
}

/// The memory of this process, read through the kernel, so that a bad address is an answer.
pub struct Own;

impl Memory for Own {
    fn read(&self, start: u64, into: &mut [u8]) -> Result<(), Unreadable> {
        let local = [into.as_mut_ptr() as u64, into.len() as u64];
        let remote = [start, into.len() as u64];
        let process = make(libc::SYS_getpid, []) as u64;
        let arguments = [process, local.as_ptr() as u64, 1, remote.as_ptr() as u64, 1, 0];
        let copied = raw(libc::SYS_process_vm_readv, arguments);
        if copied == into.len() as i64 { Ok(()) } else { Err(Unreadable::Bad) }
    }
}

/// Every range that the table names for a call.
pub fn ranges_in(call: &Call) -> Vec<BufferRange> {
    let mut ranges = Vec::new();
    let row = row(call.number).expect("each call of these tests has a row");
    let _ = for_each_range(row, call, &Own, &mut |range| ranges.push(range));
    ranges
}

/// Runs `body` in a child and brings back the word that it answers; none if it was killed.
pub fn in_child(body: impl FnOnce() -> i64) -> Option<i64> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY:
    // 1. A fresh mapping, which nothing else refers to.
    let word = unsafe { libc::mmap(core::ptr::null_mut(), 4096, protection, flags, -1, 0) }.cast::<i64>();
    assert_ne!(word.cast(), libc::MAP_FAILED);
    // SAFETY:
    // 1. The child makes system calls, and ends without going back.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        make(libc::SYS_alarm, [SECONDS_MAX]);
        // A panic must not go on to run the tests of this copy.
        let body = std::panic::AssertUnwindSafe(body);
        let Ok(answer) = std::panic::catch_unwind(body) else {
            make(libc::SYS_exit_group, [PANICKED]);
            unreachable!("the process has ended");
        };
        // SAFETY:
        // 1. The mapping above; the parent reads it when this process is gone.
        unsafe { word.write_volatile(answer) };
        make(libc::SYS_exit_group, [0]);
    }
    let mut status = 0;
    // SAFETY:
    // 1. `status` is ours.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } != child {}
    // SAFETY:
    // 1. The child has written it, or left it zero; nobody else refers to it after the unmapping.
    let answer = unsafe { word.read_volatile() };
    // SAFETY:
    // 1. The mapping above, which ends here.
    unsafe { libc::munmap(word.cast(), 4096) };
    let has_ended = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
    has_ended.then_some(answer)
}

const PANICKED: u64 = 101;

/// A call that waits for ever is killed, and found.
const SECONDS_MAX: u64 = 30;

pub const EFAULT: i64 = -(libc::EFAULT as i64);
