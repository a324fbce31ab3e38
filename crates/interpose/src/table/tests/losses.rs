//! Calls that lose something when a page of theirs is missing, though they are repeated once it is there; and that
//! lose nothing when the ranges of the table are made present first.
//!
//! The page is missing in a region of userfaultfd that answers the kernel with EFAULT, as memory managed in the
//! threads of the program does. Everything as root and as nobody, each time in a child.

use super::support::{EFAULT, call, in_child, make, ranges_in, raw, six};
use super::touched::private_queues;
use super::touched_cases as cases;
use crate::table::{AfterFault, row};
use libc::*;
use linux_raw_sys::general::{uffdio_api, uffdio_range, uffdio_register, uffdio_zeropage};

const PAGE: u64 = 4096;
const PAGES: u64 = 4;

/// Pages that are not there until somebody asks for them.
struct Missing {
    file: u64,
    start: u64,
}

impl Missing {
    fn new() -> Missing {
        const USER_MODE_ONLY: u64 = 1;
        const SIGBUS_FEATURE: u64 = 1 << 7;
        let file = make(SYS_userfaultfd, [USER_MODE_ONLY | O_CLOEXEC as u64]);
        assert!(file >= 0, "userfaultfd answers {file}");
        let file = file as u64;
        let api = uffdio_api { api: 0xaa, features: SIGBUS_FEATURE, ioctls: 0 };
        assert_eq!(make(SYS_ioctl, [file, 0xc018_aa3f, (&raw const api) as u64]), 0);
        let flags = (MAP_PRIVATE | MAP_ANONYMOUS) as u64;
        let start =
            make(SYS_mmap, [0, PAGES * PAGE, (PROT_READ | PROT_WRITE) as u64, flags, u64::MAX, 0]) as u64;
        let range = uffdio_range { start, len: PAGES * PAGE };
        let register = uffdio_register { range, mode: 1, ioctls: 0 };
        assert_eq!(make(SYS_ioctl, [file, 0xc020_aa00, (&raw const register) as u64]), 0);
        Missing { file, start }
    }

    /// Brings one page, if it is one of these.
    fn bring(&self, address: u64) {
        if (self.start..self.start + PAGES * PAGE).contains(&address) {
            let range = uffdio_range { start: address & !(PAGE - 1), len: PAGE };
            let zero = uffdio_zeropage { range, mode: 0, zeropage: 0 };
            make(SYS_ioctl, [self.file, 0xc020_aa04, (&raw const zero) as u64]);
        }
    }

    fn bring_all(&self) {
        (0..PAGES).for_each(|page| self.bring(self.start + page * PAGE));
    }
}

/// What the program has in hand after a call.
pub struct After {
    pub answer: i64,
    buffer: u64,
}

impl After {
    pub fn word(&self) -> u64 {
        // SAFETY:
        // 1. The page was brought before this is asked.
        unsafe { (self.buffer as *const u64).read_volatile() }
    }

    /// As `word`, two words further on.
    pub fn third_word(&self) -> u64 {
        After { answer: 0, buffer: self.buffer + 16 }.word()
    }

    fn bytes(&self) -> [u8; 5] {
        // SAFETY:
        // 1. The page was brought before this is asked.
        unsafe { (self.buffer as *const [u8; 5]).read_volatile() }
    }
}

pub type Made = (i64, [u64; 6]);

/// `prepare` makes a call whose answer goes to the page at its argument. With that page missing it answers `first`;
/// repeated with the page there it leaves what `is_lost` knows; made with its ranges present it leaves what
/// `is_right` knows.
pub fn loses(
    prepare: fn(u64) -> Made,
    first: i64,
    is_lost: fn(&After) -> bool,
    is_right: fn(&After) -> bool,
) {
    for is_nobody in [false, true] {
        let enter = || {
            let _ = private_queues();
            if is_nobody {
                make(SYS_setresuid, [65534, 65534, 65534]);
            }
            let missing = Missing::new();
            // The page in front of the buffer is there, for calls that need two.
            missing.bring(missing.start);
            let buffer = missing.start + PAGE;
            let (number, arguments) = prepare(buffer);
            (missing, buffer, number, arguments)
        };
        let retried = in_child(|| {
            let (missing, buffer, number, arguments) = enter();
            assert_eq!(raw(number, arguments), first, "a page is missing");
            missing.bring_all();
            let answer = raw(number, arguments);
            i64::from(is_lost(&After { answer, buffer }))
        });
        assert_eq!(retried, Some(1), "repeating it was expected to lose something (nobody: {is_nobody})");
        let present = in_child(|| {
            let (missing, buffer, number, arguments) = enter();
            for range in ranges_in(&call(number, arguments)) {
                (range.start & !(PAGE - 1)..range.end())
                    .step_by(PAGE as usize)
                    .for_each(|page| missing.bring(page));
            }
            let answer = raw(number, arguments);
            missing.bring_all();
            i64::from(is_right(&After { answer, buffer }))
        });
        assert_eq!(present, Some(1), "nothing is lost if its pages are there (nobody: {is_nobody})");
    }
}

fn error(error: i32) -> i64 {
    -i64::from(error)
}

fn is_eagain(after: &After) -> bool {
    after.answer == error(EAGAIN)
}

fn has_hello(after: &After) -> bool {
    after.answer > 0 && &after.bytes() == b"hello"
}

fn marked(number: i64) -> AfterFault {
    row(number as usize).expect("a row").after_fault()
}

fn read(file: u64, buffer: u64, bytes: u64) -> Made {
    (SYS_read, six([file, buffer, bytes]))
}

#[test]
fn wait4_loses_the_status_of_a_child() {
    let prepare = |buffer| {
        cases::exited_child();
        (SYS_wait4, six([u64::MAX, buffer, 0, 0]))
    };
    loses(
        prepare,
        EFAULT,
        |after| after.answer == error(ECHILD),
        |after| after.answer > 0 && after.word() >> 8 & 0xff == 7,
    );
    assert_eq!(marked(SYS_wait4), AfterFault::Consumed);
}

#[test]
fn waitid_loses_the_status_of_a_child() {
    let prepare = |buffer| {
        cases::exited_child();
        (SYS_waitid, six([P_ALL as u64, 0, buffer, WEXITED as u64, 0]))
    };
    loses(prepare, EFAULT, |after| after.answer == error(ECHILD), |after| after.word() as i32 == SIGCHLD);
    assert_eq!(marked(SYS_waitid), AfterFault::Consumed);
}

#[test]
fn accept_loses_the_connection() {
    static LENGTH: [u32; 1] = [16];
    let prepare = |buffer| {
        let length = make(SYS_mmap, [0, PAGE, 3, (MAP_PRIVATE | MAP_ANONYMOUS) as u64, u64::MAX, 0]) as u64;
        // SAFETY:
        // 1. A fresh mapping.
        unsafe { (length as *mut u32).write_volatile(LENGTH[0]) };
        (SYS_accept, six([cases::listening()[0], buffer, length]))
    };
    loses(prepare, EFAULT, is_eagain, |after| after.answer > 0 && after.word() as u16 == AF_INET as u16);
    assert_eq!(marked(SYS_accept), AfterFault::Consumed);
}

#[test]
fn recv_loses_a_datagram() {
    loses(
        |buffer| (SYS_recvfrom, six([cases::datagram(), buffer, 64, 0, 0, 0])),
        EFAULT,
        is_eagain,
        has_hello,
    );
    assert_eq!(marked(SYS_recvfrom), AfterFault::ByFileUnless(4));
}

#[test]
fn recvfrom_loses_a_datagram_when_the_address_cannot_be_written() {
    let prepare = |buffer| {
        let plain = make(SYS_mmap, [0, PAGE, 3, (MAP_PRIVATE | MAP_ANONYMOUS) as u64, u64::MAX, 0]) as u64;
        // SAFETY:
        // 1. A fresh mapping.
        unsafe { (plain as *mut u32).write_volatile(16) };
        (SYS_recvfrom, six([cases::datagram(), plain + 64, 64, 0, buffer, plain]))
    };
    loses(prepare, EFAULT, is_eagain, |after| after.answer == 12 && after.word() as u16 == AF_INET as u16);
}

#[test]
fn a_unix_datagram_is_lost() {
    loses(|buffer| read(cases::pair(SOCK_DGRAM)[0], buffer, 64), EFAULT, is_eagain, has_hello);
    assert_eq!(marked(SYS_read), AfterFault::ByFile);
}

#[test]
fn a_packet_of_a_sequence_is_lost() {
    loses(|buffer| read(cases::pair(SOCK_SEQPACKET)[0], buffer, 64), EFAULT, is_eagain, has_hello);
}

#[test]
fn a_count_of_an_eventfd_is_lost() {
    let prepare = |buffer| read(make(SYS_eventfd2, [3, EFD_NONBLOCK as u64]) as u64, buffer, 8);
    loses(prepare, EFAULT, is_eagain, |after| after.answer == 8 && after.word() == 3);
}

fn wait_until_readable(file: u64) {
    let wait = [file | (POLLIN as u64) << 32];
    assert_eq!(make(SYS_poll, [wait.as_ptr() as u64, 1, u64::MAX]), 1);
}

#[test]
fn expirations_of_a_timerfd_are_lost() {
    let prepare = |buffer| {
        let (file, once) = (cases::timer_file(), [0_u64, 0, 0, 1]);
        make(SYS_timerfd_settime, [file, 0, once.as_ptr() as u64, 0]);
        wait_until_readable(file);
        read(file, buffer, 8)
    };
    loses(prepare, EFAULT, is_eagain, |after| after.answer == 8 && after.word() == 1);
}

/// SIGUSR1 waits for this process.
fn pending_signal() -> u64 {
    let set = [1_u64 << (SIGUSR1 - 1)];
    make(SYS_rt_sigprocmask, [SIG_BLOCK as u64, set.as_ptr() as u64, 0, 8]);
    make(SYS_kill, [make(SYS_getpid, []) as u64, SIGUSR1 as u64]);
    set[0]
}

#[test]
fn a_signal_of_a_signalfd_is_lost() {
    let prepare = |buffer| {
        let set = [pending_signal()];
        let file = make(SYS_signalfd4, [u64::MAX, set.as_ptr() as u64, 8, SFD_NONBLOCK as u64]) as u64;
        read(file, buffer, 128)
    };
    loses(prepare, EFAULT, is_eagain, |after| after.answer == 128 && after.word() as i32 == SIGUSR1);
}

#[test]
fn a_signal_that_is_waited_for_is_lost() {
    static SET: [u64; 1] = [1 << (SIGUSR1 - 1)];
    static NOW: [u64; 2] = [0, 0];
    let prepare = |buffer| {
        pending_signal();
        (SYS_rt_sigtimedwait, six([SET.as_ptr() as u64, buffer, NOW.as_ptr() as u64, 8]))
    };
    let is_right = |after: &After| after.answer == i64::from(SIGUSR1) && after.word() as i32 == SIGUSR1;
    loses(prepare, EFAULT, is_eagain, is_right);
    assert_eq!(marked(SYS_rt_sigtimedwait), AfterFault::Consumed);
}

#[test]
fn an_event_of_inotify_is_lost() {
    let prepare = |buffer| {
        let file = make(SYS_inotify_init1, [IN_NONBLOCK as u64]) as u64;
        assert!(make(SYS_inotify_add_watch, [file, c"/proc/self/exe".as_ptr() as u64, IN_OPEN as u64]) > 0);
        cases::open(c"/proc/self/exe");
        read(file, buffer, 256)
    };
    loses(prepare, EFAULT, is_eagain, |after| after.answer > 0 && after.word() >> 32 & IN_OPEN as u64 != 0);
}

#[test]
fn a_line_of_a_terminal_is_lost() {
    let prepare = |buffer| {
        let master = make(SYS_open, [c"/dev/ptmx".as_ptr() as u64, (O_RDWR | O_NOCTTY) as u64]) as u64;
        let unlocked = 0_u32;
        assert_eq!(make(SYS_ioctl, [master, 0x4004_5431, (&raw const unlocked) as u64]), 0);
        // TIOCGPTPEER: the other end, wherever the names of terminals are.
        let other = make(SYS_ioctl, [master, 0x5441, (O_RDWR | O_NOCTTY | O_NONBLOCK) as u64]);
        assert!(other > 0, "TIOCGPTPEER answers {other}");
        make(SYS_write, [master, c"hello\n".as_ptr() as u64, 6]);
        wait_until_readable(other as u64);
        read(other as u64, buffer, 64)
    };
    loses(prepare, EFAULT, is_eagain, has_hello);
}

#[test]
fn mq_timedreceive_loses_a_message() {
    let prepare = |buffer| (SYS_mq_timedreceive, six([cases::posix_queue(), buffer, 64, 0, 0]));
    loses(prepare, EFAULT, is_eagain, has_hello);
    assert_eq!(marked(SYS_mq_timedreceive), AfterFault::Consumed);
}

#[test]
fn msgrcv_loses_a_message() {
    let prepare = |buffer| (SYS_msgrcv, six([cases::queue(), buffer, 8, 0, IPC_NOWAIT as u64]));
    let is_right = |after: &After| after.answer == 8 && after.word() == 1;
    loses(prepare, EFAULT, |after| after.answer == error(ENOMSG), is_right);
    assert_eq!(marked(SYS_msgrcv), AfterFault::Consumed);
}

#[test]
fn getsockopt_loses_the_error_of_a_socket() {
    let prepare = |buffer| {
        let plain = make(SYS_mmap, [0, PAGE, 3, (MAP_PRIVATE | MAP_ANONYMOUS) as u64, u64::MAX, 0]) as u64;
        // SAFETY:
        // 1. A fresh mapping.
        unsafe { (plain as *mut u32).write_volatile(4) };
        // A datagram to a port where nobody is: the answer is an error that waits.
        let socket = make(SYS_socket, [AF_INET as u64, SOCK_DGRAM as u64, 0]) as u64;
        let address: [u16; 8] = [AF_INET as u16, 0x0100, 0x007f, 0x0100, 0, 0, 0, 0];
        assert_eq!(make(SYS_connect, [socket, address.as_ptr() as u64, 16]), 0);
        make(SYS_write, [socket, plain, 4]);
        (SYS_getsockopt, six([socket, SOL_SOCKET as u64, SO_ERROR as u64, buffer, plain]))
    };
    let is_lost = |after: &After| after.answer == 0 && after.word() as i32 == 0;
    loses(prepare, EFAULT, is_lost, |after| after.answer == 0 && after.word() as i32 == ECONNREFUSED);
    assert_eq!(marked(SYS_getsockopt), AfterFault::Consumed);
}

/// The descriptor of a ring in which one request to receive a datagram is written down; `io_uring_enter` submits it.
fn ring_receive(socket: u64, buffer: u64) -> i64 {
    let mut parameters = [0_u32; 30];
    let ring = make(SYS_io_uring_setup, [4, (&raw mut parameters) as u64]);
    assert!(ring >= 0, "io_uring_setup answers {ring}");
    let map = |offset| make(SYS_mmap, [0, PAGE, 3, MAP_SHARED as u64, ring as u64, offset]) as u64;
    let (both, entries) = (map(0), map(0x1000_0000));
    let parameters = core::hint::black_box(&parameters);
    let submission = |field: usize| both + u64::from(parameters[10 + field]);
    let completion = |field: usize| both + u64::from(parameters[20 + field]);
    // SAFETY:
    // 1. Both rings lie in the first mapping, as on every kernel since 5.4; a page holds four entries.
    // 2. No other thread uses them.
    unsafe {
        let entry = entries as *mut u32;
        entry.write(27); // IORING_OP_RECV
        entry.add(1).write(socket as u32);
        entry.add(4).cast::<u64>().write(buffer);
        entry.add(6).write(64);
        entry.add(7).write(MSG_DONTWAIT as u32);
        (submission(6) as *mut u32).write_volatile(0);
        (submission(1) as *mut u32).write_volatile(1);
        assert_eq!(make(SYS_io_uring_enter, [ring as u64, 1, 1, 1]), 1);
        i64::from(((completion(5) + 8) as *const i32).read_volatile())
    }
}

#[test]
fn a_datagram_received_by_io_uring_is_lost() {
    for is_nobody in [false, true] {
        let enter = || {
            if is_nobody {
                make(SYS_setresuid, [65534, 65534, 65534]);
            }
            (Missing::new(), cases::datagram())
        };
        let retried = in_child(|| {
            let (missing, socket) = enter();
            assert_eq!(ring_receive(socket, missing.start), EFAULT);
            missing.bring_all();
            ring_receive(socket, missing.start)
        });
        assert_eq!(retried, Some(error(EAGAIN)));
        let present = in_child(|| {
            let (missing, socket) = enter();
            missing.bring_all();
            ring_receive(socket, missing.start)
        });
        assert_eq!(present, Some(12));
    }
}
