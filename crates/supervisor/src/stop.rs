//! How the threads of the supervisor learn that the run has ended.
//!
//! What must hold: nobody waits any longer than until [`Stop::ask`], whenever that comes, so a descriptor that stays
//! readable says it: there is no moment between a look and a wait in which it could be missed. All that waits for a
//! time waits here; who waits for a signal of the segment is woken by `Shared::end`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::error::StartError;

/// The end of a run, from which on it stays ended.
pub struct Stop {
    asked: AtomicBool,
    event: OwnedFd,
}

impl Stop {
    /// The run goes on.
    ///
    /// # Errors
    /// There is no descriptor left for it.
    pub fn new() -> Result<Stop, StartError> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| StartError::EventDescriptor(errno.into()))?;
        Ok(Stop { asked: AtomicBool::new(false), event })
    }

    /// Ends it.
    pub fn ask(&self) {
        // Release pairs with `is_asked`: who sees the end sees what was done before it.
        self.asked.store(true, Ordering::Release);
        // It has room for more than is ever added, and nobody takes anything out.
        let _is_added = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    /// Whether it has ended.
    pub fn is_asked(&self) -> bool {
        // Acquire pairs with `ask`.
        self.asked.load(Ordering::Acquire)
    }

    /// Waits for so long, or until it ends.
    pub fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let timeout =
                Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
            let answer = poll(&mut [PollFd::new(&self.event, PollFlags::IN)], Some(&timeout));
            // Anything but a signal that came in between is the end of the wait.
            if answer != Err(rustix::io::Errno::INTR) {
                return;
            }
        }
    }
}

impl AsFd for Stop {
    /// Readable since the end.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_seen_by_who_waits_and_by_who_comes_late() {
        let stop = Stop::new().unwrap();
        assert!(!stop.is_asked());
        stop.pause(Duration::from_millis(1));
        std::thread::scope(|scope| {
            // Each would wait for a day.
            for _ in 0..3 {
                scope.spawn(|| stop.pause(Duration::from_secs(86_400)));
            }
            stop.ask();
        });
        stop.pause(Duration::from_secs(86_400));
        assert!(stop.is_asked());
    }
}
