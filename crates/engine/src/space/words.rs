//! Waiting for the lock on a page word: the queues of a process, which its pages share by number.
//!
//! Must hold: nobody waits inside the gate, where who has the lock may have to come; and whoever unlocks words says so
//! afterwards ([`wait_queue`]). Called by [`crate::fault`], [`crate::mapping`] and [`crate::reclaim`], which wait, and
//! by [`crate::evict`] and whoever else unlocks a word.

use crate::plant::{Plant, is_planted};
use crate::world::Gate;
use uswap_core::mm::MmRecord;
use uswap_core::page_word::PageWordRef;
use uswap_core::wait_queue::{self, WaitQueue};
use uswap_units::PageId;

/// Queues; pages next to each other have different ones.
const QUEUES: usize = 64;

/// The queues of a process.
pub(crate) struct WordQueues([WaitQueue; QUEUES]);

impl WordQueues {
    pub(crate) fn new() -> WordQueues {
        WordQueues(core::array::from_fn(|_| WaitQueue::default()))
    }

    fn queue(&self, page: PageId) -> &WaitQueue {
        &self.0[page.number() as usize % QUEUES]
    }

    /// Waits until the word of `page` is unlocked, or for no reason. Not inside the gate.
    pub(crate) async fn wait(&self, gate: &impl Gate, page: PageId, word_ref: PageWordRef<'_>) {
        let queue = self.queue(page);
        let seen = queue.begin();
        if word_ref.load().is_locked() {
            gate.wait_while(queue.wakeups(), seen).await;
        }
        queue.end();
    }

    /// Words of these pages were unlocked.
    pub(crate) fn unlocked(&self, gate: &impl Gate, pages: impl Iterator<Item = PageId>) {
        wait_queue::behind_unlocking();
        for page in pages {
            let queue = self.queue(page);
            if !is_planted(Plant::LostWakeup) && queue.begin_wakeup() {
                gate.wake(queue.wakeups());
            }
        }
    }
}

/// Waits as a thread that wants a page, and is seen not to run meanwhile.
pub(crate) async fn asleep(record: MmRecord<'_>, wait: impl Future<Output = ()>) {
    record.begin_sleep();
    wait.await;
    record.end_sleep();
}
