//! Staging: moves a chunk of pages out of the program into the arena, where a touch brings them back cheaply.

use crate::arena::StagedChunk;
use crate::engine::Engine;
use crate::platform::{MoveStop, Platform};
use uswap_codec as codec;
use uswap_core::counters::Counter;
use uswap_core::page_table::{Leaf, TICK_NS};
use uswap_core::page_word::{Place, TryLock};
use uswap_units::{BLOCK_PAGES, CHUNK_PAGES, ChunkId, FrameId, PAGE_BYTES, PageId, PageRange};

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
    /// A huge page that was touched while it was staged: it is left alone for this time.
    Rests,
}

/// What is known after a move of pages of a chunk.
pub(crate) struct Moved<'l, 'a> {
    pub(crate) leaf: &'l Leaf<'a>,
    /// First page of the chunk.
    pub(crate) first: PageId,
    /// Frame of the first page of `part`, the next is in the next one, and so on. They were empty before.
    pub(crate) frame: FrameId,
    /// The pages that were locked, bit i for `first + i`.
    pub(crate) part: u64,
    /// Those of them that the kernel went over.
    pub(crate) passed: u64,
    /// Which frames hold something now.
    pub(crate) held: u64,
}

/// Rounds in search of a page that does not rest: the longest rest is over after seven.
const ROUNDS_MAX: u32 = 8;

/// Leaves that one search looks at: at some 10 ns each.
const LEAVES_MAX: u32 = 1 << 17;

impl<P: Platform> Engine<'_, P> {
    /// Stages what it can of one chunk of the program.
    pub async fn stage_chunk(&self, chunk: ChunkId) -> Stage {
        self.platform.lock_shared().await;
        let (result, moved) =
            if self.may_evict() { self.move_chunk(chunk).await } else { (Stage::EventPending, 0) };
        self.platform.unlock_shared();
        self.counters.add(Counter::Staged, u64::from(moved));
        if moved > 0 && result == Stage::Nothing { Stage::Staged(moved) } else { result }
    }

    /// In a shared section: lock the words, move, see what arrived, commit. Returns also how many pages arrived.
    async fn move_chunk(&self, chunk: ChunkId) -> (Stage, u32) {
        let first = chunk.first_page();
        let Some(leaf) = self.table.leaf(first) else { return (Stage::Nothing, 0) };
        // Looked at in the shared section, since events are processed in exclusive ones.
        let in_block = (chunk.0 % (BLOCK_PAGES / CHUNK_PAGES)) as u32;
        let held = leaf.is_held(in_block, self.platform.now_ns() / TICK_NS);
        if held || self.platform.drops_under_way(PageRange { start: first, end: first.plus(CHUNK_PAGES) }) {
            return (Stage::Nothing, 0);
        }
        let mut locked = self.lock_movable(&leaf, first);
        let (mut result, mut moved) = (Stage::Nothing, 0);
        while locked != 0 {
            let Some(mut target) = self.private.lock().arena.take() else {
                result = Stage::NoRoom;
                break;
            };
            let part = lowest_bits(locked, target.room());
            let before = target.pages;
            let stop = self.move_part(&leaf, first, part, &mut target).await;
            moved += target.pages - before;
            self.private.lock().arena.put(target);
            locked &= !part;
            match (stop, result) {
                (Stage::Nothing, _) => (),
                (Stage::Shared(_, more), Stage::Shared(_, mask)) => {
                    result = Stage::Shared(first, mask | more)
                }
                _ => result = stop,
            }
            if result == Stage::EventPending {
                break;
            }
        }
        self.unlock(&leaf, first, locked);
        (result, moved)
    }

    /// Moves locked pages to the next frames of `target`, and gives their locks back.
    async fn move_part(&self, leaf: &Leaf<'_>, first: PageId, part: u64, target: &mut StagedChunk) -> Stage {
        let (frame, count) = (target.next_frame(), part.count_ones());
        let frame_of = |rank: usize| FrameId(frame.0 + rank as u32);
        let occupied = self.platform.held(frame, count);
        if occupied != 0 {
            // Somebody looked at the arena, and the kernel put zeros there. What such a frame holds is of no page.
            target.used += u64::BITS - occupied.leading_zeros();
            self.unlock(leaf, first, part);
            return Stage::Nothing;
        }
        {
            // Before the words name the frames: a move of the mapping may change it from then on.
            let mut private = self.private.lock();
            for (rank, index) in bits(part).enumerate() {
                private.arena.set_page_of(frame_of(rank), first.plus(u64::from(index)));
            }
        }
        self.platform.step().await;
        let (stop, passed) = self.move_runs(first, frame, part);
        self.platform.step().await;
        let held = self.platform.held(frame, count);
        target.pages += self.commit_moved(&Moved { leaf, first, frame, part, passed, held });
        // Frames that hold something are not moved to again, whatever that is.
        target.used += u64::BITS - held.leading_zeros();
        stop
    }

    /// Commits what became of pages that were to be moved; how many were.
    pub(crate) fn commit_moved(&self, seen: &Moved<'_, '_>) -> u32 {
        let moved = self.moved(seen.frame, seen.part, seen.passed, seen.held);
        for (rank, index) in bits(seen.part).enumerate() {
            let slot = seen.leaf.slot(seen.first.plus(u64::from(index)));
            let word = slot.load();
            if moved & (1 << index) != 0 {
                self.commit(slot, Place::Staged(FrameId(seen.frame.0 + rank as u32)), word.swap());
            } else if seen.passed & (1 << index) != 0 {
                self.must_be_done(slot.commit_hole());
            } else {
                self.commit(slot, word.place(), word.swap());
            }
        }
        moved.count_ones()
    }

    /// Of the pages of `part`, those that are in their frames now. The frames were empty before; `held`: those that are
    /// not any more.
    ///
    /// The kernel does not count all that it moves (Linux 6.18: when it stops in the middle of a batch). So what a
    /// frame holds says whether the page is there that the kernel did not count: anything but zeros came with it. Zeros
    /// may be there because somebody has just looked at the frame; then the page is where it was, or mremap has taken
    /// it along meanwhile. Or they are its own: then nothing is mapped where it was, and a touch gives zeros again.
    fn moved(&self, frame: FrameId, part: u64, passed: u64, held: u64) -> u64 {
        let in_frames = bits(part).enumerate().filter(|(rank, _)| held & (1 << rank) != 0);
        let came = in_frames.filter(|(rank, index)| {
            let is_counted = passed & (1 << index) != 0;
            is_counted || self.holds_more_than_zeros(FrameId(frame.0 + *rank as u32))
        });
        came.fold(0, |mask, (_, index)| mask | (1 << index))
    }

    #[cold]
    pub(crate) fn holds_more_than_zeros(&self, frame: FrameId) -> bool {
        let mut content = [0; PAGE_BYTES];
        self.platform.read_frame(frame, &mut content);
        codec::same_filled(&content) != Some(0)
    }

    /// Gives the locks of pages back, the words unchanged. In the shared section in which they were locked.
    pub(crate) fn unlock(&self, leaf: &Leaf<'_>, first: PageId, locked: u64) {
        for index in bits(locked) {
            let slot = leaf.slot(first.plus(u64::from(index)));
            let word = slot.load();
            self.commit(slot, word.place(), word.swap());
        }
    }

    /// Locks the words of all pages that may be moved and do not rest; bit i for `first + i`.
    pub(crate) fn lock_movable(&self, leaf: &Leaf<'_>, first: PageId) -> u64 {
        let range = PageRange { start: first, end: first.plus(CHUNK_PAGES) };
        let mut locked = 0;
        for (index, (_, slot)) in leaf.slots_in(range).enumerate() {
            if !slot.load().may_be_staged() || slot.pass_by() {
                continue;
            }
            if let TryLock::Locked(word) = slot.try_lock() {
                // Flags may have changed between the look and the lock.
                if word.may_be_staged() {
                    locked |= 1 << index;
                } else {
                    self.commit(slot, word.place(), word.swap());
                }
            }
        }
        locked
    }

    /// Moves each run of locked pages, the first to `frame`, the next to those behind it. What cannot be moved stays
    /// where it is. Returns also over which pages the kernel went: bit i for `first + i`. Such a page has arrived, or
    /// there was nothing.
    fn move_runs(&self, first: PageId, frame: FrameId, locked: u64) -> (Stage, u64) {
        let (mut result, mut passed) = (Stage::Nothing, 0);
        let mut index = 0;
        while index < CHUNK_PAGES as u32 {
            let left = locked >> index;
            if left & 1 == 0 {
                index += left.trailing_zeros().clamp(1, 64);
                continue;
            }
            let run = (!left).trailing_zeros().min(CHUNK_PAGES as u32 - index);
            let rank = (locked & ((1 << index) - 1)).count_ones();
            let out = self.platform.move_out(first.plus(u64::from(index)), FrameId(frame.0 + rank), run);
            passed |= mask_of(out.pages) << index;
            index += out.pages;
            match out.stop {
                None => (),
                Some(MoveStop::EventPending) => return (Stage::EventPending, passed),
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
        (result, passed)
    }

    /// The next chunk that staging should look at, going round the page table. None after one whole round without a
    /// page that may be staged.
    pub(crate) fn next_chunk(&self, rounds: &mut u32) -> Option<ChunkId> {
        let mut at = self.private.lock().hand;
        let mut seen = Seen::Nothing;
        let mut is_whole_round = at == PageId(0);
        for _ in 0..LEAVES_MAX {
            let Some(leaf) = self.table.next_leaf(at) else {
                at = PageId(0);
                *rounds += 1;
                if *rounds > ROUNDS_MAX || is_whole_round && seen == Seen::Nothing {
                    break;
                }
                (is_whole_round, seen) = (true, Seen::Nothing);
                continue;
            };
            let start = at.0.max(leaf.first_page().0) - leaf.first_page().0;
            let chunks = leaf.stageable().chunks() & (u64::MAX << (start / CHUNK_PAGES));
            for in_block in bits(chunks) {
                let chunk = ChunkId(leaf.first_page().chunk().0 + u64::from(in_block));
                match look(&leaf, in_block, chunk) {
                    Seen::Ready => {
                        self.private.lock().hand = chunk.first_page().plus(CHUNK_PAGES);
                        return Some(chunk);
                    }
                    Seen::Resting => seen = Seen::Resting,
                    Seen::Nothing => (),
                }
            }
            at = leaf.first_page().plus(BLOCK_PAGES);
        }
        self.private.lock().hand = at;
        None
    }
}

/// What there is to stage.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nothing,
    /// Pages that rest, one time less from now on.
    Resting,
    /// A page.
    Ready,
}

/// Looks whether there is a page to stage in a chunk.
fn look(leaf: &Leaf<'_>, in_block: u32, chunk: ChunkId) -> Seen {
    leaf.stageable().begin_look(in_block);
    let range = PageRange { start: chunk.first_page(), end: chunk.first_page().plus(CHUNK_PAGES) };
    let movable = || leaf.slots_in(range).filter(|(_, slot)| slot.load().may_be_staged());
    let mut seen = Seen::Nothing;
    if movable().any(|(_, slot)| slot.load().rest() == 0) {
        seen = Seen::Ready;
    } else {
        for (_, slot) in movable() {
            slot.pass_by();
            seen = Seen::Resting;
        }
    }
    if seen != Seen::Nothing {
        leaf.stageable().set(in_block);
    }
    seen
}

/// The lowest `count` of 64 bits.
pub(crate) const fn mask_of(count: u32) -> u64 {
    if count == 0 { 0 } else { u64::MAX >> (u64::BITS - count) }
}

/// The lowest `count` bits of those that are set.
fn lowest_bits(mask: u64, count: u32) -> u64 {
    bits(mask).take(count as usize).fold(0, |part, index| part | (1 << index))
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
