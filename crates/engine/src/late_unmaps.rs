//! Unmap events that are known to come, for mappings that are gone already. Private to the process, behind its lock.
//!
//! Threads that change mappings queue their events only after the change, so the events of two threads may come in the
//! other order. mremap queues its own: first that pages moved, and when that was read, that the old range is unmapped.
//! If another thread moves a mapping there in between, the late event would drop the words of the new mapping, and with
//! them its content. So a remap event notes its old range here, and an unmap event leaves what is noted alone, once.
//!
//! The unmap event of what was at its *new* range may be late too. Nothing shows whether it is, if it had no words: see
//! [`crate::arrivals`].
//!
//! Must hold: while a note is right, its event is unread, and so `event_pending` is true. When it is false all notes
//! are dropped.

use crate::arrivals::{Arrivals, Move, NO_MOVE, NOTHING};
use uswap_units::PageRange;

/// Notes kept at once: each thread of the program in a system call makes two at most. 256 * 16 B = 4 KiB.
const NOTES_MAX: usize = 256;

/// Moves that are remembered for a fork. When there are more the oldest is forgotten: so many calls in one moment are
/// not expected of any program.
pub(crate) const MOVES_MAX: usize = 64;

/// Ranges whose unmap event is late, or may be.
#[derive(Debug)]
pub struct LateUnmaps {
    moves: [Move; MOVES_MAX],
    moves_count: usize,
    notes: [PageRange; NOTES_MAX],
    count: usize,
    /// Where pages came to.
    pub arrivals: Arrivals,
}

impl LateUnmaps {
    /// No notes.
    pub const fn new() -> LateUnmaps {
        LateUnmaps {
            moves: [NO_MOVE; MOVES_MAX],
            moves_count: 0,
            notes: [NOTHING; NOTES_MAX],
            count: 0,
            arrivals: Arrivals::new(),
        }
    }
    /// An unmap event of `range` will come that is older than what is there.
    pub fn note(&mut self, range: PageRange) {
        assert!(self.count < NOTES_MAX, "more threads change mappings at once than can be followed");
        self.notes[self.count] = range;
        self.count += 1;
    }
    /// True when nothing is noted.
    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.arrivals.is_empty() && self.moves_count == 0
    }
    /// No event is unread: none is late.
    pub fn clear(&mut self) {
        (self.count, self.moves_count) = (0, 0);
        self.arrivals.clear();
    }
    /// Pages were moved while other events were unread: a fork that is read later may be older.
    pub fn note_move(&mut self, new: Move) {
        if self.moves_count == MOVES_MAX {
            self.moves.copy_within(1.., 0);
            self.moves_count -= 1;
        }
        self.moves[self.moves_count] = new;
        self.moves_count += 1;
    }
    /// The moves since no event was unread, the newest first.
    pub fn moves(&self) -> impl Iterator<Item = Move> + Clone + use<> {
        let (moves, count) = (self.moves, self.moves_count);
        (0..count).rev().map(move |index| moves[index])
    }
    /// An unmap event came. Takes out one noted part of `range`: what lies before it is really unmapped, the part
    /// itself is not, and the rest is to be asked for again. None: all of `range` is unmapped.
    pub fn take_first(&mut self, range: PageRange) -> Option<PageRange> {
        let overlaps = |note: &PageRange| note.start.0 < range.end.0 && range.start.0 < note.end.0;
        let (index, note) = self.notes[..self.count]
            .iter()
            .copied()
            .enumerate()
            .filter(|(_, note)| overlaps(note))
            .min_by_key(|(_, note)| note.start)?;
        let part = PageRange { start: note.start.max(range.start), end: note.end.min(range.end) };
        self.count -= 1;
        self.notes[index] = self.notes[self.count];
        // What of the note lies outside of this event waits for another one.
        if note.start < part.start {
            self.note(PageRange { start: note.start, end: part.start });
        }
        if part.end < note.end {
            self.note(PageRange { start: part.end, end: note.end });
        }
        Some(part)
    }
}

impl Default for LateUnmaps {
    fn default() -> Self {
        Self::new()
    }
}
