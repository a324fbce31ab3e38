//! What the kernel writes when it likes: frames of signals on the stacks of threads, and words in their control blocks
//! and in their areas of restartable sequences.
//!
//! Mappings that are made as stacks are never managed. A stack may be any other memory, as those of musl are, and of
//! `pthread_attr_setstack`: what is known of one when memory is taken under management is left out, and what is around
//! the stack pointer at a call, or at a fault on the stack, stays in RAM.
//!
//! Must hold: a stack is noted in the section of the gate in which its mapping is made, so that nobody takes it under
//! management before; and where more come than can be noted, nothing is evicted from then on. Called by
//! [`crate::mappings`] and [`crate::remap`] for mappings, by [`crate::calls`] for stack pointers and new threads, by
//! [`crate::faults`] for a stack on which one has come, by [`crate::activation`] and [`crate::attach`] for those that
//! are there, and by [`crate::managed_ranges`] and [`crate::fork`], which pass stacks by.

use crate::address_space::{control_block, inner_control_block, pages, rseq_area};
use crate::dropped::for_each_part_advised;
use crate::own_stack::on_own_stack;
use crate::process::{Phase, Process};
use crate::syscalls::{MAP_GROWSDOWN, MAP_STACK, MREMAP_DONTUNMAP, is_error};
use crate::{messages, thread_words};
use core::ops::Range;
use core::sync::atomic::Ordering;
use uswap_interpose::buffers::asymmetric_fence_light;
use uswap_interpose::thread::{self, Slot};
use uswap_interpose::{Call, has_handler_in_place};
use uswap_os::sys::abi;
use uswap_units::{PageId, PageRange};

/// What lies below the stack pointer and above it, to be kept in RAM: the kernel writes the frames of signals there.
const STACK_BELOW_BYTES: u64 = 128 * 1024;
const STACK_ABOVE_BYTES: u64 = 64 * 1024;
/// A stack pointer that stays in so many bytes is not looked at again.
const STACK_STEP_SHIFT: u32 = 15;

/// Code touches so much below its stack pointer: the red zone, and what it pushes.
const PUSH_BELOW_BYTES: u64 = 256;

/// The pages around a stack pointer.
fn around(stack_pointer: u64) -> PageRange {
    let start = stack_pointer.saturating_sub(STACK_BELOW_BYTES);
    PageRange::of_addresses(start, stack_pointer + STACK_ABOVE_BYTES)
}

/// What is around the stack pointer that a thread had when it was last looked at.
pub(crate) fn last_seen_stack(slot: &Slot) -> Option<PageRange> {
    let seen = slot.user[thread_words::STACK_SEEN].load(Ordering::Relaxed) as u64;
    (seen != 0).then(|| around(seen))
}

impl Process {
    /// Stacks of threads are never managed: the kernel writes there when it likes. Nor is what a child gets as zeros.
    pub(crate) fn note_stacks(&self, call: &Call, answer: isize) {
        let [start, bytes, _, flags, ..] = call.arguments;
        if call.number as u32 == abi::__NR_madvise && call.arguments[2] as u32 == abi::MADV_WIPEONFORK {
            // Also of a call that was refused for one mapping of several.
            return for_each_part_advised(call, answer, |part| {
                if self.stacks.add(part).is_none() {
                    self.give_up_stacks();
                }
            });
        }
        if is_error(answer) {
            return;
        }
        match call.number as u32 {
            abi::__NR_munmap => {
                self.stacks.subtract(pages(start, bytes));
                self.pinned.subtract(pages(start, bytes));
            }
            abi::__NR_mmap if flags & (MAP_STACK | MAP_GROWSDOWN) == 0 => {
                self.stacks.subtract(pages(answer as usize, bytes));
                self.pinned.subtract(pages(answer as usize, bytes));
            }
            abi::__NR_mremap => self.move_stacks(call, answer as usize),
            abi::__NR_mmap
                if flags & (MAP_STACK | MAP_GROWSDOWN) != 0
                    && self.stacks.add(pages(answer as usize, bytes)).is_none() =>
            {
                self.give_up_stacks();
            }
            _ => (),
        }
    }

    /// A mapping was moved, or has changed its length: what was not managed of it is not at its new place, and what was
    /// not managed before at either place is gone.
    pub(crate) fn move_stacks(&self, call: &Call, target: usize) {
        let [start, bytes, new_bytes, flags, ..] = call.arguments;
        let (from, to) = (pages(start, bytes), pages(target, new_bytes));
        let is_stack =
            self.stacks.iter().any(|stack| stack.start() < from.end() && from.start() < stack.end());
        if flags & MREMAP_DONTUNMAP == 0 {
            self.stacks.subtract(from);
        }
        self.stacks.subtract(to);
        if is_stack && self.stacks.add(to).is_none() {
            self.give_up_stacks();
        }
    }

    /// There are more stacks than can be told from other memory: nothing more is taken.
    #[cold]
    pub(crate) fn give_up_stacks(&self) {
        match self.space() {
            // It is served as before, and nothing is taken any more.
            Some(space) if self.phase() == Phase::Active => space.hold_evicting(),
            _ => self.set_phase(Phase::Home),
        }
        messages::say_of_process(format_args!(
            "its memory stays in RAM from now on: it has more than 1024 stacks of threads and other ranges that \
             uswap leaves alone. That memory counts: let it start fewer threads, or raise --ram"
        ));
    }

    /// Calls `visit` with the parts of a range that are no stacks of threads.
    pub(crate) fn for_each_part_without_stacks(
        &self,
        start: usize,
        end: usize,
        mut visit: impl FnMut(PageRange),
    ) {
        let mut at = PageId::of_address(start as u64);
        let end = PageId::of_address(end as u64);
        while at < end {
            let covering = self.stacks.iter().find(|stack| stack.contains(at));
            if let Some(stack) = covering {
                at = stack.end();
                continue;
            }
            let behind =
                self.stacks.iter().filter(|stack| at < stack.start()).map(|stack| stack.start()).min();
            let to = behind.unwrap_or(end).min(end);
            visit(PageRange::new(at, to));
            at = to;
        }
    }

    /// What the kernel writes of each thread when it likes is not managed from now on: its stack, its control block and
    /// its area of restartable sequences. False: there are more than can be noted. With the gate exclusive.
    pub(crate) fn note_threads(&self) -> bool {
        let mut is_room = true;
        for slot in thread::slots() {
            self.for_each_range_of(slot, |range| {
                let Range { start, end } = range.addresses();
                // Most of them are in mappings that are noted.
                self.for_each_part_without_stacks(start, end, |part| {
                    is_room &= self.stacks.add(part).is_some();
                });
            });
        }
        is_room
    }

    /// Calls `visit` with what the kernel writes of a thread, wherever its stack pointer is. Parts that touch are one.
    pub(crate) fn for_each_range_of(&self, slot: &Slot, mut visit: impl FnMut(PageRange)) {
        let own_stack = slot.own_stack().map(|(start, end)| pages(start, end - start));
        let block = slot.thread_pointer().map(inner_control_block);
        let told = [slot.rseq(), slot.user[thread_words::RSEQ_AREA].load(Ordering::Relaxed)];
        let told = told.map(|area| (area != 0).then_some(area));
        // The first thread has told the kernel before anybody could see it.
        let offset = self.terms().rseq_area_offset;
        let of_library = slot.thread_pointer().zip(offset).map(|(at, offset)| at.wrapping_add_signed(offset));
        let areas = told.into_iter().chain([of_library]).flatten().map(rseq_area);
        let mut open: Option<PageRange> = None;
        for range in [own_stack, block].into_iter().flatten().chain(areas) {
            open = match open {
                Some(last) if last.start() <= range.end() && range.start() <= last.end() => {
                    Some(PageRange::new(last.start().min(range.start()), last.end().max(range.end())))
                }
                last => {
                    last.into_iter().for_each(&mut visit);
                    Some(range)
                }
            };
        }
        open.into_iter().for_each(visit);
    }

    /// The kernel writes to the stacks of threads when it likes: what is around the stack pointer stays.
    #[inline]
    pub(crate) fn pin_stack_if_moved(&self, slot: &Slot, stack_pointer: u64) {
        let seen = slot.user[thread_words::STACK_SEEN].load(Ordering::Relaxed) as u64;
        if seen >> STACK_STEP_SHIFT != stack_pointer >> STACK_STEP_SHIFT {
            self.pin_stack(slot, stack_pointer);
            slot.user[thread_words::STACK_SEEN].store(stack_pointer as usize, Ordering::Relaxed);
        }
    }

    /// A thread has met a missing page, which was brought. If it was of the stack that it is on, a signal that comes
    /// before its next call may need more of that. What only has handlers with a stack of their own, as Go, has many
    /// stacks, and they may be evicted.
    pub(crate) fn pin_faulting_stack(&self, slot: &Slot, address: u64, stack_pointer: u64) {
        let start = stack_pointer.saturating_sub(PUSH_BELOW_BYTES);
        let is_of_stack = (start..stack_pointer.saturating_add(STACK_ABOVE_BYTES)).contains(&address);
        if is_of_stack && has_handler_in_place(slot) {
            self.pin_stack(slot, stack_pointer);
        }
    }

    /// Where a thread stands, while nothing is managed: who activates sees to its stack.
    #[inline]
    pub(crate) fn publish_stack(&self, slot: &Slot, stack_pointer: u64) {
        slot.user[thread_words::STACK_SEEN].store(stack_pointer as usize, Ordering::Relaxed);
        // The fence pairs with that of `activate`: what is told here is seen there, or the phase here.
        asymmetric_fence_light();
        if self.phase() == Phase::Active {
            self.pin_stack(slot, stack_pointer);
        }
    }

    #[cold]
    pub(crate) fn pin_stack(&self, slot: &Slot, stack_pointer: u64) {
        self.pin_managed(slot, around(stack_pointer));
    }

    /// A thread begins. What its parent has given it for a stack may be any memory, and so may its control block.
    pub(crate) fn pin_new_thread(&self, slot: &Slot, stack_pointer: u64) {
        self.publish_stack(slot, stack_pointer);
        if self.phase() == Phase::Active
            && let Some(pointer) = slot.thread_pointer()
        {
            self.pin_managed(slot, control_block(pointer));
        }
    }

    /// A thread is about to tell the kernel of its area of restartable sequences, which the kernel writes whenever the
    /// thread goes on.
    #[cold]
    pub(crate) fn pin_rseq_area(&self, slot: &Slot, area: usize) {
        slot.user[thread_words::RSEQ_AREA].store(area, Ordering::Relaxed);
        // As in `publish_stack`.
        asymmetric_fence_light();
        if self.phase() == Phase::Active {
            self.pin_managed(slot, rseq_area(area));
        }
    }

    fn pin_managed(&self, slot: &Slot, range: PageRange) {
        let Some(space) = self.space() else { return };
        on_own_stack(slot, || {
            // Who activates meanwhile is done then: its words would be missed, and nobody looks again.
            drop(self.gate.shared());
            if space.page_table().first_managed(range).is_some() {
                self.pin_range(range);
            }
        });
    }

    /// The frames of signals are written to the program's alternate stack while SIGBUS is blocked.
    pub(crate) fn pin_alternate_stack(&self, slot: &Slot) {
        // With signals blocked: the handler of one could wait for this thread, which has the gate for an instant.
        on_own_stack(slot, || {
            // Who activates meanwhile has either seen this stack, or is done now.
            drop(self.gate.shared());
            if self.phase() == Phase::Active
                && let Some((start, bytes)) = slot.program_stack()
            {
                self.pin_range(PageRange::of_addresses(start as u64, (start + bytes) as u64));
            }
        });
    }
}
