//! The stacks of ours that a thread has: the alternate one for our handlers, and those for calls from stacks of the
//! program that may have no room.
//!
//! Must hold: they are never unmapped, and named before they can be used. Called by [`crate::thread`], whose slots
//! have their addresses, and by `host`, which knows how large they are.
//!
//! Memory order: addresses are stored with Release (`ready`), for the Acquire of whoever looks through the mappings of
//! other threads (`get`).

use core::sync::atomic::{AtomicUsize, Ordering};

use uswap_os::PAGE_BYTES;
use uswap_os::memory::{self, Access, Mapping};
use uswap_os::sys::Result;

/// Bytes of the alternate stack on which our signal handlers run.
pub const ALTERNATE_STACK_BYTES: usize = 64 * 1024;
/// Call stacks of a thread: calls from a stack that is not the thread's own, nested by signals.
pub(crate) const CALL_STACKS: usize = 4;
/// Bytes of each, with its guard page. A handler without an alternate stack may run on it.
pub(crate) const CALL_STACK_BYTES: usize = 256 * 1024;

/// Address of stacks of ours, 0 before they are mapped. They are named before they can be used, so that whoever looks
/// at the mappings finds memory of the program, or ours. A fork may come between: its child finds stacks that are
/// named, and not ready.
#[derive(Debug, Default)]
pub(super) struct StackAddress(AtomicUsize);

impl StackAddress {
    /// Addresses are multiples of pages.
    const NOT_READY: usize = 1;

    #[inline]
    pub(super) fn get(&self) -> usize {
        self.0.load(Ordering::Acquire) & !Self::NOT_READY
    }

    /// The stacks, ready to be used: what `map` has mapped, at its first call, without access, and `open` has opened.
    /// After an error `open` is tried again.
    pub(super) fn ready(
        &self,
        map: impl FnOnce() -> Result<usize>,
        open: impl FnOnce(usize) -> Result<()>,
    ) -> Result<usize> {
        let mut word = self.0.load(Ordering::Relaxed);
        if word == 0 {
            word = map()? | Self::NOT_READY;
            self.0.store(word, Ordering::Release);
        }
        let start = word & !Self::NOT_READY;
        if word != start {
            open(start)?;
            self.0.store(start, Ordering::Release);
        }
        Ok(start)
    }
}

/// Maps the call stacks of a thread.
pub(super) fn map_call_stacks() -> Result<usize> {
    let mapping = Mapping::anonymous(CALL_STACKS * CALL_STACK_BYTES, PAGE_BYTES, Access::None)?;
    keep_apart(&mapping);
    Ok(mapping.leak())
}

/// Lets them be used; below each stays a page that nobody may touch.
pub(super) fn open_call_stacks(start: usize) -> Result<()> {
    for index in 0..CALL_STACKS {
        let stack = start + index * CALL_STACK_BYTES + PAGE_BYTES;
        // SAFETY:
        // 1. The mapping is ours, and nobody uses it yet: only this thread does, after this.
        unsafe { memory::protect(stack, CALL_STACK_BYTES - PAGE_BYTES, Access::ReadWrite) }?;
    }
    Ok(())
}

/// Maps the alternate stack of a thread, above a guard.
pub(super) fn map_alternate_stack() -> Result<usize> {
    let mapping = Mapping::anonymous(ALTERNATE_STACK_BYTES + PAGE_BYTES, PAGE_BYTES, Access::None)?;
    keep_apart(&mapping);
    Ok(mapping.leak() + PAGE_BYTES)
}

/// Lets it be used.
pub(super) fn open_alternate_stack(stack: usize) -> Result<()> {
    // SAFETY:
    // 1. The mapping is ours, and nobody uses it yet: only the thread of the slot does, after this.
    unsafe { memory::protect(stack, ALTERNATE_STACK_BYTES, Access::ReadWrite) }
}

/// A stack of ours takes no huge page, and is in no core file: the interposer may have secrets there.
fn keep_apart(stack: &Mapping) {
    let _larger_than_needed = memory::no_huge_pages(stack.start(), stack.bytes());
    let _as_a_kernel_without_it = memory::no_dump(stack.start(), stack.bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;
    use uswap_os::sys::Errno;

    #[test]
    fn stacks_that_a_fork_has_found_without_access_are_opened_in_the_child() {
        let of_parent = StackAddress::default();
        let refused = of_parent.ready(|| Ok(PAGE_BYTES), |_| Err(Errno::ENOMEM));
        assert_eq!((refused, of_parent.get()), (Err(Errno::ENOMEM), PAGE_BYTES));
        let of_child = StackAddress(AtomicUsize::new(of_parent.0.load(Ordering::Relaxed)));
        for address in [of_parent, of_child] {
            let mut opened = Vec::new();
            for _ in 0..2 {
                let ready = address.ready(
                    || panic!("it is mapped"),
                    |start| {
                        opened.push(start);
                        Ok(())
                    },
                );
                assert_eq!((ready, address.get()), (Ok(PAGE_BYTES), PAGE_BYTES));
            }
            assert_eq!(opened, [PAGE_BYTES]);
        }
    }
}
