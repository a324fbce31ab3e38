//! A lock word in shared memory that names its holder, so that others notice when the holder was killed.
//!
//! ```text
//! 0: free      63..16 which of all processes it is     15..0 its record + 1
//! ```
//! A record may be given to another process while someone waits: the number tells them apart, so that nobody takes the
//! lock from the next one. Whoever finds the lock held asks `Contended`. Told that the holder is gone, it takes the
//! lock over.
//!
//! Must hold: a lock goes from its holder to another only when the holder has given it back or is gone; whoever takes
//! it over from the dead repairs what it guards first. Called by [`crate::clusters`], whose locks these are, by
//! [`crate::swap_table`] and [`crate::slots`], which count what they have begun (`begin`, `end`), and by `host`, the
//! supervisor and `experiments`, which say who locks and how to wait.
//!
//! Memory order: the Acquire of whoever takes a lock (`take`, `wait`) pairs with the Release of `unlock`: what the last
//! holder wrote is seen. The dead have not unlocked: they ended before the kernel said that they are gone, and so what
//! they wrote is seen. The Acquire of whoever takes their lock over (`wait`, `take_over`) pairs with nothing that they
//! did: it keeps the repair behind the exchange.

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
pub const SUPERVISOR: MmId = MmId::new(u16::MAX - 1);

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

    /// The same, with another way to wait.
    pub fn waiting_by(self, contended: Contended) -> Self {
        Self { contended, ..self }
    }

    /// Its name.
    pub fn me(&self) -> MmId {
        self.me
    }

    /// Something begins that leaves traces if this process dies before `end`. The supervisor does not die alone.
    pub(crate) fn begin(&self) {
        if u32::from(self.me.number()) < self.mms.count() {
            self.mms.record(self.me).begin();
        }
    }

    pub(crate) fn end(&self) {
        if u32::from(self.me.number()) < self.mms.count() {
            self.mms.record(self.me).end();
        }
    }

    fn name(&self) -> u64 {
        self.name_of(self.me)
    }

    /// What is in a lock word that `mm` holds: its record is not given back before its locks are.
    pub(crate) fn name_of(&self, mm: MmId) -> u64 {
        let has_record = u32::from(mm.number()) < self.mms.count();
        let number = if has_record { self.mms.record(mm).number().to_word() } else { 0 };
        number << 16 | mm.to_word()
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
            let holder = MmId::new(seen as u16 - 1);
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
        let seen = self.name_of(dead);
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::mm::{MM_WORDS, MmState, RecordHolder};
    use std::vec::Vec;

    /// While someone waits, the holder dies, its lock is broken, and its record and the lock go to the next process.
    fn holder_is_replaced(mms: MmTable<'_>, holder: MmId, tries: u32) -> Holder {
        if tries > 0 {
            // Whoever waits has not taken the lock from the living: the next one gives it back.
            let lock = mms.record(MmId::new(1));
            Locker::new(holder, mms).unlock(&lock.words[15]);
            return Holder::Lives;
        }
        let record = mms.record(holder);
        record.free();
        assert_eq!(mms.take(RecordHolder::Run).expect("it is free").id(), holder);
        record.set_state(MmState::Live, 7);
        let lock = mms.record(MmId::new(1));
        lock.words[15].store(Locker::new(holder, mms).name(), Ordering::Relaxed);
        Holder::IsGone
    }

    #[test]
    fn a_lock_is_not_taken_from_who_has_the_record_of_the_dead() {
        let words: Vec<AtomicU64> = (0..2 * MM_WORDS).map(|_| AtomicU64::new(0)).collect();
        let taken_total = AtomicU64::new(0);
        let mms = MmTable { words: &words, taken_total: &taken_total };
        let holder = mms.take(RecordHolder::Run).expect("both are free").id();
        // The last word of the other record is the lock: the hook gets nothing but the records.
        let lock = &words[MM_WORDS + 15];
        assert_eq!(Locker::new(holder, mms).lock(lock), Got::Free);
        let waiter = Locker { me: SUPERVISOR, contended: holder_is_replaced, mms };
        assert_eq!(waiter.lock(lock), Got::Free);
    }
}
