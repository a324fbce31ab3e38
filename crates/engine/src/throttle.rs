//! Direct reclaim: a fault that needs memory while it is short first makes room, or waits for it.
//!
//! It never waits for ever: the program goes on over the budget rather than not at all. What reclaim did not get below
//! just now is the [`Floor`]: the faults of the next second wait only for what is above it. So memory that cannot be
//! given back (tables, page tables of the kernel, locked pages) costs one wait now and then, and not one for each
//! fault; and faster than 1/32 of the budget for each wait it does not grow.

use crate::engine::Engine;
use crate::platform::Platform;
use crate::reclaim::WAIT_NS;
use crate::workspace::Workspace;
use core::sync::atomic::{AtomicU64, Ordering};
use uswap_core::budget::Signal;
use uswap_core::counters::Counter;
use uswap_core::share::{Protection, Turn};
use uswap_units::limits::{THROTTLE_ROUNDS_MAX, WRITE_PATIENCE_NS};
use uswap_units::{Bytes, CHUNK_PAGES};

/// Whether a fault may still be put off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// Yes.
    Left,
    /// It has waited long enough.
    Over,
}

/// What a fault needs room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Room {
    /// Some pages: used memory is to be below the min watermark.
    Pages,
    /// A huge page: one is kept, or so many pages are free below it.
    Block(u32),
}

/// What a fault does when memory is short.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Throttle {
    /// It is served.
    GoOn,
    /// It is tried again later.
    PutOff,
}

/// So long a fault is put off if nothing is written.
const PUT_OFF_NS: u64 = 200_000_000;

/// When it is the turn of other processes to be reclaimed from, a fault waits so long for that, so often; then its own
/// process gives all the same. Their kswapds are awake: they look every 2 ms.
const OTHERS_NS: u64 = 500_000;
const OTHERS_FIRST: u32 = 2;
/// The same, if all that its own process has is protected. It waits longer while the file is written.
const ONLY_OTHERS_FIRST: u32 = 40;

/// So long a floor is believed.
const FLOOR_NS: u64 = 1_000_000_000;

/// Memory in use that reclaim did not get below.
#[derive(Default)]
pub(crate) struct Floor {
    bytes: AtomicU64,
    until_ns: AtomicU64,
}

impl Floor {
    /// Zero if it is not known, or was found too long ago.
    pub(crate) fn bytes(&self, now_ns: u64) -> Bytes {
        let believed = now_ns < self.until_ns.load(Ordering::Relaxed);
        Bytes(if believed { self.bytes.load(Ordering::Relaxed) } else { 0 })
    }
    /// A fault waited in vain while so much was used. A little more is let through, so that the next fault need not
    /// wait as well; not beyond the budget, if that is not reached.
    pub(crate) fn set(&self, used: Bytes, ram: Bytes, now_ns: u64) {
        let floor = used.0 + ram.0 / 32;
        self.bytes.store(if used <= ram { floor.min(ram.0) } else { floor }, Ordering::Relaxed);
        self.until_ns.store(now_ns + FLOOR_NS, Ordering::Relaxed);
    }
}

impl<P: Platform> Engine<'_, P> {
    /// Above the min watermark a handler first makes room, so that a thread that allocates faster than kswapd reclaims
    /// waits for it. A handler that may not wait puts the fault off while memory is above the budget. While the file is
    /// written, however slowly, there will be room: that is waited for longer.
    pub(crate) async fn throttle(
        &self,
        patience: Patience,
        room: Room,
        workspace: &mut Workspace,
    ) -> Throttle {
        let (budget, min) = (self.segment.budget(), self.watermarks().min);
        let began_ns = self.platform.now_ns();
        let floor = self.floor.bytes(began_ns);
        let enough = min.max(floor);
        let has_room = || match room {
            Room::Pages => budget.used() <= enough,
            Room::Block(pages) => {
                let kept = self.private.lock().arena.keeps_one();
                let new = if kept { 0 } else { u64::from(pages) };
                budget.used().0 + Bytes::of_pages(new).0 <= enough.0
            }
        };
        if has_room() {
            return Throttle::GoOn;
        }
        if room == Room::Pages {
            let _goes_first = self.drop_kept_block();
        }
        let (mut rounds, mut waits, mut waited_for_others) = (0, 0, 0);
        while rounds < THROTTLE_ROUNDS_MAX {
            if has_room() {
                break;
            }
            if patience == Patience::Over || budget.is_full() || budget.is_ending() || !self.may_evict() {
                break;
            }
            if !self.platform.may_wait() {
                let short = budget.used() > budget.ram().max(floor);
                return if short { Throttle::PutOff } else { Throttle::GoOn };
            }
            let seen = budget.signal_count(Signal::Room);
            let turn = self.turn();
            let (burden, protection) = match turn {
                Turn::Own { burden, protection, .. } => (burden, protection),
                Turn::Others { .. } | Turn::OnlyOthers => {
                    let has_only_protected = turn == Turn::OnlyOthers;
                    let enough = if has_only_protected { ONLY_OTHERS_FIRST } else { OTHERS_FIRST };
                    let now_ns = self.platform.now_ns();
                    let spares = has_only_protected
                        && budget.is_room_coming(now_ns)
                        && now_ns.saturating_sub(began_ns) < WRITE_PATIENCE_NS;
                    if waited_for_others < enough || spares {
                        waited_for_others += 1;
                        self.counters.add(Counter::WaitedForOthers, 1);
                        self.platform.wait(Signal::Room, seen, OTHERS_NS).await;
                        continue;
                    }
                    match turn {
                        Turn::Others { burden, protection } => (burden, protection),
                        _ => (self.record().account().holding.burden(Protection::Gives), Protection::Gives),
                    }
                }
            };
            self.counters.add(Counter::DirectReclaim, 1);
            let done = self.reclaim(CHUNK_PAGES / 2, workspace).await;
            self.settle(burden, protection, done);
            if done.pages == 0 {
                self.platform.wait(Signal::Room, seen, WAIT_NS).await;
            }
            let now_ns = self.platform.now_ns();
            // What does not compress takes as much room in the pool as before: what was stored helps only when it is
            // written.
            let will_help = done.no_room || done.pages > 0;
            let has_time = now_ns.saturating_sub(began_ns) < WRITE_PATIENCE_NS;
            if !(will_help && has_time && budget.is_room_coming(now_ns)) {
                rounds += 1;
                waits += u32::from(done.pages == 0);
            }
        }
        // Not if it reclaimed, and others were faster.
        if waits == THROTTLE_ROUNDS_MAX {
            self.counters.add(Counter::WaitedInVain, 1);
        }
        let used = budget.used();
        if used > enough && (waits > THROTTLE_ROUNDS_MAX / 2 || patience == Patience::Over) {
            self.floor.set(used, budget.ram(), self.platform.now_ns());
        }
        if used > budget.ram() {
            self.counters.add(Counter::ForcedOver, 1);
        }
        Throttle::GoOn
    }

    /// Whether a fault that was read so long ago has been put off long enough.
    pub(crate) fn is_late(&self, read_at_ns: u64) -> bool {
        let now_ns = self.platform.now_ns();
        let waited_ns = now_ns.saturating_sub(read_at_ns);
        let patience_ns =
            if self.segment.budget().is_room_coming(now_ns) { WRITE_PATIENCE_NS } else { PUT_OFF_NS };
        waited_ns >= patience_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_is_believed_for_a_while_and_leaves_the_budget_alone_while_that_holds() {
        let (floor, ram) = (Floor::default(), Bytes(3200));
        assert_eq!(floor.bytes(1), Bytes(0));
        floor.set(Bytes(3190), ram, 1);
        assert_eq!(floor.bytes(FLOOR_NS), ram, "what is within the budget lets nothing beyond it");
        assert_eq!(floor.bytes(1 + FLOOR_NS), Bytes(0));
        floor.set(Bytes(4000), ram, 1);
        assert_eq!(floor.bytes(2), Bytes(4100));
    }
}
