//! The word of one frame.
//!
//! ```text
//! free, at hand   63..62 kind   61..58 order   57..56 mobility   55..0 its place on a list
//! used            63..62 kind   61..58 order   57..56 mobility   3 given back   2..0 holder
//! inside          0
//! ```
//! Only the first frame of a run has a word that is not 0.

use core::fmt;

/// Number of one 4 KiB frame among those of all zones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(u32);

impl FrameId {
    /// The frame of this number.
    #[inline]
    pub const fn new(number: u32) -> FrameId {
        FrameId(number)
    }
    /// Its number.
    #[inline]
    pub const fn number(self) -> u32 {
        self.0
    }
    /// Its place in a table that has one element for each.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
    /// The frame `count` further on.
    #[inline]
    pub const fn plus(self, count: u32) -> FrameId {
        FrameId(self.0 + count)
    }
    /// How many frames it is behind `first`, which is not behind it.
    #[inline]
    pub const fn since(self, first: FrameId) -> u32 {
        self.0 - first.0
    }
}

impl fmt::Debug for FrameId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "F{}", self.0)
    }
}

/// Whether a frame that is used can be moved, and what may lie beside it. Linux calls it the migrate type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mobility {
    /// Its content can be moved to another frame.
    Movable,
    /// It stays where it is until it is given back: pinned, or of the engine itself.
    Unmovable,
    /// It cannot be moved, but given up when memory is short.
    Reclaimable,
}

impl Mobility {
    /// All, in the order of their numbers.
    pub const ALL: [Mobility; 3] = [Mobility::Movable, Mobility::Unmovable, Mobility::Reclaimable];

    pub(super) fn of(bits: u64) -> Mobility {
        Mobility::ALL[(bits & 3) as usize]
    }
    /// Whose frames are taken when there are none of this kind, in this order.
    pub(super) const fn victims(self) -> [Mobility; 2] {
        match self {
            Mobility::Unmovable => [Mobility::Reclaimable, Mobility::Movable],
            Mobility::Movable => [Mobility::Reclaimable, Mobility::Unmovable],
            Mobility::Reclaimable => [Mobility::Unmovable, Mobility::Movable],
        }
    }
}

/// Who has a used frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holder {
    /// Who asked for it.
    User,
    /// Who asked for it; and compaction is about to move it away.
    Leaving,
    /// Compaction: something is about to be moved here.
    Arriving,
    /// A ticket: it waits to be fetched.
    Ticket,
    /// Compaction: it has been emptied, or was free, and nobody gets it before its whole block is free.
    Hollow,
}

impl Holder {
    const ALL: [Holder; 5] =
        [Holder::User, Holder::Leaving, Holder::Arriving, Holder::Ticket, Holder::Hollow];
}

/// A run of frames that somebody has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Used {
    /// It has `1 << order` frames.
    pub order: u32,
    /// Whether it can be moved.
    pub mobility: Mobility,
    /// Who has it.
    pub holder: Holder,
    /// Its owner gave it back while it was being moved.
    pub is_given_back: bool,
}

/// What the word of a frame says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Frame {
    /// Part of a run that begins before it.
    Inside,
    /// First of a free run, which is on the list of its order and of the mobility of its block.
    Free {
        order: u32,
    },
    /// A single frame on a list of a CPU.
    AtHand {
        mobility: Mobility,
    },
    Used(Used),
}

const GIVEN_BACK: u64 = 1 << 3;

impl Frame {
    pub fn of(word: u64) -> Frame {
        let order = (word >> 58 & 15) as u32;
        let mobility = Mobility::of(word >> 56);
        match word >> 62 {
            0 => Frame::Inside,
            1 => Frame::Free { order },
            2 => Frame::AtHand { mobility },
            _ => Frame::Used(Used {
                order,
                mobility,
                holder: Holder::ALL[(word & 7) as usize],
                is_given_back: word & GIVEN_BACK != 0,
            }),
        }
    }
    pub fn word(self) -> u64 {
        match self {
            Frame::Inside => 0,
            Frame::Free { order } => 1 << 62 | u64::from(order) << 58,
            Frame::AtHand { mobility } => 2 << 62 | (mobility as u64) << 56,
            Frame::Used(used) => {
                let mark = if used.is_given_back { GIVEN_BACK } else { 0 };
                let head = 3 << 62 | u64::from(used.order) << 58 | (used.mobility as u64) << 56;
                head | mark | used.holder as u64
            }
        }
    }
    /// Frames from this one to the next that may begin a run.
    pub fn frames(self) -> u32 {
        match self {
            Frame::Free { order } | Frame::Used(Used { order, .. }) => 1 << order,
            Frame::Inside | Frame::AtHand { .. } => 1,
        }
    }
}
