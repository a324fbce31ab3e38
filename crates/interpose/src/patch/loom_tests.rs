//! Every interleaving of threads that patch and one that sets a filter, with the memory model of the language.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p uswap-interpose --lib loom_tests`.

use super::lock::PatchLock;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use std::sync::atomic::{AtomicU32, Ordering as Std};

/// What patches note, and what the filter says of their calls.
struct World {
    lock: PatchLock,
    patches: UnsafeCell<u32>,
    are_forbidden: UnsafeCell<bool>,
}

// SAFETY:
// 1. The model checker watches every access to the cells, and fails if two are not ordered.
unsafe impl Sync for World {}
// SAFETY:
// 1. The model checker watches every access to the cells, whichever thread makes it.
unsafe impl Send for World {}

impl World {
    fn new() -> Arc<World> {
        let lock = PatchLock::new();
        lock.open(1);
        Arc::new(World { lock, patches: UnsafeCell::new(0), are_forbidden: UnsafeCell::new(false) })
    }

    fn patch(&self, thread_id: u32) {
        let Some(_work) = self.lock.begin(|| thread_id) else { return };
        // SAFETY:
        // 1. The lock keeps others from it: what these models are about.
        self.patches.with_mut(|patches| unsafe { *patches += 1 });
        // SAFETY:
        // 1. Who writes it has waited for this thread: what these models are about.
        assert!(!self.are_forbidden.with(|are| unsafe { *are }), "a patch makes no call that is forbidden");
    }

    /// Answers how many patches were made.
    fn filter(&self, waits: Waits) -> u32 {
        let mut at_work = self.lock.close();
        while waits == Waits::Yes && at_work.is_some() {
            thread::yield_now();
            at_work = self.lock.at_work();
        }
        // SAFETY:
        // 1. Nobody is at work, and nobody will be: what these models are about.
        self.are_forbidden.with_mut(|are| unsafe { *are = true });
        // SAFETY:
        // 1. As above.
        self.patches.with(|patches| unsafe { *patches })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    Yes,
    No,
}

/// One thread sets a filter while two may patch. Answers which numbers of patches came up.
fn explore(waits: Waits) -> [bool; 3] {
    let seen = std::sync::Arc::new([const { AtomicU32::new(0) }; 3]);
    let inside = std::sync::Arc::clone(&seen);
    loom::model(move || {
        let world = World::new();
        let patchers = [1, 2].map(|thread_id| {
            let world = Arc::clone(&world);
            thread::spawn(move || world.patch(thread_id))
        });
        let count = world.filter(waits);
        inside[count as usize].fetch_add(1, Std::Relaxed);
        for patcher in patchers {
            patcher.join().expect("no panic");
        }
        assert!(world.lock.begin(|| 3).is_none(), "it stays closed");
    });
    [0, 1, 2].map(|count| seen[count].load(Std::Relaxed) > 0)
}

#[test]
fn a_filter_meets_no_call_of_a_patch() {
    assert_eq!(explore(Waits::Yes), [true; 3]);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_finds_a_filter_that_does_not_wait() {
    explore(Waits::No);
}
