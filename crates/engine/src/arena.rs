//! Which chunks of a process's arena are in use, and in what order they were staged. Private to the process, behind its lock.
//!
//! The arena is as many chunks of 64 frames as the staged set may have. What is staged fills one chunk after the other, wherever it comes from: so a chunk is full also when
//! few pages lie together in RAM. Each frame has its page noted (`page_of`); mremap may give the page another number later. Which frames still matter is said by the page words.

use alloc::vec::Vec;
use uswap_core::store_jobs::TakenJob;
use uswap_units::{CHUNK_PAGES, FrameId, PageId};

/// Number of a chunk of the arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArenaChunk(pub u32);

impl ArenaChunk {
    /// Its first frame.
    pub const fn first_frame(self) -> FrameId {
        FrameId(self.0 * CHUNK_PAGES as u32)
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

/// Bookkeeping of the arena.
#[derive(Debug)]
pub struct Arena {
    free: Vec<ArenaChunk>,
    /// Ring of staged chunks, oldest at `head`.
    ring: Vec<Option<StagedChunk>>,
    head: usize,
    length: usize,
    /// The youngest chunk, while there is room in it and nobody fills it.
    open: Option<StagedChunk>,
    /// Pages that were moved into the open chunk and those of the ring.
    staged_pages: u64,
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
            open: None,
            staged_pages: 0,
            chunk_count,
            pages: alloc::vec![PageId(0); chunk_count as usize * CHUNK_PAGES as usize],
        };
        arena.free.extend((0..chunk_count).rev().map(ArenaChunk));
        arena
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
        self.free.pop().map(|arena| StagedChunk { arena, used: 0, pages: 0, job: None })
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
    /// Rebuilds the bookkeeping of a forked child from its staged pages; all other chunks are free.
    pub fn rebuild(&mut self, staged: impl Iterator<Item = (PageId, FrameId)>) {
        let mut used: Vec<Option<StagedChunk>> = alloc::vec![None; self.chunk_count as usize];
        self.ring.fill(None);
        (self.head, self.length, self.open, self.staged_pages) = (0, 0, None, 0);
        for (page, frame) in staged {
            self.set_page_of(frame, page);
            let arena = ArenaChunk(frame.0 / CHUNK_PAGES as u32);
            let full = StagedChunk { arena, used: CHUNK_PAGES as u32, pages: 0, job: None };
            used[arena.0 as usize].get_or_insert(full).pages += 1;
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

#[cfg(test)]
#[path = "arena_tests.rs"]
mod tests;
