//! A cluster between threads that allocate and free.

use crate::clusters::lock::{Locker, SUPERVISOR};
use crate::clusters::{Clusters, Search, SlotUsage, Space};
use crate::mm::MmTable;
use loom::sync::Arc;
use loom::thread;
use std::vec::Vec;
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::MmId;

/// One cluster of two slots.
const SPACE: Space = Space { skipped: 0, count: 2, is_trimmed: false, search: Search::Scattered };

#[derive(Clone, Copy)]
struct Words<'a>(&'a [AtomicU64]);

impl SlotUsage for Words<'_> {
    type Slot = u32;

    fn is_used(&self, slot: u32) -> bool {
        self.0[slot as usize].load(Ordering::Acquire) != 0
    }
    fn claim(&self, slot: u32, _: MmId) {
        assert_eq!(self.0[slot as usize].swap(1, Ordering::AcqRel), 0, "slot {slot} is owned twice");
    }
}

struct Memory {
    state: Vec<AtomicU64>,
    slots: Vec<AtomicU64>,
    taken_total: AtomicU64,
}

impl Memory {
    fn new() -> Memory {
        let zeros = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
        Memory { state: zeros(SPACE.words()), slots: zeros(2), taken_total: AtomicU64::new(0) }
    }
    fn view(&self) -> Clusters<'_, Words<'_>> {
        let mms = MmTable { words: &[], taken_total: &self.taken_total };
        Clusters::new(&self.state, SPACE, Words(&self.slots), Locker::new(SUPERVISOR, mms))
    }
    fn allocate(&self) -> Option<u32> {
        self.view().allocate(0)
    }
    fn free(&self, slot: u32) {
        self.slots[slot as usize].store(0, Ordering::Release);
        self.view().free(slot, 1);
    }
}

/// Each order of two threads in which one is interrupted at most so often.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    // An audit of a cluster looks at each of its slots.
    builder.max_branches = 20_000;
    builder.check(model);
}

/// The cluster is empty and listed as free; one thread begins it anew while the other comes to it by an old hint.
#[test]
fn loom_an_empty_cluster_is_begun_while_another_comes_by_a_hint() {
    check(|| {
        let memory = Arc::new(Memory::new());
        let first = memory.allocate().expect("room");
        memory.free(first);
        let other = Arc::clone(&memory);
        let thread = thread::spawn(move || other.allocate());
        let mine = memory.allocate();
        let others = thread.join().expect("no panic");
        assert!(mine.is_some() && others.is_some() && mine != others);
        assert_eq!(memory.view().used(), 2);
        memory.view().check_lists();
    });
}

/// A freer has made the word free and not yet the bit; an audit finds that, and somebody else gets the slot.
#[test]
fn loom_a_slot_is_freed_by_an_audit_and_taken_before_its_freer_ends() {
    a_slot_is_freed_by_an_audit_and_taken_before_its_freer_ends();
}

pub(super) fn a_slot_is_freed_by_an_audit_and_taken_before_its_freer_ends() {
    check(|| {
        let memory = Arc::new(Memory::new());
        let slots = [memory.allocate(), memory.allocate()].map(|slot| slot.expect("there are two"));
        let other = Arc::clone(&memory);
        let thread = thread::spawn(move || other.free(slots[0]));
        memory.view().audit();
        let again = memory.allocate();
        thread.join().expect("no panic");
        assert!(again.is_none_or(|slot| slot == slots[0]));
        assert_eq!(memory.view().used(), 1 + u64::from(again.is_some()), "owned slots are counted");
        memory.view().check_lists();
    });
}

/// A cluster comes to a list while a search finds that list empty, and notes it: whoever searches next must look there.
#[test]
fn loom_a_cluster_listed_while_a_search_finds_none_is_found_next() {
    check(|| {
        let memory = Arc::new(Memory::new());
        let slots = [memory.allocate(), memory.allocate()].map(|slot| slot.expect("there are two"));
        let other = Arc::clone(&memory);
        let thread = thread::spawn(move || other.free(slots[0]));
        let mine = memory.allocate();
        thread.join().expect("no panic");
        memory.view().check_lists();
        assert_eq!(mine.or_else(|| memory.allocate()), Some(slots[0]));
    });
}
