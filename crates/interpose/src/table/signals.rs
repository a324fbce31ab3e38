//! Rows of the calls about signals and about time.
//!
//! Must hold: each call that changes how signals are delivered is [`Kind::Signal`]. One that is not finished when its
//! answer cannot be written is marked as applied, and is not repeated. Called by [`crate::table`], which puts the rows
//! in order.

use super::row::Length::{Arg, Bytes};
use super::row::{Kind, Row, rows, sized};
use linux_raw_sys::general::*;

/// A `siginfo_t`; seconds with nanoseconds or microseconds; an interval and a first time; a `timex`.
const INFO: super::row::Length = Bytes(128);
const TIME: super::row::Length = Bytes(16);
const INTERVAL: super::row::Length = Bytes(32);
const ACTION: super::row::Length = sized::<kernel_sigaction>();
const TIMEX: super::row::Length = Bytes(208);
const ZONE: super::row::Length = Bytes(8);

pub(super) const ROWS: &[Row] = rows! {
    __NR_rt_sigaction.reads(1, ACTION).writes(2, ACTION).is(Kind::Signal).applied();
    __NR_rt_sigprocmask.reads(1, Arg(3)).writes(2, Arg(3)).is(Kind::Signal).applied();
    __NR_rt_sigpending.writes(0, Arg(1)).is(Kind::Signal);
    __NR_rt_sigsuspend.reads(0, Arg(1)).is(Kind::Signal);
    __NR_rt_sigtimedwait.reads(0, Arg(3)).writes(1, INFO).reads(2, TIME).consumes().is(Kind::Signal);
    __NR_rt_sigqueueinfo.reads(2, INFO);
    __NR_rt_tgsigqueueinfo.reads(3, INFO);
    __NR_rt_sigreturn.is(Kind::Signal);
    __NR_sigaltstack.reads(0, sized::<sigaltstack>()).writes(1, sized::<sigaltstack>()).is(Kind::Signal).applied();
    __NR_signalfd.reads(1, Arg(2)).is(Kind::Signal);
    __NR_signalfd4.reads(1, Arg(2)).is(Kind::Signal);
    __NR_pidfd_send_signal.reads(2, INFO);
    __NR_kill;
    __NR_tkill;
    __NR_tgkill;
    __NR_pause;
    __NR_restart_syscall;

    __NR_time.writes(0, Bytes(8));
    __NR_gettimeofday.writes(0, TIME).writes(1, ZONE);
    __NR_settimeofday.reads(0, TIME).reads(1, ZONE);
    __NR_adjtimex.updates(0, TIMEX).applied();
    __NR_clock_adjtime.updates(1, TIMEX).applied();
    __NR_clock_gettime.writes(1, TIME);
    __NR_clock_getres.writes(1, TIME);
    __NR_clock_settime.reads(1, TIME);
    // The time that is left is written after the sleep; EFAULT there hides that it was interrupted.
    __NR_nanosleep.reads(0, TIME).writes(1, TIME).applied();
    __NR_clock_nanosleep.reads(2, TIME).writes(3, TIME).applied();
    __NR_alarm;
    __NR_getitimer.writes(1, INTERVAL);
    __NR_setitimer.reads(1, INTERVAL).writes(2, INTERVAL).applied();
    __NR_timer_create.reads(1, sized::<sigevent>()).writes(2, Bytes(4));
    __NR_timer_settime.reads(2, INTERVAL).writes(3, INTERVAL).applied();
    __NR_timer_gettime.writes(1, INTERVAL);
    __NR_timer_getoverrun;
    __NR_timer_delete;
    __NR_timerfd_create;
    __NR_timerfd_settime.reads(2, INTERVAL).writes(3, INTERVAL).applied();
    __NR_timerfd_gettime.writes(1, INTERVAL);
};
