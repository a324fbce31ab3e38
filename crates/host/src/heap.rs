//! The memory of the library that is preloaded: one anonymous mapping, handed out from front to back. Used only while
//! the engine is built; nothing on the fault path allocates.
//!
//! Must hold: it is never registered with a userfaultfd, and nothing is given back. So what is wanted zeroed is zeros
//! already, and costs memory only where it is used. A forked child goes on behind what its parent was given: it still
//! uses some of that, and its own engine takes some KiB more.
//!
//! Memory order: `prepare` stores `start` with Release, behind `next`. It pairs with the Acquire of `range` and of
//! `prepare` itself, so that `alloc` has both.

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicUsize, Ordering};
use uswap_os::memory::{Access, Mapping};

/// Room for the engine of one process and what belongs to it. Only touched pages cost memory.
const HEAP_BYTES: usize = 10 << 20;

/// An allocator for a static.
pub struct Heap {
    start: AtomicUsize,
    next: AtomicUsize,
}

impl Heap {
    /// Not mapped yet.
    #[allow(
        clippy::new_without_default,
        reason = "it is made in a static, where a default cannot be asked for"
    )]
    pub const fn new() -> Heap {
        Heap { start: AtomicUsize::new(0), next: AtomicUsize::new(0) }
    }

    /// First and last address, once it is mapped.
    pub fn range(&self) -> (usize, usize) {
        let start = self.start.load(Ordering::Acquire);
        (start, if start == 0 { 0 } else { start + HEAP_BYTES })
    }

    /// Maps it. False: no address space.
    pub fn prepare(&self) -> bool {
        if self.start.load(Ordering::Acquire) != 0 {
            return true;
        }
        let Ok(mapping) = Mapping::anonymous(HEAP_BYTES, 4096, Access::ReadWrite) else { return false };
        let start = mapping.leak();
        self.next.store(start, Ordering::Relaxed);
        self.start.store(start, Ordering::Release);
        true
    }
}

// SAFETY:
// 1. `alloc` hands out disjoint parts of one writable mapping: the compare-exchange moves `next` past each of them
//    exactly once. There is one: whoever preloads us calls `prepare` before anything is allocated.
// 2. The mapping is never unmapped.
// 3. What does not fit gives null, as the trait wants.
// 4. Anonymous memory that nobody has written yet is zeros, and `next` only moves on.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !self.prepare() {
            return core::ptr::null_mut();
        }
        let mut next = self.next.load(Ordering::Relaxed);
        loop {
            let at = next.next_multiple_of(layout.align());
            if at + layout.size() > self.start.load(Ordering::Relaxed) + HEAP_BYTES {
                return core::ptr::null_mut();
            }
            match self.next.compare_exchange_weak(
                next,
                at + layout.size(),
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return at as *mut u8,
                Err(now) => next = now,
            }
        }
    }

    /// Zeros already: see above.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: 1. as the caller promises of the layout.
        unsafe { self.alloc(layout) }
    }

    /// Nothing is given back: what is allocated lives as long as the engine.
    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}
