//! The word of one block of 512 frames: what is in it, so that nobody has to look through its frames.
//!
//! ```text
//! 34 being emptied   33..29 list of compaction + 1   28 skipped   27..26 mobility   25..16 pinned frames   9..0 free frames
//! ```
//! Frames at hand of a CPU count as used by whom they were fetched for.

use super::BLOCK_FRAMES;
use super::frame::Mobility;

/// Lists of blocks that could be emptied, by how many frames of 32 are used; the last one has those that were tried in
/// vain.
pub(super) const SOURCES: usize = 17;
/// The list of blocks that are left alone.
pub(super) const SKIPPED: usize = SOURCES - 1;
/// Used frames that make one list.
const FRAMES_PER_SOURCE: u32 = BLOCK_FRAMES / (SOURCES as u32 - 1);

/// What is in a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// Free frames.
    pub free: u32,
    /// Used frames that cannot be moved.
    pub pinned: u32,
    /// Whose block it is: the lists that its free runs are on.
    pub mobility: Mobility,
    /// Compaction tried it in vain and leaves it alone until the marks are cleared.
    pub is_skipped: bool,
    /// Compaction is emptying it: nobody else gets frames of it.
    pub is_source: bool,
    /// The list of compaction that it is on.
    pub(super) source: Option<usize>,
}

impl Block {
    pub(super) const EMPTY: Block = Block {
        free: 0,
        pinned: 0,
        mobility: Mobility::Movable,
        is_skipped: false,
        is_source: false,
        source: None,
    };

    pub(super) fn of(word: u64) -> Block {
        Block {
            free: (word & 1023) as u32,
            pinned: (word >> 16 & 1023) as u32,
            mobility: Mobility::of(word >> 26),
            is_skipped: word >> 28 & 1 != 0,
            is_source: word >> 34 & 1 != 0,
            source: ((word >> 29 & 31) as usize).checked_sub(1),
        }
    }
    pub(super) fn word(self) -> u64 {
        let source = self.source.map_or(0, |source| source as u64 + 1);
        u64::from(self.is_source) << 34
            | source << 29
            | u64::from(self.is_skipped) << 28
            | (self.mobility as u64) << 26
            | u64::from(self.pinned) << 16
            | u64::from(self.free)
    }

    /// Frames that are not free.
    pub const fn used(self) -> u32 {
        BLOCK_FRAMES - self.free
    }
    /// Frames that are used and are not pinned.
    pub const fn movable(self) -> u32 {
        BLOCK_FRAMES - self.free - self.pinned
    }
    /// The list that it belongs on, if it is not one whole run.
    pub(super) fn source_wanted(self) -> Option<usize> {
        let can_be_emptied = self.pinned == 0 && self.used() > 0 && !self.is_source;
        match (can_be_emptied, self.is_skipped) {
            (false, _) => None,
            (true, true) => Some(SKIPPED),
            (true, false) => Some(((self.used() - 1) / FRAMES_PER_SOURCE) as usize),
        }
    }
}
