//! Takes messages: faults go to the caller's queue, events are processed at once, in order.

use crate::engine::Engine;
use crate::event::Removal;
use crate::fault::FaultOutcome;
use crate::later::Later;
use crate::platform::{Message, Platform, Touch};
use crate::throttle::Patience;
use crate::unfinished::{UNFINISHED_MAX, Unfinished};
use crate::workspace::Workspace;
use core::sync::atomic::Ordering;
use uswap_core::budget::Signal;
use uswap_core::counters::{Counter, FaultSource};
use uswap_units::PageId;
use uswap_units::limits::{FAULTS_DEFERRED_MAX, MESSAGES_PER_READ_MAX};

/// A fault that was read, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PendingFault {
    /// The page that a thread waits for.
    pub page: PageId,
    /// What for.
    pub touch: Touch,
    /// When its message was read.
    pub read_at_ns: u64,
    /// It was tried and put off.
    pub put_off: bool,
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
        const NONE: PendingFault =
            PendingFault { page: PageId(0), touch: Touch::Read, read_at_ns: 0, put_off: false };
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

/// So long a quiet moment is waited for, in which no event is unread, while events come. A program whose threads change
/// mappings without a pause must not keep its faults from being served for ever.
const BUSY_NS_MAX: u64 = 300_000_000;

/// Then one comes at least so often.
const BUSY_EVERY_NS: u64 = 20_000_000;

/// And so long when none comes: then a thread was stopped between its change and its event (others have its processor,
/// or it forks a large process), and all that is known of its pages is where they were.
const SILENT_NS_MAX: u64 = 5_000_000_000;

/// Rounds without an event, after which the processor is left to others for [`LONG_PAUSE_NS`] each time.
const SHORT_PAUSES: u32 = 100;
const LONG_PAUSE_NS: u64 = 100_000;

/// A wait for a moment in which no event is unread.
#[derive(Clone, Copy)]
struct QuietWait {
    began_ns: u64,
    /// When an event was read last. Faults tell nothing: their threads wait, and those that change mappings may be
    /// stopped.
    event_ns: u64,
    rounds_since: u32,
}

impl QuietWait {
    fn new(now_ns: u64) -> QuietWait {
        QuietWait { began_ns: now_ns, event_ns: now_ns, rounds_since: 0 }
    }
    /// Another round, in which an event was read or not.
    fn go_on(&mut self, has_event: bool, now_ns: u64) {
        if has_event {
            (self.event_ns, self.rounds_since) = (now_ns, 0);
        } else {
            self.rounds_since += 1;
        }
    }
    /// It has taken too long.
    fn is_over(&self, now_ns: u64) -> bool {
        let is_busy = now_ns - self.event_ns <= BUSY_EVERY_NS;
        now_ns - self.began_ns > if is_busy { BUSY_NS_MAX } else { SILENT_NS_MAX }
    }
}

impl<P: Platform> Engine<'_, P> {
    /// Reads what is there and processes the events among it. Returns how many messages were read.
    pub async fn take_messages(&self, faults: &mut FaultQueue, workspace: &mut Workspace) -> usize {
        self.platform.lock_exclusive().await;
        if self.event_in_progress.load(Ordering::Acquire) {
            // Another handler had to give the gate back in the middle of an event: nothing may be read before it is
            // done.
            self.platform.unlock_exclusive();
            self.platform.pause().await;
            return 0;
        }
        let mut unfinished = Unfinished::new();
        let (mut total, mut waited) = (0, None::<QuietWait>);
        loop {
            let mut has_event = false;
            if !faults.has_room() && self.platform.event_pending() {
                self.give_back(faults);
            }
            while faults.has_room() && unfinished.places() > 0 {
                // Each may need a place.
                let asked = unfinished.places().min(MESSAGES_PER_READ_MAX);
                let faults_before = faults.len();
                let count = self.read_once(asked, faults, &mut unfinished).await;
                has_event |= count > faults.len() - faults_before;
                total += count;
                // Events are behind the faults, and nothing can be filled before they are read: on until there is
                // nothing more.
                if count < asked {
                    break;
                }
            }
            let force = waited.as_mut().is_some_and(|waited| {
                let now_ns = self.platform.now_ns();
                waited.go_on(has_event, now_ns);
                waited.is_over(now_ns)
            });
            self.counters.add(Counter::EventForced, u64::from(force && unfinished.len() > 0));
            let unfinished_left = self.finish_removals(&mut unfinished, force, workspace).await;
            // Behind as many faults as fit there is an event: none of them can be served before it is read.
            let blocked = !faults.has_room() && !force && self.platform.event_pending();
            if !unfinished_left && !blocked {
                break;
            }
            let stuck = unfinished.places() == 0 && self.platform.event_pending();
            assert!(!stuck, "more threads change the same mappings at once than can be followed");
            // A change is under way in the kernel; its event will come. Nobody may evict or fill meanwhile.
            let waited = waited.get_or_insert_with(|| QuietWait::new(self.platform.now_ns()));
            if waited.rounds_since < SHORT_PAUSES {
                self.platform.pause().await;
            } else {
                let seen = self.segment.budget().signal_count(Signal::Room);
                self.platform.wait(Signal::Room, seen, LONG_PAUSE_NS).await;
            }
        }
        // The question costs a system call: not on the way of an ordinary fault.
        let noted = !self.private.lock().late_unmaps.is_empty();
        if noted && !self.platform.event_pending() {
            self.private.lock().late_unmaps.clear();
        }
        self.platform.unlock_exclusive();
        total
    }

    /// The queue is full of faults that wait for an event to be read, and events are read behind faults: their threads
    /// try again, and meanwhile we reach the event.
    fn give_back(&self, faults: &mut FaultQueue) {
        self.record().end_waits(faults.len() as u64);
        while let Some(fault) = faults.pop() {
            self.platform.wake(fault.page, 1);
        }
    }

    async fn read_once(&self, most: usize, faults: &mut FaultQueue, unfinished: &mut Unfinished) -> usize {
        let mut messages = [Message::Fault(PageId(0), Touch::Read); MESSAGES_PER_READ_MAX];
        let count = self.platform.read_messages(&mut messages[..most]);
        let read_at_ns = self.platform.now_ns();
        let is_fault = |message: &&Message| matches!(message, Message::Fault(..));
        self.record().begin_waits(messages[..count].iter().filter(is_fault).count() as u64);
        for (index, message) in messages[..count].iter().enumerate() {
            match *message {
                Message::Fault(page, touch) => {
                    faults.push(PendingFault { page, touch, read_at_ns, put_off: false });
                }
                Message::Fork(descriptor) => {
                    self.counters.add(Counter::EventFork, 1);
                    unfinished.leave(Removal::Fork(descriptor));
                }
                Message::Event(event) => {
                    let among_forks = self.settle_forks_before(unfinished, event).await;
                    let later = Later(&messages[index + 1..count]);
                    self.look_for_arrivals_moved_on(event, later);
                    self.follow_homeless(unfinished, event);
                    let turn = self.turn_of(unfinished, event, among_forks, later);
                    let mut left = self.process_event(event, &turn).await;
                    if let Removal::Unmapped(range) = left
                        && unfinished.places() < UNFINISHED_MAX / 2
                        && !unfinished.moves_through(range)
                    {
                        self.finish_forks(unfinished).await;
                        left = self.settle_unmapped(range, true);
                    }
                    unfinished.leave_before(left, turn.before);
                }
            }
        }
        count
    }

    /// Serves the faults of a queue once each; those that must wait stay in it. False when the process is gone.
    pub async fn serve_queue(&self, faults: &mut FaultQueue, workspace: &mut Workspace) -> bool {
        for _ in 0..faults.len() {
            let Some(fault) = faults.pop() else { break };
            // The clock is a system call: not for a fault that has just been read.
            let is_late = fault.put_off && self.is_late(fault.read_at_ns);
            let patience = if is_late { Patience::Over } else { Patience::Left };
            match self.serve_fault(fault.page, fault.touch, patience, workspace).await {
                FaultOutcome::Served(source) => self.note_served(fault, source),
                FaultOutcome::Retry => faults.push(PendingFault { put_off: true, ..fault }),
                FaultOutcome::Gone => return false,
            }
        }
        true
    }

    fn note_served(&self, fault: PendingFault, source: FaultSource) {
        let now_ns = self.platform.now_ns();
        let latency_ns = now_ns.saturating_sub(fault.read_at_ns);
        self.record().end_waits(1);
        self.record().stall().add(fault.read_at_ns, now_ns);
        self.counters.latency(source).record(latency_ns);
        self.counters.add(Counter::StallNs, latency_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn who_is_stopped_before_its_event_is_waited_for_longer_than_a_busy_program() {
        let mut busy = QuietWait::new(7);
        (0..=30).for_each(|step| busy.go_on(true, 7 + step * 10 * MS));
        assert!(!busy.is_over(7 + 300 * MS) && busy.is_over(8 + 300 * MS));

        let mut silent = QuietWait::new(7);
        silent.go_on(true, 7 + 100 * MS);
        (0..1000).for_each(|step| silent.go_on(false, 7 + 101 * MS + step));
        assert_eq!(silent.rounds_since, 1000);
        assert!(!silent.is_over(7 + 4999 * MS) && silent.is_over(8 + 5000 * MS));
    }
}
