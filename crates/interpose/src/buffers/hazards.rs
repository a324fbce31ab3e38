//! The ranges that calls under way use, a slot for each thread.
//!
//! ```text
//! slot:  frame count | range count | ranges 0, 1, 2 ...              | frames 0, 1 ...
//!                                    each first and last address       stack pointer, first range
//! ```
//!
//! The thread that has the slot writes it with plain stores; evictors read it. A signal handler of the program may
//! interrupt the thread at any instruction here and make calls itself: they put frames on top and take them off. A
//! place is therefore reserved before it is filled: what an evictor reads in it meanwhile is old or half, and only
//! matters to a call that has not looked at its pages yet.
//!
//! A handler that leaves by a jump leaves its frames behind. They only keep pages from eviction, and go when the
//! frame below ends, when a call begins at the same stack pointer, or when the frames are used up.
//!
//! Must hold: a published range is seen by each evictor until the frame of its call is taken off. Only the thread that
//! has the slot writes it, and nothing here waits. Called by [`crate::buffers::holder`] and
//! [`crate::buffers::boundary`], which publish, and by `host`, whose evictors ask.
//!
//! Memory order: the stores of the owner are Release and pair with the Acquire of `for_each`: who no longer sees a
//! range sees what its call did. They also keep a place behind its reservation for a handler of the same thread, for
//! which a compiler fence would do. What each side looks at behind its own store is ordered by `fence`.

use uswap_sync::{AtomicU32, AtomicU64, Ordering};

/// Ranges of one thread. The slot is a page; a list that is longer shares the last range.
#[cfg(not(loom))]
pub const RANGES_MAX: usize = 224;
/// Few, so that the model checker reaches the end.
#[cfg(loom)]
pub const RANGES_MAX: usize = 2;

/// Calls of one thread that handlers have interrupted, and that the handlers make.
pub const FRAMES_MAX: usize = 16;

/// Where on which stack a call is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StackPoint {
    /// The program's stack pointer.
    pub pointer: u64,
    /// The alternate stack that it points into, by its first address; zero on any other stack.
    pub stack: u64,
}

/// One range.
#[derive(Default)]
#[repr(C)]
struct Hazard {
    start: AtomicU64,
    end: AtomicU64,
}

/// A call under way. Only the thread itself reads it.
#[derive(Default)]
struct Frame {
    pointer: AtomicU64,
    stack: AtomicU64,
    first_range: AtomicU32,
}

/// The ranges of one thread. A page of zeros is an empty slot.
#[cfg_attr(not(loom), repr(C, align(4096)))]
pub struct HazardSlot {
    frame_count: AtomicU32,
    range_count: AtomicU32,
    ranges: [Hazard; RANGES_MAX],
    frames: [Frame; FRAMES_MAX],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<HazardSlot>() == 4096);

impl Default for HazardSlot {
    fn default() -> HazardSlot {
        HazardSlot {
            frame_count: AtomicU32::new(0),
            range_count: AtomicU32::new(0),
            ranges: core::array::from_fn(|_| Hazard::default()),
            frames: core::array::from_fn(|_| Frame::default()),
        }
    }
}

impl HazardSlot {
    /// A call begins at `at`.
    #[inline]
    pub fn begin(&self, at: StackPoint) {
        let mut count = self.frame_count.load(Ordering::Relaxed);
        // Two calls at one place of one stack are not both under way.
        if count > 0 && self.frame_is_at(count - 1, at) {
            self.pop(count - 1);
            count -= 1;
        }
        if count as usize == FRAMES_MAX {
            self.drop_abandoned(at);
            count = self.frame_count.load(Ordering::Relaxed);
        }
        // Still all used: its ranges go with the frame on top, which lasts longer.
        if let Some(frame) = self.frames.get(count as usize) {
            self.frame_count.store(count + 1, Ordering::Relaxed);
            frame.pointer.store(at.pointer, Ordering::Relaxed);
            frame.stack.store(at.stack, Ordering::Relaxed);
            frame.first_range.store(self.range_count.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// The call that began at `at` has ended, and all that interrupted it.
    ///
    /// `Release` pairs with [`for_each`](Self::for_each): who no longer sees the ranges sees what the call did.
    #[inline]
    pub fn end(&self, at: StackPoint) {
        let count = self.frame_count.load(Ordering::Relaxed);
        // Nearly always the one on top.
        if let Some(index) = (0..count).rev().find(|index| self.frame_is_at(*index, at)) {
            self.pop(index);
        }
    }

    /// Publishes `start..end` for the call on top. The caller looks at the pages after a light fence.
    #[inline]
    pub fn publish(&self, start: u64, end: u64) {
        let count = self.range_count.load(Ordering::Relaxed);
        let frame_count = self.frame_count.load(Ordering::Relaxed) as usize;
        let top = frame_count.checked_sub(1).map(|top| &self.frames[top]);
        let first = top.map_or(0, |frame| frame.first_range.load(Ordering::Relaxed));
        if count > first && self.ranges[count as usize - 1].is_joined_by(start, end) {
            self.ranges[count as usize - 1].widen(start, end);
            return;
        }
        match self.ranges.get(count as usize) {
            Some(range) => {
                // Reserved first: see the module.
                self.range_count.store(count + 1, Ordering::Release);
                range.end.store(end, Ordering::Release);
                range.start.store(start, Ordering::Release);
            }
            None => self.ranges[RANGES_MAX - 1].widen(start, end),
        }
    }

    /// Every range that is published. Evictors call it after a heavy fence.
    ///
    /// `Acquire` pairs with the stores of the owner: who sees a later call's range sees that the earlier call is over.
    pub fn for_each(&self, visit: &mut impl FnMut(u64, u64)) {
        let count = self.range_count.load(Ordering::Acquire) as usize;
        for range in &self.ranges[..count.min(RANGES_MAX)] {
            let (start, end) = (range.start.load(Ordering::Acquire), range.end.load(Ordering::Acquire));
            if start < end {
                visit(start, end);
            }
        }
    }

    /// Calls under way, and the ranges that they use.
    #[must_use]
    pub fn counts(&self) -> (u32, u32) {
        (self.frame_count.load(Ordering::Relaxed), self.range_count.load(Ordering::Relaxed))
    }

    /// The thread is gone, or the process is a copy in which its calls are not under way.
    pub fn reset(&self) {
        self.range_count.store(0, Ordering::Release);
        self.frame_count.store(0, Ordering::Relaxed);
    }

    fn frame_is_at(&self, index: u32, at: StackPoint) -> bool {
        let frame = &self.frames[index as usize];
        frame.pointer.load(Ordering::Relaxed) == at.pointer && frame.stack.load(Ordering::Relaxed) == at.stack
    }

    /// Takes off this frame and those above it.
    fn pop(&self, index: u32) {
        let first = self.frames[index as usize].first_range.load(Ordering::Relaxed);
        self.range_count.store(first, Ordering::Release);
        self.frame_count.store(index, Ordering::Relaxed);
    }

    /// Takes off the first frame that a call at `at` shows to be abandoned, and those above it: stacks grow down.
    #[cold]
    fn drop_abandoned(&self, at: StackPoint) {
        let abandoned = (0..FRAMES_MAX as u32).find(|index| {
            let frame = &self.frames[*index as usize];
            frame.stack.load(Ordering::Relaxed) == at.stack
                && frame.pointer.load(Ordering::Relaxed) <= at.pointer
        });
        if let Some(index) = abandoned {
            self.pop(index);
        }
    }
}

impl Hazard {
    fn is_joined_by(&self, start: u64, end: u64) -> bool {
        start <= self.end.load(Ordering::Relaxed) && end >= self.start.load(Ordering::Relaxed)
    }

    /// Only grows: what it covered is covered at every moment.
    fn widen(&self, start: u64, end: u64) {
        if end > self.end.load(Ordering::Relaxed) {
            self.end.store(end, Ordering::Release);
        }
        if start < self.start.load(Ordering::Relaxed) {
            self.start.store(start, Ordering::Release);
        }
    }
}

/// The slots of all threads, by the index of the thread.
pub struct HazardTable<'a> {
    slots: &'a [HazardSlot],
}

impl<'a> HazardTable<'a> {
    /// A table of these slots.
    pub const fn new(slots: &'a [HazardSlot]) -> HazardTable<'a> {
        HazardTable { slots }
    }

    /// The slot of the thread with this index.
    #[must_use]
    pub fn slot(&self, index: usize) -> &'a HazardSlot {
        &self.slots[index]
    }

    /// This process is a child with a copy of the memory: none of its parent's calls is under way in it.
    pub fn begin_as_child(&self, slot_count: usize) {
        self.slots[..slot_count.min(self.slots.len())].iter().for_each(HazardSlot::reset);
    }

    /// Calls `in_use` with the index of each page of `pages`, sorted addresses of pages marked by the caller, that a
    /// call under way uses. One barrier for the batch. `slot_count`: slots that were ever used, read after the
    /// barrier, because a thread may have begun just now.
    pub fn find_used(
        &self,
        pages: &[u64],
        slot_count: impl FnOnce() -> usize,
        in_use: &mut impl FnMut(usize),
    ) {
        debug_assert!(pages.is_sorted());
        super::fence::asymmetric_fence_heavy();
        for slot in &self.slots[..slot_count().min(self.slots.len())] {
            slot.for_each(&mut |start, end| {
                let first = pages.partition_point(|page| *page < start);
                let used = pages[first..].iter().take_while(|page| **page < end);
                (first..first + used.count()).for_each(&mut *in_use);
            });
        }
    }
}

#[cfg(not(loom))]
impl HazardTable<'static> {
    /// Empty slots for `count` threads, in memory of their own that is never given back. Untouched slots take none.
    pub fn map(count: usize) -> uswap_os::sys::Result<HazardTable<'static>> {
        let bytes = count * size_of::<HazardSlot>();
        let align = align_of::<HazardSlot>();
        let start =
            uswap_os::memory::Mapping::anonymous(bytes, align, uswap_os::memory::Access::ReadWrite)?.leak();
        // SAFETY:
        // 1. The mapping is fresh, aligned to a page, holds `count` slots, and is never unmapped.
        // 2. Zeros are a valid slot: it is made of atomic integers.
        let slots = unsafe { core::slice::from_raw_parts(start as *const HazardSlot, count) };
        Ok(HazardTable { slots })
    }
}
