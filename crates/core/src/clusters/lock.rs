//! A lock word in shared memory that names its holder, so that others notice when the holder was killed.
//!
//! ```text
//! 0: free      n: held by the process with record n - 1
//! ```
//! Who finds the lock held asks `Contended`. Told that the holder is gone, it takes the lock over and must repair what the lock guards.

use crate::mm::MmTable;
use uswap_sync::{AtomicU64, Ordering, trace};
use uswap_units::MmId;

/// What the holder of a lock is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holder {
    /// Alive, or not known to be dead: ask again.
    Lives,
    /// Dead: its lock may be taken over.
    IsGone,
}

/// Called while a lock is held by someone else: waits a moment (longer with each call) and tells what the holder is.
pub type Contended = fn(MmTable<'_>, MmId, u32) -> Holder;

/// The name under which the supervisor takes locks. Whoever waits for it waits: a run without its supervisor has ended.
pub const SUPERVISOR: MmId = MmId(u16::MAX - 1);

/// Waits in a loop: for tests and for programs with one process.
pub fn spin(_: MmTable<'_>, _: MmId, _: u32) -> Holder {
    #[cfg(loom)]
    loom::thread::yield_now();
    core::hint::spin_loop();
    Holder::Lives
}

/// Who takes locks, and how it waits for them.
#[derive(Clone, Copy)]
pub struct Locker<'a> {
    pub(crate) me: MmId,
    pub(crate) contended: Contended,
    pub(crate) mms: MmTable<'a>,
}

/// How a lock was got.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Got {
    /// From nobody.
    Free,
    /// From a holder that is gone: repair first.
    FromTheDead,
}

impl<'a> Locker<'a> {
    /// One that waits in a loop.
    pub fn new(me: MmId, mms: MmTable<'a>) -> Self {
        Self { me, contended: spin, mms }
    }

    /// Its name.
    pub fn me(&self) -> MmId {
        self.me
    }

    /// Something begins that leaves traces if this process dies before `end`. The supervisor does not die alone.
    pub(crate) fn begin(&self) {
        if u32::from(self.me.0) < self.mms.count() {
            self.mms.record(self.me).begin();
        }
    }

    pub(crate) fn end(&self) {
        if u32::from(self.me.0) < self.mms.count() {
            self.mms.record(self.me).end();
        }
    }

    fn name(&self) -> u64 {
        u64::from(self.me.0) + 1
    }

    /// Takes the lock, waiting for it.
    pub(crate) fn lock(&self, word: &AtomicU64) -> Got {
        let got = self.take(word);
        trace::locked(core::ptr::from_ref(word) as usize);
        got
    }

    fn take(&self, word: &AtomicU64) -> Got {
        // Acquire pairs with the Release of `unlock`: what the last holder wrote is seen.
        if word.compare_exchange(0, self.name(), Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return Got::Free;
        }
        self.wait(word)
    }

    #[cold]
    fn wait(&self, word: &AtomicU64) -> Got {
        let mut tries = 0;
        loop {
            let seen = word.load(Ordering::Relaxed);
            if seen == 0 {
                if word.compare_exchange_weak(0, self.name(), Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    return Got::Free;
                }
                continue;
            }
            let holder = MmId((seen - 1) as u16);
            let gone = (self.contended)(self.mms, holder, tries) == Holder::IsGone;
            // The dead do not write: the exchange fails only if another took the lock over.
            if gone && word.compare_exchange(seen, self.name(), Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return Got::FromTheDead;
            }
            tries = tries.saturating_add(1);
        }
    }

    /// Takes over a lock of a process that is known to be dead. False: it does not hold it.
    pub(crate) fn take_over(&self, word: &AtomicU64, dead: MmId) -> bool {
        let seen = u64::from(dead.0) + 1;
        let taken = word.compare_exchange(seen, self.name(), Ordering::Acquire, Ordering::Relaxed).is_ok();
        if taken {
            trace::locked(core::ptr::from_ref(word) as usize);
        }
        taken
    }

    /// Gives the lock back.
    pub(crate) fn unlock(&self, word: &AtomicU64) {
        debug_assert_eq!(word.load(Ordering::Relaxed), self.name());
        word.store(0, Ordering::Release);
        trace::unlocked(core::ptr::from_ref(word) as usize);
    }
}
