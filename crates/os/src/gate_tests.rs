//! The gate in every order of its steps, and under real threads.

use super::*;
use core::cell::UnsafeCell;
use std::collections::{HashMap, HashSet};
use std::vec::Vec;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    /// About to compute and put the next word (one atomic step); `announced` as in `enter`.
    Entering {
        announced: bool,
    },
    /// Decided to sleep on this word; the kernel has not compared it yet.
    AboutToSleep {
        seen: u32,
        announced: bool,
    },
    Asleep {
        announced: bool,
    },
    Inside,
    /// The word is put; the wake-up is not sent yet.
    Waking(WakeWhom),
    Done,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    word: u32,
    threads: Vec<(bool, At, u32)>,
}

/// Every world that one step of thread `index` leads to.
fn step(world: &World, index: usize) -> Vec<World> {
    let (writer, at, rounds) = world.threads[index];
    let with = |word: u32, at: At, rounds: u32| {
        let mut next = world.clone();
        next.word = word;
        next.threads[index] = (writer, at, rounds);
        next
    };
    match at {
        At::Entering { announced } => {
            let decision =
                if writer { enter_exclusive(world.word, announced) } else { enter_shared(world.word) };
            std::vec![match decision {
                Enter::Inside(word) => with(word, At::Inside, rounds),
                Enter::Announce(word) => with(word, At::Entering { announced: true }, rounds),
                Enter::Sleep => with(world.word, At::AboutToSleep { seen: world.word, announced }, rounds),
            }]
        }
        At::AboutToSleep { seen, announced } => std::vec![if seen == world.word {
            with(world.word, At::Asleep { announced }, rounds)
        } else {
            with(world.word, At::Entering { announced }, rounds)
        }],
        At::Asleep { .. } | At::Done => std::vec![],
        At::Inside => {
            let (word, whom) = if writer { leave_exclusive(world.word) } else { leave_shared(world.word) };
            std::vec![with(word, At::Waking(whom), rounds)]
        }
        At::Waking(whom) => {
            let after = if rounds > 1 { At::Entering { announced: false } } else { At::Done };
            let base = with(world.word, after, rounds - 1);
            let sleepers = |wanted: bool| -> Vec<usize> {
                (0..base.threads.len())
                    .filter(|other| {
                        base.threads[*other].0 == wanted
                            && matches!(base.threads[*other].1, At::Asleep { .. })
                    })
                    .collect()
            };
            let wake = |world: &World, other: usize| {
                let mut next = world.clone();
                if let At::Asleep { announced } = next.threads[other].1 {
                    next.threads[other].1 = At::Entering { announced };
                }
                next
            };
            match whom {
                WakeWhom::Nobody => std::vec![base],
                WakeWhom::AllReaders => {
                    std::vec![sleepers(false).into_iter().fold(base, |world, other| wake(&world, other))]
                }
                WakeWhom::OneWriter if sleepers(true).is_empty() => std::vec![base],
                WakeWhom::OneWriter => sleepers(true).into_iter().map(|other| wake(&base, other)).collect(),
            }
        }
    }
}

/// Walks through all orders; panics at two writers inside, a writer beside a reader, or a sleep that nobody ends.
fn explore(writers: usize, readers: usize, rounds: u32) -> usize {
    let thread = |writer| (writer, At::Entering { announced: false }, rounds);
    let threads = (0..writers).map(|_| thread(true)).chain((0..readers).map(|_| thread(false))).collect();
    let mut seen = HashSet::new();
    let mut open = std::vec![World { word: 0, threads }];
    let mut visits: HashMap<&str, usize> = HashMap::new();
    while let Some(world) = open.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        let inside =
            |wanted: bool| world.threads.iter().filter(|t| t.0 == wanted && t.1 == At::Inside).count();
        assert!(inside(true) <= 1, "two writers: {world:?}");
        assert!(inside(true) == 0 || inside(false) == 0, "writer beside reader: {world:?}");
        let mut moved = false;
        for index in 0..world.threads.len() {
            for next in step(&world, index) {
                moved = true;
                open.push(next);
            }
        }
        if !moved {
            *visits.entry("ends").or_default() += 1;
            assert!(world.threads.iter().all(|t| t.1 == At::Done), "asleep for ever: {world:?}");
            assert_eq!(world.word & (WRITER | READERS | WRITERS_WAIT), 0, "{world:?}");
        }
    }
    assert!(visits["ends"] > 0);
    seen.len()
}

#[test]
fn every_order_of_steps_excludes_and_ends() {
    let mut worlds = 0;
    for (writers, readers, rounds) in
        [(1, 1, 3), (2, 1, 2), (1, 2, 2), (2, 2, 2), (3, 1, 1), (2, 3, 1), (3, 2, 1)]
    {
        worlds += explore(writers, readers, rounds);
    }
    std::println!("{worlds} worlds");
    assert!(worlds > 10_000);
}

struct Pair(UnsafeCell<[u64; 2]>);
// SAFETY:
// 1. The tests touch the cell only inside the gate: writers alone, readers together.
unsafe impl Sync for Pair {}

impl Pair {
    fn cell(&self) -> *mut [u64; 2] {
        self.0.get()
    }
}

#[test]
fn readers_never_see_half_a_write() {
    const WRITES: u64 = 20_000;
    let (gate, pair) = (Gate::new(), Pair(UnsafeCell::new([0, 0])));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..WRITES {
                    let _guard = gate.exclusive();
                    // SAFETY:
                    // 1. Alone inside the gate.
                    let both = unsafe { &mut *pair.cell() };
                    both[0] += 1;
                    both[1] += 1;
                }
            });
        }
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..WRITES {
                    let _guard = gate.shared();
                    // SAFETY:
                    // 1. Inside the gate with readers only.
                    let both = unsafe { &*pair.cell() };
                    assert_eq!(both[0], both[1]);
                }
            });
        }
    });
    assert_eq!(pair.0.into_inner(), [3 * WRITES; 2]);
    assert_eq!(gate.word.load(Ordering::Relaxed), 0);
}

/// Whether a reader would go in without waiting.
fn lets_readers_in(gate: &Gate) -> bool {
    matches!(enter_shared(gate.word.load(Ordering::Relaxed)), Enter::Inside(_))
}

#[test]
fn a_waiting_writer_keeps_new_readers_out_and_reset_opens() {
    let gate = Gate::new();
    let reader = gate.shared();
    std::thread::scope(|scope| {
        scope.spawn(|| drop(gate.exclusive()));
        while gate.word.load(Ordering::Relaxed) & WRITERS_WAIT == 0 {
            std::thread::yield_now();
        }
        assert!(!lets_readers_in(&gate));
        drop(reader);
    });
    core::mem::forget(gate.exclusive());
    assert!(!lets_readers_in(&gate));
    gate.reset();
    assert!(lets_readers_in(&gate));
}
