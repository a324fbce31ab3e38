//! Looks through all words of a zone and compares what they say: for tests.

use super::block::Block;
use super::frame::{Frame, Holder, Mobility, Used};
use super::{Level, ORDER_MAX, ORDERS, Zone, block_of, free_list};
use crate::marks::{Mark, Reach};
use std::collections::BTreeSet;
use std::vec::Vec;

impl Zone<'_> {
    /// All runs, as (first frame, frames, what it is).
    fn runs(&self) -> Vec<(u32, Frame)> {
        let mut runs = Vec::new();
        let mut at = 0;
        while at < self.shape.frames() {
            let frame = self.frame(at);
            assert_ne!(frame, Frame::Inside, "frame {at} is in no run");
            assert!(at.is_multiple_of(frame.frames()));
            for inside in at + 1..at + frame.frames() {
                assert_eq!(self.frame(inside), Frame::Inside, "frame {inside} is in two runs");
            }
            runs.push((at, frame));
            at += frame.frames();
        }
        runs
    }

    fn list(&self, list: usize) -> BTreeSet<u32> {
        let nodes: Vec<u32> =
            core::iter::successors(self.free.first(list), |&at| self.free.next(at)).collect();
        assert_eq!(nodes.len(), self.free.count(list) as usize);
        assert_eq!(nodes.last().copied(), self.free.last(list));
        nodes.into_iter().collect()
    }

    /// Invariants 21 and 22, and those of blocks and lists.
    pub(crate) fn check(&self) {
        let runs = self.runs();
        let mut free = 0;
        for (at, frame) in &runs {
            if let Frame::Free { order } = *frame {
                free += 1 << order;
                let other = self.frame(at ^ (1 << order));
                assert!(order == ORDER_MAX || other != Frame::Free { order }, "{at} could be larger");
            }
        }
        assert_eq!(self.free_frames(), free);
        for order in 0..ORDERS as u32 {
            for kind in Mobility::ALL {
                let is_on = |&&(at, frame): &&(u32, Frame)| {
                    frame == (Frame::Free { order }) && self.block(block_of(at)).mobility == kind
                };
                let wanted: BTreeSet<u32> = runs.iter().filter(is_on).map(|&(at, _)| at).collect();
                assert_eq!(self.list(free_list(order, kind)), wanted);
            }
        }
        let at_hand = runs.iter().filter(|(_, frame)| matches!(frame, Frame::AtHand { .. })).count();
        assert_eq!(self.frames_at_hand(), at_hand as u64);
        (0..self.shape.blocks).for_each(|block| self.check_block(block, &runs));
        self.check_marks();
    }

    fn check_block(&self, number: u32, runs: &[(u32, Frame)]) {
        let (mut free, mut pinned) = (0, 0);
        for &(_, frame) in runs.iter().filter(|&&(at, _)| block_of(at) == number) {
            match frame {
                Frame::Free { order } => free += 1 << order,
                Frame::Used(Used { order, mobility, .. }) if mobility != Mobility::Movable => {
                    pinned += 1 << order
                }
                Frame::AtHand { mobility } if mobility != Mobility::Movable => pinned += 1,
                Frame::Inside | Frame::AtHand { .. } | Frame::Used(_) => (),
            }
        }
        let block @ Block { source, .. } = self.block(number);
        assert_eq!((block.free, block.pinned), (free, pinned), "block {number}");
        assert_eq!(source, block.source_wanted().filter(|_| !self.is_one_run(number)), "block {number}");
        let lists: Vec<usize> = (0..super::SOURCES)
            .filter(|&list| {
                core::iter::successors(self.sources.first(list), |&at| self.sources.next(at))
                    .any(|at| at == number)
            })
            .collect();
        assert_eq!(lists, Vec::from_iter(source));
    }

    /// Invariant 22: who is above a mark is above each lower one, and with a smaller order.
    fn check_marks(&self) {
        for class in 0..super::ZONES_MAX {
            for order in 0..ORDERS as u32 {
                let is_above = |mark, order| self.is_above(Level::of(mark, order, class));
                assert!(!is_above(Mark::High, order) || is_above(Mark::Low, order));
                assert!(!is_above(Mark::Low, order) || is_above(Mark::Min, order));
                assert!(order == 0 || !is_above(Mark::Min, order) || is_above(Mark::Min, order - 1));
                let least = Level { reach: Reach::Nothing, ..Level::of(Mark::Min, order, class) };
                assert!(!is_above(Mark::Min, order) || self.is_above(least));
            }
        }
    }

    /// Invariant 25: nothing is isolated, and no block is closed.
    pub(crate) fn check_nothing_is_isolated(&self) {
        for (at, frame) in self.runs() {
            if let Frame::Used(used) = frame {
                assert!(matches!(used.holder, Holder::User | Holder::Ticket), "frame {at}: {used:?}");
                assert!(!used.is_given_back);
            }
        }
        assert!((0..self.shape.blocks).all(|block| !self.block(block).is_source));
    }
}
