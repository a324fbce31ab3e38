//! Which frames of a process's arena are in use, and in what order they were staged. Private to the process, behind its
//! lock.
//!
//! Frames are handed out by `uswap_core::zones`: 64 at a time, a *chunk*, or 512 for a huge page of the program, a
//! *block*. As many chunks are used at once as the staged set may have; there are some more frames than that, so that
//! whole blocks stay free. What is staged page by page fills one chunk after the other, wherever it comes from: so a
//! chunk is full also when few pages lie together in RAM. A block is staged as eight chunks, which are stored one by
//! one as others are; its frames go back together, when all eight are done with, and no part of them before: that would
//! split the huge page. Each frame has its page noted (`page_of`); mremap may give the page another number later. Which
//! frames still matter is said by the page words.

use alloc::vec::Vec;
use uswap_core::store_jobs::TakenJob;
use uswap_core::zones::{BLOCK_FRAMES, Mobility, ORDER_MAX, Shape, Zone};
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::{CHUNK_PAGES, FrameId, PageId};

/// Chunks of a block.
pub(crate) const BLOCK_CHUNKS: u32 = BLOCK_FRAMES / CHUNK_PAGES as u32;

const CHUNK_ORDER: u32 = CHUNK_PAGES.ilog2();
const _: () = assert!(1 << CHUNK_ORDER == CHUNK_PAGES);

/// Frames of an arena in which so many chunks may be used at once: a quarter more than that, in whole blocks, since
/// chunks that are used lie here and there.
pub const fn arena_frames(chunk_count: u32) -> u32 {
    (chunk_count + chunk_count / 4).div_ceil(BLOCK_CHUNKS) * BLOCK_FRAMES
}

/// Number of a chunk of the arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArenaChunk(pub u32);

impl ArenaChunk {
    /// Its first frame.
    pub const fn first_frame(self) -> FrameId {
        FrameId(self.0 * CHUNK_PAGES as u32)
    }
    const fn of(frame: FrameId) -> ArenaChunk {
        ArenaChunk(frame.0 / CHUNK_PAGES as u32)
    }
    /// The block that it lies in.
    const fn block(self) -> usize {
        (self.0 / BLOCK_CHUNKS) as usize
    }
}

/// A chunk of the arena that holds staged pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StagedChunk {
    /// Where it lies.
    pub arena: ArenaChunk,
    /// Frames from its first on that are in use, or were.
    pub used: u32,
    /// Pages that were moved in.
    pub pages: u32,
    /// The store job of it.
    pub job: Option<TakenJob>,
}

impl StagedChunk {
    /// Frames that nothing was moved to yet.
    pub const fn room(&self) -> u32 {
        CHUNK_PAGES as u32 - self.used
    }
    /// The first of them.
    pub const fn next_frame(&self) -> FrameId {
        FrameId(self.arena.first_frame().0 + self.used)
    }
}

/// What is known of 512 frames that lie together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Block {
    /// They hold a huge page, or did when it was staged.
    is_one: bool,
    /// Then: those of its eight chunks that are done with.
    done: u8,
    /// And pages of them that were stored.
    stored: u32,
    /// Single pages lay here since it was last cleared: the kernel has a table for them, and would split a huge page
    /// that is moved here.
    had_chunks: bool,
}

/// Frames for a huge page, taken.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TakenBlock {
    /// Its first frame.
    pub first: FrameId,
    /// The platform must clear it before a huge page is moved to it.
    pub must_be_cleared: bool,
}

/// Why there are no frames for a huge page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoBlock {
    /// So much is staged already: something must be stored first.
    Full,
    /// The free frames do not lie together.
    Scattered,
}

/// What becomes of the frames of a staged chunk that nothing names any more.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finished {
    /// They are dropped, and then given back.
    Chunk,
    /// They stay until the rest of their block is done with too.
    PartOfBlock,
    /// All of their block is done with: it is dropped as one, and given back. So many of its pages were stored.
    Block {
        /// Its first frame.
        first: FrameId,
        /// Pages.
        stored: u32,
    },
}

/// Bookkeeping of the arena.
#[derive(Debug)]
pub struct Arena {
    /// Of its zone: which frames are used.
    words: Vec<AtomicU64>,
    shape: Shape,
    blocks: Vec<Block>,
    /// Chunks that are used, those of blocks included.
    chunks_used: u32,
    /// Ring of staged chunks, oldest at `head`.
    ring: Vec<Option<StagedChunk>>,
    head: usize,
    length: usize,
    /// The youngest chunk, while there is room in it and nobody fills it.
    open: Option<StagedChunk>,
    /// Pages that were moved into the open chunk and those of the ring.
    staged_pages: u64,
    chunk_count: u32,
    /// A huge frame that nothing names, kept for the next huge page that comes to the program.
    kept: Option<FrameId>,
    /// The number of the page whose word may name a frame, for each frame of a staged chunk.
    pages: Vec<u64>,
}

impl Arena {
    /// An arena of which `chunk_count` chunks may be used at once; all are free.
    pub fn new(chunk_count: u32) -> Arena {
        let frames = arena_frames(chunk_count);
        let shape = Shape { first: FrameId(0), blocks: frames / BLOCK_FRAMES, cpus: 1 };
        let words: Vec<AtomicU64> = (0..shape.words()).map(|_| AtomicU64::new(0)).collect();
        let _all_free = Zone::create(&words, shape);
        Arena {
            words,
            shape,
            blocks: alloc::vec![Block::default(); shape.blocks as usize],
            chunks_used: 0,
            ring: alloc::vec![None; chunk_count as usize],
            head: 0,
            length: 0,
            open: None,
            staged_pages: 0,
            chunk_count,
            kept: None,
            pages: alloc::vec![0; frames as usize],
        }
    }

    fn zone(&self) -> Zone<'_> {
        Zone::open(&self.words, self.shape)
    }
    fn block_of(&self, frame: FrameId) -> Option<&Block> {
        self.blocks.get((frame.0 / BLOCK_FRAMES) as usize)
    }

    /// Pages that were staged; some may have been touched since.
    pub fn staged_pages(&self) -> u64 {
        self.staged_pages
    }
    /// Takes a chunk with room. `put` it back.
    pub fn take(&mut self) -> Option<StagedChunk> {
        if let Some(open) = self.open.take() {
            self.staged_pages -= u64::from(open.pages);
            return Some(open);
        }
        if self.chunks_used == self.chunk_count {
            return None;
        }
        let frame = self.zone().take(CHUNK_ORDER, Mobility::Movable)?;
        let arena = ArenaChunk::of(frame);
        self.blocks[arena.block()].had_chunks = true;
        self.chunks_used += 1;
        Some(StagedChunk { arena, used: 0, pages: 0, job: None })
    }
    /// Takes frames for a huge page. `give_back_block` or `push_block` them.
    pub fn take_block(&mut self) -> Result<TakenBlock, NoBlock> {
        if self.chunks_used + BLOCK_CHUNKS > self.chunk_count {
            return Err(NoBlock::Full);
        }
        let first = self.zone().take(ORDER_MAX, Mobility::Movable).ok_or(NoBlock::Scattered)?;
        self.chunks_used += BLOCK_CHUNKS;
        let block = &mut self.blocks[ArenaChunk::of(first).block()];
        let must_be_cleared = block.had_chunks;
        *block = Block { is_one: true, ..Block::default() };
        Ok(TakenBlock { first, must_be_cleared })
    }
    /// Gives the frames of a block back; they hold nothing.
    pub fn give_back_block(&mut self, first: FrameId) {
        self.zone().give_back(first);
        self.blocks[ArenaChunk::of(first).block()] = Block::default();
        self.chunks_used -= BLOCK_CHUNKS;
    }
    /// Keeps a block of which nothing is named any more, if none is kept yet.
    pub fn keep(&mut self, first: FrameId) -> bool {
        let is_first = self.kept.is_none();
        if is_first {
            self.kept = Some(first);
        }
        is_first
    }
    /// True when a block is kept.
    pub fn keeps_one(&self) -> bool {
        self.kept.is_some()
    }
    /// Takes the block that is kept. `give_back_block` it.
    pub fn take_kept(&mut self) -> Option<FrameId> {
        self.kept.take()
    }
    /// A block was filled: so many pages are in each of its chunks. They are the youngest.
    pub fn push_block(&mut self, first: FrameId, pages: [u32; BLOCK_CHUNKS as usize]) {
        for (arena, pages) in (ArenaChunk::of(first).0..).map(ArenaChunk).zip(pages) {
            self.push(StagedChunk { arena, used: CHUNK_PAGES as u32, pages, job: None });
        }
    }
    /// The first frame of the block that this frame is part of, and the page that its first frame belongs to. None: it
    /// is in a chunk of its own.
    pub fn block_with(&self, frame: FrameId) -> Option<(FrameId, PageId)> {
        self.block_of(frame).filter(|block| block.is_one)?;
        let first = FrameId(frame.0 & !(BLOCK_FRAMES - 1));
        Some((first, self.page_of(first)))
    }
    /// Nothing names the frames of a chunk any more; so many of its pages were stored.
    pub fn finish(&mut self, chunk: ArenaChunk, stored: u32) -> Finished {
        let block = &mut self.blocks[chunk.block()];
        if !block.is_one {
            return Finished::Chunk;
        }
        block.done |= 1 << (chunk.0 % BLOCK_CHUNKS);
        block.stored += stored;
        if block.done != u8::MAX {
            return Finished::PartOfBlock;
        }
        let first = FrameId(chunk.first_frame().0 & !(BLOCK_FRAMES - 1));
        Finished::Block { first, stored: block.stored }
    }
    /// Pages were moved to a chunk that was taken.
    pub fn put(&mut self, chunk: StagedChunk) {
        if chunk.used == 0 {
            self.give_back(chunk.arena);
        } else if chunk.room() > 0 && self.open.is_none() {
            self.staged_pages += u64::from(chunk.pages);
            self.open = Some(chunk);
        } else {
            self.push(chunk);
        }
    }
    /// Gives a chunk back; its frames hold nothing.
    pub fn give_back(&mut self, chunk: ArenaChunk) {
        self.zone().give_back(chunk.first_frame());
        self.chunks_used -= 1;
    }
    /// The page that a staged frame belongs to, if any does.
    pub fn page_of(&self, frame: FrameId) -> PageId {
        PageId(self.pages[frame.0 as usize])
    }
    /// A staged frame belongs to this page now.
    pub fn set_page_of(&mut self, frame: FrameId, page: PageId) {
        self.pages[frame.0 as usize] = page.0;
    }
    /// A chunk is staged: the youngest of the ring.
    pub fn push(&mut self, staged: StagedChunk) {
        let at = (self.head + self.length) % self.ring.len();
        self.ring[at] = Some(staged);
        self.length += 1;
        self.staged_pages += u64::from(staged.pages);
    }
    /// A chunk that could not be stored goes back to be the oldest.
    pub fn push_oldest(&mut self, staged: StagedChunk) {
        self.head = (self.head + self.ring.len() - 1) % self.ring.len();
        self.ring[self.head] = Some(staged);
        self.length += 1;
        self.staged_pages += u64::from(staged.pages);
    }
    /// Takes the oldest staged chunk; the open one when there is no other.
    pub fn pop_oldest(&mut self) -> Option<StagedChunk> {
        let staged = match self.ring[self.head].take() {
            Some(staged) => {
                self.head = (self.head + 1) % self.ring.len();
                self.length -= 1;
                staged
            }
            None => self.open.take()?,
        };
        self.staged_pages -= u64::from(staged.pages);
        Some(staged)
    }
    /// The oldest chunk of the ring, or the `place`-th behind it.
    pub fn oldest(&self, place: usize) -> Option<StagedChunk> {
        if place < self.length { self.ring[(self.head + place) % self.ring.len()] } else { None }
    }
    /// Notes the store job of a chunk, if it still is at this place.
    pub fn set_job(&mut self, place: usize, chunk: StagedChunk, job: TakenJob) -> bool {
        let at = (self.head + place) % self.ring.len();
        let is_there = self.oldest(place) == Some(chunk);
        if is_there {
            self.ring[at] = Some(StagedChunk { job: Some(job), ..chunk });
        }
        is_there
    }
    /// Takes the chunk at a place of the ring; those before it move up.
    pub fn remove(&mut self, place: usize) {
        for place in (0..place).rev() {
            let (from, to) =
                ((self.head + place) % self.ring.len(), (self.head + place + 1) % self.ring.len());
            self.ring.swap(from, to);
        }
        let _taken = self.pop_oldest();
    }
    /// Rebuilds the bookkeeping of a forked child from its staged pages; all other chunks are free. There are no
    /// blocks: what a fork left shared is moved page by page.
    pub fn rebuild(&mut self, staged: impl Iterator<Item = (PageId, FrameId)>) {
        let chunks = self.shape.frames() / CHUNK_PAGES as u32;
        let mut used: Vec<Option<StagedChunk>> = alloc::vec![None; chunks as usize];
        self.ring.fill(None);
        (self.head, self.length, self.open, self.staged_pages) = (0, 0, None, 0);
        self.kept = None;
        for (page, frame) in staged {
            self.set_page_of(frame, page);
            let arena = ArenaChunk::of(frame);
            let full = StagedChunk { arena, used: CHUNK_PAGES as u32, pages: 0, job: None };
            used[arena.0 as usize].get_or_insert(full).pages += 1;
        }
        self.words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        self.blocks.fill(Block { had_chunks: true, ..Block::default() });
        let zone = Zone::create(&self.words, self.shape);
        while zone.take(CHUNK_ORDER, Mobility::Movable).is_some() {}
        self.chunks_used = chunks;
        for index in (0..chunks).rev() {
            match used[index as usize] {
                Some(chunk) => self.push(chunk),
                None => self.give_back(ArenaChunk(index)),
            }
        }
    }
    /// The first free chunk at `from` or behind it, for dropping what a fork copied into it. In an arena without
    /// blocks.
    pub fn next_free(&self, from: u32) -> Option<ArenaChunk> {
        let zone = self.zone();
        let mut chunks = (from..self.shape.frames() / CHUNK_PAGES as u32).map(ArenaChunk);
        chunks.find(|chunk| zone.used(chunk.first_frame()).is_none())
    }
}

#[cfg(test)]
#[path = "arena_tests.rs"]
mod tests;
