//! Single frames at hand of each CPU: most requests and returns touch two lists and no block.
//!
//! They come from the buddy lists and go back there some at a time. Until then they cannot be joined, so compaction
//! gives them all back when it has emptied a block.

use super::frame::{Frame, Holder, Mobility, Used};
use super::{KINDS, Zone, block_of};
use crate::FrameId;

/// Frames that come or go at once. Linux has 63 for zones of more than 512 MiB; with 32, two CPUs and three kinds keep
/// less than a block.
pub const BATCH: u32 = 32;
/// Frames that a CPU keeps of a kind.
pub const AT_HAND_MAX: u32 = 3 * BATCH;

impl Zone<'_> {
    fn at_hand_list(&self, cpu: u32, kind: Mobility) -> usize {
        (cpu % self.shape.cpus) as usize * KINDS + kind as usize
    }

    /// Takes a single frame from those at hand of this CPU, after fetching some if there are none.
    pub fn take_at_hand(&self, cpu: u32, kind: Mobility) -> Option<FrameId> {
        let list = self.at_hand_list(cpu, kind);
        if self.at_hand.first(list).is_none() {
            for _ in 0..BATCH {
                let Some(frame) = self.take(0, kind) else { break };
                let at = self.at(frame);
                self.store_frame(at, Frame::AtHand { mobility: kind });
                self.at_hand.push_back(list, at);
            }
        }
        let at = self.at_hand.first(list)?;
        self.at_hand.remove(list, at);
        let used = Used { order: 0, mobility: kind, holder: Holder::User, is_given_back: false };
        self.store_frame(at, Frame::Used(used));
        Some(self.id(at))
    }

    /// Gives back a run; a single frame stays at hand of this CPU.
    pub fn give_back_at_hand(&self, cpu: u32, frame: FrameId) {
        let at = self.at(frame);
        let used = match self.frame(at) {
            Frame::Used(used) if used.order == 0 && used.holder == Holder::User => used,
            _ => return self.give_back(frame),
        };
        let list = self.at_hand_list(cpu, used.mobility);
        self.store_frame(at, Frame::AtHand { mobility: used.mobility });
        self.at_hand.push_front(list, at);
        if self.at_hand.count(list) > AT_HAND_MAX {
            // Those that lie here longest: the others are in the caches of the CPU.
            (0..BATCH).for_each(|_| self.return_one(list, used.mobility));
        }
    }

    fn return_one(&self, list: usize, kind: Mobility) {
        if let Some(at) = self.at_hand.last(list) {
            self.at_hand.remove(list, at);
            self.free_run(at, Used { order: 0, mobility: kind, holder: Holder::User, is_given_back: false });
        }
    }

    /// Frames at hand of all CPUs.
    pub fn frames_at_hand(&self) -> u64 {
        (0..self.shape.cpus as usize * KINDS).map(|list| u64::from(self.at_hand.count(list))).sum()
    }

    /// All frames at hand go back to the lists.
    pub fn drain(&self) {
        for cpu in 0..self.shape.cpus {
            for kind in Mobility::ALL {
                let list = self.at_hand_list(cpu, kind);
                (0..self.at_hand.count(list)).for_each(|_| self.return_one(list, kind));
            }
        }
    }

    /// Those of one block do: looks through the lists.
    pub fn drain_block(&self, block: u32) {
        let lists = self.shape.cpus as usize * KINDS;
        for list in 0..lists {
            let kind = Mobility::ALL[list % KINDS];
            let mut next = self.at_hand.first(list);
            while let Some(at) = next {
                next = self.at_hand.next(at);
                if block_of(at) == block {
                    self.at_hand.remove(list, at);
                    let used = Used { order: 0, mobility: kind, holder: Holder::User, is_given_back: false };
                    self.free_run(at, used);
                }
            }
        }
    }
}
