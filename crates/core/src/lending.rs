//! Which of a few things are lent, each to one thread at a time, and whether anybody waits for one.
//!
//! ```text
//! borrows     take a bit that is 0. There is none: waiters + 1 | fence | is there one now? | sleep while the word is
//!             as it was seen
//! gives back  clear the bit | fence | does somebody wait? | wake one
//! ```
//!
//! Must hold: whoever gives a thing back asks afterwards whether somebody waits, with a fence between. Then one of the
//! two sees the other: whoever waits sees the bit cleared, or is counted. A model checker goes through all orders
//! (`loom_tests::lending`).
//!
//! Called by `host`, which lends workspaces and evictors.

use crate::plant::{Plant, is_planted};
use uswap_sync::{AtomicU32, Ordering, fence};

/// Which of `count` things are lent; there are at most 32.
#[derive(Debug)]
pub struct Lending {
    /// Bit i: thing i is lent. What is slept on.
    lent: AtomicU32,
    waiters: AtomicU32,
    count: u32,
}

impl Lending {
    /// For so many things, none of which is lent.
    #[cfg(not(loom))]
    pub const fn new(count: u32) -> Lending {
        assert!(0 < count && count <= 32);
        Lending { lent: AtomicU32::new(0), waiters: AtomicU32::new(0), count }
    }

    /// Of so many things none is lent. Atomics of the model checker are not made for statics.
    #[cfg(loom)]
    pub fn new(count: u32) -> Lending {
        Lending { lent: AtomicU32::new(0), waiters: AtomicU32::new(0), count }
    }

    /// Takes one that is free; which.
    pub fn try_take(&self) -> Option<usize> {
        let mut seen = self.lent.load(Ordering::Relaxed);
        loop {
            let index = self.free_in(seen)?;
            // Acquire pairs with the Release in `give_back`: what was done with the thing is over.
            match self.lent.compare_exchange_weak(
                seen,
                seen | 1 << index,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(index as usize),
                Err(now) => seen = now,
            }
        }
    }

    fn free_in(&self, lent: u32) -> Option<u32> {
        Some(lent.trailing_ones()).filter(|index| *index < self.count)
    }

    /// Gives one back that was taken. True: somebody waits, and one who sleeps on [`word`](Lending::word) is to be
    /// woken.
    #[must_use]
    pub fn give_back(&self, index: usize) -> bool {
        // Release pairs with the Acquire in `try_take`.
        self.lent.fetch_and(!(1 << index), Ordering::Release);
        if !is_planted(Plant::NoFenceBehindGivingBack) {
            // Pairs with that in `begin_wait`.
            fence(Ordering::SeqCst);
        }
        self.waiters.load(Ordering::Relaxed) > 0
    }

    /// Somebody is going to wait: it sleeps while the answer is what is in [`word`](Lending::word), unless there is
    /// none, since one is free. [`end_wait`](Lending::end_wait) follows.
    pub fn begin_wait(&self) -> Option<u32> {
        self.waiters.fetch_add(1, Ordering::Relaxed);
        // Pairs with that in `give_back`.
        fence(Ordering::SeqCst);
        let seen = self.lent.load(Ordering::Relaxed);
        self.free_in(seen).is_none().then_some(seen)
    }

    /// It waits no more.
    pub fn end_wait(&self) {
        self.waiters.fetch_sub(1, Ordering::Relaxed);
    }

    /// What is slept on.
    pub fn word(&self) -> &AtomicU32 {
        &self.lent
    }

    /// Nothing is lent, and nobody waits. In the only thread of a forked child: there is nobody to pair with.
    pub fn reset(&self) {
        // A write copies the page.
        if self.lent.load(Ordering::Relaxed) != 0 || self.waiters.load(Ordering::Relaxed) != 0 {
            self.lent.store(0, Ordering::Relaxed);
            self.waiters.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::Lending;

    #[test]
    fn each_is_lent_once_until_it_comes_back_and_who_waits_is_told_of() {
        let lending = Lending::new(3);
        assert_eq!([(); 4].map(|()| lending.try_take()), [Some(0), Some(1), Some(2), None]);
        assert_eq!(lending.begin_wait(), Some(0b111));
        assert!(lending.give_back(1), "somebody waits");
        lending.end_wait();
        assert_eq!(lending.begin_wait(), None, "one is free");
        lending.end_wait();
        assert_eq!((lending.try_take(), lending.try_take()), (Some(1), None));
        assert!(!lending.give_back(0), "nobody waits");
    }

    #[test]
    fn all_thirty_two_can_be_lent() {
        let lending = Lending::new(32);
        assert!((0..32).all(|index| lending.try_take() == Some(index)));
        assert_eq!(lending.try_take(), None);
        assert_eq!(lending.begin_wait(), Some(u32::MAX));
        lending.reset();
        assert!(!lending.give_back(0), "nobody waits in the child");
        assert_eq!(lending.try_take(), Some(0));
    }
}
