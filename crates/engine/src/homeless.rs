//! Pages that were moved to a place for which there is no table page: [`Removal::Homeless`]. Their words stay where
//! they were until their content is copied to the new place, which has to wait until no event is unread. Here is what
//! other events mean for them meanwhile.
//!
//! A sound program changes the new place again only when the first move has returned. So what is moved there comes
//! later; what is moved from there may be older, by a thread that was stopped before its event: `arrivals` knows what
//! left by it.

use crate::arrivals::{Arrivals, Move};
use crate::engine::Engine;
use crate::event::{Event, Removal};
use crate::platform::Platform;
use crate::unfinished::Unfinished;
use uswap_core::page_word::Afterwards;
use uswap_units::{PageId, PageRange};

/// Moves of pages from `from` to `to`, of which `gone` lies in the new place: what comes before it, what lies in it,
/// and what comes behind it; each with its own new place.
fn split(from: PageRange, to: PageId, gone: PageRange) -> Option<[(PageRange, PageId); 3]> {
    let target_end = to.0 + from.pages();
    let (start, end) = (gone.start.0.max(to.0), gone.end.0.min(target_end));
    if start >= end {
        return None;
    }
    let part = |start: u64, end: u64| {
        let range = PageRange { start: from.start.plus(start - to.0), end: from.start.plus(end - to.0) };
        (range, PageId(start))
    };
    Some([part(to.0, start), part(start, end), part(end, target_end)])
}

impl<P: Platform> Engine<'_, P> {
    /// An event was read, and of a move is known which of what had arrived left by it. Homeless pages whose new place
    /// was dropped, or something else was moved to, need not be copied; those that were moved on go there. (Where the
    /// place was unmapped there is nothing to copy to.)
    pub(crate) fn follow_homeless(&self, unfinished: &mut Unfinished, event: Event) {
        match event {
            Event::Unmap(_) => (),
            Event::Remove(range) => self.drop_homeless(unfinished, range),
            Event::Remap { from, to, pages, added, stays } => {
                let from = PageRange { start: from, end: from.plus(pages) };
                self.drop_homeless(unfinished, PageRange { start: to, end: to.plus(pages + added) });
                if stays {
                    // Nothing comes to such a place before the call has returned: all goes along.
                    return move_homeless(unfinished, from, to);
                }
                let arrivals = &self.private.lock().late_unmaps.arrivals;
                move_homeless_that_left(unfinished, arrivals, Move { from, to });
            }
        }
    }

    /// Pages turned out to be homeless whose move waited. What was read behind it, and waits too, is of their new
    /// place: where they are to go now, in parts.
    pub(crate) fn follow_what_waits(
        &self,
        homeless: Removal,
        behind: impl Iterator<Item = Removal>,
    ) -> Unfinished {
        let mut parts = Unfinished::new();
        parts.leave(homeless);
        for left in behind {
            match left {
                Removal::DropAgain(range) => self.drop_homeless(&parts, range),
                // It is younger, or would stand before it.
                Removal::Postponed { from, to, .. } => {
                    self.drop_homeless(&parts, to);
                    move_homeless(&mut parts, from, to.start);
                }
                _ => (),
            }
        }
        parts
    }

    fn drop_homeless(&self, unfinished: &Unfinished, gone: PageRange) {
        for left in unfinished.iter() {
            if let Removal::Homeless { from, to } = left
                && let Some([_, (words, _), _]) = split(from, to, gone)
            {
                self.remove_words(words, Afterwards::Unmanaged);
            }
        }
    }
}

/// Those that left their new place by this move go on with it; what came there after it stays.
fn move_homeless_that_left(unfinished: &mut Unfinished, arrivals: &Arrivals, by: Move) {
    let mut rest = by.from;
    while let Some(left) = arrivals.first_left_by(by, rest) {
        move_homeless(unfinished, left, by.to.plus(left.start.0 - by.from.start.0));
        rest.start = left.end;
    }
}

fn move_homeless(unfinished: &mut Unfinished, moved: PageRange, to: PageId) {
    let parts = |left| match left {
        Removal::Homeless { from, to } => split(from, to, moved),
        _ => None,
    };
    let mut moved_on = Unfinished::new();
    while let Some(left) = unfinished.take_first(|left| parts(left).is_some()) {
        let [before, inside, behind] = parts(left).expect("it was chosen for that");
        let place = to.plus(inside.1.0 - moved.start.0);
        for (from, to) in [before, (inside.0, place), behind] {
            if from.start.0 < from.end.0 {
                moved_on.leave(Removal::Homeless { from, to });
            }
        }
    }
    moved_on.iter().for_each(|left| unfinished.leave(left));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrivals::LeftBy;

    fn range(start: u64, end: u64) -> PageRange {
        PageRange { start: PageId(start), end: PageId(end) }
    }

    #[test]
    fn what_moves_on_goes_to_its_last_place() {
        let mut unfinished = Unfinished::new();
        unfinished.leave(Removal::Homeless { from: range(100, 110), to: PageId(500) });
        move_homeless(&mut unfinished, range(502, 505), PageId(900));
        let left: alloc::vec::Vec<_> = unfinished.iter().collect();
        let homeless = |from, to| Removal::Homeless { from, to: PageId(to) };
        assert_eq!(
            left,
            [homeless(range(100, 102), 500), homeless(range(102, 105), 900), homeless(range(105, 110), 505)]
        );
        // A second time, over two of them.
        move_homeless(&mut unfinished, range(505, 520), PageId(40));
        move_homeless(&mut unfinished, range(899, 901), PageId(7));
        let left: alloc::vec::Vec<_> = unfinished.iter().collect();
        assert_eq!(
            left,
            [
                homeless(range(100, 102), 500),
                homeless(range(105, 110), 40),
                homeless(range(102, 103), 8),
                homeless(range(103, 105), 901)
            ]
        );
    }

    #[test]
    fn what_came_after_an_older_move_stays_where_it_came() {
        let (mut unfinished, mut arrivals) = (Unfinished::new(), Arrivals::new());
        let came = Move { from: range(100, 103), to: PageId(500) };
        arrivals.add(came, came.target());
        unfinished.leave(Removal::Homeless { from: came.from, to: came.to });
        // A move of what was in the place before, read later: nothing that arrived has left by it.
        let older = Move { from: range(490, 501), to: PageId(900) };
        move_homeless_that_left(&mut unfinished, &arrivals, older);
        let homeless = |from, to| Removal::Homeless { from, to: PageId(to) };
        assert!(unfinished.iter().eq([homeless(range(100, 103), 500)]));
        // One that took a part of it along.
        arrivals.leave(range(501, 503), LeftBy::Unmapping);
        arrivals.leave(range(490, 501), LeftBy::Move(older));
        move_homeless_that_left(&mut unfinished, &arrivals, older);
        assert!(unfinished.iter().eq([homeless(range(100, 101), 910), homeless(range(101, 103), 501)]));
    }

    #[test]
    fn parts_cover_all_of_it() {
        assert_eq!(split(range(0, 4), PageId(10), range(14, 20)), None);
        let parts = split(range(0, 4), PageId(10), range(0, 100)).expect("they overlap");
        assert_eq!(parts, [(range(0, 0), PageId(10)), (range(0, 4), PageId(10)), (range(4, 4), PageId(14))]);
    }
}
