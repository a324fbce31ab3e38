//! Ranges of the program are taken under management and left alone again, inside the gate.
//!
//! Must hold: what is taken is registered before its pages have words (except in [`crate::activation`], which takes all
//! at once), and what is left alone loses its words in the section of the gate in which the kernel takes it back; what
//! the kernel does not take back keeps them. Called by [`crate::mappings`], [`crate::remap`], [`crate::activation`] and
//! [`crate::regions`], and by [`crate::calls`] for a range whose faults the program serves itself.

use crate::address_space::{is_candidate, may_have_words, pages};
use crate::fault_in::PageLost;
use crate::messages::{FEWER_IN_A_RUN, MORE_MAPPINGS, stop_program};
use crate::own_memory;
use crate::process::{Phase, Process, Space};
use core::ops::{ControlFlow, Range};
use core::sync::atomic::Ordering;
use uswap_core::page_word::Afterwards;
use uswap_engine::block_on;
use uswap_os::gate::ExclusiveGuard;
use uswap_os::sys::Errno;
use uswap_units::{PAGE_BYTES, PageId, PageRange};

/// Calls `visit` with the part that each mapping has of a range, if something of it is managed: the kernel registers
/// all mappings of a range or none, takes them back alike, and refuses those of files. With the gate exclusive.
fn for_each_managed_mapping(
    space: &Space,
    range: PageRange,
    mut visit: impl FnMut(PageRange) -> ControlFlow<()>,
) -> Result<(), Errno> {
    let maps = &space.world().maps;
    maps.try_for_each_in(range.addresses(), |vma| {
        let vma = PageRange::of_addresses(vma.start as u64, vma.end as u64);
        let part = vma.intersection(range);
        match space.page_table().first_managed(part) {
            Some(_) => visit(part),
            None => ControlFlow::Continue(()),
        }
    })
}

impl Process {
    /// Nothing managed in the ranges is being worked on: the gate, exclusive.
    pub(crate) fn alone_with(&self, space: &Space, ranges: &[PageRange]) -> ExclusiveGuard<'_> {
        loop {
            let alone = self.gate.exclusive();
            let Some(page) = ranges.iter().find_map(|&range| space.first_locked(range)) else { return alone };
            drop(alone);
            block_on(space.wait_unlocked(page));
        }
    }

    /// All pages of `from` are in the program, and none is protected: the gate, exclusive. An error: one of them cannot
    /// be read back.
    pub(crate) fn alone_with_all_home(
        &self,
        space: &Space,
        from: PageRange,
        other: PageRange,
    ) -> Result<ExclusiveGuard<'_>, PageLost> {
        loop {
            let _nothing_of_it_goes = space.hold_range(from);
            self.fault_in_all(space, from)?;
            let alone = self.alone_with(space, &[from, other]);
            if space.first_away(from).is_none() {
                return Ok(alone);
            }
        }
    }

    /// Takes a mapping of private anonymous memory under management, with the gate exclusive. What cannot be registered
    /// is left alone: false.
    pub(crate) fn take(&self, space: &'static Space, range: PageRange) -> bool {
        if self.phase() != Phase::Active || range.start() >= range.end() {
            return false;
        }
        if !space.page_table().has_room_for(range.pages()) || space.reserve_words(range).is_err() {
            // The tables of the run are full: it stays the kernel's. What is managed of it stays so.
            return false;
        }
        if space.world().register(range).is_err() {
            return false;
        }
        if space.adopt(range).is_err() {
            unreachable!("room for the words was made above, and the gate is exclusive");
        }
        self.keep_if_locked(space, range);
        true
    }

    /// The same of memory that the program may have used: what it has guarded before is looked for.
    pub(crate) fn take_used(&self, space: &'static Space, range: PageRange) -> bool {
        let is_taken = self.take(space, range);
        if is_taken {
            self.pass_by_guards(space, range);
        }
        is_taken
    }

    /// Pages that the program has guarded (MADV_GUARD_INSTALL) have no words: a touch of one is the program's affair,
    /// and filling it would take the guard away. With the gate exclusive.
    fn pass_by_guards(&self, space: &Space, range: PageRange) {
        let pagemap = &space.world().pagemap;
        // A kernel before 6.16 does not tell.
        let _as_far_as_it_is_told = pagemap.for_each_guard(range.addresses(), |start, end| {
            self.has_guards.store(1, Ordering::Relaxed);
            let guarded = PageRange::of_addresses(start as u64, end as u64);
            space.drop_words(guarded, Afterwards::Unmanaged);
        });
    }

    /// The same where a managed mapping has moved or grown: each page of it is looked at, and few programs have any
    /// guard.
    fn pass_by_known_guards(&self, space: &Space, range: PageRange) {
        if self.has_guards.load(Ordering::Relaxed) != 0 {
            self.pass_by_guards(space, range);
        }
    }

    /// Takes what may be managed of a range, as the kernel has it now, each part by `take`. With the gate exclusive.
    pub(crate) fn take_candidates(
        &self,
        space: &'static Space,
        range: PageRange,
        take: impl Fn(&Self, &'static Space, PageRange) -> bool,
    ) {
        self.for_each_candidate(space, range, |part| {
            let _or_left_alone = take(self, space, part);
        });
    }

    /// Calls `visit` with what may be managed of a range, as the kernel has it now.
    pub(crate) fn for_each_candidate(
        &self,
        space: &'static Space,
        range: PageRange,
        mut visit: impl FnMut(PageRange),
    ) {
        let Range { start, end } = range.addresses();
        space.world().maps.for_each_in(start..end, |vma| {
            if is_candidate(&vma) {
                self.for_each_part_to_take(vma.start.max(start), vma.end.min(end), &mut visit);
            }
            ControlFlow::Continue(())
        });
    }

    /// Gives the pages of a range words again that have lost them, in mappings that are registered all the while. With
    /// the gate exclusive.
    pub(crate) fn take_back(&self, space: &'static Space, range: PageRange) {
        space.world().maps.for_each_in(range.addresses(), |vma| {
            let mapped = PageRange::of_addresses(vma.start as u64, vma.end as u64);
            let part = mapped.intersection(range);
            let without_word = space.page_table().first_unmanaged(part).filter(|_| may_have_words(&vma));
            // A page without a word has no protection to lose, and only of one that is registered it can be taken.
            let is_registered = |page: PageId| {
                space.world().uffd.write_unprotect(page.address() as usize, PAGE_BYTES).is_done()
            };
            if without_word.is_some_and(is_registered) {
                let Range { start, end } = part.addresses();
                self.for_each_part_to_take(start, end, |part| {
                    if space.adopt(part).is_err() {
                        space.drop_words(part, Afterwards::Unmanaged);
                    }
                    if !is_candidate(&vma) {
                        space.deactivate(part);
                    }
                    self.keep_if_locked(space, part);
                });
            }
            ControlFlow::Continue(())
        });
    }

    /// Calls `visit` with a range but for what is ours, and the stacks of threads.
    pub(crate) fn for_each_part_to_take(&self, start: usize, end: usize, mut visit: impl FnMut(PageRange)) {
        own_memory::for_each_other_part(start, end, |start, end| {
            self.for_each_part_without_stacks(start, end, &mut visit);
        });
    }

    /// What is managed of a range may be evicted, if it is not locked. With the gate exclusive.
    pub(crate) fn activate_range(&self, space: &Space, range: PageRange) {
        match self.locks.has_any() {
            true => self.follow_locks(space, range.addresses()),
            false => space.activate(range),
        }
    }

    /// A range comes home and is not managed any more; the gate, exclusive. An error: it stays managed, and the program
    /// is told this.
    pub(crate) fn leave_alone(
        &self,
        space: &'static Space,
        range: PageRange,
    ) -> Result<ExclusiveGuard<'_>, Errno> {
        let alone = match self.alone_with_all_home(space, range, pages(0, 0)) {
            Ok(alone) => alone,
            Err(PageLost) => return Err(Errno::EIO),
        };
        self.unregister(space, range)?;
        space.drop_words(range, Afterwards::Unmanaged);
        if !range.is_empty() && self.stacks.add(range).is_none() {
            self.give_up_stacks();
        }
        Ok(alone)
    }

    /// The kernel serves the faults of a range of which nothing is away; its words are the caller's. An error: all of
    /// it is registered as before. With the gate exclusive.
    pub(crate) fn unregister(&self, space: &'static Space, range: PageRange) -> Result<(), Errno> {
        if self.phase() != Phase::Active {
            // Everything came home while the call waited for the gate.
            return Ok(());
        }
        let (mut done, mut refused) = (range.start(), None);
        let looked = for_each_managed_mapping(space, range, |part| {
            let addresses = part.addresses();
            match space.world().uffd.unregister(addresses.start, addresses.len()) {
                Ok(()) => {
                    done = part.end();
                    ControlFlow::Continue(())
                }
                Err(errno) => {
                    refused = Some(errno);
                    ControlFlow::Break(())
                }
            }
        });
        let Some(errno) = refused.or(looked.err()) else { return Ok(()) };
        self.register_mappings_again(space, PageRange::new(range.start(), done));
        Err(errno)
    }

    /// The program serves the faults of a range itself (userfaultfd): it comes home, and is not managed any more. If it
    /// cannot come home it stays registered, and the program is told so by the kernel.
    pub(crate) fn give_to_program(&self, range: PageRange) {
        loop {
            if let Some(space) = self.space().filter(|_| self.phase() == Phase::Active) {
                drop(self.leave_alone(space, range));
                return;
            }
            let _nobody_activates = self.gate.exclusive();
            if self.phase() != Phase::Active {
                if self.phase().is_before_active() && self.stacks.add(range).is_none() {
                    self.give_up_stacks();
                }
                return;
            }
        }
    }

    /// A moved or grown mapping is registered as it was: what is stored of it must not read as zeros.
    pub(crate) fn register_again(&self, space: &'static Space, range: PageRange) {
        if self.phase() != Phase::Active {
            // Everything came home while the call waited for the gate.
            return;
        }
        if let Err(errno) = space.world().register(range) {
            stop_program(
                format_args!("memory that was moved cannot be registered again ({errno})"),
                MORE_MAPPINGS,
            );
        }
        if space.adopt(range).is_err() {
            stop_program(
                format_args!("the run has no room for the page tables of memory that grew"),
                FEWER_IN_A_RUN,
            );
        }
        self.pass_by_known_guards(space, range);
        self.keep_if_locked(space, range);
    }

    /// The same for a range of several mappings, of which some may not be managed.
    pub(crate) fn register_mappings_again(&self, space: &'static Space, range: PageRange) {
        // Of those that cannot be looked at nothing is missing, and what is not registered is not evicted.
        let _as_far_as_they_can_be_read = for_each_managed_mapping(space, range, |part| {
            self.register_again(space, part);
            ControlFlow::Continue(())
        });
    }
}
