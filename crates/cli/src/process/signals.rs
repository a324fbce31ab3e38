//! Which signals uswap takes, and what becomes of each.
//!
//! What must hold: a signal that was ignored when uswap was started (`nohup`, a shell's background job) stays ignored,
//! in uswap and so in the program, because a handler would be reset to the default on exec. Taken with handlers, not by
//! ignoring: an ignored signal would be inherited, a handler is not.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use signal_hook::consts::signal::{
    SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGIO, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG,
    SIGUSR1, SIGUSR2, SIGVTALRM, SIGWINCH, SIGXCPU, SIGXFSZ,
};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::origin::{Origin, WithOrigin};

use super::family;

/// The terminal sends these to the whole process group: the program has them already.
const FROM_TERMINAL: [i32; 5] = [SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU];
/// Sent on to the program.
///
/// SIGWINCH comes from the terminal too, but a second one only makes the program look at the size again, and a first
/// one that is lost would leave a wrong picture.
const SENT_ON: [i32; 10] =
    [SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH, SIGALRM, SIGVTALRM, SIGIO, SIGURG, SIGXCPU];

/// What to do about a signal that uswap got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Received {
    /// A child changed its state: wait for it.
    ChildChanged,
    /// uswap was told to go on: so shall the program.
    Continued,
    /// The terminal's: the program has it. Carries the number.
    FromTerminal(i32),
    /// To be sent on to the program.
    SendOn(i32),
}

impl Received {
    /// Does the sender want uswap to end?
    pub fn asks_to_end(self) -> Option<i32> {
        match self {
            Self::FromTerminal(number @ (SIGINT | SIGQUIT))
            | Self::SendOn(number @ (SIGINT | SIGQUIT | SIGTERM | SIGHUP)) => Some(number),
            _ => None,
        }
    }
}

/// The handlers, from now to the end of uswap.
pub struct Watched {
    signals: SignalDelivery<UnixStream, WithOrigin>,
    /// The program, when it has been started.
    program: Option<Pid>,
    /// Orphans that were waited for since signals were looked at.
    reaped: Vec<Pid>,
}

impl Watched {
    /// Takes all signals named above that are not ignored now. Call it before the program is started, or a signal in
    /// between ends uswap alone.
    ///
    /// # Errors
    /// If a handler cannot be set.
    pub fn take() -> io::Result<Self> {
        let ignored = ignored_now();
        let optional =
            FROM_TERMINAL.iter().chain(&SENT_ON).filter(|&&number| ignored & (1 << (number - 1)) == 0);
        let always = [SIGCHLD, SIGCONT];
        let (read, write) = UnixStream::pair()?;
        let all = always.iter().chain(optional);
        let signals = SignalDelivery::with_pipe(read, write, WithOrigin::default(), all)?;
        Ok(Self { signals, program: None, reaped: Vec::new() })
    }

    /// The program has been started.
    pub fn set_program(&mut self, program: Pid) {
        self.program = Some(program);
    }

    /// An orphan has been waited for, and nobody has its number any more.
    pub fn note_reaped(&mut self, orphan: Pid) {
        self.reaped.push(orphan);
    }

    /// Is it for the parent of an orphan? That would be init, had the orphan not come to uswap: it is not sent on.
    fn is_for_init(&self, origin: &Origin) -> bool {
        let sender = origin.process.and_then(|process| Pid::from_raw(process.pid));
        let is_orphan =
            |sender: Pid| self.reaped.contains(&sender) || family::is_child(sender) && self.program.is_some();
        matches!(origin_of(origin), Received::SendOn(_))
            && sender.is_some_and(|sender| Some(sender) != self.program && is_orphan(sender))
    }

    /// Waits for at least one signal and returns what came.
    pub fn wait(&mut self) -> Vec<Received> {
        self.wait_until(None)
    }

    /// Waits for at least one signal, but no longer than `time`, and returns what came.
    pub fn wait_for(&mut self, time: Duration) -> Vec<Received> {
        self.wait_until(Some(Instant::now() + time))
    }

    fn wait_until(&mut self, end: Option<Instant>) -> Vec<Received> {
        loop {
            let mut origins: Vec<_> = self.signals.pending().collect();
            origins.retain(|origin| !self.is_for_init(origin));
            self.reaped.clear();
            let received: Vec<_> = origins.iter().map(origin_of).collect();
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if !received.is_empty() || left.is_some_and(|left| left.is_zero()) {
                return received;
            }
            let timeout = left.map(|left| Timespec {
                tv_sec: left.as_secs().cast_signed(),
                tv_nsec: left.subsec_nanos().into(),
            });
            let answer = poll(&mut [PollFd::new(self.signals.get_read(), PollFlags::IN)], timeout.as_ref());
            // The handler has written to the pipe before it interrupts.
            assert!(answer.is_ok() || answer == Err(Errno::INTR), "the pipe of signals is open");
        }
    }
}

/// SIGINT and SIGQUIT that a process sent went to uswap alone; those of the terminal have no sender, and the program
/// has them already.
fn origin_of(origin: &Origin) -> Received {
    match (origin.signal, &origin.process) {
        (number @ (SIGINT | SIGQUIT), Some(_)) => Received::SendOn(number),
        (number, _) => classify(number),
    }
}

fn classify(number: i32) -> Received {
    match number {
        SIGCHLD => Received::ChildChanged,
        SIGCONT => Received::Continued,
        _ if FROM_TERMINAL.contains(&number) => Received::FromTerminal(number),
        _ => Received::SendOn(number),
    }
}

/// From now on a write beyond RLIMIT_FSIZE (`ulimit -f`) is answered by EFBIG, and does not end uswap.
///
/// # Errors
/// If a handler cannot be set.
pub fn survive_file_size_limit() -> io::Result<()> {
    if ignored_now() & (1 << (SIGXFSZ - 1)) == 0 {
        let nobody_asks = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGXFSZ, nobody_asks)?;
    }
    Ok(())
}

/// Number of a signal as the type that `kill` takes.
pub fn named(number: i32) -> Signal {
    Signal::from_named_raw(number).expect("every signal that uswap takes has a name")
}

/// One bit a signal, from `SigIgn` in `/proc/self/status`; 0 if that cannot be read.
fn ignored_now() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    parse_ignored(&status).unwrap_or(0)
}

fn parse_ignored(status: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(value.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_as_bits() {
        let status = "Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        assert_eq!(parse_ignored(status), Some(1 << (SIGHUP - 1) | 1 << (signal_hook::consts::SIGPIPE - 1)));
        assert_eq!(parse_ignored("Name:\tx\n"), None);
    }

    #[test]
    fn each_signal_has_one_meaning_and_a_name() {
        for number in FROM_TERMINAL.into_iter().chain(SENT_ON).chain([SIGCHLD, SIGCONT]) {
            assert_eq!(named(number).as_raw(), number);
        }
        assert!(FROM_TERMINAL.iter().all(|number| !SENT_ON.contains(number)));
    }

    #[test]
    fn only_four_signals_ask_to_end() {
        let asking: Vec<_> = (1..32).filter(|&number| classify(number).asks_to_end().is_some()).collect();
        assert_eq!(asking, [SIGHUP, SIGINT, SIGQUIT, SIGTERM]);
    }
}
