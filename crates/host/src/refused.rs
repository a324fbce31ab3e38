//! Why a process is left alone.
//!
//! Must hold: what the user is told says what to try. Called by [`crate::invitation`], [`crate::joining`],
//! [`crate::small`], [`crate::attach`], [`crate::fork`] and [`crate::supervisor`], which bring a process into its run,
//! and by `agent`.

use core::fmt;
use uswap_os::sys::Errno;
use uswap_os::uffd::UffdError;

/// Why a process is left alone.
#[derive(Debug)]
pub enum Refused {
    /// There is no userfaultfd for it.
    Userfaultfd(UffdError),
    /// Its system calls cannot be seen.
    Calls(uswap_interpose::Error),
    /// Something else that it needs.
    Needs(&'static str),
    /// The same, and it may be there later.
    NeedsNow(&'static str),
    /// Another process has the same memory, and would not be armed with it.
    IsShared,
    /// The run has ended, or said already why it cannot be entered.
    NoRun,
}

impl Refused {
    pub(crate) fn of_userfaultfd(error: UffdError) -> Refused {
        match error {
            UffdError::NoWayIn { system_call: Errno::EMFILE | Errno::ENFILE, .. } => NO_DESCRIPTORS,
            error => Refused::Userfaultfd(error),
        }
    }

    /// A file could not be opened: `otherwise`, or there are as many open as may be.
    pub(crate) fn of_open(errno: Errno, otherwise: Refused) -> Refused {
        match errno {
            Errno::EMFILE | Errno::ENFILE => NO_DESCRIPTORS,
            _ => otherwise,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Userfaultfd(error) => write!(out, "{error}"),
            Refused::Calls(error) => write!(out, "{error}"),
            Refused::Needs(what) | Refused::NeedsNow(what) => out.write_str(what),
            Refused::IsShared => out.write_str("another process shares its memory now (vfork): try again"),
            Refused::NoRun => out.write_str("its run has ended"),
        }
    }
}

impl core::error::Error for Refused {}

/// It goes without its thread.
pub(crate) const NO_THREAD: &str =
    "the thread that evicts cannot be started: raise the limit of processes (ulimit -u)";
pub(crate) const NO_DESCRIPTORS: Refused =
    Refused::NeedsNow("it has as many files open as it may have, and uswap needs some: raise ulimit -n");
pub(crate) const NO_ROOM: Refused =
    Refused::Needs("there is no address space for what it needs: raise ulimit -v");
