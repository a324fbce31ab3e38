//! A thread makes calls on a page while an evictor wants it: the page is never dropped while it is in use.

use crate::Call;
use crate::buffers::fence::{asymmetric_fence_heavy, asymmetric_fence_light};
use crate::buffers::{Boundary, HazardSlot, HazardTable, Page, RANGES_MAX, Residency, StackPoint};
use crate::table::{self, Access, Unreadable};
use core::cell::Cell;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use std::sync::atomic::{AtomicU32, Ordering as Std};
use uswap_sync::{AtomicU32 as Word, Ordering};

const PAGE: u64 = 4096;
const EVICTED: u32 = 0;
const PRESENT: u32 = 1;
const MARKED: u32 = 2;

/// One page, at address [`PAGE`], and the slot of one thread.
struct Memory {
    slots: [HazardSlot; 1],
    word: Word,
    /// True while the content is there. Its reads and writes must be ordered, or the model checker says so.
    content: UnsafeCell<bool>,
}

// SAFETY:
// 1. The model checker watches every access to the content, and fails if two are not ordered.
unsafe impl Sync for Memory {}
// SAFETY:
// 1. The model checker watches every access to the content, whichever thread makes it.
unsafe impl Send for Memory {}

impl Memory {
    fn new() -> Memory {
        let slots = [HazardSlot::default()];
        Memory { slots, word: Word::new(PRESENT), content: UnsafeCell::new(true) }
    }

    /// A `read` into the page. False: the page was not there.
    fn call(&self, pointer: u64) -> bool {
        let look = Look { memory: self, is_ready: Cell::new(false) };
        let call = Call { number: 0, arguments: [0, PAGE as usize, 10, 0, 0, 0] };
        Boundary::new(&look, &self.slots[0]).call(&call, StackPoint { pointer, stack: 0 }, &mut |_| {
            if look.is_ready.get() {
                self.touch();
            }
            10
        });
        look.is_ready.get()
    }

    /// The kernel writes into the page.
    fn touch(&self) {
        // SAFETY:
        // 1. The hazard keeps the evictor from it: what these models are about.
        assert!(self.content.with(|content| unsafe { *content }), "a page in use is there");
    }

    /// One batch of one page. False: it was in use, or not there.
    fn evict(&self) -> bool {
        let marked = self.word.compare_exchange(PRESENT, MARKED, Ordering::AcqRel, Ordering::Acquire);
        if marked.is_err() {
            return false;
        }
        let mut is_used = false;
        HazardTable::new(&self.slots).find_used(&[PAGE], || 1, &mut |_| is_used = true);
        if is_used {
            self.word.store(PRESENT, Ordering::Release);
            return false;
        }
        // SAFETY:
        // 1. Nobody names the page: what this model is about.
        self.content.with_mut(|content| unsafe { *content = false });
        self.word.store(EVICTED, Ordering::Release);
        true
    }
}

/// What one call sees of the page. It does not bring what is missing: the call goes without.
struct Look<'a> {
    memory: &'a Memory,
    is_ready: Cell<bool>,
}

impl table::Memory for Look<'_> {
    fn read(&self, _: u64, _: &mut [u8]) -> Result<(), Unreadable> {
        Err(Unreadable::Bad)
    }
}

impl Residency for Look<'_> {
    fn kept(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        Some((start, end))
    }

    fn page(&self, _: u64, _: Access) -> Page {
        let is_ready = self.memory.word.load(Ordering::Acquire) == PRESENT;
        self.is_ready.set(is_ready);
        if is_ready { Page::Ready } else { Page::Missing }
    }

    fn make_present(&self, _: u64, _: u64, _: Access) -> bool {
        false
    }

    fn part_bytes(&self) -> u64 {
        u64::MAX
    }
}

/// Both outcomes must come up, or the model does not test what it says.
fn explore(body: impl Fn(&Arc<Memory>) -> (bool, bool) + Sync + Send + 'static) {
    let seen = std::sync::Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
    let inside = std::sync::Arc::clone(&seen);
    loom::model(move || {
        let (was_ready, was_evicted) = body(&Arc::new(Memory::new()));
        inside[0].fetch_add(u32::from(was_ready), Std::Relaxed);
        inside[1].fetch_add(u32::from(was_evicted), Std::Relaxed);
    });
    assert!(seen.iter().all(|count| count.load(Std::Relaxed) > 0), "ready, evicted: {seen:?}");
}

#[test]
pub(super) fn a_page_in_use_is_not_dropped() {
    explore(|memory| {
        let other = Arc::clone(memory);
        let evictor = thread::spawn(move || other.evict());
        let was_ready = memory.call(100);
        (was_ready, evictor.join().expect("no panic"))
    });
}

/// The second call takes the place of the first in the slot: who sees it must see that the first is over.
#[test]
fn the_next_call_of_a_thread_does_not_hide_the_last() {
    explore(|memory| {
        let other = Arc::clone(memory);
        let evictor = thread::spawn(move || other.evict());
        let was_ready = memory.call(100);
        let (slot, at) = (&memory.slots[0], StackPoint { pointer: 200, stack: 0 });
        slot.begin(at);
        slot.publish(8 * PAGE, 9 * PAGE);
        slot.end(at);
        (was_ready, evictor.join().expect("no panic"))
    });
}

/// A handler interrupts a call and makes one itself: the ranges below stay.
#[test]
fn a_call_inside_a_call_leaves_the_outer_one_held() {
    explore(|memory| {
        let other = Arc::clone(memory);
        let evictor = thread::spawn(move || other.evict());
        let slot = &memory.slots[0];
        let (outer, inner) = (StackPoint { pointer: 100, stack: 0 }, StackPoint { pointer: 50, stack: 0 });
        slot.begin(outer);
        slot.publish(PAGE, 2 * PAGE);
        asymmetric_fence_light();
        let is_ready = memory.word.load(Ordering::Acquire) == PRESENT;
        slot.begin(inner);
        slot.publish(8 * PAGE, 9 * PAGE);
        slot.end(inner);
        if is_ready {
            memory.touch();
        }
        slot.end(outer);
        (is_ready, evictor.join().expect("no panic"))
    });
}

/// More ranges than places: the last place covers what has none of its own.
#[test]
fn ranges_that_have_no_place_are_covered() {
    explore(|memory| {
        let other = Arc::clone(memory);
        let evictor = thread::spawn(move || other.evict());
        let (slot, at) = (&memory.slots[0], StackPoint { pointer: 100, stack: 0 });
        slot.begin(at);
        (0..RANGES_MAX as u64)
            .for_each(|index| slot.publish((20 + 4 * index) * PAGE, (21 + 4 * index) * PAGE));
        slot.publish(PAGE, 2 * PAGE);
        asymmetric_fence_light();
        let is_ready = memory.word.load(Ordering::Acquire) == PRESENT;
        if is_ready {
            memory.touch();
        }
        slot.end(at);
        (is_ready, evictor.join().expect("no panic"))
    });
}

/// The barrier is a barrier in the model too: else the tests above would show nothing.
#[test]
fn the_two_fences_order_what_is_around_them() {
    loom::model(|| {
        let words = Arc::new([Word::new(0), Word::new(0)]);
        let other = Arc::clone(&words);
        let evictor = thread::spawn(move || {
            other[0].store(1, Ordering::Relaxed);
            asymmetric_fence_heavy();
            other[1].load(Ordering::Relaxed)
        });
        words[1].store(1, Ordering::Relaxed);
        asymmetric_fence_light();
        let seen = words[0].load(Ordering::Relaxed);
        assert!(seen == 1 || evictor.join().expect("no panic") == 1, "one of the two sees the other");
    });
}
