//! Signals that arrive while pages are brought, with a kernel made of a few answers.

use super::super::{Boundary, HazardSlot};
use super::flow::{AT, KEPT, PAGE, Pages, call, read};
use crate::Call;
use core::cell::Cell;
use libc::*;

const INTERRUPTED: isize = -(EINTR as isize);
/// What the kernel answers to the call itself.
const MADE: isize = 5;

/// A kernel in which SIGALRM waits while all signals are blocked.
struct Kernel {
    handler: u64,
    flags: i32,
    /// What the program has blocked.
    blocked: u64,
    is_ready: bool,
    file_flags: i32,
    file_mode: u32,
    /// What it answers to the call itself if that does not wait.
    without_waiting: isize,
    /// Signals are blocked just now.
    is_blocking: Cell<bool>,
    /// Bytes of the write that arrived.
    written: Cell<usize>,
}

const ALARM: u64 = 1 << (SIGALRM - 1);

impl Kernel {
    /// A pipe that is full or empty, and a handler without SA_RESTART.
    fn new() -> Kernel {
        Kernel {
            handler: 0x1234,
            flags: 0,
            blocked: 0,
            is_ready: false,
            file_flags: 0,
            file_mode: S_IFIFO,
            without_waiting: 0,
            is_blocking: Cell::new(false),
            written: Cell::new(0),
        }
    }

    fn make(&self, call: &Call) -> isize {
        let [first, second, third, ..] = call.arguments;
        // SAFETY:
        // 1. These calls are the boundary's own, whose pointers are to its variables of these types.
        unsafe {
            match call.number as i64 {
                libc::SYS_rt_sigprocmask if first == SIG_BLOCK as usize => {
                    assert!(!self.is_blocking.replace(true), "once for a call");
                    *(third as *mut u64) = self.blocked;
                }
                libc::SYS_rt_sigprocmask => {
                    assert_eq!((first, *(second as *const u64)), (SIG_SETMASK as usize, self.blocked));
                    self.is_blocking.set(false);
                }
                libc::SYS_rt_sigpending => {
                    assert!(self.is_blocking.get());
                    *(first as *mut u64) = ALARM;
                }
                libc::SYS_rt_sigaction => {
                    assert_eq!((first, second), (SIGALRM as usize, 0));
                    *(third as *mut [u64; 2]) = [self.handler, self.flags as u64];
                }
                libc::SYS_fcntl => return self.file_flags as isize,
                libc::SYS_poll if second == 1 && third == 0 => return self.is_ready.into(),
                libc::SYS_fstat => (*(second as *mut stat)).st_mode = self.file_mode,
                libc::SYS_waitid => {
                    assert_eq!(call.arguments[3] as i32 & !WEXITED, WNOHANG | WNOWAIT);
                    *(third as *mut u32) = self.without_waiting as u32;
                }
                _ => {
                    assert!(!self.is_blocking.get(), "the program's signals are as it wants them");
                    self.written.set(third);
                    return if does_not_wait(call) { self.without_waiting } else { MADE };
                }
            }
        }
        0
    }

    /// The answer to a call whose first page is evicted.
    fn answer(&self, call: &Call) -> isize {
        let (pages, slot) = (Pages::new(), HazardSlot::default());
        pages.evict(KEPT);
        let answer = Boundary::new(&pages, &slot).call(call, AT, &mut |call| self.make(call));
        assert_eq!((slot.counts(), self.is_blocking.get()), ((0, 0), false));
        answer
    }
}

/// Whether a call is one that waits for an event, and asks not to wait now.
fn does_not_wait(call: &Call) -> bool {
    let [_, _, third, fourth, fifth, _] = call.arguments;
    let is_zero = |time: usize| {
        // SAFETY:
        // 1. The tests give no time of their own: it is null, or the boundary's.
        time != 0 && unsafe { *(time as *const [u64; 2]) } == [0, 0]
    };
    match call.number as i64 {
        libc::SYS_poll => third == 0,
        libc::SYS_epoll_wait => fourth == 0,
        libc::SYS_wait4 => third as i32 == WNOHANG,
        libc::SYS_select => is_zero(fifth),
        libc::SYS_futex => is_zero(fourth),
        _ => false,
    }
}

fn write(bytes: u64) -> Call {
    call(SYS_write, [3, KEPT, bytes, 0, 0, 0])
}

fn poll(timeout: i64) -> Call {
    call(SYS_poll, [KEPT, 2, timeout as u64, 0, 0, 0])
}

#[test]
fn a_call_that_would_wait_is_interrupted() {
    for call in [read(KEPT, 100), write(100), write(8 * PAGE)] {
        assert_eq!(Kernel::new().answer(&call), INTERRUPTED);
    }
}

#[test]
fn a_call_that_need_not_wait_is_made() {
    let kernel = || Kernel { is_ready: true, ..Kernel::new() };
    for call in [read(KEPT, 8 * PAGE), write(100)] {
        assert_eq!(kernel().answer(&call), MADE);
    }
    let file = Kernel { file_mode: S_IFREG, ..kernel() };
    assert_eq!(file.answer(&write(8 * PAGE)), MADE);
    assert_eq!(file.written.get() as u64, 8 * PAGE, "a file is written without waiting for anybody");
}

#[test]
fn a_long_write_to_a_pipe_with_some_room_is_short() {
    let kernel = Kernel { is_ready: true, ..Kernel::new() };
    assert_eq!(kernel.answer(&write(8 * PAGE)), MADE);
    assert_eq!(kernel.written.get() as u64, PAGE);
}

#[test]
fn without_a_handler_that_interrupts_it_waits() {
    let (default, ignored) = (0, 1);
    let restarting = Kernel { flags: SA_RESTART, ..Kernel::new() };
    let blocked = Kernel { blocked: ALARM, ..Kernel::new() };
    let others = [default, ignored].map(|handler| Kernel { handler, ..Kernel::new() });
    for kernel in others.iter().chain([&restarting, &blocked]) {
        assert_eq!(kernel.answer(&read(KEPT, 100)), MADE);
    }
    assert_eq!(restarting.answer(&poll(-1)), INTERRUPTED, "this one is never restarted");
    assert_eq!(blocked.answer(&poll(-1)), MADE, "nobody asked not to wait");
}

#[test]
fn a_call_that_does_not_wait_is_not_interrupted() {
    let nonblocking = Kernel { file_flags: O_NONBLOCK, ..Kernel::new() };
    assert_eq!(nonblocking.answer(&write(100)), MADE);
    let kernel = || Kernel { without_waiting: MADE, ..Kernel::new() };
    for call in [
        poll(0),
        call(SYS_recvfrom, [3, KEPT, 10, MSG_DONTWAIT as u64, 0, 0]),
        call(SYS_wait4, [7, KEPT, WNOHANG as u64, 0, 0, 0]),
        // The time, in kept memory, is zero; so is what cannot be read.
        call(SYS_ppoll, [KEPT, 2, KEPT + PAGE, 0, 0, 0]),
        call(SYS_ppoll, [KEPT, 2, KEPT - PAGE, 0, 0, 0]),
        call(SYS_uname, [KEPT, 0, 0, 0, 0, 0]),
    ] {
        assert_eq!(kernel().answer(&call), MADE, "{call:?}");
    }
}

fn waits() -> [Call; 5] {
    [
        poll(1000),
        call(SYS_epoll_wait, [3, KEPT, 2, u64::MAX, 0, 0]),
        call(SYS_wait4, [7, KEPT, 0, 0, 0, 0]),
        call(SYS_select, [8, KEPT, 0, 0, 0, 0]),
        call(SYS_waitid, [P_ALL as u64, 0, KEPT, WEXITED as u64, 0, 0]),
    ]
}

#[test]
fn what_waits_for_an_event_is_interrupted_if_there_is_none() {
    for call in waits() {
        assert_eq!(Kernel::new().answer(&call), INTERRUPTED, "{call:?}");
    }
    let futex = call(SYS_futex, [KEPT, (FUTEX_WAIT | FUTEX_PRIVATE_FLAG) as u64, 0, 0, 0, 0]);
    let kernel = |answer: i32| Kernel { without_waiting: -answer as isize, ..Kernel::new() };
    assert_eq!(kernel(ETIMEDOUT).answer(&futex), INTERRUPTED);
    assert_eq!(kernel(EAGAIN).answer(&futex), -(EAGAIN as isize), "another value");
}

#[test]
fn an_event_that_is_there_goes_before_a_signal() {
    let kernel = Kernel { without_waiting: 3, ..Kernel::new() };
    let [others @ .., _] = waits();
    for call in others {
        assert_eq!(kernel.answer(&call), 3, "{call:?}");
    }
}
