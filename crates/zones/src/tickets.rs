//! Who asked for a large run and got none leaves a ticket; what compaction makes free for it is kept until it is
//! fetched, so that nobody else takes it first.
//!
//! ```text
//! 63..62 state   61..58 order   57..56 mobility   55..54 class   53..40 end   39..28 use   27..0 frame
//! ```
//! `end` is in units of 64 ms: a ticket that nobody shows by then is void, and its frames go back. `use` counts how
//! often the place was given out, so that an old ticket opens nothing.
//!
//! Must hold: a run that was made for a ticket is given back by exactly one of who fetches it, who withdraws it, and
//! kcompactd when it is void. Each change is one exchange of one word. Requests and kcompactd call this; no lock is
//! needed.

use super::Mobility;
use crate::FrameId;
use crate::plant::{Plant, is_planted};
use uswap_sync::{AtomicU64, Ordering};

/// Tickets at once: each may keep a block, 64 * 2 MiB = 128 MiB at most.
pub const TICKETS_MAX: usize = 64;

/// So long a run is kept for who asked.
pub const TICKET_MS: u64 = 1000;

const END_SHIFT: u32 = 6;
const END_MASK: u64 = (1 << 14) - 1;
const USE_MASK: u64 = (1 << 12) - 1;
const FRAME_MASK: u64 = (1 << 28) - 1;

/// What a ticket is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// A run of `1 << order` frames.
    pub order: u32,
    /// Used as this.
    pub mobility: Mobility,
    /// From this zone or a lower one.
    pub class: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Free,
    Wanted,
    Filled,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Word {
    state: State,
    wanted: Wanted,
    end: u64,
    number: u64,
    frame: u32,
}

impl Word {
    fn of(word: u64) -> Word {
        Word {
            state: match word >> 62 {
                0 => State::Free,
                1 => State::Wanted,
                _ => State::Filled,
            },
            wanted: Wanted {
                order: (word >> 58 & 15) as u32,
                mobility: Mobility::of(word >> 56),
                class: (word >> 54 & 3) as usize,
            },
            end: word >> 40 & END_MASK,
            number: word >> 28 & USE_MASK,
            frame: (word & FRAME_MASK) as u32,
        }
    }
    fn word(self) -> u64 {
        (self.state as u64) << 62
            | u64::from(self.wanted.order) << 58
            | (self.wanted.mobility as u64) << 56
            | (self.wanted.class as u64) << 54
            | self.end << 40
            | self.number << 28
            | u64::from(self.frame)
    }
    /// The clock of a ticket goes round every 17 minutes.
    fn is_void(self, now_ms: u64) -> bool {
        let late = (now_ms >> END_SHIFT).wrapping_sub(self.end) & END_MASK;
        self.state != State::Free && late < END_MASK / 2
    }
}

/// A place among the tickets, and which use of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Ticket {
    place: usize,
    number: u64,
}

/// What a ticket brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Fetched {
    /// This run is the caller's; its zone must hear of it.
    Frame(FrameId),
    /// Not yet.
    Waiting,
    /// The ticket is void.
    Void,
}

/// View of the tickets of a node.
#[derive(Clone, Copy)]
pub struct Tickets<'a> {
    words: &'a [AtomicU64],
}

impl<'a> Tickets<'a> {
    /// A view of [`TICKETS_MAX`] words, zeroed at the start. With fewer words there are fewer tickets.
    pub fn open(words: &'a [AtomicU64]) -> Tickets<'a> {
        Tickets { words }
    }

    fn load(&self, place: usize) -> (u64, Word) {
        // Pairs with `change`: who sees that a ticket is filled sees the words of the frames that were taken for it.
        let seen = self.words[place].load(Ordering::Acquire);
        (seen, Word::of(seen))
    }
    fn change(&self, place: usize, seen: u64, to: Word) -> bool {
        // Release pairs with the Acquire of `load`.
        self.words[place].compare_exchange(seen, to.word(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Leaves a ticket. None: there are too many.
    pub fn leave(&self, wanted: Wanted, now_ms: u64) -> Option<Ticket> {
        let end = ((now_ms + TICKET_MS) >> END_SHIFT) & END_MASK;
        (0..self.words.len()).find_map(|place| {
            let (seen, word) = self.load(place);
            let number = (word.number + 1) & USE_MASK;
            let is_mine = word.state == State::Free
                && self.change(place, seen, Word { state: State::Wanted, wanted, end, number, frame: 0 });
            is_mine.then_some(Ticket { place, number })
        })
    }

    /// What the ticket brought. A run is the caller's from here on, and the ticket void.
    pub fn fetch(&self, ticket: Ticket) -> Fetched {
        let (seen, word) = self.load(ticket.place);
        match word.state {
            _ if word.number != ticket.number => Fetched::Void,
            State::Free => Fetched::Void,
            State::Wanted => Fetched::Waiting,
            State::Filled if is_planted(Plant::FetchByStore) => {
                // Release pairs with the Acquire of `load`, as in `change`.
                self.words[ticket.place].store(Word { state: State::Free, ..word }.word(), Ordering::Release);
                Fetched::Frame(FrameId::new(word.frame))
            }
            State::Filled if self.change(ticket.place, seen, Word { state: State::Free, ..word }) => {
                Fetched::Frame(FrameId::new(word.frame))
            }
            // It became void just now.
            State::Filled => Fetched::Void,
        }
    }

    /// The ticket is not wanted any more. Returns what it had brought.
    pub fn withdraw(&self, ticket: Ticket) -> Option<FrameId> {
        loop {
            let (seen, word) = self.load(ticket.place);
            if word.number != ticket.number || word.state == State::Free {
                return None;
            }
            if self.change(ticket.place, seen, Word { state: State::Free, ..word }) {
                return (word.state == State::Filled).then_some(FrameId::new(word.frame));
            }
        }
    }

    /// Tickets that wait, those of small places first.
    pub fn waiting(&self) -> impl Iterator<Item = (Ticket, Wanted)> + use<'a> {
        let this = *self;
        (0..self.words.len()).filter_map(move |place| {
            let (_, word) = this.load(place);
            let ticket = Ticket { place, number: word.number };
            (word.state == State::Wanted).then_some((ticket, word.wanted))
        })
    }

    /// A run is there for a ticket. False: it does not wait any more, and the run is still the caller's.
    #[must_use]
    pub fn fill(&self, ticket: Ticket, frame: FrameId) -> bool {
        let (seen, word) = self.load(ticket.place);
        word.state == State::Wanted
            && word.number == ticket.number
            && self.change(ticket.place, seen, Word { state: State::Filled, frame: frame.number(), ..word })
    }

    /// Clears one ticket that is void by now, if there is one. `Some(Some(frame))`: the run that was kept for it is the
    /// caller's.
    pub fn clear_void(&self, now_ms: u64) -> Option<Option<FrameId>> {
        (0..self.words.len()).find_map(|place| {
            let (seen, word) = self.load(place);
            let is_mine =
                word.is_void(now_ms) && self.change(place, seen, Word { state: State::Free, ..word });
            is_mine.then(|| (word.state == State::Filled).then_some(FrameId::new(word.frame)))
        })
    }

    /// Runs that are kept for tickets now.
    pub fn filled(&self) -> usize {
        (0..self.words.len()).filter(|&place| self.load(place).1.state == State::Filled).count()
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    const WANTED: Wanted = Wanted { order: 9, mobility: Mobility::Unmovable, class: 2 };

    #[test]
    fn a_run_goes_to_who_asked_or_back() {
        let words: Vec<AtomicU64> = (0..2).map(|_| AtomicU64::new(0)).collect();
        let tickets = Tickets::open(&words);
        let (first, second) =
            (tickets.leave(WANTED, 0).expect("room"), tickets.leave(WANTED, 500).expect("room"));
        assert_eq!(tickets.leave(WANTED, 0), None, "there are two");
        assert_eq!(tickets.fetch(first), Fetched::Waiting);
        assert!(tickets.fill(first, FrameId::new(512)));
        assert!(tickets.fill(second, FrameId::new(1024)));
        assert!(!tickets.fill(second, FrameId::new(2048)), "it has one");
        assert_eq!(tickets.fetch(first), Fetched::Frame(FrameId::new(512)));
        assert_eq!(tickets.fetch(first), Fetched::Void);
        assert_eq!(tickets.clear_void(1400), None);
        assert_eq!(tickets.clear_void(1600), Some(Some(FrameId::new(1024))));
        assert_eq!(tickets.fetch(second), Fetched::Void);
        let third = tickets.leave(WANTED, 2000).expect("room");
        assert_ne!(third, first, "an old ticket opens nothing");
        assert_eq!(tickets.waiting().collect::<Vec<_>>(), [(third, WANTED)]);
        assert_eq!(tickets.withdraw(third), None);
        assert_eq!(tickets.waiting().count(), 0);
    }

    #[test]
    fn the_clock_of_a_ticket_may_go_round() {
        let words = [AtomicU64::new(0)];
        let tickets = Tickets::open(&words);
        let now = (END_MASK << END_SHIFT) + 10;
        let _ticket = tickets.leave(WANTED, now).expect("room");
        assert_eq!(tickets.clear_void(now + 800), None);
        assert_eq!(tickets.clear_void(now + 1100), Some(None));
    }
}
