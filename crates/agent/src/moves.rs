//! What the kernel does not tell of the moves of the program: whether the old place stays mapped (`mremap` with
//! MREMAP_DONTUNMAP), and how long the new one is.
//!
//! The kernel tells of a move the same way with and without that flag, and of the unmapping of the old place in an
//! event of its own, which never comes if the place stays. So the calls that come through [`crate::hooks`] are noted
//! here from their beginning to their end. The same flag in a raw system call is not seen.
//!
//! Nor does it tell by how much a mapping became longer as it moved. What libc's own `realloc` moves is not seen.
//!
//! Nor can a forked child show whether it was made before such a move or after it: it has both places either way. So
//! these calls and `fork` wait for each other.

use core::sync::atomic::{AtomicU32, Ordering};
use uswap_core::range_set::{Held, RangeSet};
use uswap_os::clock;
use uswap_os::gate::{ExclusiveGuard, Gate};
use uswap_os::thread::thread_id;
use uswap_units::PageRange;

/// Of calls that are followed at once: threads in such a call in one moment.
static STAYING: RangeSet<64> = RangeSet::new();

/// As long as they become: mappings that are made longer, and may be moved for it. The kernel tells of a move only how
/// long it was.
static GROWING: RangeSet<64> = RangeSet::new();

/// Shared: forks. Exclusive: a move whose old place stays.
static GATE: Gate = Gate::new();

/// So often, and so long each time, one waits for the other: 0.1 s. Not for ever, since a signal handler may fork in
/// the middle of the other call.
const TRIES: u32 = 1000;
const TRY_NS: u64 = 100_000;

/// Threads that fork just now and are inside. A thread that finds no place does not go in.
static FORKING: [AtomicU32; 16] = [const { AtomicU32::new(0) }; 16];

/// A call that is under way.
pub struct Staying {
    _noted: Option<Held<'static>>,
    _no_fork_meanwhile: Option<ExclusiveGuard<'static>>,
}

/// A call is about to move `from`, which stays.
pub fn begin(from: PageRange) -> Staying {
    let alone = patiently(|| GATE.try_exclusive());
    Staying { _noted: STAYING.hold(from), _no_fork_meanwhile: alone }
}

fn patiently<R>(attempt: impl Fn() -> Option<R>) -> Option<R> {
    for _ in 0..TRIES {
        if let Some(done) = attempt() {
            return Some(done);
        }
        clock::sleep_ns(TRY_NS);
    }
    None
}

/// The calling thread is about to fork.
pub fn before_fork() {
    let me = thread_id();
    let is_free =
        |place: &&AtomicU32| place.compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    let Some(place) = FORKING.iter().find(is_free) else { return };
    match patiently(|| GATE.try_shared()) {
        // Until `after_fork`.
        Some(inside) => core::mem::forget(inside),
        None => place.store(0, Ordering::Relaxed),
    }
}

/// It has forked, and is the parent's.
pub fn after_fork() {
    let me = thread_id();
    let mine =
        |place: &&AtomicU32| place.compare_exchange(me, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    if FORKING.iter().any(|place| mine(&place)) {
        GATE.unlock_shared_forgotten();
    }
}

/// A call is about to make a mapping as long as `to`, and move it if it must. None: that is not followed.
pub fn begin_growing(to: PageRange) -> Option<Held<'static>> {
    GROWING.hold(to)
}

/// By how many pages the call that moves `from` makes it longer. Where two calls begin at the same page, one of them
/// has moved away what the other finds there: the shorter one is taken, since nothing may be thought new that is not.
pub fn pages_added(from: PageRange) -> u64 {
    let longer = GROWING.iter().filter(|to| to.start == from.start && from.end < to.end);
    longer.map(|to| to.end.0 - from.end.0).min().unwrap_or(0)
}

/// True when the call that moves `from` leaves it mapped.
pub fn leaves_its_old_place(from: PageRange) -> bool {
    STAYING.iter().any(|staying| staying.start <= from.start && from.end <= staying.end)
}

/// In a forked child: the other threads are not there, and their calls neither.
pub fn reset_after_fork() {
    STAYING.clear();
    GROWING.clear();
    FORKING.iter().for_each(|place| place.store(0, Ordering::Relaxed));
    GATE.reset();
}
