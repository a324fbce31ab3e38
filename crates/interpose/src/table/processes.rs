//! Rows of the calls about processes and threads: making, ending, waiting, identities, limits, scheduling.
//!
//! Must hold: each call that makes, replaces or ends a flow of control is [`Kind::Process`], and so is each that leaves
//! an address with the kernel for the end of the thread. Called by [`crate::table`], which puts the rows in order.

use super::row::Length::{Arg, Arg32, Bytes, Elements};
use super::row::{Kind, Row, rows, sized};
use super::walk::{Access, Stop, Walk, field};
use linux_raw_sys::general::*;
use linux_raw_sys::system::{new_utsname, sysinfo};

/// A set of identifiers, and one of capabilities in two halves.
const ID: super::row::Length = Bytes(4);
const CAPABILITIES: u32 = 24;

pub(super) const ROWS: &[Row] = rows! {
    // A thread's identifier that cannot be written is lost without a word.
    __NR_clone.walks(cloned).is(Kind::Process).applied().short();
    __NR_clone3.walks(cloned_by_structure).is(Kind::Process).applied().short();
    __NR_fork.is(Kind::Process);
    __NR_vfork.is(Kind::Process);
    __NR_execve.walks(executed).is(Kind::Process);
    __NR_execveat.walks(executed_at).is(Kind::Process);
    __NR_exit.is(Kind::Process);
    __NR_exit_group.is(Kind::Process);
    __NR_wait4.writes(1, Bytes(4)).writes(3, sized::<rusage>()).consumes();
    __NR_waitid.writes(2, Bytes(128)).writes(4, sized::<rusage>()).consumes();
    __NR_set_tid_address.is(Kind::Process);
    __NR_set_robust_list.is(Kind::Process);
    __NR_get_robust_list.writes(1, Bytes(8)).writes(2, Bytes(8));
    __NR_rseq.is(Kind::Process);
    __NR_unshare.is(Kind::Process);
    __NR_setns.is(Kind::Process);
    __NR_pidfd_open;
    __NR_pidfd_getfd;
    __NR_kcmp;
    __NR_getpid;
    __NR_getppid;
    __NR_gettid;
    __NR_getpgid;
    __NR_setpgid;
    __NR_getpgrp;
    __NR_getsid;
    __NR_setsid;

    __NR_getuid;
    __NR_geteuid;
    __NR_getgid;
    __NR_getegid;
    __NR_setuid;
    __NR_setgid;
    __NR_setreuid;
    __NR_setregid;
    __NR_setresuid;
    __NR_setresgid;
    __NR_setfsuid;
    __NR_setfsgid;
    __NR_getresuid.writes(0, ID).writes(1, ID).writes(2, ID);
    __NR_getresgid.writes(0, ID).writes(1, ID).writes(2, ID);
    __NR_getgroups.writes(1, Elements(0, 4));
    __NR_setgroups.reads(1, Elements(0, 4));
    // A version that the kernel does not know is answered with the one that it does.
    __NR_capget.updates(0, Bytes(8)).writes(1, Bytes(CAPABILITIES));
    __NR_capset.updates(0, Bytes(8)).reads(1, Bytes(CAPABILITIES));
    __NR_personality;

    __NR_getrlimit.writes(1, sized::<rlimit>());
    __NR_setrlimit.reads(1, sized::<rlimit>());
    __NR_prlimit64.reads(2, sized::<rlimit64>()).writes(3, sized::<rlimit64>()).applied();
    __NR_getrusage.writes(1, sized::<rusage>());
    __NR_times.writes(0, Bytes(32));
    __NR_sysinfo.writes(0, sized::<sysinfo>());
    __NR_uname.writes(0, sized::<new_utsname>());
    __NR_sethostname.reads(0, Arg32(1));
    __NR_setdomainname.reads(0, Arg32(1));
    __NR_getcpu.writes(0, Bytes(4)).writes(1, Bytes(4));

    __NR_getpriority;
    __NR_setpriority;
    __NR_ioprio_get;
    __NR_ioprio_set;
    __NR_sched_yield;
    __NR_sched_setparam.reads(1, Bytes(4));
    __NR_sched_getparam.writes(1, Bytes(4));
    __NR_sched_setscheduler.reads(2, Bytes(4));
    __NR_sched_getscheduler;
    __NR_sched_get_priority_max;
    __NR_sched_get_priority_min;
    __NR_sched_rr_get_interval.writes(1, Bytes(16));
    __NR_sched_setaffinity.reads(2, Arg32(1));
    __NR_sched_getaffinity.writes(2, Arg32(1));
    __NR_sched_setattr.walks(scheduling_set);
    __NR_sched_getattr.writes(1, Arg32(2));
    __NR_getrandom.writes(0, Arg(1)).short();
};

/// `clone`: where the identifiers of the new thread are written.
fn cloned(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let flags = walk.arg32(0);
    if flags & (CLONE_PARENT_SETTID | CLONE_PIDFD) != 0 {
        walk.writes(walk.arg(2), 4);
    }
    if flags & (CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID) != 0 {
        walk.writes(walk.arg(3), 4);
    }
    Ok(())
}

/// `clone3`: the same by structure, `clone_args` of so many bytes; the first form has 64.
fn cloned_by_structure(walk: &mut Walk<'_>) -> Result<(), Stop> {
    walk.reads(walk.arg(0), walk.arg(1).min(4096));
    let arguments = walk.load::<64>(walk.arg(0))?;
    let flags = field(&arguments, 0) as u32;
    for (flag, offset) in
        [(CLONE_PIDFD, 8), (CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID, 16), (CLONE_PARENT_SETTID, 24)]
    {
        if flags & flag != 0 {
            walk.writes(field(&arguments, offset), 4);
        }
    }
    if walk.arg(1) >= 80 {
        let identifiers = walk.load::<16>(walk.arg(0).wrapping_add(64))?;
        walk.touch(field(&identifiers, 0), field(&identifiers, 8).min(64) * 4, Access::Read);
    }
    Ok(())
}

/// Longest argument of a program: more is E2BIG.
const ARGUMENT_BYTES_MAX: u64 = 32 * 4096;

fn executed(walk: &mut Walk<'_>) -> Result<(), Stop> {
    walk.text(walk.arg(0), 4096)?;
    walk.texts(walk.arg(1), ARGUMENT_BYTES_MAX)?;
    walk.texts(walk.arg(2), ARGUMENT_BYTES_MAX)
}

fn executed_at(walk: &mut Walk<'_>) -> Result<(), Stop> {
    walk.text(walk.arg(1), 4096)?;
    walk.texts(walk.arg(2), ARGUMENT_BYTES_MAX)?;
    walk.texts(walk.arg(3), ARGUMENT_BYTES_MAX)
}

/// `sched_attr` says its own size; the first form, which is zero's meaning too, has 48 bytes.
fn scheduling_set(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let bytes = u64::from(walk.load_u32(walk.arg(1), Access::ReadWrite)?);
    walk.reads(walk.arg(1), if bytes == 0 { 48 } else { bytes.min(4096) });
    Ok(())
}
