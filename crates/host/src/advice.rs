//! Advice about managed memory (`madvise`), as Linux keeps to it for memory that it swaps by itself: MADV_PAGEOUT
//! evicts at once, MADV_COLD makes pages the next that are evicted, MADV_WILLNEED brings what is away.
//!
//! Must hold: the kernel makes each call first, since it knows what is wrong with it, and nothing is done here for one
//! that it refuses (where the range has a hole, the rest of it was advised). Called by [`crate::mappings`], outside of
//! the gate.

use crate::fault_in::is_brought;
use crate::process::{Process, Space};
use crate::syscalls::make;
use uswap_engine::block_on;
use uswap_engine::world::Touch;
use uswap_interpose::Call;
use uswap_os::sys::{Errno, abi};
use uswap_units::PageRange;

impl Process {
    /// Makes the call. None: it is no such advice. On a stack of ours, outside of the gate.
    pub(crate) fn serve_advice(&self, space: &'static Space, call: &Call, range: PageRange) -> Option<isize> {
        let [_, _, advice, ..] = call.arguments;
        let made = match advice as u32 {
            abi::MADV_COLD | abi::MADV_WILLNEED => make(call),
            // The kernel's own swap, if there is any, is not what is meant.
            abi::MADV_PAGEOUT => {
                let mut call = *call;
                call.arguments[2] = abi::MADV_COLD as usize;
                make(&call)
            }
            _ => return None,
        };
        // A hole in the range is an error, but the rest of it was advised.
        if made == 0 || made == Errno::ENOMEM.as_answer() {
            match advice as u32 {
                abi::MADV_COLD => {
                    let _no_table_goes = self.gate.shared();
                    space.cool(range);
                }
                abi::MADV_PAGEOUT => {
                    let _pages = block_on(space.evict_range(range, || async { self.evictors.borrow() }));
                }
                _ => self.bring_ahead(space, range),
            }
        }
        Some(made)
    }

    /// Brings what is away of a range, as far as nothing else has to go for it.
    fn bring_ahead(&self, space: &'static Space, range: PageRange) {
        let mut rest = range;
        while let Some(page) = {
            let _no_table_goes = self.gate.shared();
            space.first_away(rest)
        } {
            if space.is_short() || space.segment().budget().is_ending() {
                return;
            }
            if !space.is_ready(page, Touch::Read) && !is_brought(self.fault_in(page, Touch::Read)) {
                return;
            }
            rest = rest.rest_from(page.plus(1));
        }
    }
}
