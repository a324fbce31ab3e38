//! What a kind does that has no free run left: it takes a block of another kind over, or a run out of one.
//!
//! First it goes where kinds are mixed already. Then the largest run is looked at: where much is free, the whole block
//! changes its kind, and the next small requests stay together. Blocks in which kinds are mixed can never be emptied;
//! so each time the marks rise by a block (`marks::boosted`), and kswapd makes more room before it happens again.

use super::frame::{Frame, Holder, Mobility};
use super::marks::boosted;
use super::{
    BLOCK_FRAMES, BOOST, CLAIMED, End, IS_SPARING, ORDER_MAX, ORDERS, STOLEN, Zone, block_of, free_list,
};

/// From this order on a run is worth looking at its block. Half of that of a block, as Linux.
const CLAIM_ORDER_MIN: u32 = ORDER_MAX / 2;

/// Free runs of each order that are looked at for a block that is mixed already.
const LOOKS_MAX: u32 = 32;

impl Zone<'_> {
    pub(super) fn take_of_others(&self, order: u32, kind: Mobility) -> Option<u32> {
        self.join_others(order, kind).or_else(|| self.claim(order, kind)).or_else(|| self.steal(order, kind))
    }

    pub(super) fn is_sparing(&self) -> bool {
        self.get(IS_SPARING) != 0
    }

    /// Takes a small run of a block that moves, but has something in it that does not, and so can never be emptied.
    /// Runs that are looked at in vain go to the end of their list.
    fn join_others(&self, order: u32, kind: Mobility) -> Option<u32> {
        if !self.is_sparing() || kind == Mobility::Movable || order >= CLAIM_ORDER_MIN {
            return None;
        }
        for found in order..ORDER_MAX {
            let list = free_list(found, Mobility::Movable);
            for _ in 0..LOOKS_MAX.min(self.free.count(list)) {
                let at = self.free.first(list)?;
                if self.block(block_of(at)).pinned > 0 {
                    self.take_out(at, found, Mobility::Movable);
                    self.split(at, found, order, Mobility::Movable);
                    self.use_run(at, order, kind, Holder::User);
                    self.set(STOLEN, self.get(STOLEN) + 1);
                    return Some(at);
                }
                self.free.remove(list, at);
                self.free.push_back(list, at);
            }
        }
        None
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
        if high > 0 && self.is_sparing() {
            self.set(BOOST, boosted(self.boost(), high, u64::from(self.shape.blocks)));
        }
    }
}
