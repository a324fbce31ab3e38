//! Parts of the swap files that were read before a fault needed them, in memory that all processes of a run share.
//!
//! A process asks for a part ([`ask`](ReadaheadBuffers::ask)), the supervisor reads it
//! ([`take`](ReadaheadBuffers::take), [`finish`](ReadaheadBuffers::finish)), and whoever needs it copies it out
//! ([`copy`](ReadaheadBuffers::copy)). What is in a buffer is as it lies in the file, compressed and sealed.
//!
//! Must hold: a copy is a hint. The file may have been written since, and a buffer may be given to another part while
//! it is copied, so the caller verifies each record, and reads the file where one is wrong. Called by `engine`, in a
//! process to ask, copy and forget, and by the supervisor, which takes and finishes through it.

use crate::plant::{Plant, is_planted};
use core::ops::Range;
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::limits::{FILE_BUFFER_BYTES, READAHEAD_BUFFERS_MAX};
use uswap_units::{PAGE_BYTES, SlotId, SwapOffset};

/// Words of one state, on a cache line of its own.
pub(crate) const STATE_WORDS: usize = 8;
/// Words of a slot. A model checker goes through every order of the accesses to them: two show what many do.
const SLOT_WORDS: usize = if cfg!(any(loom, shuttle)) { 2 } else { PAGE_BYTES / 8 };
/// Words of the content of one buffer.
pub(crate) const CONTENT_WORDS: usize = FILE_BUFFER_BYTES / PAGE_BYTES * SLOT_WORDS;
/// Slots of the largest part.
const SLOTS_MAX: u64 = (FILE_BUFFER_BYTES / PAGE_BYTES) as u64;
/// In the line of the first state: the buffer that was given out last.
const CURSOR: usize = 1;

/// What was read and not used stays so long, so that streams do not take buffers from each other. It is longer than a
/// read takes, and than a thread needs for what lies before the part.
const UNUSED_NS: u64 = 50_000_000;

const STAGE_MASK: u64 = 3;
const FREE: u64 = 0;
const WANTED: u64 = 1;
const READING: u64 = 2;
const HELD: u64 = 3;
const USED: u64 = 1 << 2;
const COUNT_SHIFT: u32 = 3;
const COUNT_MASK: u64 = 0x1F;
const SLOT_SHIFT: u32 = 8;
/// Slots that a state can name.
pub(crate) const SLOTS_NAMED: u64 = 1 << 28;
const SLOT_MASK: u64 = SLOTS_NAMED - 1;
const TIME_SHIFT: u32 = 36;
/// Bits of a time that are left out: it counts in units of 2^20 ns.
const TIME_UNIT_SHIFT: u32 = 20;
const TIME_MASK: u64 = u64::MAX >> TIME_SHIFT;

const _: () = assert!(SLOTS_MAX <= COUNT_MASK);

/// View of the buffers.
#[derive(Clone, Copy)]
pub struct ReadaheadBuffers<'a> {
    pub(crate) states: &'a [AtomicU64],
    pub(crate) content: &'a [AtomicU64],
}

/// What is known of a part of the file.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copied {
    /// It was copied, up to this byte.
    UpTo(SwapOffset),
    /// It is being read.
    Coming,
    /// Nobody has it, or nobody has begun to read it.
    Not,
}

/// A part that the supervisor has to read.
#[must_use]
#[derive(Debug)]
pub struct Task {
    index: usize,
    state: u64,
    /// Whole slots.
    pub part: Range<SwapOffset>,
}

fn to_state(part: &Range<SwapOffset>, stage: u64, now_ns: u64) -> u64 {
    let (first, end) = (part.start.slot(), part.end.next_slot_start().slot());
    let time = now_ns >> TIME_UNIT_SHIFT & TIME_MASK;
    stage | end.since(first) << COUNT_SHIFT | first.number() << SLOT_SHIFT | time << TIME_SHIFT
}

fn part_of(state: u64) -> Range<SwapOffset> {
    let first = SlotId::new(state >> SLOT_SHIFT & SLOT_MASK);
    first.start()..first.plus(state >> COUNT_SHIFT & COUNT_MASK).start()
}

fn is_within(part: &Range<SwapOffset>, whole: &Range<SwapOffset>) -> bool {
    whole.start <= part.start && part.end <= whole.end
}

/// Whether a buffer may be given to another part.
fn is_spare(state: u64, now_ns: u64) -> bool {
    let age = (now_ns >> TIME_UNIT_SHIFT).wrapping_sub(state >> TIME_SHIFT) & TIME_MASK;
    match state & STAGE_MASK {
        FREE => true,
        READING => false,
        HELD if state & USED != 0 => true,
        _ => age > UNUSED_NS >> TIME_UNIT_SHIFT,
    }
}

impl<'a> ReadaheadBuffers<'a> {
    /// How many a run with so much RAM has: they take a part in 128 of it, and two are the least of use to one stream.
    pub fn count_for(ram_bytes: u64) -> u32 {
        (ram_bytes / 128 / FILE_BUFFER_BYTES as u64).clamp(2, u64::from(READAHEAD_BUFFERS_MAX)) as u32
    }

    fn count(&self) -> usize {
        self.states.len() / STATE_WORDS
    }
    fn state(&self, index: usize) -> &'a AtomicU64 {
        &self.states[index * STATE_WORDS]
    }
    fn content(&self, index: usize) -> &'a [AtomicU64] {
        &self.content[index * CONTENT_WORDS..][..CONTENT_WORDS]
    }
    /// Each buffer with its state, the one that was given out longest ago first.
    fn each(&self) -> impl Iterator<Item = (usize, u64)> + use<'a> {
        let (all, count) = (*self, self.count());
        let last = if count > 0 { all.states[CURSOR].load(Ordering::Relaxed) as usize } else { 0 };
        (1..=count).map(move |ahead| {
            let index = (last + ahead) % count;
            // Acquire pairs with `finish`: whoever sees that a part is held sees its content.
            (index, all.state(index).load(Ordering::Acquire))
        })
    }

    /// The part of the file with `part` in it that somebody has asked for or read.
    pub fn find(&self, part: &Range<SwapOffset>) -> Option<Range<SwapOffset>> {
        let is_there =
            |&(_, state): &(usize, u64)| state & STAGE_MASK != FREE && is_within(part, &part_of(state));
        self.each().find(is_there).map(|(_, state)| part_of(state))
    }

    /// Asks for a part, of whole slots, at most [`FILE_BUFFER_BYTES`]. False: all buffers are in use.
    #[must_use]
    pub fn ask(&self, part: &Range<SwapOffset>, now_ns: u64) -> bool {
        assert!(part.end.since(part.start) <= FILE_BUFFER_BYTES as u64);
        let wanted = to_state(part, WANTED, now_ns);
        for (index, state) in self.each() {
            let takes =
                || self.state(index).compare_exchange(state, wanted, Ordering::Relaxed, Ordering::Relaxed);
            if is_spare(state, now_ns) && takes().is_ok() {
                self.states[CURSOR].store(index as u64, Ordering::Relaxed);
                return true;
            }
        }
        false
    }

    /// Copies from `part`, and up to `reach` as far as it is there, if a buffer has all of `part`. All of them are
    /// whole slots.
    pub fn copy(&self, part: &Range<SwapOffset>, reach: SwapOffset, out: &mut [u8]) -> Copied {
        for (index, state) in self.each().filter(|(_, state)| is_within(part, &part_of(*state))) {
            match state & STAGE_MASK {
                READING => return Copied::Coming,
                WANTED => {
                    // The caller reads it at once: nobody needs it once more.
                    let _or_begun =
                        self.state(index).compare_exchange(state, FREE, Ordering::Relaxed, Ordering::Relaxed);
                }
                HELD => {
                    if let Some(end) = self.copy_held(index, state, part.start, reach, out) {
                        return Copied::UpTo(end);
                    }
                }
                _ => (),
            }
        }
        Copied::Not
    }

    fn copy_held(
        &self,
        index: usize,
        state: u64,
        start: SwapOffset,
        reach: SwapOffset,
        out: &mut [u8],
    ) -> Option<SwapOffset> {
        let held = part_of(state);
        let end = held.end.min(reach);
        let words = words_of(held.start, start)..words_of(held.start, end);
        let slots = out[..end.since(start) as usize].chunks_mut(PAGE_BYTES);
        for (slot, words) in slots.zip(self.content(index)[words].chunks(SLOT_WORDS)) {
            for (bytes, word) in slot.as_chunks_mut().0.iter_mut().zip(words) {
                // Acquire keeps the look at the state behind the copying.
                *bytes = word.load(Ordering::Acquire).to_le_bytes();
            }
        }
        let is_same = self.state(index).load(Ordering::Relaxed) & !USED == state & !USED
            || is_planted(Plant::CopyWithoutLook);
        // The last record may go on in the next slot, and is then copied with what follows.
        if is_same && held.end.since(end) <= PAGE_BYTES as u64 {
            let used = state | USED;
            let _or_used =
                self.state(index).compare_exchange(state, used, Ordering::Relaxed, Ordering::Relaxed);
        }
        is_same.then_some(end)
    }

    /// What is held of the file there is not what is there now.
    pub fn forget(&self, part: &Range<SwapOffset>) {
        for (index, state) in self.each() {
            if state & STAGE_MASK == HELD && is_within(part, &part_of(state)) {
                let _or_changed =
                    self.state(index).compare_exchange(state, FREE, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    /// The next part to read; the supervisor's.
    pub fn take(&self) -> Option<Task> {
        let is_taken = |&(index, state): &(usize, u64)| {
            let reading = state & !STAGE_MASK | READING;
            let state_word = self.state(index);
            state & STAGE_MASK == WANTED
                && state_word.compare_exchange(state, reading, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        let (index, state) = self.each().find(is_taken)?;
        Some(Task { index, state, part: part_of(state) })
    }

    /// The outcome of reading it; without content it could not be read.
    pub fn finish(&self, task: Task, content: Option<&[u8]>) {
        let stage = match content {
            Some(content) => {
                let slots = content.chunks(PAGE_BYTES);
                for (slot, words) in slots.zip(self.content(task.index).chunks(SLOT_WORDS)) {
                    for (bytes, word) in slot.as_chunks().0.iter().zip(words) {
                        // Release: whoever copies this sees the state that it now has, or one after it.
                        word.store(u64::from_le_bytes(*bytes), Ordering::Release);
                    }
                }
                task.state & !STAGE_MASK | HELD
            }
            None => FREE,
        };
        self.state(task.index).store(stage, Ordering::Release);
    }
}

/// Words between two borders of slots.
fn words_of(start: SwapOffset, end: SwapOffset) -> usize {
    end.since(start) as usize / PAGE_BYTES * SLOT_WORDS
}
