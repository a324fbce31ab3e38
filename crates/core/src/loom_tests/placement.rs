//! The supervisor that moves a thread, and the program that places the same thread itself.

use crate::placement::{PLACEMENT_WORDS, PlaceOn, Placement};
use loom::sync::Arc;
use loom::thread;
use std::sync::atomic::AtomicBool;
use std::vec::Vec;
use uswap_sync::{AtomicU64, Ordering};

const CPU: u32 = 0;

/// Where the thread may run.
const EVERYWHERE: u64 = 0;
const SHARED: u64 = 1;
const ELSEWHERE: u64 = 2;

struct Run {
    words: Vec<AtomicU64>,
    /// Of the one thread. To look and to set are two calls into the kernel, as in life.
    affinity: AtomicU64,
}

impl Run {
    fn new() -> Arc<Run> {
        let words = (0..PLACEMENT_WORDS).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Run { words, affinity: AtomicU64::new(EVERYWHERE) })
    }
    fn placement(&self) -> Placement<'_> {
        Placement { words: &self.words }
    }
    fn move_thread(&self, from: u64, to: u64) {
        if self.affinity.load(Ordering::Relaxed) == from {
            self.affinity.store(to, Ordering::Relaxed);
        }
    }
    /// The supervisor: places all on one processor, and later lets go.
    fn place_and_let_go(&self) -> PlaceOn {
        let placed = self.placement().place_on(CPU);
        if placed == PlaceOn::Granted {
            self.move_thread(EVERYWHERE, SHARED);
            self.move_thread(SHARED, EVERYWHERE);
            self.placement().let_go();
        }
        placed
    }
    /// The program: waits until nobody else moves the thread, then pins it. Whether it had to wait.
    fn pin(&self, set: u64) -> bool {
        let mut has_waited = false;
        while self.placement().leave_to_programs().is_some() {
            has_waited = true;
            thread::yield_now();
        }
        self.affinity.store(set, Ordering::Relaxed);
        assert_eq!(self.affinity.load(Ordering::Relaxed), set, "moved at once, if only for a while");
        has_waited
    }
}

/// What came to pass in at least one of the explored runs: a model of which only one order is explored passes whatever
/// is wrong.
#[derive(Default)]
struct Seen {
    refused: AtomicBool,
    waited: AtomicBool,
    after: AtomicBool,
}

fn a_pin_stands(set: u64) {
    let seen = std::sync::Arc::new(Seen::default());
    let noted = std::sync::Arc::clone(&seen);
    loom::model(move || {
        let run = Run::new();
        let program = {
            let run = Arc::clone(&run);
            thread::spawn(move || run.pin(set))
        };
        let placed = run.place_and_let_go();
        let has_waited = program.join().unwrap();
        assert_eq!(run.affinity.load(Ordering::Relaxed), set, "where the program pinned it");
        assert_eq!(run.placement().together(), None);
        assert_eq!(run.placement().place_on(CPU), PlaceOn::Refused);
        let reached = match placed {
            PlaceOn::Refused => &noted.refused,
            PlaceOn::Granted if has_waited => &noted.waited,
            PlaceOn::Granted => &noted.after,
        };
        reached.store(true, Ordering::Relaxed);
    });
    for (order, reached) in [
        ("the program came first", &seen.refused),
        ("it came in between", &seen.waited),
        ("it came last", &seen.after),
    ] {
        assert!(reached.load(Ordering::Relaxed), "no run in which {order}");
    }
}

#[test]
fn loom_a_pin_to_another_processor_stands() {
    a_pin_stands(ELSEWHERE);
}

/// Looks like a thread that was not placed yet.
#[test]
fn loom_a_pin_to_all_processors_stands() {
    a_pin_stands(EVERYWHERE);
}

/// Looks like a thread that was placed and should be let go.
#[test]
fn loom_a_pin_to_the_shared_processor_stands() {
    a_pin_stands(SHARED);
}
