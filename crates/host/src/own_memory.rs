//! What of the address space is ours, and never managed.
//!
//! Must hold: what the engine and our handlers work in is noted before memory is taken under management: no fault there
//! could be served. Called by [`crate::joining`] and [`crate::owner`], which note it, by [`crate::managed_ranges`],
//! [`crate::lock_calls`] and [`crate::fork`], which pass it by, and by `agent`.

use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};
use uswap_os::{PAGE_BYTES, memory, random};

const PLACES: usize = 16;

/// Mappings of ours that were made once.
static RANGES: [[AtomicUsize; 2]; PLACES] = [const { [AtomicUsize::new(0), AtomicUsize::new(0)] }; PLACES];

// SAFETY:
// 1. The linker defines these names in every library; only their addresses are taken.
unsafe extern "C" {
    /// First byte of this library in memory, the one behind its code, and the one behind its last: names that the
    /// linker defines.
    static __ehdr_start: u8;
    static etext: u8;
    static _end: u8;
}

/// Mappings of ours begin so far below this library, and up to so much again, by chance: in the part of the address
/// space where the kernel puts mappings, which sanitizers leave alone, but far from the others.
const APART_BYTES: usize = 64 << 30;
/// They take so much at most: what is larger goes where the kernel likes.
const PLACES_BYTES: usize = APART_BYTES / 2;

/// From now on mappings of ours lie apart from the program's. If no place can be chosen they lie among them.
pub fn set_apart() {
    let mut number = [0; 8];
    if random::fill(&mut number).is_ok() {
        let by_chance = usize::from_ne_bytes(number) % APART_BYTES;
        let start = text().start.saturating_sub(APART_BYTES + by_chance) / PAGE_BYTES * PAGE_BYTES;
        memory::map_in(start..start + PLACES_BYTES);
    }
}

/// The code of this library, with what lies ahead of it in memory.
pub fn text() -> Range<usize> {
    &raw const __ehdr_start as usize..&raw const etext as usize
}

/// Notes a mapping of ours, unless it is. The Release of its end pairs with `for_each`; its start is there by then.
pub fn add(start: usize, bytes: usize) {
    if RANGES.iter().any(|place| place[0].load(Ordering::Relaxed) == start) {
        return;
    }
    let is_free = |place: &&[AtomicUsize; 2]| {
        place[0].compare_exchange(0, start, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    };
    let place = RANGES.iter().find(is_free).expect("there are fewer mappings than places");
    place[1].store(start + bytes, Ordering::Release);
}

/// What was noted is unmapped again.
pub fn remove(start: usize) {
    if let Some(place) = RANGES.iter().find(|place| place[0].load(Ordering::Relaxed) == start) {
        // In this order: who finds an end finds the start. Release pairs with the Acquire of `for_each`, and of `add`,
        // which may take the place then.
        place[1].store(0, Ordering::Release);
        place[0].store(0, Ordering::Release);
    }
}

/// Calls `visit` with start and end of each range.
pub fn for_each(visit: &mut impl FnMut(usize, usize)) {
    // Its zero-initialised data looks like memory of the program.
    let image_end = (&raw const _end as usize).next_multiple_of(PAGE_BYTES);
    visit(&raw const __ehdr_start as usize, image_end);
    for [start, end] in &RANGES {
        // Acquire pairs with the Release of `add`: who finds an end finds the start.
        let end = end.load(Ordering::Acquire);
        let start = start.load(Ordering::Acquire);
        // Of one that is being removed the start may be gone already.
        if end > 0 && start > 0 {
            visit(start, end);
        }
    }
    uswap_interpose::thread::for_each_mapping(&mut |start, bytes| visit(start, start + bytes));
}

/// Length of all ranges.
pub fn bytes() -> usize {
    let mut bytes = 0;
    for_each(&mut |start, end| bytes += end - start);
    bytes
}

/// Calls `visit` with the parts of `start..end` that are not ours.
pub fn for_each_other_part(start: usize, end: usize, mut visit: impl FnMut(usize, usize)) {
    let mut at = start;
    while at < end {
        let (mut next, mut inside) = (end, None);
        for_each(&mut |from, to| {
            if from <= at && at < to {
                inside = Some(to);
            } else if at < from && from < next {
                next = from;
            }
        });
        match inside {
            Some(behind) => at = behind,
            None => {
                visit(at, next);
                at = next;
            }
        }
    }
}
