//! Names for things that are numbered. Each id is a number of its own kind.

use crate::{BLOCK_PAGES, CHUNK_PAGES, PAGE_BYTES, PAGE_SHIFT};
use core::fmt;
use core::ops::Range;

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(u64);

impl Bytes {
    /// None.
    pub const ZERO: Bytes = Bytes(0);

    /// So many bytes.
    #[inline]
    pub const fn new(bytes: u64) -> Bytes {
        Bytes(bytes)
    }
    /// So many whole pages.
    #[inline]
    pub const fn of_pages(pages: u64) -> Bytes {
        Bytes(pages * PAGE_BYTES as u64)
    }
    /// The number.
    #[inline]
    pub const fn bytes(self) -> u64 {
        self.0
    }
    /// Whole pages in it, rounded down.
    #[inline]
    pub const fn pages(self) -> u64 {
        self.0 >> PAGE_SHIFT
    }
    /// `less` fewer; `less` is not more than there are.
    #[inline]
    pub const fn minus(self, less: u64) -> Bytes {
        Bytes(self.0 - less)
    }
    /// How much it is above `other`; 0 when it is not.
    #[inline]
    pub const fn above(self, other: Bytes) -> u64 {
        self.0.saturating_sub(other.0)
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}B", self.0)
    }
}

/// One page of a process: its address divided by 4096.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(u64);

impl PageId {
    /// The page at address 0.
    pub const FIRST: PageId = PageId(0);

    /// The page of this number.
    #[inline]
    pub const fn new(number: u64) -> PageId {
        PageId(number)
    }
    /// Its number.
    #[inline]
    pub const fn number(self) -> u64 {
        self.0
    }
    /// The page that holds `address`.
    #[inline]
    pub const fn of_address(address: u64) -> PageId {
        PageId(address >> PAGE_SHIFT)
    }
    /// Address of its first byte.
    #[inline]
    pub const fn address(self) -> u64 {
        self.0 << PAGE_SHIFT
    }
    /// The page `count` further on.
    #[inline]
    pub const fn plus(self, count: u64) -> PageId {
        PageId(self.0 + count)
    }
    /// The page `count` before it; there are as many.
    #[inline]
    pub const fn minus(self, count: u64) -> PageId {
        PageId(self.0 - count)
    }
    /// How many pages it is behind `first`, which is not behind it.
    #[inline]
    pub const fn since(self, first: PageId) -> u64 {
        self.0 - first.0
    }
    /// Each page of a range.
    #[inline]
    pub fn each(range: Range<PageId>) -> impl DoubleEndedIterator<Item = PageId> + Clone {
        (range.start.0..range.end.0).map(PageId)
    }
    /// The chunk that holds it.
    #[inline]
    pub const fn chunk(self) -> ChunkId {
        ChunkId(self.0 / CHUNK_PAGES)
    }
    /// Pages of its chunk in front of it, 0..64.
    #[inline]
    pub const fn position_in_chunk(self) -> u64 {
        self.0 % CHUNK_PAGES
    }
    /// The first page of its block, which is that of a leaf of the page table.
    #[inline]
    pub const fn block_start(self) -> PageId {
        PageId(self.0 & !(BLOCK_PAGES - 1))
    }
}

impl fmt::Debug for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P{:x}", self.0)
    }
}

/// Pages that follow each other. Its end is never before its start.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PageRange {
    start: PageId,
    end: PageId,
}

impl PageRange {
    /// No page.
    pub const EMPTY: PageRange = PageRange { start: PageId::FIRST, end: PageId::FIRST };

    /// The pages `start..end`; none if `end` is not behind `start`.
    #[inline]
    pub const fn new(start: PageId, end: PageId) -> PageRange {
        PageRange { start, end: if end.0 < start.0 { start } else { end } }
    }
    /// The pages wholly or partly inside `start..end` (byte addresses, page aligned in all uses).
    #[inline]
    pub const fn of_addresses(start: u64, end: u64) -> PageRange {
        let end = PageId((end + PAGE_BYTES as u64 - 1) >> PAGE_SHIFT);
        PageRange::new(PageId(start >> PAGE_SHIFT), end)
    }
    /// So many pages from `start` on.
    #[inline]
    pub const fn of_pages(start: PageId, count: u64) -> PageRange {
        PageRange { start, end: start.plus(count) }
    }
    /// Its first page, unless it is empty.
    #[inline]
    pub const fn start(self) -> PageId {
        self.start
    }
    /// The page behind its last one.
    #[inline]
    pub const fn end(self) -> PageId {
        self.end
    }
    /// Number of pages.
    #[inline]
    pub const fn pages(self) -> u64 {
        self.end.0 - self.start.0
    }
    /// True when there is no page in it.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.end.0 == self.start.0
    }
    /// It, and the page behind it.
    #[inline]
    pub const fn with_next(self) -> PageRange {
        PageRange { start: self.start, end: self.end.plus(1) }
    }
    /// What of it is not before `start`.
    #[inline]
    pub const fn rest_from(self, start: PageId) -> PageRange {
        if start.0 <= self.start.0 { self } else { PageRange::new(start, self.end) }
    }
    /// True when `page` is inside.
    #[inline]
    pub const fn contains(self, page: PageId) -> bool {
        self.start.0 <= page.0 && page.0 < self.end.0
    }
    /// The pages that are in both; [`EMPTY`](Self::EMPTY) if there are none.
    #[inline]
    pub fn intersection(self, other: PageRange) -> PageRange {
        let (start, end) = (self.start.max(other.start), self.end.min(other.end));
        if start < end { PageRange { start, end } } else { PageRange::EMPTY }
    }
    /// True when a page is in both.
    #[inline]
    pub fn overlaps(self, other: PageRange) -> bool {
        !self.intersection(other).is_empty()
    }
    /// Each page in it.
    #[inline]
    pub fn each(self) -> impl DoubleEndedIterator<Item = PageId> + Clone {
        PageId::each(self.start..self.end)
    }
    /// The addresses of its bytes.
    #[inline]
    pub const fn addresses(self) -> Range<usize> {
        self.start.address() as usize..self.end.address() as usize
    }
    /// The numbers of its pages.
    #[inline]
    pub const fn numbers(self) -> Range<u64> {
        self.start.0..self.end.0
    }
}

impl fmt::Debug for PageRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P{:x}..{:x}", self.start.0, self.end.0)
    }
}

/// 64 pages with an aligned number: the unit in which pages are looked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkId(u64);

impl ChunkId {
    /// The chunk of this number.
    #[inline]
    pub const fn new(number: u64) -> ChunkId {
        ChunkId(number)
    }
    /// Its number.
    #[inline]
    pub const fn number(self) -> u64 {
        self.0
    }
    /// Its first page.
    #[inline]
    pub const fn first_page(self) -> PageId {
        PageId(self.0 * CHUNK_PAGES)
    }
    /// Its pages.
    #[inline]
    pub const fn pages(self) -> PageRange {
        PageRange::of_pages(self.first_page(), CHUNK_PAGES)
    }
    /// Chunks of its block in front of it, 0..8.
    #[inline]
    pub const fn position_in_block(self) -> u32 {
        (self.0 % (BLOCK_PAGES / CHUNK_PAGES)) as u32
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
        pub struct $name($repr);
        impl $name {
            /// The one of this number.
            #[inline]
            pub const fn new(number: $repr) -> $name {
                $name(number)
            }
            /// Its number.
            #[inline]
            pub const fn number(self) -> $repr {
                self.0
            }
            /// Its place in a table that has one element for each.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($letter, "{}"), self.0)
            }
        }
    };
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

impl SwapId {
    /// The first that is ever handed out: where a hand over the swap table begins.
    pub const FIRST: SwapId = SwapId(1);

    /// The entry behind it.
    #[inline]
    pub const fn next(self) -> SwapId {
        self.plus(1)
    }
    /// The entry `count` further on.
    #[inline]
    pub const fn plus(self, count: u32) -> SwapId {
        SwapId(self.0 + count)
    }
    /// This one and those behind it, `count` in all.
    #[inline]
    pub fn run(self, count: u32) -> impl Iterator<Item = SwapId> + Clone {
        (self.0..self.0 + count).map(SwapId)
    }
}

impl MmId {
    /// Its number + 1, in words of which 0 means "nobody".
    #[inline]
    pub const fn to_word(self) -> u64 {
        self.0 as u64 + 1
    }
    /// The process that such a word names.
    #[inline]
    pub const fn from_word(word: u64) -> Option<MmId> {
        match word {
            0 => None,
            word => Some(MmId((word - 1) as u16)),
        }
    }
}

/// Which of all processes that ever had a place in the run it is: of two, the greater one came later. No two have the
/// same, though they may have the same [`MmId`] one after the other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessNumber(u64);

impl ProcessNumber {
    /// The word that says it.
    #[inline]
    pub const fn to_word(self) -> u64 {
        self.0
    }
    /// The process that such a word names.
    #[inline]
    pub const fn from_word(word: u64) -> ProcessNumber {
        ProcessNumber(word)
    }
}

impl fmt::Debug for ProcessNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Process{}", self.0)
    }
}

impl BlobId {
    /// Cell `cell` of `zspage`.
    #[inline]
    pub const fn of_cell(zspage: ZspageId, cell: u32) -> BlobId {
        BlobId(zspage.0 * 256 + cell)
    }
    /// The zspage that holds it.
    #[inline]
    pub const fn zspage(self) -> ZspageId {
        ZspageId(self.0 / 256)
    }
    /// Its cell there, 0..256.
    #[inline]
    pub const fn cell(self) -> u32 {
        self.0 % 256
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_knows_its_place_in_chunk_and_block() {
        let page = PageId::new(3 * BLOCK_PAGES + 2 * CHUNK_PAGES + 5);
        assert_eq!(page.position_in_chunk(), 5);
        assert_eq!(page.chunk().position_in_block(), 2);
        assert_eq!(page.block_start(), PageId::new(3 * BLOCK_PAGES));
        assert!(page.chunk().pages().contains(page));
    }

    #[test]
    fn ranges_overlap_when_a_page_is_in_both() {
        let range = |start, end| PageRange::new(PageId(start), PageId(end));
        assert_eq!(range(1, 5).intersection(range(3, 9)), range(3, 5));
        assert_eq!(range(1, 5).intersection(range(7, 9)), PageRange::EMPTY);
        assert!(range(1, 5).overlaps(range(4, 9)));
        assert!(!range(1, 5).overlaps(range(5, 9)));
        assert!(!range(1, 5).overlaps(range(3, 3)));
    }

    #[test]
    fn no_range_ends_before_it_starts() {
        let backwards = PageRange::new(PageId(5), PageId(3));
        assert_eq!((backwards.start(), backwards.end(), backwards.pages()), (PageId(5), PageId(5), 0));
        assert!(PageRange::of_addresses(0x5000, 0x3000).is_empty());
        let range = PageRange::new(PageId(3), PageId(5));
        let rests = [2, 4, 5, 7].map(|start| range.rest_from(PageId(start)).pages());
        assert_eq!(rests, [2, 1, 0, 0]);
        assert_eq!(range.with_next(), PageRange::new(PageId(3), PageId(6)));
    }

    #[test]
    fn a_word_without_a_process_names_nobody() {
        assert_eq!(MmId::from_word(0), None);
        assert_eq!(MmId::from_word(MmId::new(7).to_word()), Some(MmId::new(7)));
    }
}
