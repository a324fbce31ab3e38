//! What a kind does that has no free run left: it takes a block of another kind over, or a run out of one.
//!
//! The largest run is looked at first: where much is free, the whole block changes its kind, and the next small requests stay together. Blocks in which kinds
//! are mixed can never be emptied; so each time the marks rise by a block (`marks::boosted`), and kswapd makes more room before it happens again.

use super::frame::{Frame, Mobility};
use super::marks::boosted;
use super::{
    BLOCK_FRAMES, BOOST, BOOSTS, CLAIMED, End, ORDER_MAX, ORDERS, STOLEN, Zone, block_of, free_list,
};

/// From this order on a run is worth looking at its block. Half of that of a block, as Linux.
const CLAIM_ORDER_MIN: u32 = ORDER_MAX / 2;

impl Zone<'_> {
    pub(super) fn take_of_others(&self, order: u32, kind: Mobility) -> Option<u32> {
        self.claim(order, kind).or_else(|| self.steal(order, kind))
    }

    /// Takes a block over that has a large free run, and the run out of it.
    fn claim(&self, order: u32, kind: Mobility) -> Option<u32> {
        // What moves does no harm elsewhere: for small runs it is not worth a block.
        let least = if kind == Mobility::Movable { order.max(CLAIM_ORDER_MIN) } else { order };
        for found in (least..ORDERS as u32).rev() {
            for victim in kind.victims() {
                if let Some(at) = self.free.first(free_list(found, victim))
                    && self.claim_block(block_of(at), kind)
                {
                    self.set(CLAIMED, self.get(CLAIMED) + 1);
                    return self.take_own(order, kind, kind);
                }
            }
        }
        None
    }

    /// The block changes its kind, if half of it is free or used by what goes with `kind`.
    fn claim_block(&self, number: u32, kind: Mobility) -> bool {
        let block = self.block(number);
        if block.free < BLOCK_FRAMES {
            self.raise_boost();
            let alike = match (kind, block.mobility) {
                (Mobility::Movable, _) => block.movable(),
                (_, Mobility::Movable) => block.pinned,
                (Mobility::Unmovable, _) | (Mobility::Reclaimable, _) => 0,
            };
            if block.free + alike < BLOCK_FRAMES / 2 {
                return false;
            }
        }
        let start = number * BLOCK_FRAMES;
        let mut at = start;
        while at < start + BLOCK_FRAMES {
            let frame = self.frame(at);
            if let Frame::Free { order } = frame {
                self.take_out(at, order, block.mobility);
                self.put_free(at, order, kind, End::First);
            }
            at += frame.frames();
        }
        self.change_block(number, |block| block.mobility = kind);
        true
    }

    /// Takes the smallest run that is large enough out of a block of another kind.
    fn steal(&self, order: u32, kind: Mobility) -> Option<u32> {
        let smallest = |victim: &Mobility| {
            (order..ORDERS as u32).find(|&order| self.free.count(free_list(order, *victim)) > 0)
        };
        let found = kind.victims().into_iter().filter(|victim| smallest(victim).is_some());
        let victim = found.min_by_key(smallest)?;
        self.set(STOLEN, self.get(STOLEN) + 1);
        self.take_own(order, victim, kind)
    }

    fn raise_boost(&self) {
        // A zone without marks is not watched by kswapd.
        let high = self.marks().high;
        if high > 0 && self.get(BOOSTS) != 0 {
            self.set(BOOST, boosted(self.boost(), high, u64::from(self.shape.blocks)));
        }
    }
}
