//! Staging: moves a chunk of pages out of the program into the arena, where a touch brings them back cheaply.

use crate::arena::{ArenaChunk, StagedChunk};
use crate::engine::Engine;
use crate::platform::{MoveStop, Platform};
use uswap_core::counters::Counter;
use uswap_core::page_table::{Leaf, TICK_NS};
use uswap_core::page_word::{Commit, Place, TryLock};
use uswap_units::{BLOCK_PAGES, CHUNK_PAGES, ChunkId, FrameId, PageId, PageRange};

/// What came of an attempt to stage a chunk.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// So many pages are staged.
    Staged(u32),
    /// Nothing of it could be moved.
    Nothing,
    /// Some pages are marked shared by a fork, or pinned: bit i for the page `first + i`.
    Shared(PageId, u64),
    /// Nothing may be moved before messages are read.
    EventPending,
    /// The arena has no free chunk.
    NoRoom,
}

impl<P: Platform> Engine<'_, P> {
    /// Stages what it can of one chunk.
    pub async fn stage_chunk(&self, chunk: ChunkId) -> Stage {
        let Some(arena) = self.private.lock().arena.take() else { return Stage::NoRoom };
        self.platform.lock_shared().await;
        let (result, moved) =
            if self.may_evict() { self.move_chunk(chunk, arena).await } else { (Stage::EventPending, 0) };
        self.platform.unlock_shared();
        let mut private = self.private.lock();
        if moved == 0 {
            private.arena.give_back(arena);
            return result;
        }
        private.arena.push(StagedChunk { arena, source: chunk, pages: moved });
        drop(private);
        self.counters.add(Counter::Staged, u64::from(moved));
        if result == Stage::Nothing { Stage::Staged(moved) } else { result }
    }

    /// In a shared section: lock the words, move, see what arrived, commit. Returns also how many pages arrived.
    async fn move_chunk(&self, chunk: ChunkId, arena: ArenaChunk) -> (Stage, u32) {
        let first = chunk.first_page();
        let Some(leaf) = self.table.leaf(first) else { return (Stage::Nothing, 0) };
        // Looked at in the shared section, since events are processed in exclusive ones.
        let in_block = (chunk.0 % (BLOCK_PAGES / CHUNK_PAGES)) as u32;
        let held = leaf.is_held(in_block, self.platform.now_ns() / TICK_NS);
        if held || self.platform.drops_under_way(PageRange { start: first, end: first.plus(CHUNK_PAGES) }) {
            return (Stage::Nothing, 0);
        }
        let locked = self.lock_movable(&leaf, first);
        if locked == 0 {
            return (Stage::Nothing, 0);
        }
        // Before the words name the frames: a move of the mapping may change it from then on.
        self.private.lock().arena.set_pages_of(arena, chunk);
        self.platform.step().await;
        let stop = self.move_runs(first, arena.first_frame(), locked);
        self.platform.step().await;
        let arrived = self.platform.arrived(arena.first_frame(), CHUNK_PAGES as u32);
        let mut moved = 0;
        for index in bits(locked) {
            let page = first.plus(u64::from(index));
            let slot = leaf.slot(page);
            let word = slot.load();
            let place = if arrived & (1 << index) != 0 {
                moved += 1;
                let frame = FrameId(arena.first_frame().0 + index);
                Place::Staged(frame)
            } else {
                word.place()
            };
            match slot.commit(place, word.swap()) {
                Commit::Done => (),
                Commit::Removed(_) => {
                    unreachable!("events are processed with the gate exclusive, and we hold it shared")
                }
            }
        }
        (stop, moved)
    }

    /// Locks the words of all pages that may be moved; bit i for `first + i`.
    fn lock_movable(&self, leaf: &Leaf<'_>, first: PageId) -> u64 {
        let range = PageRange { start: first, end: first.plus(CHUNK_PAGES) };
        let mut locked = 0;
        for (index, (_, slot)) in leaf.slots_in(range).enumerate() {
            if !slot.load().may_be_staged() {
                continue;
            }
            if let TryLock::Locked(word) = slot.try_lock() {
                // Flags may have changed between the look and the lock.
                if word.may_be_staged() {
                    locked |= 1 << index;
                } else if slot.commit(word.place(), word.swap()) != Commit::Done {
                    unreachable!("events are processed with the gate exclusive, and we hold it shared");
                }
            }
        }
        locked
    }

    /// Moves each run of locked pages. What cannot be moved stays where it is.
    fn move_runs(&self, first: PageId, frame: FrameId, locked: u64) -> Stage {
        let mut result = Stage::Nothing;
        let mut index = 0;
        while index < CHUNK_PAGES as u32 {
            let left = locked >> index;
            if left & 1 == 0 {
                index += left.trailing_zeros().clamp(1, 64);
                continue;
            }
            let run = (!left).trailing_zeros().min(CHUNK_PAGES as u32 - index);
            let out = self.platform.move_out(first.plus(u64::from(index)), FrameId(frame.0 + index), run);
            index += out.pages;
            match out.stop {
                None => (),
                Some(MoveStop::EventPending) => return Stage::EventPending,
                Some(MoveStop::Busy) => {
                    self.counters.add(Counter::MoveBusy, 1);
                    let mask = if let Stage::Shared(_, mask) = result { mask } else { 0 };
                    result = Stage::Shared(first, mask | (1 << index));
                    index += 1;
                }
                Some(MoveStop::Refused) => {
                    self.counters.add(Counter::MoveRefused, 1);
                    index += 1;
                }
            }
        }
        result
    }

    /// The next chunk that staging should look at, going round the page table. None after one whole round without any.
    pub(crate) fn next_chunk(&self, rounds: &mut u32) -> Option<ChunkId> {
        let mut at = self.private.lock().hand;
        for _ in 0..4096 {
            let Some(leaf) = self.table.next_leaf(at) else {
                *rounds += 1;
                at = PageId(0);
                if *rounds > 2 {
                    break;
                }
                continue;
            };
            let start = PageId(at.0.max(leaf.first_page().0));
            let mut chunk = start.chunk();
            while chunk.first_page().0 < leaf.first_page().0 + BLOCK_PAGES {
                let in_block = (chunk.0 % (BLOCK_PAGES / CHUNK_PAGES)) as u32;
                let skip = leaf.rounds_to_skip(in_block);
                let range =
                    PageRange { start: chunk.first_page(), end: chunk.first_page().plus(CHUNK_PAGES) };
                let movable = leaf.slots_in(range).any(|(_, slot)| slot.load().may_be_staged());
                if skip > 0 {
                    leaf.set_rounds_to_skip(in_block, skip - 1);
                } else if movable {
                    self.private.lock().hand = range.end;
                    return Some(chunk);
                }
                chunk = ChunkId(chunk.0 + 1);
            }
            at = leaf.first_page().plus(BLOCK_PAGES);
        }
        self.private.lock().hand = at;
        None
    }
}

/// The numbers of the bits that are set.
pub(crate) fn bits(mask: u64) -> impl Iterator<Item = u32> {
    let mut left = mask;
    core::iter::from_fn(move || {
        (left != 0).then(|| {
            let index = left.trailing_zeros();
            left &= left - 1;
            index
        })
    })
}
