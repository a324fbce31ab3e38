//! Takes messages: faults go to the caller's queue, events are processed at once, in order.

use crate::engine::Engine;
use crate::event::Removal;
use crate::fault::FaultOutcome;
use crate::plant::{Plant, is_planted};
use crate::platform::{Message, Platform};
use crate::workspace::Workspace;
use core::sync::atomic::Ordering;
use uswap_core::counters::{Counter, FaultSource};
use uswap_units::limits::{FAULTS_DEFERRED_MAX, MESSAGES_PER_READ_MAX};
use uswap_units::{PageId, PageRange};

/// A fault that was read, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PendingFault {
    /// The page that a thread waits for.
    pub page: PageId,
    /// When its message was read.
    pub read_at_ns: u64,
}

/// Faults that one handler has read and not served yet. A fixed array: nothing allocates on the fault path.
#[derive(Debug)]
pub struct FaultQueue {
    faults: [PendingFault; FAULTS_DEFERRED_MAX],
    length: usize,
}

impl FaultQueue {
    /// An empty queue.
    pub const fn new() -> FaultQueue {
        const NONE: PendingFault = PendingFault { page: PageId(0), read_at_ns: 0 };
        FaultQueue { faults: [NONE; FAULTS_DEFERRED_MAX], length: 0 }
    }
    /// Faults in it.
    pub fn len(&self) -> usize {
        self.length
    }
    /// No fault is in it.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
    /// True when one more read of messages fits.
    pub fn has_room(&self) -> bool {
        self.length + MESSAGES_PER_READ_MAX <= FAULTS_DEFERRED_MAX
    }
    /// Adds a fault at the end.
    pub fn push(&mut self, fault: PendingFault) {
        self.faults[self.length] = fault;
        self.length += 1;
    }
    /// Takes the first fault.
    pub fn pop(&mut self) -> Option<PendingFault> {
        if self.length == 0 {
            return None;
        }
        let first = self.faults[0];
        self.faults.copy_within(1..self.length, 0);
        self.length -= 1;
        Some(first)
    }
}

impl Default for FaultQueue {
    fn default() -> Self {
        Self::new()
    }
}

/// Removed ranges whose present pages wait for another event to be read.
const UNFINISHED_MAX: usize = MESSAGES_PER_READ_MAX;

impl<P: Platform> Engine<'_, P> {
    /// Reads what is there and processes the events among it. Returns how many messages were read.
    pub async fn take_messages(&self, faults: &mut FaultQueue, workspace: &mut Workspace) -> usize {
        self.platform.lock_exclusive().await;
        if self.event_in_progress.load(Ordering::Acquire) {
            // Another handler had to give the gate back in the middle of an event: nothing may be read before it is done.
            self.platform.unlock_exclusive();
            self.platform.pause().await;
            return 0;
        }
        let mut unfinished: [Option<PageRange>; UNFINISHED_MAX] = [None; UNFINISHED_MAX];
        let mut total = 0;
        loop {
            if faults.has_room() && unfinished.iter().any(Option::is_none) {
                total += self.read_once(faults, &mut unfinished, workspace).await;
            }
            if !self.finish_removals(&mut unfinished) {
                break;
            }
            // An unmapping is under way in the kernel; its event will come. Nobody may evict or fill meanwhile.
            self.platform.pause().await;
        }
        self.platform.unlock_exclusive();
        total
    }

    async fn read_once(
        &self,
        faults: &mut FaultQueue,
        unfinished: &mut [Option<PageRange>; UNFINISHED_MAX],
        workspace: &mut Workspace,
    ) -> usize {
        let mut messages = [Message::Fault(PageId(0)); MESSAGES_PER_READ_MAX];
        let room = unfinished.iter().filter(|range| range.is_none()).count();
        let count = self.platform.read_messages(&mut messages[..room]);
        let read_at_ns = self.platform.now_ns();
        for message in &messages[..count] {
            match *message {
                Message::Fault(page) => faults.push(PendingFault { page, read_at_ns }),
                Message::Fork(descriptor) => {
                    self.counters.add(Counter::EventFork, 1);
                    let child = self.clone_for_child();
                    self.platform.child_forked(descriptor, child);
                }
                Message::Event(event) => {
                    if let Removal::Unfinished(range) = self.process_event(event, workspace).await {
                        let place = unfinished.iter_mut().find(|place| place.is_none());
                        *place.expect("no more messages were read than there were places") = Some(range);
                    }
                }
            }
        }
        count
    }

    /// Goes on with removed ranges. True while one is still unfinished.
    fn finish_removals(&self, unfinished: &mut [Option<PageRange>; UNFINISHED_MAX]) -> bool {
        let mut left = false;
        for place in unfinished {
            if let Some(range) = *place {
                *place = match self.remove_present(range) {
                    Removal::Done => None,
                    Removal::Unfinished(rest) => Some(rest),
                };
                left |= place.is_some();
            }
        }
        left
    }

    /// Serves the faults of a queue once each; those that must wait stay in it. False when the process is gone.
    pub async fn serve_queue(&self, faults: &mut FaultQueue, workspace: &mut Workspace) -> bool {
        for _ in 0..faults.len() {
            let Some(fault) = faults.pop() else { break };
            match self.serve_fault(fault.page, workspace).await {
                FaultOutcome::Served(source) => self.note_served(fault, source),
                FaultOutcome::Retry if is_planted(Plant::LostWakeup) => (),
                FaultOutcome::Retry => faults.push(fault),
                FaultOutcome::Gone => return false,
            }
        }
        true
    }

    fn note_served(&self, fault: PendingFault, source: FaultSource) {
        let latency_ns = self.platform.now_ns().saturating_sub(fault.read_at_ns);
        self.counters.latency(source).record(latency_ns);
        self.counters.add(Counter::StallNs, latency_ns);
    }
}
