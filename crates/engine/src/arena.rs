//! Which chunks of a process's arena are in use, and in what order they were staged. Private to the process, behind its lock.
//!
//! The arena is as many chunks of 64 frames as the staged set may have. When a chunk is staged, page i
//! of the source chunk goes to frame i of the arena chunk; mremap may give the page another number later, so each frame has its page noted (`page_of`).
//! Which frames still matter is said by the page words.

use alloc::vec::Vec;
use uswap_units::{CHUNK_PAGES, ChunkId, FrameId, PageId};

/// Number of a chunk of the arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArenaChunk(pub u32);

impl ArenaChunk {
    /// Its first frame.
    pub const fn first_frame(self) -> FrameId {
        FrameId(self.0 * CHUNK_PAGES as u32)
    }
}

/// A chunk that was staged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StagedChunk {
    /// Where it lies.
    pub arena: ArenaChunk,
    /// Where it was when it was staged.
    pub source: ChunkId,
    /// Pages that were moved out.
    pub pages: u32,
}

/// Bookkeeping of the arena.
#[derive(Debug)]
pub struct Arena {
    free: Vec<ArenaChunk>,
    /// Ring of staged chunks, oldest at `head`.
    ring: Vec<Option<StagedChunk>>,
    head: usize,
    length: usize,
    chunk_count: u32,
    /// The page whose word may name a frame, for each frame of a staged chunk.
    pages: Vec<PageId>,
}

impl Arena {
    /// An arena of `chunk_count` chunks, all free.
    pub fn new(chunk_count: u32) -> Arena {
        let mut arena = Arena {
            free: Vec::with_capacity(chunk_count as usize),
            ring: alloc::vec![None; chunk_count as usize],
            head: 0,
            length: 0,
            chunk_count,
            pages: alloc::vec![PageId(0); chunk_count as usize * CHUNK_PAGES as usize],
        };
        arena.free.extend((0..chunk_count).rev().map(ArenaChunk));
        arena
    }

    /// Chunks.
    pub fn chunk_count(&self) -> u32 {
        self.chunk_count
    }
    /// Staged chunks.
    pub fn staged_count(&self) -> u32 {
        self.length as u32
    }
    /// Takes a free chunk.
    pub fn take(&mut self) -> Option<ArenaChunk> {
        self.free.pop()
    }
    /// Gives a chunk back; its frames hold nothing.
    pub fn give_back(&mut self, chunk: ArenaChunk) {
        debug_assert!(self.free.len() < self.chunk_count as usize);
        self.free.push(chunk);
    }
    /// The page that a staged frame belongs to, if any does.
    pub fn page_of(&self, frame: FrameId) -> PageId {
        self.pages[frame.0 as usize]
    }
    /// A staged frame belongs to this page now.
    pub fn set_page_of(&mut self, frame: FrameId, page: PageId) {
        self.pages[frame.0 as usize] = page;
    }
    /// The frames of an arena chunk belong to the pages of a source chunk, one by one.
    pub fn set_pages_of(&mut self, arena: ArenaChunk, source: ChunkId) {
        for index in 0..CHUNK_PAGES {
            self.set_page_of(FrameId(arena.first_frame().0 + index as u32), source.first_page().plus(index));
        }
    }
    /// A chunk was staged: the youngest.
    pub fn push(&mut self, staged: StagedChunk) {
        let at = (self.head + self.length) % self.ring.len();
        self.ring[at] = Some(staged);
        self.length += 1;
    }
    /// A chunk that could not be stored goes back to be the oldest.
    pub fn push_oldest(&mut self, staged: StagedChunk) {
        self.head = (self.head + self.ring.len() - 1) % self.ring.len();
        self.ring[self.head] = Some(staged);
        self.length += 1;
    }
    /// Takes the oldest staged chunk.
    pub fn pop_oldest(&mut self) -> Option<StagedChunk> {
        let staged = self.ring[self.head].take()?;
        self.head = (self.head + 1) % self.ring.len();
        self.length -= 1;
        Some(staged)
    }
    /// Rebuilds the bookkeeping of a forked child from its staged pages; all other chunks are free.
    pub fn rebuild(&mut self, staged: impl Iterator<Item = (PageId, FrameId)>) {
        let mut used: Vec<Option<StagedChunk>> = alloc::vec![None; self.chunk_count as usize];
        self.ring.fill(None);
        (self.head, self.length) = (0, 0);
        for (page, frame) in staged {
            self.set_page_of(frame, page);
            let arena = ArenaChunk(frame.0 / CHUNK_PAGES as u32);
            let source = page.chunk();
            used[arena.0 as usize].get_or_insert(StagedChunk { arena, source, pages: 0 }).pages += 1;
        }
        self.free.clear();
        for index in (0..self.chunk_count).rev() {
            match used[index as usize] {
                Some(chunk) => self.push(chunk),
                None => self.free.push(ArenaChunk(index)),
            }
        }
    }
    /// Chunks that are free, for dropping what a fork copied into them.
    pub fn free_chunks(&self) -> &[ArenaChunk] {
        &self.free
    }
}
