//! Unmap events that are known to come, for mappings that are gone already. Private to the process, behind its lock.
//!
//! Threads that change mappings queue their events only after the change, so the events of two threads may come in the other order. mremap queues
//! its own: first that pages moved, and when that was read, that the old range is unmapped. If another thread moves a mapping there in between, the late event
//! would drop the words of the new mapping, and with them its content. So a remap event notes its old range here, and an unmap event leaves what is noted alone, once.
//!
//! The unmap event of what was at its *new* range may be late too. Nothing shows whether it is, if it had no words: so each new range is disputed for a while, and an unmap
//! event there has to wait until the kernel's answer to "what is registered there now" is about the same moment as the words.
//!
//! Must hold: while a note is right, its event is unread, and so `event_pending` is true. When it is false all notes are dropped.

use uswap_units::{PageId, PageRange};

/// Notes kept at once: each thread of the program in a system call makes two at most. 256 * 16 B = 4 KiB.
const NOTES_MAX: usize = 256;

/// Disputed ranges kept apart. When there are more, the last one grows to cover them: more is asked than is needed.
const DISPUTED_MAX: usize = 64;

/// Moves that are remembered for a fork. When there are more the oldest is forgotten: so many calls in one moment are not expected of any program.
pub(crate) const MOVES_MAX: usize = 64;

/// A move of pages that a remap event told of.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    /// The old place.
    pub from: PageRange,
    /// First page of the new place.
    pub to: PageId,
}

impl Move {
    /// The new place.
    pub fn target(self) -> PageRange {
        PageRange { start: self.to, end: self.to.plus(self.from.pages()) }
    }
}

/// Ranges whose unmap event is late, or may be.
#[derive(Debug)]
pub struct LateUnmaps {
    moves: [Move; MOVES_MAX],
    moves_count: usize,
    notes: [PageRange; NOTES_MAX],
    count: usize,
    disputed: [PageRange; DISPUTED_MAX],
    disputed_count: usize,
}

/// No pages.
pub(crate) const NOTHING: PageRange = PageRange { start: PageId(0), end: PageId(0) };

impl LateUnmaps {
    /// No notes.
    pub const fn new() -> LateUnmaps {
        LateUnmaps {
            moves: [Move { from: NOTHING, to: PageId(0) }; MOVES_MAX],
            moves_count: 0,
            notes: [NOTHING; NOTES_MAX],
            count: 0,
            disputed: [NOTHING; DISPUTED_MAX],
            disputed_count: 0,
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
        self.count == 0 && self.disputed_count == 0 && self.moves_count == 0
    }
    /// No event is unread: none is late.
    pub fn clear(&mut self) {
        (self.count, self.disputed_count, self.moves_count) = (0, 0, 0);
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
    pub fn moves(&self) -> impl Iterator<Item = Move> + use<> {
        let (moves, count) = (self.moves, self.moves_count);
        (0..count).rev().map(move |index| moves[index])
    }
    /// Pages were moved to `range`: an unmap event that is still to come may be of what was there before.
    pub fn dispute(&mut self, range: PageRange) {
        if self.disputed_count < DISPUTED_MAX {
            self.disputed[self.disputed_count] = range;
            self.disputed_count += 1;
            return;
        }
        let last = &mut self.disputed[DISPUTED_MAX - 1];
        *last = PageRange { start: last.start.min(range.start), end: last.end.max(range.end) };
    }
    /// True when something was moved to a part of `range` a moment ago.
    pub fn is_disputed(&self, range: PageRange) -> bool {
        self.disputed[..self.disputed_count].iter().any(|disputed| crate::event::overlap(*disputed, range))
    }
    /// The first part of `range` that something was moved to a moment ago.
    pub fn first_disputed(&self, range: PageRange) -> Option<PageRange> {
        let disputed = self.disputed[..self.disputed_count].iter();
        let parts = disputed.filter(|disputed| crate::event::overlap(**disputed, range)).map(|disputed| {
            PageRange { start: disputed.start.max(range.start), end: disputed.end.min(range.end) }
        });
        parts.min_by_key(|part| part.start)
    }
    /// True when an unmap event for a part of `range` will come that is older than what is there.
    pub fn is_noted(&self, range: PageRange) -> bool {
        self.notes[..self.count].iter().any(|note| crate::event::overlap(*note, range))
    }
    /// An unmap event came. Takes out one noted part of `range`: what lies before it is really unmapped, the part itself is not, and the rest
    /// is to be asked for again. None: all of `range` is unmapped.
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
