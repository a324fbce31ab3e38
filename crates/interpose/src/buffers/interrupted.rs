//! The answer to a call that signals have interrupted while its pages were brought: if it would still wait, that of an
//! interrupted one. A long write to a pipe or a stream that has some room writes a page, and is short.
//!
//! As signal(7) has it, a handler with SA_RESTART interrupts only calls that are never restarted. Signals interrupt
//! more calls than are answered here: sleeping (the rest of the time would have to be told), `connect` (it goes on by
//! itself), `semop`, and calls of terminals.
//!
//! Must hold: a call is answered here only if a handler has run at which the kernel would have ended it, and with what
//! the kernel would have said. Called by [`crate::buffers::boundary`], and by [`crate::cancellation`], which asks
//! whether a call may wait.

use super::deferred_signals::PendingHandlers;
use super::file_kind::FileKind;
use super::holder::Holder;
use super::parts::Part;
use super::residency::{Make, Residency};
use crate::Call;
use crate::table::Row;
use linux_raw_sys::errno::{EAGAIN, EINTR, ENOMSG, ETIMEDOUT};
use linux_raw_sys::general::*;
use linux_raw_sys::net::MSG_DONTWAIT;
use uswap_units::PAGE_BYTES;

/// What the file of a call has to be for it not to wait, as `poll` names it.
#[allow(non_upper_case_globals, reason = "numbers of calls are named as in the kernel's headers")]
fn wanted_of_file(call: &Call) -> Option<u32> {
    let [_, _, third, fourth, ..] = call.arguments;
    let (events, flags) = match call.number as u32 {
        __NR_read | __NR_readv | __NR_preadv2 | __NR_accept | __NR_accept4 => (POLLIN, 0),
        __NR_recvfrom => (POLLIN, fourth),
        __NR_recvmsg => (POLLIN, third),
        __NR_write | __NR_writev | __NR_pwritev2 => (POLLOUT, 0),
        __NR_sendto => (POLLOUT, fourth),
        __NR_sendmsg => (POLLOUT, third),
        _ => return None,
    };
    (flags as u32 & MSG_DONTWAIT == 0).then_some(events)
}

/// Which argument limits the time of a wait, and what it is for a call that does not wait.
enum Limit {
    /// A number.
    Zero(usize),
    /// The address of a time of zero.
    Time(usize),
    /// Has this flag.
    Flag(usize, u32),
}

const IPC_NOWAIT: u32 = 0o4000;
const FUTEX_FLAGS: u32 = FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME;

/// How a call that waits for an event is asked without waiting, and what the kernel answers if there is none.
#[allow(non_upper_case_globals, reason = "numbers of calls are named as in the kernel's headers")]
fn limit_of(call: &Call) -> Option<(Limit, isize)> {
    Some(match call.number as u32 {
        __NR_poll => (Limit::Zero(2), 0),
        __NR_epoll_wait | __NR_epoll_pwait => (Limit::Zero(3), 0),
        __NR_ppoll => (Limit::Time(2), 0),
        __NR_epoll_pwait2 => (Limit::Time(3), 0),
        __NR_select | __NR_pselect6 => (Limit::Time(4), 0),
        __NR_wait4 => (Limit::Flag(2, WNOHANG), 0),
        __NR_msgrcv => (Limit::Flag(4, IPC_NOWAIT), -(ENOMSG as isize)),
        __NR_msgsnd => (Limit::Flag(3, IPC_NOWAIT), -(EAGAIN as isize)),
        __NR_rt_sigtimedwait => (Limit::Time(2), -(EAGAIN as isize)),
        __NR_futex => match call.arguments[1] as u32 & !FUTEX_FLAGS {
            FUTEX_WAIT | FUTEX_WAIT_BITSET => (Limit::Time(3), -(ETIMEDOUT as isize)),
            _ => return None,
        },
        _ => return None,
    })
}

/// Whether it is a call that may wait until something happens, and that a signal may interrupt.
pub(crate) fn may_wait(call: &Call) -> bool {
    const OTHERS: [u32; 4] = [__NR_nanosleep, __NR_clock_nanosleep, __NR_waitid, __NR_connect];
    limit_of(call).is_some() || wanted_of_file(call).is_some() || OTHERS.contains(&(call.number as u32))
}

/// As signal(7) lists them: interrupted whatever the handler's flags are.
#[allow(non_upper_case_globals, reason = "numbers of calls are named as in the kernel's headers")]
fn is_never_restarted(call: &Call) -> bool {
    matches!(
        call.number as u32,
        __NR_poll
            | __NR_ppoll
            | __NR_epoll_wait
            | __NR_epoll_pwait
            | __NR_epoll_pwait2
            | __NR_select
            | __NR_pselect6
            | __NR_msgrcv
            | __NR_msgsnd
            | __NR_rt_sigtimedwait
    )
}

/// The answer to a call that signals have interrupted while its ranges were brought, which are held. None: it goes to
/// the kernel as it is.
#[cold]
pub(super) fn answer<R: Residency>(
    holder: &Holder<'_, R>,
    row: &Row,
    call: &Call,
    due: PendingHandlers,
    make: &mut Make<'_>,
) -> Option<isize> {
    if !due.is_interrupting && !is_never_restarted(call) {
        return None;
    }
    if call.number as u32 == __NR_waitid {
        return answer_of_waitid(call, make);
    }
    match limit_of(call) {
        Some((limit, nothing)) => answer_of_wait(holder, call, &limit, nothing, make),
        None => answer_of_transfer(holder, row, call, wanted_of_file(call)?, make),
    }
}

const INTERRUPTED: isize = -(EINTR as isize);

/// Of a call that waits for an event.
fn answer_of_wait<R: Residency>(
    holder: &Holder<'_, R>,
    call: &Call,
    limit: &Limit,
    nothing: isize,
    make: &mut Make<'_>,
) -> Option<isize> {
    let mut question = *call;
    let mut no_time = [0_u64; 2];
    let is_question = match *limit {
        Limit::Zero(argument) => core::mem::take(&mut question.arguments[argument]) as u32 == 0,
        Limit::Flag(argument, flag) => {
            question.arguments[argument] |= flag as usize;
            call.arguments[argument] as u32 & flag != 0
        }
        Limit::Time(argument) => {
            question.arguments[argument] = no_time.as_mut_ptr() as usize;
            let time = call.arguments[argument] as u64;
            // What cannot be read is the kernel's affair.
            time != 0 && [time, time + 8].iter().all(|word| matches!(holder.word(*word), Some(0) | None))
        }
    };
    if is_question {
        return None;
    }
    let answer = make(&question);
    Some(if answer == nothing { INTERRUPTED } else { answer })
}

/// Its answer does not tell whether there is a child: looked at first, and left.
fn answer_of_waitid(call: &Call, make: &mut Make<'_>) -> Option<isize> {
    let mut info = [0_u32; 32];
    let mut question = *call;
    question.arguments[2] = info.as_mut_ptr() as usize;
    question.arguments[3] |= (WNOHANG | WNOWAIT) as usize;
    let answer = make(&question);
    // The number of the signal is zero if there is no child.
    let is_nothing = answer == 0 && core::hint::black_box(info)[0] == 0;
    (is_nothing && call.arguments[3] as u32 & WNOHANG == 0).then_some(INTERRUPTED)
}

/// Of a call that moves bytes from or to a file.
fn answer_of_transfer<R: Residency>(
    holder: &Holder<'_, R>,
    row: &Row,
    call: &Call,
    events: u32,
    make: &mut Make<'_>,
) -> Option<isize> {
    let file = call.arguments[0];
    let flags = make(&Call { number: __NR_fcntl as usize, arguments: [file, F_GETFL as usize, 0, 0, 0, 0] });
    if flags < 0 || flags as u32 & O_NONBLOCK != 0 {
        return None;
    }
    if !is_ready(file, events, make) {
        return Some(INTERRUPTED);
    }
    if events == POLLIN || !matches!(FileKind::of(file, make), FileKind::Pipe | FileKind::Stream) {
        return None;
    }
    // There is room for a page.
    let part = Part::new(row.parts(), call, 0, PAGE_BYTES as u64, holder)?;
    Some(part.make_held(row, make))
}

/// Whether a file would not let its caller wait. What cannot be asked is ready.
fn is_ready(file: usize, events: u32, make: &mut Make<'_>) -> bool {
    let mut question = pollfd { fd: file as i32, events: events as i16, revents: 0 };
    let arguments = [&raw mut question as usize, 1, 0, 0, 0, 0];
    make(&Call { number: __NR_poll as usize, arguments }) != 0
}
