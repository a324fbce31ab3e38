//! Stacks of threads: mappings that are made as such are never managed, and of others what is around a stack pointer
//! stays in RAM. The kernel writes there when it likes: the frames of signals.
//!
//! Must hold: a stack is noted in the section of the gate in which its mapping is made, so that nobody takes it under
//! management before; and where more come than can be noted, nothing is evicted from then on. Called by
//! [`crate::mappings`] and [`crate::remap`] for mappings, by [`crate::calls`] for stack pointers, and by
//! [`crate::managed_ranges`] and [`crate::fork`], which pass stacks by.

use crate::address_space::pages;
use crate::dropped::for_each_part_advised;
use crate::own_stack::on_own_stack;
use crate::process::{Phase, Process};
use crate::syscalls::{MAP_GROWSDOWN, MAP_STACK, MREMAP_DONTUNMAP, is_error};
use crate::{messages, thread_words};
use core::sync::atomic::Ordering;
use uswap_interpose::Call;
use uswap_interpose::thread::Slot;
use uswap_os::sys::abi;
use uswap_units::{PageId, PageRange};

/// What lies below the stack pointer and above it, to be kept in RAM: the kernel writes the frames of signals there.
const STACK_BELOW_BYTES: u64 = 128 * 1024;
const STACK_ABOVE_BYTES: u64 = 64 * 1024;
/// A stack pointer that stays in so many bytes is not looked at again.
const STACK_STEP_SHIFT: u32 = 15;

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
                self.kept.subtract(pages(start, bytes));
            }
            abi::__NR_mmap if flags & (MAP_STACK | MAP_GROWSDOWN) == 0 => {
                self.stacks.subtract(pages(answer as usize, bytes));
                self.kept.subtract(pages(answer as usize, bytes));
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
        let is_stack = self.stacks.iter().any(|stack| stack.start < from.end && from.start < stack.end);
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
            "its memory stays in RAM from now on: it has more than 1024 thread stacks and ranges that are zeros in \
             a child"
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
                at = stack.end;
                continue;
            }
            let behind = self.stacks.iter().filter(|stack| at < stack.start).map(|stack| stack.start).min();
            let to = behind.unwrap_or(end).min(end);
            visit(PageRange { start: at, end: to });
            at = to;
        }
    }

    /// The kernel writes to the stacks of threads when it likes: what is around the stack pointer stays.
    #[inline]
    pub(crate) fn see_to_stack(&self, slot: &Slot, stack_pointer: u64) {
        let step = (stack_pointer >> STACK_STEP_SHIFT) as usize;
        if slot.user[thread_words::STACK_SEEN].load(Ordering::Relaxed) != step {
            self.keep_stack(slot, stack_pointer);
            slot.user[thread_words::STACK_SEEN].store(step, Ordering::Relaxed);
        }
    }

    #[cold]
    pub(crate) fn keep_stack(&self, slot: &Slot, stack_pointer: u64) {
        let Some(space) = self.space() else { return };
        let start = stack_pointer.saturating_sub(STACK_BELOW_BYTES);
        let range = PageRange::of_addresses(start, stack_pointer + STACK_ABOVE_BYTES);
        on_own_stack(slot, || {
            // Who activates meanwhile is done then: its words would be missed, and the step is not looked at again.
            drop(self.gate.shared());
            if space.page_table().first_managed(range).is_some() {
                self.keep_range(range);
            }
        });
    }

    /// The frames of signals are written to the program's alternate stack while SIGBUS is blocked.
    pub(crate) fn keep_alternate_stack(&self, slot: &Slot) {
        // With signals blocked: the handler of one could wait for this thread, which has the gate for an instant.
        on_own_stack(slot, || {
            // Who activates meanwhile has either seen this stack, or is done now.
            drop(self.gate.shared());
            if self.phase() == Phase::Active
                && let Some((start, bytes)) = slot.program_stack()
            {
                self.keep_range(PageRange::of_addresses(start as u64, (start + bytes) as u64));
            }
        });
    }
}
