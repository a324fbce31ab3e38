//! Brings pages of the program, as if they were touched.
//!
//! Must hold: room is made before the page is brought, outside of the gate, unless whoever asks leaves that to others.
//! Called by [`crate::faults`] for a signal, by [`crate::residency`] for what a system call will touch, and by
//! [`crate::advice`], [`crate::leaving`], [`crate::lock_calls`], [`crate::managed_ranges`] and [`crate::remap`], which
//! need a range to be there.

use crate::process::{Process, Space};
use uswap_engine::world::Touch;
use uswap_engine::{FaultOutcome, block_on};
use uswap_units::{PAGE_BYTES, PageId, PageRange};

/// A page that was brought may be protected once more, by an evictor that had seen that it was missing; and what cannot
/// be filled is not mapped.
const BRING_ROUNDS_MAX: u32 = 64;

/// What stays while it is brought waits for room up to this part of the budget.
const HELD_PART: u64 = 2;

/// Whether a page is there now.
pub(crate) fn is_brought(served: FaultOutcome) -> bool {
    matches!(served, FaultOutcome::Served(_))
}

/// No attempt gave the content of a page.
pub(crate) struct PageLost;

/// Whether the thread that brings pages makes room for each, if memory is short.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Room {
    IsMade,
    /// It goes over the budget: room is made by others, as far as there is any to be made.
    IsLeftToOthers,
}

impl Room {
    /// For a range of which no page may go while it is brought: one that is too large for the budget, beside what else
    /// the process needs, would wait in vain for each page.
    pub(crate) fn for_what_stays(space: &Space, range: PageRange) -> Room {
        let bytes = range.pages().min(space.record().managed_pages()) * PAGE_BYTES as u64;
        match bytes <= space.segment().budget().ram().bytes() / HELD_PART {
            true => Room::IsMade,
            false => Room::IsLeftToOthers,
        }
    }
}

impl Process {
    /// Makes room if memory is short, and brings a page. On a stack of ours, with all signals blocked.
    pub(crate) fn fault_in(&self, page: PageId, touch: Touch) -> FaultOutcome {
        self.wait_for(page, touch, Room::IsMade)
    }

    /// As [`bring`](Self::bring), for a thread of the program, which is seen to wait for a page meanwhile.
    fn wait_for(&self, page: PageId, touch: Touch, room: Room) -> FaultOutcome {
        let Some(space) = self.space() else { return FaultOutcome::NotOurs };
        space.record().begin_wait();
        let served = self.bring(page, touch, room);
        space.record().end_wait();
        served
    }

    fn bring(&self, page: PageId, touch: Touch, room: Room) -> FaultOutcome {
        let Some(space) = self.space() else { return FaultOutcome::NotOurs };
        if room == Room::IsMade && space.is_short() && space.is_managed(page) {
            block_on(space.make_room(|| self.evictors.try_borrow()));
        }
        let mut workspace = self.workspaces.borrow();
        block_on(space.fault(page, touch, &mut workspace))
    }

    /// Brings the managed pages of a range, as if they were touched so.
    pub(crate) fn fault_in_range(&self, range: PageRange, touch: Touch) {
        self.bring_range(range, touch, Room::IsMade);
    }

    pub(crate) fn bring_range(&self, range: PageRange, touch: Touch, room: Room) {
        let Some(space) = self.space() else { return };
        let mut rest = range;
        while let Some(first) = space.page_table().first_managed(rest) {
            for round in 0..BRING_ROUNDS_MAX {
                if space.is_ready(first, touch) {
                    break;
                }
                if round > 0 {
                    uswap_os::thread::yield_now();
                }
                if !is_brought(self.wait_for(first, touch, room)) {
                    break;
                }
            }
            rest = rest.rest_from(first.plus(1));
        }
    }

    /// The managed pages of a range are brought, may be written, and stay. On a stack of ours.
    pub(crate) fn pin_range(&self, range: PageRange) {
        let Some(space) = self.space() else { return };
        {
            let _nobody_evicts = self.gate.exclusive();
            space.pin(range);
        }
        self.fault_in_range(range, Touch::Write);
    }

    /// Brings all that is away of a range that is held, as if it were written. An error: a page cannot be read back.
    pub(crate) fn fault_in_all(&self, space: &Space, range: PageRange) -> Result<(), PageLost> {
        let (mut is_lost, room) = (false, Room::for_what_stays(space, range));
        while space.for_each_away_in(range, |page| {
            // A disk that fails takes its time for each page.
            is_lost = is_lost || self.bring(page, Touch::Write, room) == FaultOutcome::Lost;
        }) {
            if is_lost {
                return Err(PageLost);
            }
        }
        Ok(())
    }
}
