//! When something that a process could not do, for a reason that may pass, is to be tried again: being armed, or taking
//! its place in the run.
//!
//! Threads stand still while one is armed, up to some seconds where somebody else traces one of them. So tries become
//! rare, and end.
//!
//! Must hold: notes are made with the gate exclusive, and a look that misses one only tries too early. Called by
//! [`crate::small`], which arms, by [`crate::joining`] and [`crate::fork`], which take the place, and by
//! [`crate::process`], which holds the value.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use uswap_os::clock;

const FIRST_PAUSE_NS: u64 = 2_000_000_000;
/// Each pause is so many times as long as the one before.
const GROWTH: u32 = 4;
/// After 2, 8 and 32 s.
const TRIES_MAX: u32 = 4;

/// The tries so far. Made for a static.
pub(crate) struct TryLater {
    tries: AtomicU32,
    not_before_ns: AtomicU64,
}

impl TryLater {
    /// None was made.
    pub(crate) const fn new() -> TryLater {
        TryLater { tries: AtomicU32::new(0), not_before_ns: AtomicU64::new(0) }
    }

    /// Whether it is too early.
    pub(crate) fn is_early(&self) -> bool {
        let not_before_ns = self.not_before_ns.load(Ordering::Relaxed);
        not_before_ns != 0 && clock::now_ns() < not_before_ns
    }

    /// A try has failed. False: it was the last one.
    pub(crate) fn put_off(&self) -> bool {
        let tries = self.tries.load(Ordering::Relaxed) + 1;
        self.tries.store(tries, Ordering::Relaxed);
        self.not_before_ns
            .store(clock::now_ns() + FIRST_PAUSE_NS * u64::from(GROWTH.pow(tries - 1)), Ordering::Relaxed);
        tries < TRIES_MAX
    }

    /// In a forked child, which has made no tries.
    pub(crate) fn reset(&self) {
        // A write copies the page.
        if self.tries.load(Ordering::Relaxed) != 0 {
            self.tries.store(0, Ordering::Relaxed);
            self.not_before_ns.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{TRIES_MAX, TryLater};

    #[test]
    fn a_try_that_failed_is_put_off_some_times() {
        let later = TryLater::new();
        assert!(!later.is_early());
        for _ in 1..TRIES_MAX {
            assert!(later.put_off() && later.is_early());
        }
        assert!(!later.put_off());
        later.reset();
        assert!(!later.is_early() && later.put_off());
    }
}
