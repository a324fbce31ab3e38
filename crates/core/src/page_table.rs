//! Page tables: four levels of 512 words, as the processor's, in pages of the segment.
//!
//! A leaf covers one block (2 MiB) of a process. Table pages are owned: an owner word says which process uses a page,
//! so the pages of a dead process are found by looking through the owner words.
//!
//! Must hold: tables are allocated and freed only with the gate of their process exclusive, or where nobody else knows
//! them: in a process that begins, for a child that is being made, and after the dead. Called by `engine`, by `host`,
//! which asks which pages are managed and allocates the root of a process that begins, and by `sim`.
//!
//! Memory order: `free` pairs with `allocate`, which finds a page of zeros, and `leaf_or_allocate` hooks that in with
//! Release for the Acquire of `leaf` and `find_or_skip`. `touched` is raised behind the owner word (AcqRel), for the
//! Acquire of `reap` and `used_count`. The word that `free_empty_leaves` finds 0 (Acquire) was left so by
//! `PageWordRef::remove` or `finish_removed` (Release): whoever had the page is done with the word. `Leaf::word` is as
//! `PageWordRef::load`. Inside the exclusive gate nobody else hooks pages in or out: there the gate is what orders, and
//! the Acquire and Release of `leaf_or_allocate` and `unhook` only say the same once more. What the dead wrote is seen
//! because the kernel says that they are dead: the Acquire of the owner word in `reap` guards nothing.

use crate::page_word::{EvictableChunks, PageWord, PageWordRef};
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::{BLOCK_PAGES, CHUNK_PAGES, MmId, PageId, PageRange, TableId};

const FAN_OUT_BITS: u32 = 9;
const FAN_OUT: u64 = 1 << FAN_OUT_BITS;
/// Levels above the leaves.
const LEVELS: u32 = 3;
/// Pages of the 47-bit address space of a program.
pub const PAGES_MAX: u64 = 1 << 36;
/// All of them.
pub const ALL_PAGES: PageRange = PageRange::new(PageId::FIRST, PageId::new(PAGES_MAX));

/// Views of the table pages in the segment.
#[derive(Clone, Copy)]
pub struct Tables<'a> {
    /// Owner + 1 of each table page (low 16 bits).
    pub(crate) owners: &'a [AtomicU64],
    /// For each table page (used for leaves): see [`EvictableChunks`].
    pub(crate) evictable: &'a [AtomicU64],
    pub(crate) words: &'a [AtomicU64],
    pub(crate) hint: &'a AtomicU64,
    /// Table pages from here on were never used.
    pub(crate) touched: &'a AtomicU64,
}

/// The page table of one process.
#[derive(Clone, Copy)]
pub struct PageTable<'a> {
    tables: Tables<'a>,
    mm: MmId,
    root: TableId,
}

/// One leaf.
#[derive(Clone, Copy)]
pub struct Leaf<'a> {
    words: &'a [AtomicU64],
    evictable: EvictableChunks<'a>,
    first: PageId,
}

/// No table page is free: the range cannot be managed.
#[derive(Debug, PartialEq, Eq)]
pub struct OutOfTables;

impl<'a> Tables<'a> {
    fn page(&self, id: TableId) -> &'a [AtomicU64] {
        let start = id.index() * FAN_OUT as usize;
        &self.words[start..start + FAN_OUT as usize]
    }

    /// Takes a zeroed table page for `mm`.
    pub fn allocate(&self, mm: MmId) -> Result<TableId, OutOfTables> {
        let count = self.owners.len() as u64;
        let start = self.hint.load(Ordering::Relaxed);
        for step in 0..count {
            let index = (start + step) % count;
            if index == 0 {
                continue;
            }
            let owner = &self.owners[index as usize];
            let free = owner.load(Ordering::Relaxed) == 0;
            // Acquire pairs with `free`: we see its zeros.
            if free && owner.compare_exchange(0, mm.to_word(), Ordering::Acquire, Ordering::Relaxed).is_ok() {
                self.hint.store(index + 1, Ordering::Relaxed);
                self.touched.fetch_max(index + 1, Ordering::AcqRel);
                return Ok(TableId::new(index as u32));
            }
        }
        Err(OutOfTables)
    }

    /// Gives a table page back, zeroed.
    pub fn free(&self, id: TableId) {
        for word in self.page(id) {
            word.store(0, Ordering::Relaxed);
        }
        self.evictable[id.index()].store(0, Ordering::Relaxed);
        // Release pairs with `allocate`.
        self.owners[id.index()].store(0, Ordering::Release);
        self.hint.fetch_min(u64::from(id.number()), Ordering::Relaxed);
    }

    /// Gives back every table page that `mm` owns. Its page words must have been dropped before.
    pub fn reap(&self, mm: MmId) {
        for index in 1..self.touched.load(Ordering::Acquire).max(1) as usize {
            if self.owners[index].load(Ordering::Acquire) == mm.to_word() {
                self.free(TableId::new(index as u32));
            }
        }
    }

    /// Whether so many table pages are free now.
    fn are_free(&self, count: u64) -> bool {
        let start = self.hint.load(Ordering::Relaxed) as usize % self.owners.len();
        let from_hint = self.owners[start..].iter().chain(&self.owners[..start]);
        // The first one is never given out.
        let free = from_hint.filter(|owner| owner.load(Ordering::Relaxed) == 0);
        count == 0 || free.take(count as usize + 1).count() as u64 > count
    }

    /// Table pages in use.
    pub fn used_count(&self) -> usize {
        let touched = self.touched.load(Ordering::Acquire) as usize;
        self.owners[..touched].iter().filter(|owner| owner.load(Ordering::Relaxed) != 0).count()
    }
}

impl<'a> PageTable<'a> {
    /// Whether there is room now for the words of so many pages, wherever they lie. Others may take it meanwhile.
    pub fn has_room_for(&self, pages: u64) -> bool {
        let leaves = pages.div_ceil(BLOCK_PAGES) + 1;
        let above = (1..LEVELS).map(|level| leaves.div_ceil(1 << (FAN_OUT_BITS * level)) + 1).sum::<u64>();
        self.tables.are_free(leaves + above)
    }

    /// The table of `mm` that starts at `root`.
    pub fn new(tables: Tables<'a>, mm: MmId, root: TableId) -> PageTable<'a> {
        PageTable { tables, mm, root }
    }

    fn index(page: PageId, level: u32) -> usize {
        ((page.number() >> (FAN_OUT_BITS * level)) & (FAN_OUT - 1)) as usize
    }

    fn leaf_at(&self, page: PageId, id: TableId) -> Leaf<'a> {
        let first = page.block_start();
        let evictable = EvictableChunks(&self.tables.evictable[id.index()]);
        Leaf { words: self.tables.page(id), evictable, first }
    }

    /// The leaf that holds the word of `page`.
    pub fn leaf(&self, page: PageId) -> Option<Leaf<'a>> {
        if page >= ALL_PAGES.end() {
            return None;
        }
        let mut id = self.root;
        for level in (1..=LEVELS).rev() {
            // Acquire pairs with the Release of `leaf_or_allocate`.
            let next = self.tables.page(id)[Self::index(page, level)].load(Ordering::Acquire);
            if next == 0 {
                return None;
            }
            id = TableId::new(next as u32);
        }
        Some(self.leaf_at(page, id))
    }

    /// The word of `page`, if there is a leaf for it.
    pub fn word_ref(&self, page: PageId) -> Option<PageWordRef<'a>> {
        Some(self.leaf(page)?.word_ref(page))
    }

    /// The leaf for `page`, made if it is not there. Only with the gate exclusive.
    pub fn leaf_or_allocate(&self, page: PageId) -> Result<Leaf<'a>, OutOfTables> {
        if page >= ALL_PAGES.end() {
            return Err(OutOfTables);
        }
        let mut id = self.root;
        for level in (1..=LEVELS).rev() {
            let word = &self.tables.page(id)[Self::index(page, level)];
            let next = word.load(Ordering::Acquire);
            id = if next != 0 {
                TableId::new(next as u32)
            } else {
                let fresh = self.tables.allocate(self.mm)?;
                word.store(u64::from(fresh.number()), Ordering::Release);
                fresh
            };
        }
        Ok(self.leaf_at(page, id))
    }

    /// The first leaf whose block ends behind `page`. Walks over empty parts in big steps.
    pub fn next_leaf(&self, page: PageId) -> Option<Leaf<'a>> {
        self.next_leaf_before(page, ALL_PAGES.end())
    }

    /// As [`next_leaf`](Self::next_leaf), of those that begin before `end`. A short range is looked up, not searched.
    #[inline]
    fn next_leaf_before(&self, page: PageId, end: PageId) -> Option<Leaf<'a>> {
        let end = end.min(ALL_PAGES.end());
        let mut at = page.block_start();
        while at < end {
            match self.find_or_skip(at, end) {
                Ok(leaf) => return Some(leaf),
                Err(next) => at = next,
            }
        }
        None
    }

    /// The leaf of `page`, or where to look next: behind what is empty, or at `end` or behind it.
    #[inline]
    fn find_or_skip(&self, page: PageId, end: PageId) -> Result<Leaf<'a>, PageId> {
        let mut id = self.root;
        for level in (1..=LEVELS).rev() {
            let words = &self.tables.page(id)[Self::index(page, level)..];
            let next = words[0].load(Ordering::Acquire);
            if next == 0 {
                let span = 1_u64 << (FAN_OUT_BITS * level);
                let mut at = PageId::new(page.number() & !(span - 1)).plus(span);
                let mut behind = words[1..].iter();
                while at < end && behind.next().is_some_and(|word| word.load(Ordering::Relaxed) == 0) {
                    at = at.plus(span);
                }
                return Err(at);
            }
            id = TableId::new(next as u32);
        }
        Ok(self.leaf_at(page, id))
    }

    /// Every leaf that touches `range`, in order of addresses.
    pub fn leaves(&self, range: PageRange) -> impl Iterator<Item = Leaf<'a>> + use<'a> {
        let table = *self;
        let mut at = range.start();
        core::iter::from_fn(move || {
            if at >= range.end() {
                return None;
            }
            let leaf = table.next_leaf_before(at, range.end())?;
            at = leaf.first.plus(BLOCK_PAGES);
            Some(leaf)
        })
    }

    /// The first page of `range` that has a word.
    #[inline]
    pub fn first_managed(&self, range: PageRange) -> Option<PageId> {
        let mut words = self.leaves(range).flat_map(|leaf| leaf.word_refs_in(range));
        words.find(|(_, word_ref)| word_ref.load().is_managed()).map(|(page, _)| page)
    }

    /// The first page of `range` that has none.
    pub fn first_unmanaged(&self, range: PageRange) -> Option<PageId> {
        let mut first = range.start();
        for (page, word_ref) in self.leaves(range).flat_map(|leaf| leaf.word_refs_in(range)) {
            if page != first || !word_ref.load().is_managed() {
                break;
            }
            first = page.plus(1);
        }
        (first < range.end()).then_some(first)
    }

    /// Unhooks and frees leaves in `range` of which every word is 0. Only with the gate exclusive: then nobody is
    /// between walking and locking, and a locked word is not 0.
    pub fn free_empty_leaves(&self, range: PageRange) {
        let mut at = range.start();
        while let Some(leaf) = self.next_leaf_before(at, range.end()) {
            at = leaf.first.plus(BLOCK_PAGES);
            if leaf.words.iter().all(|word| word.load(Ordering::Acquire) == 0) {
                self.unhook(leaf.first);
            }
        }
    }

    fn unhook(&self, first: PageId) {
        let mut id = self.root;
        for level in (1..=LEVELS).rev() {
            let word = &self.tables.page(id)[Self::index(first, level)];
            let next = word.load(Ordering::Acquire);
            if next == 0 {
                return;
            }
            if level == 1 {
                word.store(0, Ordering::Release);
                self.tables.free(TableId::new(next as u32));
                return;
            }
            id = TableId::new(next as u32);
        }
    }
}

impl<'a> Leaf<'a> {
    /// Its first page; a leaf has 512.
    pub const fn first_page(&self) -> PageId {
        self.first
    }
    /// The word of `page`, which is in this block.
    pub fn word_ref(&self, page: PageId) -> PageWordRef<'a> {
        assert!(page.block_start() == self.first);
        self.slot_at(page.since(self.first))
    }
    fn slot_at(&self, index: u64) -> PageWordRef<'a> {
        let chunk_in_block = (index / CHUNK_PAGES) as u32;
        PageWordRef { word: &self.words[index as usize], evictable: self.evictable, chunk_in_block }
    }
    /// The pages of its chunk `chunk_in_block`.
    pub const fn chunk(&self, chunk_in_block: u32) -> PageRange {
        PageRange::of_pages(self.first.plus(chunk_in_block as u64 * CHUNK_PAGES), CHUNK_PAGES)
    }
    /// A bit for each chunk in which there may be a page to evict, from that of `page` on, or from the first one if
    /// `page` is before it.
    pub fn evictable_from(&self, page: PageId) -> u64 {
        let start = page.max(self.first).since(self.first);
        self.evictable.chunks() & (u64::MAX << (start / CHUNK_PAGES))
    }
    /// Its chunks in which there may be a page to evict.
    pub const fn evictable(&self) -> EvictableChunks<'a> {
        self.evictable
    }
    /// The pages of this block inside `range`, with their words.
    pub fn word_refs_in(
        &self,
        range: PageRange,
    ) -> impl Iterator<Item = (PageId, PageWordRef<'a>)> + use<'a> {
        let start = range.start().max(self.first).since(self.first);
        let end = range.end().clamp(self.first, self.first.plus(BLOCK_PAGES)).since(self.first);
        let leaf = *self;
        (start..end).map(move |index| (leaf.first.plus(index), leaf.slot_at(index)))
    }
    /// Words of a whole block, for cloning at fork.
    pub fn word(&self, index: usize) -> PageWord {
        PageWord::from_raw(self.words[index].load(Ordering::Acquire))
    }
}
