//! Waiting for keys, signals, a new size of the terminal, and other threads, all at once.
//!
//! What must hold: what happens while nobody waits ends the next wait.

use std::io::{Read as _, Write as _};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGINT, SIGTERM, SIGWINCH};
use signal_hook::{flag, low_level};

/// Ends waits.
#[derive(Debug)]
pub struct Wake {
    reader: UnixStream,
    writer: UnixStream,
    /// Number of the signal that is to end this process, or 0.
    signal: Arc<AtomicUsize>,
}

/// Ends waits from another thread.
#[derive(Debug)]
pub struct Waker(UnixStream);

/// What ended a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Woken {
    /// There are keys to be read.
    Keys,
    /// Time is over, or something else has happened.
    Otherwise,
    /// The terminal is gone.
    Hangup,
}

impl Wake {
    /// From now on SIGINT and SIGTERM end waits instead of this process. SIGWINCH does, too.
    ///
    /// # Errors
    /// A pair of sockets or a handler could not be made.
    pub fn new() -> std::io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        let signal = Arc::new(AtomicUsize::new(0));
        for number in [SIGINT, SIGTERM] {
            flag::register_usize(number, Arc::clone(&signal), number as usize)?;
            low_level::pipe::register(number, writer.try_clone()?)?;
        }
        low_level::pipe::register(SIGWINCH, writer.try_clone()?)?;
        Ok(Self { reader, writer, signal })
    }

    /// For another thread.
    ///
    /// # Errors
    /// There are too many descriptors.
    pub fn waker(&self) -> std::io::Result<Waker> {
        self.writer.try_clone().map(Waker)
    }

    /// The signal that is to end this process.
    pub fn signal(&self) -> Option<i32> {
        i32::try_from(self.signal.load(Ordering::Relaxed)).ok().filter(|number| *number != 0)
    }

    /// Waits for keys of a terminal, and for all else; no longer than `timeout`.
    ///
    /// # Errors
    /// It cannot be waited.
    pub fn wait(
        &self,
        terminal: Option<BorrowedFd<'_>>,
        timeout: Option<Duration>,
    ) -> std::io::Result<Woken> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let mut events = vec![PollFd::new(&self.reader, PollFlags::IN)];
        events.extend(terminal.map(|terminal| PollFd::from_borrowed_fd(terminal, PollFlags::IN)));
        match poll(&mut events, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => (),
            Err(error) => return Err(error.into()),
        }
        // As many as there are, they end one wait.
        let mut bytes = [0; 64];
        while matches!((&self.reader).read(&mut bytes), Ok(1..)) {}
        let of_terminal = events.get(1).map_or(PollFlags::empty(), PollFd::revents);
        Ok(if of_terminal.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            Woken::Hangup
        } else if of_terminal.contains(PollFlags::IN) {
            Woken::Keys
        } else {
            Woken::Otherwise
        })
    }
}

impl Waker {
    /// Ends the wait that is, or the next.
    pub fn wake(&self) {
        // If it is full, the wait ends anyway.
        let _is_full = (&self.0).write(&[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_by_what_happened_before_and_by_keys() {
        let wake = Wake::new().expect("there are descriptors");
        wake.waker().expect("there are descriptors").wake();
        assert_eq!(wake.wait(None, None).expect("it can wait"), Woken::Otherwise);
        let (terminal, keyboard) = UnixStream::pair().expect("two sockets");
        (&keyboard).write_all(b"q").expect("it has room");
        let wait = || {
            use std::os::fd::AsFd as _;
            wake.wait(Some(terminal.as_fd()), None).expect("it can wait")
        };
        assert_eq!(wait(), Woken::Keys);
        drop(keyboard);
        assert_eq!(wait(), Woken::Hangup);
        assert_eq!(wake.wait(None, Some(Duration::ZERO)).expect("it can wait"), Woken::Otherwise);
    }

    #[test]
    fn a_signal_is_kept_and_ends_the_wait() {
        let wake = Wake::new().expect("there are descriptors");
        assert_eq!(wake.signal(), None);
        low_level::raise(SIGTERM).expect("it is a signal");
        while wake.signal().is_none() {
            wake.wait(None, None).expect("it can wait");
        }
        assert_eq!(wake.signal(), Some(SIGTERM));
    }
}
