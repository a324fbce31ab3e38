//! A fork: the parent counts what is shared, and the child takes its own memory over before any code of the program
//! runs in it.
//!
//! Must hold: from `prepare_copy` to `end_copy` the forking thread has the gate for itself, unless the process is
//! outside or at home, and all signals are blocked: what the words say is what the child gets. In the child nothing is
//! registered and nothing is protected; both are made again from its words. Called by `interpose` around the call and
//! in the child, through [`crate::calls`], and by [`crate::background`], which looks at children.

use crate::address_space::{ADDRESSES_END, may_have_words};
use crate::descriptors;
use crate::messages::{self, FEWER_IN_A_RUN, MORE_MAPPINGS, stop_program};
use crate::own_memory;
use crate::own_stack::on_own_stack;
use crate::process::{Phase, Process, Space};
use crate::refused::NO_THREAD;
use crate::supervisor;
use core::sync::atomic::Ordering;
use uswap_core::counters::Counter;
use uswap_core::mm::MmState;
use uswap_core::page_table::ALL_PAGES;
use uswap_engine::Memory;
use uswap_interpose::thread::{self, Slot};
use uswap_os::process;
use uswap_os::sys::Errno;
use uswap_units::{MmId, PageId, PageRange};

impl Process {
    /// A child is about to get a copy of this memory.
    pub(crate) fn prepare_copy(&self, slot: &Slot) -> Result<(), Errno> {
        if matches!(self.phase(), Phase::Outside | Phase::Home) {
            return Ok(());
        }
        on_own_stack(slot, || {
            let alone = self.gate.exclusive();
            if self.phase() == Phase::Active && !descriptors::is_room_in_child() {
                drop(alone);
                self.let_go(Some(
                    "it may open no more files, and a child that it forks could not be managed: raise ulimit -n",
                ));
                return Ok(());
            }
            let mut child = None;
            if let Some(space) = self.space().filter(|_| self.phase() == Phase::Active) {
                let Some(mm) = space.clone_for_child() else {
                    messages::say_of_process(format_args!(
                        "it cannot fork: the run has no room for one more page table. {FEWER_IN_A_RUN}"
                    ));
                    return Err(Errno::ENOMEM);
                };
                child = Some((mm, space.segment().mms().record(mm).number()));
            }
            self.forking.begin(child);
            core::mem::forget(alone);
            Ok(())
        })
    }

    /// In the parent, afterwards.
    pub(crate) fn end_copy(&self, answer: isize, slot: &Slot) {
        if !self.forking.end() {
            return;
        }
        match (self.forking.take_child(), self.space()) {
            (Some(child), Some(space)) if answer < 0 => on_own_stack(slot, || space.give_up_child(child)),
            // In a child that shares the memory, and has a pid namespace of its own, the id would say something else.
            (Some(child), _) if process::process_id() == self.process_id.load(Ordering::Relaxed) => {
                self.unclaimed.note(answer as u32, child, self.forking.child_number());
            }
            _ => (),
        }
        self.gate.unlock_exclusive_forgotten();
    }

    /// Leaves to the supervisor what was made for children that are gone, and had not taken it over: it takes what has
    /// no parent and is not claimed for long. A child that nobody has waited for is not gone yet.
    pub(crate) fn look_at_children(&self, space: &Space) {
        let _not_while_one_is_noted = self.gate.shared();
        self.unclaimed.forget(|process_id, id, number| {
            let record = space.segment().mms().record(id);
            let waits = record.state() == MmState::Forked && record.number() == number;
            // By a call that this library makes anyway (`uswap_os::own_calls`).
            if waits && process::robust_list(process_id) != Err(Errno::ESRCH) {
                return false;
            }
            if waits {
                record.set_parent(None);
            }
            true
        });
    }

    /// In the only thread of a forked child, with all signals blocked.
    pub(crate) fn begin_as_child(&'static self) {
        let (phase, child) = (self.phase(), self.forking.take_child());
        let was_locked = self.locks.reset();
        self.set_phase(Phase::Outside);
        self.process_id.store(process::process_id(), Ordering::Relaxed);
        self.evicting_id.store(0, Ordering::Relaxed);
        self.dismissed.store(0, Ordering::Relaxed);
        self.forking.end_in_child();
        self.unclaimed.reset();
        self.gate.reset();
        // SAFETY:
        // 1. A forked child has only the thread that forked, in a call of the program's own: it had borrowed nothing.
        unsafe { self.workspaces.reset() };
        // SAFETY:
        // 1. As above.
        unsafe { self.evictors.reset() };
        for index in 0..thread::slots_used_max() {
            self.hazards().slot(index).reset();
        }
        // SAFETY:
        // 1. A forked child has only the thread that forked.
        unsafe { self.background_stack.reset_after_fork() };
        self.is_leaving.store(0, Ordering::Relaxed);
        self.enter_later.reset();
        // Of a table that both have, nothing is the child's alone.
        if !self.forking.take_shares_descriptors() {
            descriptors::close_all();
        }
        supervisor::forget_open();
        messages::reset_after_fork();
        // Without a place they were never used, or never will be again; a write would copy their pages.
        if phase.has_place() {
            while let Some(mut evictor) = self.evictors.try_borrow() {
                evictor.reset();
                core::mem::forget(evictor);
            }
            // SAFETY:
            // 1. As above; those that were borrowed in the loop are forgotten.
            unsafe { self.evictors.reset() };
        }
        match (phase, child) {
            // What has kept its parent's memory at home (a filter of system calls) may keep its own there.
            (Phase::Outside | Phase::Home, _) => {
                self.set_phase(phase);
                self.forget_space();
            }
            (Phase::Waiting, _) => self.set_phase(Phase::Waiting),
            (Phase::Active, Some(child)) => self.take_over(child, was_locked),
            _ => self.join_as_child(),
        }
    }

    /// Nothing was managed when it was forked.
    fn join_as_child(&'static self) {
        self.forget_space();
        if let Err(reason) = self.watch() {
            self.put_off_or_leave_alone(&reason);
        }
    }

    /// Its parent has left a table for it. What cannot be taken over cannot be read either.
    fn take_over(&'static self, mm: MmId, was_locked: bool) {
        let number = self.forking.child_number();
        if let Err(reason) = supervisor::claim_record(&self.membership().segment, mm, number) {
            stop_program(
                format_args!("as a forked child it has no place in its run ({reason})"),
                "If it may open no more files, raise ulimit -n",
            );
        }
        let space = match self.join(Some(mm)) {
            Ok(space) => space,
            Err(reason) => stop_program(
                format_args!("a forked child cannot manage its memory ({reason})"),
                "Raise limits on open files and address space (ulimit -n, -v); 'uswap doctor' may say more",
            ),
        };
        if register_everything(self, space).is_none() {
            stop_program(format_args!("a forked child cannot register its memory again"), MORE_MAPPINGS);
        }
        if was_locked {
            self.follow_locks(space, 0..ADDRESSES_END);
        }
        self.set_phase(Phase::Active);
        self.membership().segment.counters().add(Counter::Joined, 1);
        if self.spawn_background().is_err() {
            on_own_stack(thread::current(), || self.leave(Some(NO_THREAD)));
        }
    }
}

/// Registers what has words, protects what is clean, and drops words of addresses that the child does not have. None:
/// something that is stored could not be.
fn register_everything(process: &Process, space: &'static Space) -> Option<()> {
    let mut text = [0; 4096];
    let mut behind_last = PageId::FIRST;
    let mut is_right = true;
    for vma in space.world().maps.iter(&mut text) {
        let vma = vma.ok()?;
        let range = PageRange::of_addresses(vma.start as u64, vma.end as u64);
        if !may_have_words(&vma) {
            continue;
        }
        space.forget_unmapped(PageRange::new(behind_last, range.start()));
        behind_last = range.end();
        if space.page_table().first_managed(range).is_none() {
            continue;
        }
        own_memory::for_each_other_part(vma.start, vma.end, |start, end| {
            let mut register = |part: PageRange| {
                let is_registered = space.world().register(part).is_ok();
                is_right &= is_registered && space.drop_filled(part) || !space.holds_content(part);
                // Kernels before 5.14 let a child inherit what was protected.
                space.world().unprotect(part);
                space.for_each_protected(part, |run| is_right &= space.world().protect(run));
            };
            process.for_each_part_without_stacks(start, end, &mut register);
            // What became a stack, or is taken for one, while some of it was stored.
            let here = PageRange::of_addresses(start as u64, end as u64);
            let stacks = process.stacks.iter().map(|stack| stack.intersection(here));
            stacks.filter(|part| !part.is_empty() && space.holds_content(*part)).for_each(register);
        });
    }
    space.forget_unmapped(PageRange::new(behind_last, ALL_PAGES.end()));
    is_right.then_some(())
}
