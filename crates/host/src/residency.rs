//! What the boundary of system calls asks of whoever keeps the pages.
//!
//! Must hold: who asks about a page has published it as a hazard before, so that what is ready stays so until the call
//! has ended. Called by `interpose` (`buffers`), on the thread that makes the call.

use crate::own_stack::on_own_stack;
use crate::process::{Phase, Process};
use crate::program_copy;
use uswap_engine::FaultOutcome;
use uswap_engine::world::Touch;
use uswap_interpose::buffers::{Page, Residency};
use uswap_interpose::table::{Access, Memory, Unreadable};
use uswap_interpose::thread;
use uswap_units::{PageId, PageRange};

/// Pages that one call may have brought at once: a sixteenth of the budget.
const BUDGET_DIVISOR: u64 = 16;
/// The same before anything is managed: all that a call uses is filled, and stays, when that begins meanwhile. 4 ms.
const PART_BYTES_BEFORE: u64 = 32 << 20;

fn touch_of(access: Access) -> Touch {
    Touch::that(access.writes())
}

impl Memory for Process {
    fn read(&self, start: u64, into: &mut [u8]) -> Result<(), Unreadable> {
        // What is evicted is brought by the fault, as for any access of the thread.
        if program_copy::read(start as usize, into) { Ok(()) } else { Err(Unreadable::Bad) }
    }
}

impl Residency for Process {
    /// Before anything is managed everything counts as kept: calls that are under way when that begins have told their
    /// ranges.
    fn kept(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let space = match self.phase() {
            Phase::Active => self.space()?,
            Phase::Waiting | Phase::Watching => return Some((start, end)),
            Phase::Outside | Phase::Small | Phase::Home => return None,
        };
        let range = PageRange::of_addresses(start, end);
        let first = space.page_table().first_managed(range)?;
        Some((first.address(), end))
    }

    fn page(&self, address: u64, access: Access) -> Page {
        match self.space().filter(|_| self.phase() == Phase::Active) {
            Some(space) if !space.is_ready(PageId::of_address(address), touch_of(access)) => Page::Missing,
            _ => Page::Ready,
        }
    }

    fn make_present(&self, start: u64, end: u64, access: Access) -> bool {
        let range = PageRange::of_addresses(start, end);
        let touch = touch_of(access);
        on_own_stack(thread::current(), || {
            let Some(space) = self.space() else { return false };
            let missing = range.each().filter(|&page| !space.is_ready(page, touch));
            let mut all = true;
            for page in missing {
                all &= matches!(self.fault_in(page, touch), FaultOutcome::Served(_));
            }
            all
        })
    }

    fn part_bytes(&self) -> u64 {
        match self.space().filter(|_| self.phase() == Phase::Active) {
            Some(space) => (space.segment().budget().ram().bytes() / BUDGET_DIVISOR).next_multiple_of(4096),
            None if self.phase().is_before_active() => PART_BYTES_BEFORE,
            None => u64::MAX,
        }
    }
}
