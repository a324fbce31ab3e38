//! Calls that have done their work when they answer EFAULT, so that a second try tells another story; and calls that
//! lose something, or do half, without a word. With the ranges of the table present they do neither.

use super::losses::{Made, loses};
use super::support::{EFAULT, make, six};
use super::touched_cases as cases;
use crate::table::{AfterFault, row};
use libc::*;

fn is_applied(number: i64) -> bool {
    row(number as usize).expect("a row").after_fault() == AfterFault::Applied
}

fn is_short(number: i64) -> bool {
    row(number as usize).expect("a row").is_short()
}

/// Words that are always there.
fn plain(words: &[u64]) -> u64 {
    let flags = (MAP_PRIVATE | MAP_ANONYMOUS) as u64;
    let start = make(SYS_mmap, [0, 4096, (PROT_READ | PROT_WRITE) as u64, flags, u64::MAX, 0]) as u64;
    for (index, word) in words.iter().enumerate() {
        // SAFETY:
        // 1. A fresh mapping, longer than any list of these tests.
        unsafe { (start as *mut u64).add(index).write_volatile(*word) };
    }
    start
}

#[test]
fn rt_sigprocmask_answers_the_new_mask_as_the_old_one() {
    let prepare = |old| (SYS_rt_sigprocmask, six([SIG_SETMASK as u64, plain(&[4]), old, 8]));
    loses(prepare, EFAULT, |after| after.word() == 4, |after| after.word() == 0);
    assert!(is_applied(SYS_rt_sigprocmask));
}

#[test]
fn rt_sigaction_answers_the_new_action_as_the_old_one() {
    let prepare = |old| (SYS_rt_sigaction, six([SIGUSR2 as u64, plain(&[SIG_IGN as u64, 0, 0, 0]), old, 8]));
    loses(prepare, EFAULT, |after| after.word() == SIG_IGN as u64, |after| after.word() == 0);
    assert!(is_applied(SYS_rt_sigaction));
}

#[test]
fn timerfd_settime_answers_the_new_time_as_the_old_one() {
    let prepare = |old| (SYS_timerfd_settime, six([cases::timer_file(), 0, plain(&[7, 0, 1000, 0]), old]));
    loses(prepare, EFAULT, |after| after.word() == 7, |after| after.answer == 0 && after.word() == 0);
    assert!(is_applied(SYS_timerfd_settime));
}

#[test]
fn setitimer_answers_the_new_time_as_the_old_one() {
    let prepare = |old| (SYS_setitimer, six([ITIMER_REAL as u64, plain(&[7, 0, 1000, 0]), old]));
    loses(prepare, EFAULT, |after| after.word() == 7, |after| after.answer == 0 && after.word() == 0);
    assert!(is_applied(SYS_setitimer));
}

#[test]
fn prlimit64_answers_the_new_limit_as_the_old_one() {
    let prepare = |old| (SYS_prlimit64, six([0, RLIMIT_CORE as u64, plain(&[0, 0]), old]));
    let before = [0_u64; 2];
    make(SYS_getrlimit, [RLIMIT_CORE as u64, before.as_ptr() as u64]);
    if core::hint::black_box(&before)[0] == 0 {
        // The limit was zero at first; make it another, if that is allowed.
        let one = [1_u64, 1 << 20];
        assert_eq!(
            make(SYS_setrlimit, [RLIMIT_CORE as u64, one.as_ptr() as u64]),
            0,
            "a limit that can be told"
        );
    }
    loses(prepare, EFAULT, |after| after.word() == 0, |after| after.word() != 0);
    assert!(is_applied(SYS_prlimit64));
}

/// A length that no thread's stack has by itself.
const STACK_BYTES: u64 = 77_777;

#[test]
fn sigaltstack_answers_the_new_stack_as_the_old_one() {
    let prepare = |old| {
        let stack = plain(&[0]);
        (SYS_sigaltstack, six([plain(&[stack, 0, STACK_BYTES]), old]))
    };
    loses(
        prepare,
        EFAULT,
        |after| after.third_word() == STACK_BYTES,
        |after| after.third_word() != STACK_BYTES,
    );
    assert!(is_applied(SYS_sigaltstack));
}

#[test]
fn recvmsg_drops_descriptors_without_a_word() {
    let prepare = |control| {
        let [first, second] = cases::pair(SOCK_STREAM);
        // What `pair` has written is read first.
        make(SYS_read, [first, plain(&[]), 64]);
        let data = plain(&[0]);
        let rights = plain(&[20, SOL_SOCKET as u64 | (SCM_RIGHTS as u64) << 32, second]);
        let sent = plain(&[0, 0, plain(&[data, 1]), 1, rights, 24, 0]);
        assert_eq!(make(SYS_sendmsg, [second, sent, 0]), 1);
        let received = plain(&[0, 0, plain(&[data, 1]), 1, control, 64, 0]);
        (SYS_recvmsg, six([first, received, 0]))
    };
    // The byte is there, the descriptor is not; asked again, nothing is.
    loses(
        prepare,
        1,
        |after| after.answer == -i64::from(EAGAIN),
        |after| after.answer == 1 && after.word() == 20,
    );
    assert!(is_short(SYS_recvmsg));
}

/// A transfer over two pages of which the second is missing: half of it lies in the first.
fn half(number: i64, file: u64, second: u64) -> Made {
    (number, six([file, second - 2048, 4096]))
}

#[test]
fn a_write_of_two_pages_of_which_one_is_missing_is_short() {
    let prepare =
        |second| half(SYS_write, make(SYS_memfd_create, [c"short".as_ptr() as u64, 0]) as u64, second);
    loses(prepare, 2048, |after| after.answer == 4096, |after| after.answer == 4096);
    assert!(is_short(SYS_write));
}

#[test]
fn a_read_of_two_pages_of_which_one_is_missing_is_short() {
    let prepare = |second| half(SYS_read, cases::open(c"/dev/zero"), second);
    loses(prepare, 2048, |after| after.answer == 4096, |after| after.answer == 4096);
    assert!(is_short(SYS_read));
}

#[test]
fn a_write_to_a_pipe_over_a_missing_page_is_short() {
    let prepare = |second| {
        let mut ends = [0_i32; 2];
        assert_eq!(make(SYS_pipe2, [(&raw mut ends) as u64, O_NONBLOCK as u64]), 0);
        (SYS_write, six([core::hint::black_box(ends)[1] as u64, second - 4096, 8192]))
    };
    loses(prepare, 4096, |after| after.answer == 8192, |after| after.answer == 8192);
}
