//! What is told of a place by the events that were read in one go with another one, behind it.
//!
//! Moves fill a place and empty it by turns. So of an event that takes away what was in a place, and may be older than
//! what arrived there, the next move tells: if it brings something there, the place was empty, and the event had taken
//! what arrived; if it takes something from there, the place was not, and the event is the older one. Where an
//! unmapping comes before that move, nothing is told: it may have taken what arrived, or gone over pages where nothing
//! was.
//!
//! (The answer is wrong if a thread was stopped between its change and its event, and the change came in between: the
//! event that is next is then not that of the next change.)

use crate::arrivals::NOTHING;
use crate::event::{Event, overlap};
use crate::platform::Message;
use uswap_units::PageRange;

/// Messages that were read with an event, behind it.
#[derive(Clone, Copy, Debug)]
pub struct Later<'m>(pub &'m [Message]);

/// What happens next to pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// Others are brought to their place.
    Replaced,
    /// They are moved away.
    MovedOn,
    /// Nothing that was read.
    Untold,
}

/// What a message tells of two places, of which one may be empty.
fn told(message: &Message) -> [(PageRange, Next); 2] {
    match *message {
        Message::Event(Event::Remap { from, to, pages, added, .. }) => {
            let from = PageRange { start: from, end: from.plus(pages) };
            let to = PageRange { start: to, end: to.plus(pages + added) };
            [(from, Next::MovedOn), (to, Next::Replaced)]
        }
        Message::Event(Event::Unmap(range)) => [(range, Next::Untold), (NOTHING, Next::Untold)],
        _ => [(NOTHING, Next::Untold); 2],
    }
}

impl Later<'_> {
    /// The first pages of `range` to which the same happens next.
    pub(crate) fn next_in(self, range: PageRange) -> (PageRange, Next) {
        let (mut part, mut first) = (range, None);
        for (place, next) in self.0.iter().flat_map(told).filter(|(place, _)| overlap(*place, range)) {
            if range.start < place.start {
                part.end = part.end.min(place.start);
            } else {
                part.end = part.end.min(place.end);
                first = first.or(Some(next));
            }
        }
        (part, first.unwrap_or(Next::Untold))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::platform::Touch;
    use uswap_units::{PageId, Prng};

    fn range(start: u64, end: u64) -> PageRange {
        PageRange { start: PageId(start), end: PageId(end) }
    }
    fn moved(from: u64, to: u64, pages: u64) -> Message {
        Message::Event(Event::Remap { from: PageId(from), to: PageId(to), pages, added: 0, stays: false })
    }

    #[test]
    fn what_happens_next_is_told_part_by_part() {
        let messages = [
            Message::Fault(PageId(12), Touch::Read),
            Message::Event(Event::Unmap(range(20, 24))),
            moved(14, 50, 4),
            moved(70, 12, 10),
        ];
        let later = Later(&messages);
        assert_eq!(later.next_in(range(10, 30)), (range(10, 12), Next::Untold));
        assert_eq!(later.next_in(range(12, 30)), (range(12, 14), Next::Replaced));
        assert_eq!(later.next_in(range(14, 30)), (range(14, 18), Next::MovedOn));
        assert_eq!(later.next_in(range(18, 30)), (range(18, 20), Next::Replaced));
        assert_eq!(later.next_in(range(20, 30)), (range(20, 22), Next::Untold));
        assert_eq!(later.next_in(range(24, 30)), (range(24, 30), Next::Untold));
    }

    /// Pages of a process: which of the changes put there what is there.
    type Pages = [Option<usize>; 10];

    fn some_place(prng: &mut Prng) -> PageRange {
        let start = prng.below(8);
        range(start, start + 1 + prng.below(3))
    }
    fn indices(place: PageRange) -> core::ops::Range<usize> {
        place.start.0 as usize..place.end.0 as usize
    }
    /// Moves or unmaps something that is there as a whole. Its event.
    fn change(prng: &mut Prng, pages: &mut Pages, number: usize) -> Option<Event> {
        let (from, to) = (some_place(prng), PageId(prng.below(8)));
        if indices(from).any(|page| pages[page].is_none()) {
            return None;
        }
        if prng.chance(1, 8) {
            pages[indices(from)].fill(None);
            return Some(Event::Unmap(from));
        }
        let target = range(to.0, to.0 + from.pages());
        if indices(target).any(|page| pages[page].is_some()) {
            return None;
        }
        pages[indices(from)].fill(None);
        pages[indices(target)].fill(Some(number));
        Some(Event::Remap { from: from.start, to, pages: from.pages(), added: 0, stays: false })
    }

    /// Threads change mappings and queue their events at once, but for one that is stopped in between. Its event is
    /// read in one go with those of later changes, when something has arrived where it took something away. What it
    /// took is known here.
    #[test]
    fn the_next_move_tells_whether_an_event_is_older_than_what_arrived() {
        let mut counts = [0; 4];
        for seed in 0..60_000 {
            let mut prng = Prng::new(seed);
            let mut pages: Pages = core::array::from_fn(|_| prng.chance(1, 2).then_some(0));
            let stopped_at = 1 + prng.below(20) as usize;
            let (mut stopped, mut taken, mut messages) = (None, pages, alloc::vec::Vec::new());
            for number in 1..=40 {
                let before = pages;
                let Some(event) = change(&mut prng, &mut pages, number) else { continue };
                if number == stopped_at {
                    (stopped, taken) = (Some(event), before);
                } else {
                    messages.push((number, Message::Event(event)));
                }
            }
            // So many were read before it.
            let Some(event) = stopped else { continue };
            let read = prng.below(messages.len() as u64 + 1) as usize;
            let read_before = messages[..read]
                .iter()
                .flat_map(|&(number, message)| told(&message).map(|told| (number, told)));
            let place = match event {
                Event::Remove(place) | Event::Unmap(place) => place,
                Event::Remap { from, pages, .. } => PageRange { start: from, end: from.plus(pages) },
            };
            let rest: alloc::vec::Vec<Message> =
                messages[read..].iter().map(|(_, message)| *message).collect();
            for page in indices(place) {
                let is_here =
                    |(_, (place, _)): &(usize, (PageRange, Next))| place.contains(PageId(page as u64));
                let Some((number, (_, Next::Replaced))) = read_before.clone().rfind(is_here) else {
                    // Nothing arrived there, or it left again.
                    continue;
                };
                let (_, next) = Later(&rest).next_in(range(page as u64, page as u64 + 1));
                let is_younger = taken[page] == Some(number);
                match next {
                    Next::Replaced => assert!(is_younger, "seed {seed}, page {page}"),
                    Next::MovedOn => assert!(!is_younger, "seed {seed}, page {page}"),
                    Next::Untold => (),
                }
                counts[next as usize] += 1;
                counts[3] += u64::from(is_younger);
            }
        }
        std::println!("replaced, moved on, untold; younger: {counts:?}");
        assert!(counts.iter().all(|&count| count > 100), "{counts:?}");
    }
}
