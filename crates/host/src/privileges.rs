//! A process that changes its credentials or becomes non-dumpable leaves the run: else others could read through the
//! shared segment what they may not read otherwise, and it them.
//!
//! Its pages come home first. Then the place of the segment holds zeros, and stays mapped: who looks there finds
//! nothing.

use crate::own_stack::on_own_stack;
use crate::process::{AfterSetuid, EVICTORS, Phase, Process, WORKSPACES, stop_program};
use crate::{environment, supervisor};
use uswap_core::counters::Counter;
use uswap_interpose::thread::Slot;
use uswap_os::memory;
use uswap_os::sys::{self, abi};

/// What a process may read depends on these: real, effective and saved user and group, and whether it may be dumped.
pub type Credentials = [u32; 7];

/// Those of this process now.
pub fn credentials() -> Credentials {
    const PR_GET_DUMPABLE: usize = 3;
    let mut ids = [0; 7];
    for (number, first) in [(abi::__NR_getresuid, 0), (abi::__NR_getresgid, 3)] {
        let [a, b, c] = [0, 1, 2].map(|index| &raw mut ids[first + index] as usize);
        // SAFETY:
        // 1. The call writes three numbers to three addresses, all in `ids`.
        let _cannot_fail = unsafe { sys::syscall3(number, a, b, c) };
    }
    // SAFETY:
    // 1. The call takes a number and answers one.
    ids[6] = unsafe { sys::syscall3(abi::__NR_prctl, PR_GET_DUMPABLE, 0, 0) }.map_or(0, |value| value as u32);
    ids
}

impl Process {
    /// Leaves the run, if its credentials are not those with which it came.
    pub(crate) fn leave_run(&self, slot: &Slot) {
        let terms = self.terms();
        let is_same = credentials() == terms.credentials;
        if is_same || terms.after_setuid == AfterSetuid::Stays || self.phase() == Phase::Outside {
            return;
        }
        environment::forget();
        on_own_stack(slot, || {
            {
                let _nobody_joins = self.mappings.exclusive();
                if self.phase() == Phase::Waiting {
                    self.set_phase(Phase::Outside);
                    return;
                }
            }
            self.leave("it changed its credentials or became non-dumpable");
        });
    }

    /// Everything comes home, and from then on the process is none of the run. On a stack of ours.
    pub(crate) fn leave(&self, reason: &str) {
        let run = self.run();
        self.let_go(reason);
        self.dismiss_background();
        // Nobody is in the middle of something: whoever begins finds nothing.
        let workspaces = core::array::from_fn::<_, { WORKSPACES }, _>(|_| self.workspaces.borrow());
        let evictors = core::array::from_fn::<_, { EVICTORS }, _>(|_| self.evictors.borrow());
        let _alone = self.mappings.exclusive();
        run.segment.counters().add(Counter::Left, 1);
        // SAFETY:
        // 1. The mapping is ours; zeros are valid words, and those who look there have no work under way.
        if unsafe { memory::replace_by_zeros(run.segment_start, run.segment_bytes) }.is_err() {
            stop_program(format_args!("{reason}, and the memory of the run cannot be let go"));
        }
        self.set_phase(Phase::Outside);
        supervisor::give_up_record(self.mm());
        drop((workspaces, evictors));
    }
}
