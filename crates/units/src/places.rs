//! Places in the swap files: slots, their clusters, and bytes.
//!
//! The slots of all files are numbered through, with gaps between the files, and so are their bytes. A byte of that
//! space and a byte of one file are two kinds of number: `uswap_core::files` alone makes the one from the other. So are
//! their slots.

use crate::PAGE_BYTES;
use core::fmt;
use core::ops::Range;

const SLOT_BYTES: u64 = PAGE_BYTES as u64;

/// Number of one slot of 4 KiB among those of all swap files.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(u64);

impl SlotId {
    /// The slot of this number.
    pub const fn new(number: u64) -> SlotId {
        SlotId(number)
    }
    /// Its number.
    pub const fn number(self) -> u64 {
        self.0
    }
    /// The slot `count` further on.
    pub const fn plus(self, count: u64) -> SlotId {
        SlotId(self.0 + count)
    }
    /// How many slots it is behind `first`, which is not behind it.
    pub const fn since(self, first: SlotId) -> u64 {
        self.0 - first.0
    }
    /// Its first byte.
    pub const fn start(self) -> SwapOffset {
        SwapOffset(self.0 * SLOT_BYTES)
    }
    /// Each slot of a range.
    pub fn each(range: Range<SlotId>) -> impl Iterator<Item = SlotId> {
        (range.start.0..range.end.0).map(SlotId)
    }
}

impl fmt::Debug for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S{}", self.0)
    }
}

/// Number of one slot among those of its swap file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileSlot(u32);

impl FileSlot {
    /// The slot of this number.
    pub const fn new(number: u32) -> FileSlot {
        FileSlot(number)
    }
    /// Its number.
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for FileSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

/// Number of one cluster among those of its swap file, or of the swap table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(u32);

impl ClusterId {
    /// The first one.
    pub const FIRST: ClusterId = ClusterId(0);

    /// The cluster of this number.
    pub const fn new(number: u32) -> ClusterId {
        ClusterId(number)
    }
    /// Its number.
    pub const fn number(self) -> u32 {
        self.0
    }
    /// Each cluster below this number.
    pub fn each_below(end: u32) -> impl Iterator<Item = ClusterId> {
        (0..end).map(ClusterId)
    }
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cluster{}", self.0)
    }
}

/// A byte among the slots of all swap files: what a swap word names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwapOffset(u64);

impl SwapOffset {
    /// The first one.
    pub const ZERO: SwapOffset = SwapOffset(0);
    /// No bytes.
    pub const NOTHING: Range<SwapOffset> = SwapOffset::ZERO..SwapOffset::ZERO;

    /// The byte of this number.
    pub const fn new(bytes: u64) -> SwapOffset {
        SwapOffset(bytes)
    }
    /// Bytes in front of it.
    pub const fn bytes(self) -> u64 {
        self.0
    }
    /// The byte so many further on.
    pub const fn plus(self, bytes: u64) -> SwapOffset {
        SwapOffset(self.0 + bytes)
    }
    /// How many bytes it is behind `first`, which is not behind it.
    pub const fn since(self, first: SwapOffset) -> u64 {
        self.0 - first.0
    }
    /// The slot that holds it.
    pub const fn slot(self) -> SlotId {
        SlotId(self.0 / SLOT_BYTES)
    }
    /// It, or the next byte with which a slot begins.
    pub const fn next_slot_start(self) -> SwapOffset {
        SwapOffset(self.0.next_multiple_of(SLOT_BYTES))
    }
    /// The slots that so many bytes from here on touch.
    pub const fn slots(self, bytes: u64) -> Range<SlotId> {
        self.slot()..self.plus(bytes).next_slot_start().slot()
    }
}

impl fmt::Debug for SwapOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A byte in one swap file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileOffset(u64);

impl FileOffset {
    /// The byte of this number.
    pub const fn new(bytes: u64) -> FileOffset {
        FileOffset(bytes)
    }
    /// Bytes in front of it.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for FileOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_touch_the_slots_that_they_lie_in() {
        let slots = |offset, bytes| {
            let Range { start, end } = SwapOffset::new(offset).slots(bytes);
            (start.number(), end.number())
        };
        assert_eq!(slots(0, 4096), (0, 1));
        assert_eq!(slots(4095, 2), (0, 2));
        assert_eq!(slots(8192, 64), (2, 3));
        assert_eq!(SlotId::new(3).start().slots(1), SlotId::new(3)..SlotId::new(4));
    }
}
