//! A process whose memory comes home for good, and one that leaves the run.
//!
//! A process that changes its credentials or becomes non-dumpable leaves the run: else others could read through the
//! shared segment what they may not read otherwise, and it them. Its pages come home first. Then the place of the
//! segment holds zeros, and stays mapped: who looks there finds nothing.
//!
//! Must hold: memory is unregistered only with the gate exclusive and no page of it away, since what is missing reads
//! as zeros from then on. Called by [`crate::calls`] for what the program does, by [`crate::background`] when the run
//! is to be left, and by [`crate::attach`] and [`crate::fork`].

use crate::credentials::credentials;
use crate::messages::{self, MORE_MAPPINGS, stop_program};
use crate::own_stack::on_own_stack;
use crate::process::{AfterSetuid, EVICTORS, Phase, Process, Space, WORKSPACES};
use crate::{descriptors, environment, supervisor};
use core::sync::atomic::Ordering;
use uswap_core::counters::Counter;
use uswap_core::page_table::ALL_PAGES;
use uswap_interpose::thread::Slot;
use uswap_os::fd::Event;
use uswap_os::{memory, process};
use uswap_units::PageRange;

/// Why a process leaves that was not made to.
const ASKED: &str = "it has asked for it";

impl Process {
    /// Its memory comes home, and stays from now on. The thread that evicts is gone then.
    pub(crate) fn come_home(&self, slot: &Slot, reason: &str) {
        if !matches!(self.phase(), Phase::Outside | Phase::Small | Phase::Home) {
            on_own_stack(slot, || self.bring_home(Some(reason)));
        }
        // Also if another thread is at it: whoever goes on from here may forbid calls to all threads.
        self.dismiss_background();
    }

    /// The same, where it runs: on a stack of ours. Why is said, unless somebody has asked for it.
    pub(crate) fn bring_home(&self, reason: Option<&str>) {
        if self.phase().is_before_active() {
            let _nobody_activates = self.gate.exclusive();
            if self.phase().is_before_active() {
                self.set_phase(Phase::Home);
                if let Some(reason) = reason {
                    messages::say_of_process(format_args!("it is not managed: {reason}"));
                }
            }
        }
        if self.phase() == Phase::Active {
            self.let_go(reason);
        }
    }

    /// Everything comes home, and the kernel serves its faults from then on; why is said, unless the program has asked
    /// for it. On a stack of ours.
    pub(crate) fn let_go(&self, reason: Option<&str>) {
        let Some(space) = self.space() else { return };
        space.hold_evicting();
        let alone = loop {
            if self.fault_in_all(space, ALL_PAGES).is_err() {
                // Unregistered it would read as zeros.
                stop_program(
                    format_args!(
                        "a page cannot be read back, and its memory shall come home ({})",
                        reason.unwrap_or(ASKED)
                    ),
                    "Look for errors of the disk with the swap file (dmesg), and start the program again",
                );
            }
            let alone = self.gate.exclusive();
            if space.first_away(ALL_PAGES).is_none() {
                break alone;
            }
        };
        if self.phase() == Phase::Active {
            // What is missing reads as zeros from here on, which is what nobody has touched.
            Self::unregister_all(space);
            // The number of the descriptor stays in use, unless the program may open no file any more (RLIMIT_NOFILE,
            // as sandboxes set it): then it is nobody's.
            let uffd = space.world().uffd.fd().raw();
            if Event::new().and_then(|other| other.fd().replace(uffd)).is_err() {
                descriptors::close(uffd);
            }
            self.set_phase(Phase::Home);
            if let Some(reason) = reason {
                messages::say_of_process(format_args!("its memory came home and stays in RAM: {reason}"));
            }
        }
        drop(alone);
    }

    /// The kernel serves every fault. That the descriptor is closed would not do: a child that has just been forked, or
    /// has not executed its program yet, has it open, and with it the mappings of this process stay registered.
    fn unregister_all(space: &Space) {
        let mut text = [0; 4096];
        for vma in space.world().maps.iter(&mut text).map_while(Result::ok) {
            let range = PageRange::of_addresses(vma.start as u64, vma.end as u64);
            if space.page_table().first_managed(range).is_some() {
                let _closing_does_it = space.world().uffd.unregister(vma.start, vma.bytes());
            }
        }
    }

    /// Leaves the run, if its credentials are not those with which it came.
    pub(crate) fn leave_run(&self, slot: &Slot) {
        let terms = self.terms();
        let is_same = credentials() == terms.credentials;
        // A child that shares the memory executes another program next.
        let is_child = || self.process_id.load(Ordering::Relaxed) != process::process_id();
        let stays = is_same || terms.after_setuid == AfterSetuid::Stays;
        if stays || self.phase() == Phase::Outside || is_child() {
            return;
        }
        environment::forget();
        on_own_stack(slot, || {
            {
                let _nobody_joins = self.gate.exclusive();
                if matches!(self.phase(), Phase::Waiting | Phase::Outside) {
                    self.set_phase(Phase::Outside);
                    return;
                }
            }
            self.leave(Some("it changed its credentials or became non-dumpable"));
        });
    }

    /// Everything comes home, and from then on the process is none of the run. On a stack of ours. If another thread is
    /// at it (`setuid` of a C library makes the call in each), that one does it.
    pub(crate) fn leave(&self, reason: Option<&str>) {
        if self.is_leaving.swap(1, Ordering::Relaxed) != 0 {
            return;
        }
        let membership = {
            let _nobody_activates = self.gate.exclusive();
            if self.phase().is_before_active() {
                self.set_phase(Phase::Home);
            }
            self.membership_if_any()
        };
        // At home from before it had a place in the run.
        let Some(membership) = membership else {
            self.set_phase(Phase::Outside);
            return;
        };
        self.let_go(reason);
        self.dismiss_background();
        // Nobody is in the middle of something: whoever begins finds nothing.
        let workspaces = core::array::from_fn::<_, { WORKSPACES }, _>(|_| self.workspaces.borrow());
        let evictors = core::array::from_fn::<_, { EVICTORS }, _>(|_| self.evictors.borrow());
        let _alone = self.gate.exclusive();
        membership.segment.counters().add(Counter::Left, 1);
        // SAFETY:
        // 1. The mapping is ours; zeros are valid words, and those who look there have no work under way.
        if unsafe { memory::replace_by_zeros(membership.segment_start, membership.segment_bytes) }.is_err() {
            let reason = reason.unwrap_or(ASKED);
            stop_program(format_args!("{reason}, and the memory of the run cannot be let go"), MORE_MAPPINGS);
        }
        self.set_phase(Phase::Outside);
        supervisor::give_up_record(self.mm());
        drop((workspaces, evictors));
    }
}
