//! Takes runs and gives them back: the smallest that is large enough is split, and what is free again is joined with
//! its other half.
//!
//! A run of order `o` at frame `f` has its other half at `f ^ (1 << o)`. Runs do not leave their block, so a joined run
//! stays on lists of one kind.

use super::frame::{Frame, Holder, Mobility, Used};
use super::{BLOCK_FRAMES, End, FREE, ORDER_MAX, ORDERS, Zone, block_of, free_list};
use crate::FrameId;

impl Zone<'_> {
    /// Takes an aligned run of `1 << order` frames, whatever the marks say; of another kind, if there is none of this
    /// one.
    pub fn take(&self, order: u32, kind: Mobility) -> Option<FrameId> {
        assert!(order <= ORDER_MAX);
        let at = self.take_own(order, kind, kind).or_else(|| self.take_of_others(order, kind))?;
        Some(self.id(at))
    }

    /// From the lists of `list`, for use as `kind`.
    pub(super) fn take_own(&self, order: u32, list: Mobility, kind: Mobility) -> Option<u32> {
        let of_order = |order| self.free.first(free_list(order, list)).map(|at| (at, order));
        let (at, found) = (order..ORDERS as u32).find_map(of_order)?;
        self.take_out(at, found, list);
        self.split(at, found, order, list);
        self.use_run(at, order, kind, Holder::User);
        Some(at)
    }

    /// A free run leaves its list. Nobody has it then.
    pub(super) fn take_out(&self, at: u32, order: u32, list: Mobility) {
        self.free.remove(free_list(order, list), at);
        self.store_frame(at, Frame::Inside);
    }
    pub(super) fn put_free(&self, at: u32, order: u32, list: Mobility, end: End) {
        self.store_frame(at, Frame::Free { order });
        match end {
            End::First => self.free.push_front(free_list(order, list), at),
            End::Last => self.free.push_back(free_list(order, list), at),
        }
    }
    /// Of a run of order `from` the first part of order `to` stays in hand.
    pub(super) fn split(&self, at: u32, from: u32, to: u32, list: Mobility) {
        for order in (to..from).rev() {
            self.put_free(at + (1 << order), order, list, End::First);
        }
    }
    /// A run in hand is used.
    pub(super) fn use_run(&self, at: u32, order: u32, kind: Mobility, holder: Holder) {
        let used = Used { order, mobility: kind, holder, is_given_back: false };
        self.store_frame(at, Frame::Used(used));
        self.set(FREE, self.free_frames() - (1 << order));
        self.change_block(block_of(at), |block| {
            block.free -= 1 << order;
            if kind != Mobility::Movable {
                block.pinned += 1 << order;
            }
        });
    }

    /// Gives back a run that the caller had from `take`. One that is just being moved is free when that is over.
    pub fn give_back(&self, frame: FrameId) {
        let at = self.at(frame);
        let Frame::Used(used) = self.frame(at) else { panic!("{frame:?} is given back and nobody has it") };
        match used.holder {
            Holder::User => self.free_run(at, used),
            Holder::Arriving | Holder::Ticket | Holder::Hollow => panic!("{frame:?} is not the caller's"),
            Holder::Leaving => {
                assert!(!used.is_given_back, "{frame:?} is given back twice");
                self.store_frame(at, Frame::Used(Used { is_given_back: true, ..used }));
            }
        }
    }

    /// A used run is free.
    pub(super) fn free_run(&self, at: u32, used: Used) {
        let block = block_of(at);
        self.store_frame(at, Frame::Inside);
        let list = self.block(block).mobility;
        self.join(at, used.order, list);
        self.set(FREE, self.free_frames() + (1 << used.order));
        self.change_block(block, |block| {
            block.free += 1 << used.order;
            if used.mobility != Mobility::Movable {
                block.pinned -= 1 << used.order;
            }
            // What left may be what was in the way.
            if block.free == BLOCK_FRAMES {
                block.is_skipped = false;
            }
        });
    }

    /// Puts a run in hand on its list, as large as it can be.
    pub(super) fn join(&self, at: u32, order: u32, list: Mobility) {
        let (mut at, mut order) = (at, order);
        while order < ORDER_MAX && self.frame(at ^ (1 << order)) == (Frame::Free { order }) {
            self.take_out(at ^ (1 << order), order, list);
            at &= !(1 << order);
            order += 1;
        }
        // In a block that is free nothing is mixed: whoever needs it next has it.
        let list = if order == ORDER_MAX && self.is_sparing() {
            self.change_block(block_of(at), |block| block.mobility = Mobility::Movable);
            Mobility::Movable
        } else {
            list
        };
        // One that will soon be joined is taken last.
        let may_grow = order + 1 < ORDER_MAX
            && self.frame((at & !(1 << order)) ^ (2 << order)) == (Frame::Free { order: order + 1 });
        self.put_free(at, order, list, if may_grow { End::Last } else { End::First });
    }

    /// A free run of the block, of at least this order, is taken out of it for compaction.
    pub(super) fn take_at(&self, at: u32, order: u32, holder: Holder) {
        let Frame::Free { order: found } = self.frame(at) else { panic!("a run on a list is free") };
        let list = self.block(block_of(at)).mobility;
        self.take_out(at, found, list);
        self.split(at, found, order, list);
        self.use_run(at, order, Mobility::Movable, holder);
    }
}
