//! What reclaim did not get below just now: the faults of the next second wait only for what is above it.
//!
//! So memory that cannot be given back (tables, page tables of the kernel, locked pages) costs one wait now and then,
//! and not one for each fault. What each wait lets through is little at first, since room that comes late still comes,
//! and doubles while none comes at all, from 1/512 of the budget or 256 KiB up to 1/32.
//!
//! Must hold: a floor is at most 1/32 of the budget above what was used when a fault had waited in vain, and above the
//! budget only if more than that was used. Called by [`crate::reclaim`], through [`crate::space`].

use uswap_sync::{AtomicU32, AtomicU64, Ordering};
use uswap_units::Bytes;

/// How long a floor is believed.
const FLOOR_NS: u64 = 1_000_000_000;

/// A fault, and what is read ahead for it, takes so much. With less a program in a very small budget, most of which
/// cannot be given back, waits for nearly each of its pages.
const STEP_BYTES_MIN: u64 = 256 << 10;

/// Memory in use that reclaim did not get below.
#[derive(Default)]
pub(crate) struct Floor {
    bytes: AtomicU64,
    until_ns: AtomicU64,
    /// What the last wait let through.
    step: AtomicU64,
    /// The signals of room that were counted then.
    room: AtomicU32,
}

impl Floor {
    /// Zero if it is not known, or was found too long ago.
    pub(crate) fn bytes(&self, now_ns: u64) -> Bytes {
        Bytes::new(if self.is_believed(now_ns) { self.bytes.load(Ordering::Relaxed) } else { 0 })
    }
    /// Notes what is used now. If reclaim got below the floor after all, the floor is there now: room that came late
    /// must not be used up again without a wait.
    pub(crate) fn note_used(&self, used: Bytes) {
        let floor = self.bytes.load(Ordering::Relaxed);
        let lower = used.bytes() + self.step.load(Ordering::Relaxed);
        if lower < floor {
            self.bytes.fetch_min(lower, Ordering::Relaxed);
        }
    }
    fn is_believed(&self, now_ns: u64) -> bool {
        now_ns < self.until_ns.load(Ordering::Relaxed)
    }
    /// A fault waited in vain while so much was used. A little more is let through, so that the next fault need not
    /// wait as well; not beyond the budget, if that is not reached. `room`: the signals of room that were counted.
    pub(crate) fn set(&self, used: Bytes, ram: Bytes, room: u32, now_ns: u64) {
        let most = ram.bytes() / 32;
        let least = (ram.bytes() / 512).max(STEP_BYTES_MIN).min(most);
        let is_stuck = self.is_believed(now_ns) && self.room.load(Ordering::Relaxed) == room;
        let step = if is_stuck { (2 * self.step.load(Ordering::Relaxed)).clamp(least, most) } else { least };
        self.step.store(step, Ordering::Relaxed);
        self.room.store(room, Ordering::Relaxed);
        let floor = used.bytes() + step;
        self.bytes.store(if used <= ram { floor.min(ram.bytes()) } else { floor }, Ordering::Relaxed);
        self.until_ns.store(now_ns + FLOOR_NS, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAM: Bytes = Bytes::new(1 << 30);
    /// Above the budget.
    const USED: Bytes = Bytes::new(3 << 29);

    #[test]
    fn a_floor_is_believed_for_a_while_and_leaves_the_budget_alone_while_that_holds() {
        let floor = Floor::default();
        assert_eq!(floor.bytes(1), Bytes::ZERO);
        floor.set(RAM.minus(1), RAM, 0, 1);
        assert_eq!(floor.bytes(FLOOR_NS), RAM, "what is within the budget lets nothing beyond it");
        assert_eq!(floor.bytes(1 + FLOOR_NS), Bytes::ZERO);
        floor.set(USED, RAM, 0, 1 + FLOOR_NS);
        assert_eq!(floor.bytes(2 + FLOOR_NS), Bytes::new(USED.bytes() + RAM.bytes() / 512));
    }

    #[test]
    fn a_floor_falls_with_what_is_used_and_does_not_rise_with_it() {
        let floor = Floor::default();
        floor.set(USED, RAM, 0, 1);
        let step = RAM.bytes() / 512;
        for (used, then) in [
            (USED.bytes() + step / 2, USED.bytes()),
            (USED.bytes() - 1, USED.bytes() - 1),
            (RAM.bytes(), RAM.bytes()),
            (USED.bytes(), RAM.bytes()),
        ] {
            floor.note_used(Bytes::new(used));
            assert_eq!(floor.bytes(2).bytes(), then + step, "{used}");
        }
    }

    #[test]
    fn what_is_let_through_doubles_while_no_room_comes() {
        let floor = Floor::default();
        let step = |room, now_ns| {
            floor.set(USED, RAM, room, now_ns);
            floor.bytes(now_ns).bytes() - USED.bytes()
        };
        assert_eq!(
            [1, 2, 3].map(|now_ns| step(7, now_ns)),
            [RAM.bytes() / 512, RAM.bytes() / 256, RAM.bytes() / 128]
        );
        assert_eq!(step(8, 4), RAM.bytes() / 512, "some room came");
        let most = (5..20).map(|now_ns| step(8, now_ns)).max();
        assert_eq!(most, Some(RAM.bytes() / 32));
        assert_eq!(step(8, 20 + FLOOR_NS), RAM.bytes() / 512, "that was long ago");
    }

    #[test]
    fn a_very_small_budget_lets_some_pages_through_at_once() {
        let (floor, ram, used) = (Floor::default(), Bytes::new(8 << 20), Bytes::new(9 << 20));
        floor.set(used, ram, 0, 1);
        assert_eq!(floor.bytes(2).bytes() - used.bytes(), 256 << 10);
        floor.set(used, ram, 0, 3);
        assert_eq!(floor.bytes(4).bytes() - used.bytes(), ram.bytes() / 32, "which is the most");
    }
}
