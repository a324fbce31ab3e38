//! A queue of threads that wait for the lock on a page word, as Linux's folio wait table. Pages share queues.
//!
//! The page word has no room to say that somebody waits, so the queue says it.
//!
//! ```text
//! waits     waiters + 1 | seen = wakeups | fence | is the word still locked? | sleep while wakeups == seen
//! unlocks   unlock the word | fence | does somebody wait? | wakeups + 1 | wake
//! ```
//!
//! Must hold: whoever unlocks a word asks afterwards whether somebody waits, with [`behind_unlocking`] between. Then
//! one of the two sees the other: whoever waits sees the word unlocked, or is counted. And whoever has seen the new
//! wake-up sees the word unlocked, so that nobody sleeps for one that was. A model checker goes through all orders
//! (`loom_tests::waiting`).
//!
//! Called by `engine`, for faults and mapping calls that find a word locked, and for whoever unlocks one.

use crate::plant::{Plant, is_planted};
use uswap_sync::{AtomicU32, Ordering, fence};

/// A queue.
#[derive(Debug)]
pub struct WaitQueue {
    /// How many wake-ups there were: what is slept on.
    wakeups: AtomicU32,
    waiters: AtomicU32,
}

impl Default for WaitQueue {
    fn default() -> WaitQueue {
        WaitQueue { wakeups: AtomicU32::new(0), waiters: AtomicU32::new(0) }
    }
}

/// Between the unlocking of words and the question for each whether somebody [`waits`](WaitQueue::begin_wakeup).
pub fn behind_unlocking() {
    if !is_planted(Plant::NoFenceBehindUnlocking) {
        // Pairs with that in `begin`: whoever waits sees the word unlocked, or we see that it waits.
        fence(Ordering::SeqCst);
    }
}

impl WaitQueue {
    /// Somebody is going to wait: it looks at the word now, and sleeps while [`wakeups`](WaitQueue::wakeups) is the
    /// answer. [`end`](WaitQueue::end) follows.
    pub fn begin(&self) -> u32 {
        self.waiters.fetch_add(1, Ordering::Relaxed);
        // Acquire pairs with the Release in `begin_wakeup`: whoever sees the wake-up sees the word unlocked, and does
        // not sleep.
        let seen = self.wakeups.load(Ordering::Acquire);
        // Pairs with that in `behind_unlocking`.
        fence(Ordering::SeqCst);
        seen
    }

    /// It waits no more.
    pub fn end(&self) {
        self.waiters.fetch_sub(1, Ordering::Relaxed);
    }

    /// What is slept on.
    pub fn wakeups(&self) -> &AtomicU32 {
        &self.wakeups
    }

    /// Whether somebody waits, after [`behind_unlocking`]: then the wake-up is counted, and all who sleep on
    /// [`wakeups`](WaitQueue::wakeups) are to be woken.
    pub fn begin_wakeup(&self) -> bool {
        let somebody_waits = self.waiters.load(Ordering::Relaxed) > 0;
        if somebody_waits {
            // Release pairs with the Acquire in `begin`.
            self.wakeups.fetch_add(1, Ordering::Release);
        }
        somebody_waits
    }
}
