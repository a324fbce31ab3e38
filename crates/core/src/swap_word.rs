//! The word of a swap entry: where the content is, and how many pages refer to it.
//!
//! ```text
//! 63..61 60        59       58         57   56..45 44..0
//! tag    WRITEBACK RETAINED REFERENCED MORE count  payload
//!
//! payload of Same: value(32)   Blob: length(13) cell(32)   Slot: length/64(7) offset/64(34)   Reserved: owner(16)
//! ```
//! * `WRITEBACK`: the supervisor copies the blob to the file; the cell may not be freed by anyone else until it is
//!   done.
//! * `RETAINED`: the one page that refers to it has the same content mapped, as far as we know. The entry may be
//!   discarded.
//! * `MORE`: the count has more than its bits hold; the rest is in another word (`swap_table`). The count here is above
//!   0 then.
//! * `REFERENCED`: second chance. Stores and loads set it, the clock hand clears it.
//!
//! An entry starts `Reserved` with count 0 and is published with a place and its first reference. Must hold: a cell or
//! a slot is freed only by the operation that took its name out of the word. Called by [`crate::swap_table`], which
//! alone makes one word of another, and by `engine`, the supervisor, `sim` and `experiments`, which read them.

use uswap_units::{BlobId, MmId, SwapOffset};

const TAG_SHIFT: u32 = 61;
const RESERVED: u64 = 1;
const WRITEBACK: u64 = 1 << 60;
const RETAINED: u64 = 1 << 59;
const REFERENCED: u64 = 1 << 58;
const MORE: u64 = 1 << 57;
const COUNT_SHIFT: u32 = 45;
const COUNT_ONE: u64 = 1 << COUNT_SHIFT;
const COUNT_MASK: u64 = 0xFFF << COUNT_SHIFT;
const PAYLOAD_MASK: u64 = (1 << 45) - 1;

/// References that the word counts by itself; few in tests, so that they get there.
pub(crate) const COUNT_MAX: u32 = if cfg!(test) { 6 } else { 0xFFF };

/// Granule of lengths and offsets in the swap file, in bytes.
pub const FILE_GRANULE_BYTES: u64 = 64;

/// Where the content of a swap entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// Nobody owns the entry.
    Free,
    /// Owned by the process that will publish it.
    Reserved,
    /// There was a retained copy; it was given up for room.
    Discarded,
    /// All 32-bit words of the page have this value.
    Same(u32),
    /// In the pool.
    Blob {
        /// The cell.
        blob: BlobId,
        /// Bytes of content in the cell; 4096 means that it is not compressed.
        length: u32,
    },
    /// In the swap file.
    Slot {
        /// Where it begins, a multiple of 64.
        offset: SwapOffset,
        /// Bytes taken there, a multiple of 64.
        length: u32,
    },
    /// The only copy could not be read: the page gives SIGBUS.
    Lost,
}

/// A value of the word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SwapWord(pub(crate) u64);

impl SwapWord {
    /// A fresh word with this content and count 0.
    pub fn new(content: Content) -> SwapWord {
        let (tag, payload) = match content {
            Content::Free => (0, 0),
            Content::Reserved => (RESERVED, 0),
            Content::Discarded => (2, 0),
            Content::Same(value) => (3, u64::from(value)),
            Content::Blob { blob, length } => {
                assert!(length < 1 << 13);
                (4, (u64::from(length) << 32) | u64::from(blob.number()))
            }
            Content::Slot { offset, length } => {
                assert!(offset.bytes().is_multiple_of(FILE_GRANULE_BYTES));
                assert!(u64::from(length).is_multiple_of(FILE_GRANULE_BYTES));
                let granules = u64::from(length) / FILE_GRANULE_BYTES;
                let start = offset.bytes() / FILE_GRANULE_BYTES;
                assert!(granules < 1 << 7);
                assert!(start < 1 << 34);
                (5, (granules << 34) | start)
            }
            Content::Lost => (6, 0),
        };
        SwapWord((tag << TAG_SHIFT) | payload)
    }

    /// The word of an entry that `mm` has reserved. Reaping needs the name: the cluster may have another owner by then.
    pub(crate) const fn reserved_by(mm: MmId) -> SwapWord {
        SwapWord((RESERVED << TAG_SHIFT) | mm.number() as u64)
    }

    /// Where the content is.
    pub fn content(self) -> Content {
        let payload = self.0 & PAYLOAD_MASK;
        match self.0 >> TAG_SHIFT {
            0 => Content::Free,
            RESERVED => Content::Reserved,
            2 => Content::Discarded,
            3 => Content::Same(payload as u32),
            4 => Content::Blob { blob: BlobId::new(payload as u32), length: (payload >> 32) as u32 },
            5 => Content::Slot {
                offset: SwapOffset::new((payload & ((1 << 34) - 1)) * FILE_GRANULE_BYTES),
                length: ((payload >> 34) * FILE_GRANULE_BYTES) as u32,
            },
            _ => Content::Lost,
        }
    }

    /// Pages that refer to the entry, as far as this word counts them: there are others if `has_more`.
    pub const fn count(self) -> u32 {
        ((self.0 & COUNT_MASK) >> COUNT_SHIFT) as u32
    }
    /// Not all references are counted in this word.
    pub const fn has_more(self) -> bool {
        self.0 & MORE != 0
    }
    /// One page refers to the entry, and no other.
    pub const fn is_alone(self) -> bool {
        self.count() == 1 && !self.has_more()
    }
    /// The supervisor is copying the blob, to the file or to another cell.
    pub const fn is_writeback(self) -> bool {
        self.0 & WRITEBACK != 0
    }
    /// The content is mapped by its only page.
    pub const fn is_retained(self) -> bool {
        self.0 & RETAINED != 0
    }
    /// Touched since the clock hand passed.
    pub const fn is_referenced(self) -> bool {
        self.0 & REFERENCED != 0
    }

    pub(crate) fn with_content(self, content: Content) -> SwapWord {
        let flags = self.0 & (WRITEBACK | RETAINED | REFERENCED | MORE | COUNT_MASK);
        SwapWord(SwapWord::new(content).0 | flags)
    }
    pub(crate) fn with_count_plus_one(self) -> SwapWord {
        assert!(self.count() < COUNT_MAX);
        SwapWord(self.0 + COUNT_ONE)
    }
    pub(crate) const fn with_count(self, count: u32) -> SwapWord {
        SwapWord((self.0 & !COUNT_MASK) | ((count as u64) << COUNT_SHIFT))
    }
    pub(crate) const fn with_more(self, on: bool) -> SwapWord {
        SwapWord(if on { self.0 | MORE } else { self.0 & !MORE })
    }
    pub(crate) fn with_count_minus_one(self) -> SwapWord {
        assert!(self.count() > 0);
        SwapWord(self.0 - COUNT_ONE)
    }
    pub(crate) const fn with_writeback(self, on: bool) -> SwapWord {
        SwapWord(if on { self.0 | WRITEBACK } else { self.0 & !WRITEBACK })
    }
    pub(crate) const fn with_retained(self, on: bool) -> SwapWord {
        SwapWord(if on { self.0 | RETAINED } else { self.0 & !RETAINED })
    }
    pub(crate) const fn with_referenced(self, on: bool) -> SwapWord {
        SwapWord(if on { self.0 | REFERENCED } else { self.0 & !REFERENCED })
    }
}

impl core::fmt::Debug for SwapWord {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "{:?} x{}{}{}{}{}",
            self.content(),
            self.count(),
            if self.has_more() { " and more" } else { "" },
            if self.is_writeback() { " writeback" } else { "" },
            if self.is_retained() { " retained" } else { "" },
            if self.is_referenced() { " referenced" } else { "" }
        )
    }
}
