//! Waiting for the lock on a page word: queues that pages share by number, as Linux's folio wait table.
//!
//! The word has no room to say that somebody waits, so the queue says it. Who waits counts itself in and looks at the
//! word again before it sleeps; who unlocks looks at the count afterwards. Between the two steps of each is a fence, so
//! that one of them sees the other.
//!
//! Called by faults and by mapping calls, which wait outside of the gate, and by whoever unlocks a word.

use crate::plant::{Plant, is_planted};
use crate::world::Gate;
use uswap_core::page_word::PageSlot;
use uswap_sync::{AtomicU32, Ordering, fence};
use uswap_units::PageId;

/// Queues; pages next to each other have different ones.
const QUEUES: usize = 64;

struct Queue {
    /// Changes with each wake-up.
    turns: AtomicU32,
    waiters: AtomicU32,
}

/// The queues of a process.
pub(crate) struct WordQueues([Queue; QUEUES]);

impl WordQueues {
    pub(crate) const fn new() -> WordQueues {
        WordQueues([const { Queue { turns: AtomicU32::new(0), waiters: AtomicU32::new(0) } }; QUEUES])
    }

    fn queue(&self, page: PageId) -> &Queue {
        &self.0[page.0 as usize % QUEUES]
    }

    /// Waits until the word of `page` is unlocked, or for no reason. Not inside the gate.
    pub(crate) async fn wait(&self, gate: &impl Gate, page: PageId, slot: PageSlot<'_>) {
        let queue = self.queue(page);
        queue.waiters.fetch_add(1, Ordering::Relaxed);
        // Acquire pairs with the Release in `unlocked`: who sees the turn sees the word unlocked, and does not sleep.
        let seen = queue.turns.load(Ordering::Acquire);
        // Pairs with that in `unlocked`.
        fence(Ordering::SeqCst);
        if slot.load().is_locked() {
            gate.wait_while(&queue.turns, seen).await;
        }
        queue.waiters.fetch_sub(1, Ordering::Relaxed);
    }

    /// Words of these pages were unlocked.
    pub(crate) fn unlocked(&self, gate: &impl Gate, pages: impl Iterator<Item = PageId>) {
        // Pairs with that in `wait`.
        fence(Ordering::SeqCst);
        for page in pages {
            let queue = self.queue(page);
            if queue.waiters.load(Ordering::Relaxed) > 0 && !is_planted(Plant::LostWakeup) {
                queue.turns.fetch_add(1, Ordering::Release);
                gate.wake(&queue.turns);
            }
        }
    }
}
