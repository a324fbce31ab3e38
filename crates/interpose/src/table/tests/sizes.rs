//! Sizes in the table that are written as numbers, against the types of another crate that describes Linux.

use super::support::{call, ranges_in};
use crate::table::{Access, BufferRange};
use std::vec::Vec;

/// An address that is nobody's: the walk does not read what is flat.
const AT: u64 = 0x10_0000;

/// The one range at `AT` that a call with these arguments has.
fn bytes_at(number: i64, arguments: [u64; 6]) -> (u64, Access) {
    let found: Vec<BufferRange> =
        ranges_in(&call(number, arguments)).into_iter().filter(|range| range.start == AT).collect();
    assert_eq!(found.len(), 1, "{number}: {found:?}");
    (found[0].bytes, found[0].access)
}

fn written<T>(number: i64, arguments: [u64; 6]) {
    assert_eq!(bytes_at(number, arguments), (size_of::<T>() as u64, Access::Write), "{number}");
}

fn read<T>(number: i64, arguments: [u64; 6]) {
    assert_eq!(bytes_at(number, arguments), (size_of::<T>() as u64, Access::Read), "{number}");
}

fn updated<T>(number: i64, arguments: [u64; 6]) {
    assert_eq!(bytes_at(number, arguments), (size_of::<T>() as u64, Access::ReadWrite), "{number}");
}

#[test]
fn sizes_of_structures_are_those_of_the_c_library() {
    written::<libc::stat>(libc::SYS_fstat, [0, AT, 0, 0, 0, 0]);
    written::<libc::statx>(libc::SYS_statx, [0, 0, 0, 0, AT, 0]);
    written::<libc::statfs>(libc::SYS_fstatfs, [0, AT, 0, 0, 0, 0]);
    written::<libc::rusage>(libc::SYS_getrusage, [0, AT, 0, 0, 0, 0]);
    written::<libc::rusage>(libc::SYS_wait4, [0, 0, 0, AT, 0, 0]);
    written::<libc::siginfo_t>(libc::SYS_waitid, [0, 0, AT, 0, 0, 0]);
    written::<libc::sysinfo>(libc::SYS_sysinfo, [AT, 0, 0, 0, 0, 0]);
    written::<libc::utsname>(libc::SYS_uname, [AT, 0, 0, 0, 0, 0]);
    written::<libc::tms>(libc::SYS_times, [AT, 0, 0, 0, 0, 0]);
    written::<libc::rlimit>(libc::SYS_getrlimit, [0, AT, 0, 0, 0, 0]);
    read::<libc::rlimit64>(libc::SYS_prlimit64, [0, 0, AT, 0, 0, 0]);
    written::<libc::timespec>(libc::SYS_clock_gettime, [0, AT, 0, 0, 0, 0]);
    written::<libc::timeval>(libc::SYS_gettimeofday, [AT, 0, 0, 0, 0, 0]);
    written::<[i32; 2]>(libc::SYS_gettimeofday, [0, AT, 0, 0, 0, 0]);
    written::<libc::itimerspec>(libc::SYS_timer_gettime, [0, AT, 0, 0, 0, 0]);
    read::<libc::itimerval>(libc::SYS_setitimer, [0, AT, 0, 0, 0, 0]);
    updated::<libc::timex>(libc::SYS_adjtimex, [AT, 0, 0, 0, 0, 0]);
    read::<libc::stack_t>(libc::SYS_sigaltstack, [AT, 0, 0, 0, 0, 0]);
    read::<libc::siginfo_t>(libc::SYS_rt_sigqueueinfo, [0, 0, AT, 0, 0, 0]);
    read::<libc::sigevent>(libc::SYS_timer_create, [0, AT, 0, 0, 0, 0]);
    read::<libc::utimbuf>(libc::SYS_utime, [0, AT, 0, 0, 0, 0]);
    read::<[libc::timespec; 2]>(libc::SYS_utimensat, [0, 0, AT, 0, 0, 0]);
    read::<libc::sched_param>(libc::SYS_sched_setparam, [0, AT, 0, 0, 0, 0]);
    written::<[libc::epoll_event; 3]>(libc::SYS_epoll_wait, [0, AT, 3, 0, 0, 0]);
    updated::<[libc::pollfd; 3]>(libc::SYS_poll, [AT, 3, 0, 0, 0, 0]);
    updated::<libc::fd_set>(libc::SYS_select, [1024, AT, 0, 0, 0, 0]);
    read::<[libc::sembuf; 3]>(libc::SYS_semop, [0, AT, 3, 0, 0, 0]);
    read::<libc::mq_attr>(libc::SYS_mq_getsetattr, [0, AT, 0, 0, 0, 0]);
    written::<libc::semid_ds>(libc::SYS_semctl, [0, 0, libc::IPC_STAT as u64, AT, 0, 0]);
    written::<libc::seminfo>(libc::SYS_semctl, [0, 0, libc::IPC_INFO as u64, AT, 0, 0]);
    written::<libc::shmid_ds>(libc::SYS_shmctl, [0, libc::IPC_STAT as u64, AT, 0, 0, 0]);
    written::<libc::msqid_ds>(libc::SYS_msgctl, [0, libc::IPC_STAT as u64, AT, 0, 0, 0]);
    written::<libc::msginfo>(libc::SYS_msgctl, [0, libc::IPC_INFO as u64, AT, 0, 0, 0]);
    updated::<libc::flock>(libc::SYS_fcntl, [0, libc::F_GETLK as u64, AT, 0, 0, 0]);
    written::<[i32; 2]>(libc::SYS_fcntl, [0, 16, AT, 0, 0, 0]);
    written::<libc::user_regs_struct>(libc::SYS_ptrace, [12, 0, 0, AT, 0, 0]);
    written::<libc::user_fpregs_struct>(libc::SYS_ptrace, [14, 0, 0, AT, 0, 0]);
    written::<libc::winsize>(libc::SYS_ioctl, [0, libc::TIOCGWINSZ, AT, 0, 0, 0]);
    updated::<libc::ifreq>(libc::SYS_ioctl, [0, libc::SIOCGIFFLAGS, AT, 0, 0, 0]);
    updated::<libc::arpreq>(libc::SYS_ioctl, [0, libc::SIOCGARP, AT, 0, 0, 0]);
    written::<u64>(libc::SYS_ioctl, [0, 0x8008_1272, AT, 0, 0, 0]);
}
