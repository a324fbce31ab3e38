//! Names for things that are numbered. Each id is a number of its own kind.

use crate::{CHUNK_PAGES, PAGE_BYTES, PAGE_SHIFT};
use core::fmt;

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

impl Bytes {
    /// So many whole pages.
    pub const fn of_pages(pages: u64) -> Bytes {
        Bytes(pages * PAGE_BYTES as u64)
    }
    /// Whole pages in it, rounded down.
    pub const fn pages(self) -> u64 {
        self.0 >> PAGE_SHIFT
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}B", self.0)
    }
}

/// One page of a process: its address divided by 4096.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u64);

impl PageId {
    /// The page that holds `address`.
    pub const fn of_address(address: u64) -> PageId {
        PageId(address >> PAGE_SHIFT)
    }
    /// Address of its first byte.
    pub const fn address(self) -> u64 {
        self.0 << PAGE_SHIFT
    }
    /// The page `count` further on.
    pub const fn plus(self, count: u64) -> PageId {
        PageId(self.0 + count)
    }
    /// The chunk that holds it.
    pub const fn chunk(self) -> ChunkId {
        ChunkId(self.0 / CHUNK_PAGES)
    }
}

impl fmt::Debug for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P{:x}", self.0)
    }
}

/// Pages `start..end`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PageRange {
    /// First page.
    pub start: PageId,
    /// Page behind the last one.
    pub end: PageId,
}

impl PageRange {
    /// The pages wholly or partly inside `start..end` (byte addresses, page aligned in all uses).
    pub const fn of_addresses(start: u64, end: u64) -> PageRange {
        PageRange {
            start: PageId(start >> PAGE_SHIFT),
            end: PageId((end + PAGE_BYTES as u64 - 1) >> PAGE_SHIFT),
        }
    }
    /// So many pages from `start` on.
    pub const fn of_pages(start: PageId, count: u64) -> PageRange {
        PageRange { start, end: start.plus(count) }
    }
    /// Number of pages.
    pub const fn pages(self) -> u64 {
        self.end.0.saturating_sub(self.start.0)
    }
    /// True when `page` is inside.
    pub const fn contains(self, page: PageId) -> bool {
        self.start.0 <= page.0 && page.0 < self.end.0
    }
}

impl fmt::Debug for PageRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P{:x}..{:x}", self.start.0, self.end.0)
    }
}

/// 64 pages with an aligned number: the unit in which pages are looked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkId(pub u64);

impl ChunkId {
    /// Its first page.
    pub const fn first_page(self) -> PageId {
        PageId(self.0 * CHUNK_PAGES)
    }
}

impl fmt::Debug for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "C{:x}", self.0)
    }
}

macro_rules! small_id {
    ($(#[$doc:meta])* $name:ident, $repr:ty, $letter:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $repr);
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($letter, "{}"), self.0)
            }
        }
    };
}

small_id! {
    /// Number of one 4 KiB frame in the zones of the experiment with huge pages.
    FrameId, u32, "F"
}
small_id! {
    /// Index into the swap table. 0 is never handed out: in a page word it means "none".
    SwapId, u32, "E"
}
small_id! {
    /// Where a blob is in the pool, by its cell: zspage number * 256 + cell number.
    BlobId, u32, "B"
}
small_id! {
    /// Number of one zspage (32 KiB of the pool).
    ZspageId, u32, "Z"
}
small_id! {
    /// Number of one managed process. Never `u16::MAX`.
    MmId, u16, "M"
}
small_id! {
    /// Number of one swap file of a run.
    FileId, u8, "File"
}
small_id! {
    /// Number of one page of the page tables. 0 is never handed out: in a table it means "none".
    TableId, u32, "T"
}

impl BlobId {
    /// Cell `cell` of `zspage`.
    pub const fn new(zspage: ZspageId, cell: u32) -> BlobId {
        BlobId(zspage.0 * 256 + cell)
    }
    /// The zspage that holds it.
    pub const fn zspage(self) -> ZspageId {
        ZspageId(self.0 / 256)
    }
    /// Its cell there, 0..256.
    pub const fn cell(self) -> u32 {
        self.0 % 256
    }
}
