//! What reclaim did not get below just now: the faults of the next second wait only for what is above it.
//!
//! So memory that cannot be given back (tables, page tables of the kernel, locked pages) costs one wait now and then,
//! and not one for each fault; and faster than 1/32 of the budget for each wait it does not grow.

use uswap_sync::{AtomicU64, Ordering};
use uswap_units::Bytes;

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
