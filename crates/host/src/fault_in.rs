//! Brings pages of the program, as if they were touched.

use crate::process::{Process, Space};
use crate::run;
use uswap_engine::Fault as Served;
use uswap_engine::world::Touch;
use uswap_units::{PageId, PageRange};

/// A page that was brought may be protected once more, by an evictor that had seen that it was missing; and what cannot
/// be filled is not mapped.
const BRING_ROUNDS_MAX: u32 = 64;

/// Whether a page is there now.
pub(crate) fn is_brought(served: Served) -> bool {
    matches!(served, Served::Served(_))
}

/// No attempt gave the content of a page.
pub(crate) struct PageLost;

impl Process {
    /// Makes room if memory is short, and brings a page. On a stack of ours, with all signals blocked.
    pub(crate) fn fault_in(&self, page: PageId, touch: Touch) -> Served {
        let Some(space) = self.space() else { return Served::NotOurs };
        if space.is_short() && space.is_managed(page) {
            run(space.make_room(|| self.evictors.try_borrow()));
        }
        let mut workspace = self.workspaces.borrow();
        run(space.fault(page, touch, &mut workspace))
    }

    /// Brings the managed pages of a range, as if they were touched so.
    pub(crate) fn fault_in_range(&self, range: PageRange, touch: Touch) {
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
                if !is_brought(self.fault_in(first, touch)) {
                    break;
                }
            }
            rest.start = first.plus(1);
        }
    }

    /// The managed pages of a range are brought, may be written, and stay. On a stack of ours.
    pub(crate) fn keep_range(&self, range: PageRange) {
        let Some(space) = self.space() else { return };
        {
            let _nobody_evicts = self.mappings.exclusive();
            space.pin(range);
        }
        self.fault_in_range(range, Touch::Write);
    }

    /// Brings all that is away of a range, as if it were written. An error: a page cannot be read back.
    pub(crate) fn fault_in_all(&self, space: &Space, range: PageRange) -> Result<(), PageLost> {
        let mut is_lost = false;
        while space.for_each_away_in(range, |page| {
            is_lost |= self.fault_in(page, Touch::Write) == Served::Lost;
        }) {
            if is_lost {
                return Err(PageLost);
            }
        }
        Ok(())
    }
}
