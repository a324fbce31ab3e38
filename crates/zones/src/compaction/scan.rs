//! What somebody needs who looks for pages and holes himself, frame by frame, instead of by [`run`](super::run): the
//! scanners of Linux, with which ours is compared.

use super::{Move, Moved};
use crate::FrameId;
use crate::Zone;
use crate::frame::{Frame, Holder, Mobility, Used};

/// What is at a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// A free run of this order begins here.
    Free(u32),
    /// A run that somebody has begins here.
    Used(Used),
    /// A frame at hand of a CPU, or the inside of a run.
    Other,
}

impl Zone<'_> {
    /// What is at a frame.
    pub fn look(&self, frame: FrameId) -> Seen {
        match self.frame(self.at(frame)) {
            Frame::Free { order } => Seen::Free(order),
            Frame::Used(used) => Seen::Used(used),
            Frame::Inside | Frame::AtHand { .. } => Seen::Other,
        }
    }
    /// The first frame of a free run becomes a hole. What is behind it stays free, in smaller runs.
    pub fn take_hole_at(&self, frame: FrameId) {
        self.take_at(self.at(frame), 0, Holder::Arriving);
    }
    /// A hole that is not needed is free again.
    pub fn put_hole_back(&self, frame: FrameId) {
        let at = self.at(frame);
        let Frame::Used(used @ Used { holder: Holder::Arriving, .. }) = self.frame(at) else {
            panic!("{frame:?} is a hole")
        };
        self.free_run(at, used);
    }
    /// A single page is to be moved: it stays until [`Zone::finish_scanned`]. False: it cannot be.
    #[must_use]
    pub fn begin_scanned(&self, frame: FrameId) -> bool {
        let at = self.at(frame);
        match self.frame(at) {
            Frame::Used(used @ Used { order: 0, mobility: Mobility::Movable, holder: Holder::User, .. }) => {
                self.isolate(at, used);
                true
            }
            _ => false,
        }
    }
    /// As [`Zone::finish_move`], but what was moved away is free at once.
    pub fn finish_scanned(&self, one: Move, how: Moved) {
        self.finish_move(one, how);
        let at = self.at(one.from);
        if let Frame::Used(used @ Used { holder: Holder::Hollow, .. }) = self.frame(at) {
            self.free_run(at, used);
        }
    }
    /// The move will not be tried.
    pub fn cancel_scanned(&self, frame: FrameId) {
        let at = self.at(frame);
        let Frame::Used(used @ Used { holder: Holder::Leaving, .. }) = self.frame(at) else {
            panic!("{frame:?} is about to be moved")
        };
        if used.is_given_back {
            self.free_run(at, used);
        } else {
            self.store_frame(at, Frame::Used(Used { holder: Holder::User, ..used }));
        }
    }
}
