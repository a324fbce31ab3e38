//! The ranges of a call are published and made present.
//!
//! Must hold: a range is published before its pages are looked at, and looked at once more behind whatever was brought.
//! Called by [`crate::buffers::boundary`], [`crate::buffers::parts`] and [`crate::buffers::interrupted`].

use super::deferred_signals::{DeferredSignals, PendingHandlers};
use super::fence::asymmetric_fence_light;
use super::hazards::{HazardSlot, StackPoint};
use super::residency::{Make, Page, Residency};
use crate::Call;
use crate::plant::{Plant, is_planted};
use crate::table::{Access, BufferRange, Row, Unreadable, Walked, for_each_range};
use uswap_units::PAGE_BYTES;

/// Most rounds in which a page that was made present is missing again. Each page of a published range is evicted at
/// most once more, by an evictor that had marked it before; the program itself may drop pages as often as it likes.
const ROUNDS_MAX: u32 = 16;

const PAGE: u64 = PAGE_BYTES as u64;

/// Holds the ranges of one thread's calls.
pub(super) struct Holder<'a, R> {
    pub(super) residency: &'a R,
    /// The thread's.
    pub(super) slot: &'a HazardSlot,
}

impl<R: Residency> Holder<'_, R> {
    /// Most bytes of one part.
    pub(super) fn part_bytes(&self) -> u64 {
        self.residency.part_bytes()
    }

    /// A word of the program's memory, brought if it is evicted. Not held: the caller goes by the copy.
    pub(super) fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        for _ in 0..ROUNDS_MAX {
            match self.residency.read(address, &mut bytes) {
                Ok(()) => return Some(u64::from_ne_bytes(bytes)),
                Err(Unreadable::Bad) => return None,
                Err(Unreadable::Evicted) => {
                    let (start, end) = pages(BufferRange { start: address, bytes: 8, access: Access::Read });
                    let kept = self.residency.kept(start, end)?;
                    self.make_present(kept, end, Access::Read, &mut || ());
                }
            }
        }
        None
    }

    /// Publishes the ranges of a call and makes them present, up to `bytes_max` of kept memory. Answers the signals
    /// too that arrived while pages were brought; their handlers have run.
    #[inline]
    pub(super) fn hold(
        &self,
        row: &Row,
        call: &Call,
        at: StackPoint,
        bytes_max: u64,
        make: &mut Make<'_>,
    ) -> (Held, PendingHandlers) {
        let mut deferred = DeferredSignals::new(make);
        let (walked, held) = self.hold_once(row, call, at, bytes_max, &mut deferred);
        if walked == Walked::Complete && held != Held::TooMuch {
            return (held, deferred.end());
        }
        let held = self.hold_again(row, call, at, bytes_max, (walked, held), &mut deferred);
        (held, deferred.end())
    }

    /// A structure was brought and is marked again, by an evictor that will see the hazard. Or it cannot be brought:
    /// then the kernel says so in the end.
    #[cold]
    fn hold_again(
        &self,
        row: &Row,
        call: &Call,
        at: StackPoint,
        bytes_max: u64,
        first: (Walked, Held),
        deferred: &mut DeferredSignals<'_, '_>,
    ) -> Held {
        let (mut walked, mut held) = first;
        for _ in 0..ROUNDS_MAX {
            if walked == Walked::Complete {
                break;
            }
            (walked, held) = self.hold_once(row, call, at, bytes_max, deferred);
        }
        if held == Held::TooMuch {
            self.slot.end(at);
        }
        held
    }

    #[inline(always)]
    fn hold_once(
        &self,
        row: &Row,
        call: &Call,
        at: StackPoint,
        bytes_max: u64,
        deferred: &mut DeferredSignals<'_, '_>,
    ) -> (Walked, Held) {
        let (mut held, mut bytes) = (Held::Nothing, 0);
        let walked = for_each_range(row, call, self.residency, &mut |range| {
            let (start, end) = pages(range);
            let Some(kept) = self.residency.kept(start, end) else { return };
            bytes += kept.1 - kept.0;
            if bytes > bytes_max {
                held = Held::TooMuch;
            }
            if held == Held::TooMuch {
                return;
            }
            if held == Held::Nothing {
                self.slot.begin(at);
                held = Held::All;
            }
            self.hold_range(start, end, kept, range.access, deferred);
        });
        (walked, held)
    }

    /// Publishes first, then looks.
    #[inline]
    fn hold_range(
        &self,
        start: u64,
        end: u64,
        kept: (u64, u64),
        access: Access,
        deferred: &mut DeferredSignals<'_, '_>,
    ) {
        if is_planted(Plant::PublishedLate) {
            self.make_present(kept, end, access, &mut || deferred.block());
            self.slot.publish(start, end);
            return;
        }
        self.slot.publish(start, end);
        asymmetric_fence_light();
        self.make_present(kept, end, access, &mut || deferred.block());
    }

    /// Every kept page from the stretch `kept` up to `end` is ready, or cannot be made so. `first` is called ahead of
    /// each run of pages that is brought.
    #[inline]
    fn make_present(&self, kept: (u64, u64), end: u64, access: Access, first: &mut impl FnMut()) {
        let mut stretch = Some(kept);
        while let Some((from, to)) = stretch {
            let mut page = from;
            while page < to {
                if self.residency.page(page, access) == Page::Missing {
                    first();
                    page = self.bring(page, to, access);
                } else {
                    page += PAGE;
                }
            }
            stretch = if to < end { self.residency.kept(to, end) } else { None };
        }
    }

    /// Makes the missing pages from `first` on present, as many as lie side by side; answers the page behind them.
    #[cold]
    fn bring(&self, first: u64, to: u64, access: Access) -> u64 {
        let is_missing = |page: &u64| self.residency.page(*page, access) == Page::Missing;
        let run = (first + PAGE..to).step_by(PAGE_BYTES).take_while(is_missing).count() as u64;
        let end = first + (run + 1) * PAGE;
        for _ in 0..ROUNDS_MAX {
            if !self.residency.make_present(first, end, access) {
                break;
            }
            if !(first..end).step_by(PAGE_BYTES).any(|page| is_missing(&page)) {
                break;
            }
        }
        end
    }

    /// Is a kept page of the call's ranges not there?
    pub(super) fn has_missing_page(&self, row: &Row, call: &Call) -> bool {
        let mut is_missing = false;
        let walked = for_each_range(row, call, self.residency, &mut |range| {
            let (start, end) = pages(range);
            let mut from = start;
            while from < end {
                let Some((first, to)) = self.residency.kept(from, end) else { break };
                let mut pages = (first..to).step_by(PAGE_BYTES);
                is_missing |= pages.any(|page| self.residency.page(page, range.access) == Page::Missing);
                from = to;
            }
        });
        is_missing || matches!(walked, Walked::Evicted(_))
    }
}

/// How much of a call is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Held {
    /// No range is in kept memory.
    Nothing,
    /// All that is in kept memory.
    All,
    /// None, because it is too much at once.
    TooMuch,
}

/// The pages of a range. No transfer is longer than 2 GiB, whatever a length says.
fn pages(range: BufferRange) -> (u64, u64) {
    const TRANSFER_BYTES_MAX: u64 = 1 << 31;
    let end = range.start + range.bytes.min(TRANSFER_BYTES_MAX);
    (range.start & !(PAGE - 1), end.next_multiple_of(PAGE))
}
