//! Empties blocks by moving what is in them into holes of others, so that large runs become free.
//!
//! Linux has two scanners that walk through the zone, one for what to move and one for room, until they meet. Here the
//! lists of blocks say which block takes the fewest moves ([`run`]), and the lists of the smallest free runs where the
//! holes are; nothing is looked through twice. A block that is being emptied is closed: its free frames are taken off
//! the lists, so that nobody fills it meanwhile, and all of it becomes free at once, for who has a
//! [ticket](super::tickets).
//!
//! [`rules`] decides from numbers whether it is worth while, and when not to try again; [`daemon`] is what kcompactd
//! does. Nothing is moved here: [`run::Run`] says what should be moved where, and the caller says whether it was.
//!
//! Must hold: a page that is being moved has both its frames until the caller has said how that went; after a run,
//! however it ended, nothing is isolated and no block is closed.

pub mod daemon;
pub mod rules;
pub mod run;
pub mod scan;

use super::block::{Block, SKIPPED};
use super::frame::{Frame, Holder, Mobility, Used};
use super::{BLOCK_FRAMES, DEFERRAL, MUST_FORGET, ORDER_MAX, Zone, block_of, free_list};
use crate::FrameId;
use rules::Deferral;

/// A page, or a folio, that is to be moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// Where it is.
    pub from: FrameId,
    /// Where it shall be.
    pub to: FrameId,
    /// It has `1 << order` frames.
    pub order: u32,
}

/// How a move went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moved {
    /// The content is in the new place, and its owner knows.
    Yes,
    /// It could not be moved now: locked, or being written.
    Busy,
}

/// Holes that are looked at in each list before the next one: what is tried in vain goes to the end of the list.
const HOLES_TRIED_MAX: u32 = 32;

impl Zone<'_> {
    /// The block that takes the fewest moves to empty.
    fn cheapest_source(&self) -> Option<u32> {
        (0..SKIPPED).find_map(|list| self.sources.first(list))
    }
    /// Whether there is a block that might be emptied.
    pub fn has_source(&self) -> bool {
        (0..SKIPPED).any(|list| self.sources.count(list) > 0)
    }
    /// Blocks that were tried in vain and are left alone.
    pub fn skipped_blocks(&self) -> u32 {
        self.sources.count(SKIPPED)
    }

    /// Blocks that were tried in vain may be tried again.
    pub fn forget_skipped(&self) {
        while let Some(block) = self.sources.first(SKIPPED) {
            self.change_block(block, |block| block.is_skipped = false);
        }
        self.set(MUST_FORGET, 0);
    }
    /// The next time that kswapd goes to sleep that shall happen.
    pub fn forget_skipped_soon(&self) {
        self.set(MUST_FORGET, 1);
    }
    /// kswapd goes to sleep: what stood in the way may be gone.
    pub fn kswapd_sleeps(&self) {
        if self.get(MUST_FORGET) != 0 {
            self.forget_skipped();
        }
    }
    /// When to try again.
    pub fn deferral(&self) -> Deferral {
        Deferral::of(self.get(DEFERRAL))
    }
    /// Notes that.
    pub fn set_deferral(&self, deferral: Deferral) {
        self.set(DEFERRAL, deferral.word());
    }

    /// From here on nobody else gets frames of the block: what is free in it leaves the lists. Returns how many words
    /// were looked at.
    fn close(&self, block: u32) -> u64 {
        self.change_block(block, |block| block.is_source = true);
        let start = block * BLOCK_FRAMES;
        let (mut at, mut looked_at) = (start, 0);
        while at < start + BLOCK_FRAMES {
            let frame = self.frame(at);
            if let Frame::Free { order } = frame {
                self.hollow_free(at, order);
            }
            at += frame.frames();
            looked_at += 1;
        }
        looked_at
    }
    /// A free run of a closed block leaves the lists.
    fn hollow_free(&self, at: u32, order: u32) {
        self.take_at(at, order, Holder::Hollow);
    }
    /// All that is hollow in a closed block becomes free. Returns whether the whole block is.
    fn open_block(&self, block: u32) -> bool {
        self.drain_block(block);
        let start = block * BLOCK_FRAMES;
        let mut at = start;
        while at < start + BLOCK_FRAMES {
            let frame = self.frame(at);
            if let Frame::Used(used @ Used { holder: Holder::Hollow, .. }) = frame {
                self.free_run(at, used);
            }
            at += frame.frames();
        }
        self.change_block(block, |block| block.is_source = false);
        self.block(block).free == BLOCK_FRAMES
    }

    /// A hole for a folio of this order that leaves a block with so many used frames: in a much fuller one or one that
    /// cannot be emptied, if there is such a hole; else in one that is not emptier. Counts what it looks at.
    fn take_hole(&self, order: u32, used: u32, looked_at: &mut u64) -> Option<u32> {
        let halfway = used.midpoint(BLOCK_FRAMES);
        let in_fuller = |block: Block| block.used() >= halfway || block.pinned > 0 || block.is_skipped;
        self.take_hole_in(order, looked_at, in_fuller)
            .or_else(|| self.take_hole_in(order, looked_at, |block| block.used() >= used))
    }

    fn take_hole_in(&self, order: u32, looked_at: &mut u64, suits: impl Fn(Block) -> bool) -> Option<u32> {
        for order_found in order..ORDER_MAX {
            let list = free_list(order_found, Mobility::Movable);
            for _ in 0..HOLES_TRIED_MAX.min(self.free.count(list)) {
                let at = self.free.first(list)?;
                *looked_at += 1;
                let block = self.block(block_of(at));
                if !block.is_source && suits(block) {
                    self.take_at(at, order, Holder::Arriving);
                    return Some(at);
                }
                self.free.remove(list, at);
                self.free.push_back(list, at);
            }
        }
        None
    }

    /// A folio stays where it is until the caller says that it was moved.
    fn isolate(&self, at: u32, used: Used) {
        self.store_frame(at, Frame::Used(Used { holder: Holder::Leaving, ..used }));
    }

    /// The caller has tried the move. What its owner gave back meanwhile is not kept in either place.
    pub fn finish_move(&self, moved: Move, how: Moved) {
        let (from, to) = (self.at(moved.from), self.at(moved.to));
        let (Frame::Used(left), Frame::Used(arrived)) = (self.frame(from), self.frame(to)) else {
            panic!("both frames of {moved:?} are used");
        };
        assert_eq!((left.holder, arrived.holder), (Holder::Leaving, Holder::Arriving));
        let is_there = how == Moved::Yes && !left.is_given_back;
        if is_there {
            self.store_frame(to, Frame::Used(Used { holder: Holder::User, ..arrived }));
        } else {
            self.free_run(to, arrived);
        }
        let holder = if is_there || left.is_given_back { Holder::Hollow } else { Holder::User };
        self.store_frame(from, Frame::Used(Used { holder, is_given_back: false, ..left }));
    }
}
