//! A process by a descriptor: unlike its number, that never becomes another process.
//!
//! Called by the supervisor and `cli`, for each process that they wait for, count or signal.
//!
//! Must hold: a signal reaches the process that was opened, or none.

use crate::fd::{Fd, PollEntry, Timeout, poll};
use crate::sys::{self, Result, abi};

/// One process.
#[derive(Debug)]
pub struct Pidfd {
    fd: Fd,
    pid: u32,
}

impl Pidfd {
    /// Whichever process has the number now: the caller makes sure that it is the one meant. ESRCH: none.
    pub fn open(pid: u32) -> Result<Pidfd> {
        sys::plain(abi::__NR_pidfd_open, pid as usize, 0, 0)
            .map(|number| Pidfd { fd: Fd::from_raw(number as i32), pid })
    }

    /// Its number, which is another's once it has ended and its parent has been told.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// For [`poll`]: it is readable when the process has ended.
    pub fn fd(&self) -> &Fd {
        &self.fd
    }

    /// Whether the process has ended; a zombie has.
    pub fn has_ended(&self) -> bool {
        let mut entries = [PollEntry::readable(&self.fd)];
        poll(&mut entries, Timeout::Never).is_ok() && entries[0].is_readable()
    }

    /// What `look` finds under the number of the process, if that was this process all the time.
    pub fn while_it_lives<R>(&self, look: impl FnOnce(u32) -> R) -> Option<R> {
        let found = look(self.pid);
        // It had the number when it was opened, and keeps it at least until it has ended.
        (!self.has_ended()).then_some(found)
    }

    /// Sends a signal. ESRCH: it has ended.
    pub fn signal(&self, signal: u32) -> Result<()> {
        // SAFETY:
        // 1. No information beside the signal is given, so the kernel reads no memory.
        unsafe { sys::syscall4(abi::__NR_pidfd_send_signal, self.fd.raw() as usize, signal as usize, 0, 0) }
            .map(drop)
    }
}
