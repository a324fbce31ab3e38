//! What a process has gone past in order, for the threads that note it and the evictors that ask.
//!
//! Must hold: these are hints: whoever finds the state in use goes on without it, and nobody waits. Called by
//! [`crate::evict::behind`].

use spin::mutex::SpinMutex;
use uswap_core::drop_behind::DropBehind;

/// The state of the rule, one for each process.
pub(crate) struct Behind(SpinMutex<DropBehind>);

impl Behind {
    /// Of a run with so many pages of RAM.
    pub(crate) const fn new(ram_pages: u64) -> Behind {
        Behind(SpinMutex::new(DropBehind::new(ram_pages)))
    }

    /// `change` is made, if nobody else is at it.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut DropBehind) -> T) -> Option<T> {
        self.0.try_lock().map(|mut state| change(&mut state))
    }
}
