//! A lock for threads of one process that have no libc: many readers or one writer.
//!
//! It orders faults and evictions (shared) against changes of mappings (exclusive). It prefers writers: once one waits,
//! no new reader gets in, so a mapping call waits for at most one batch of each reader. A thread must not take the gate
//! twice: with a writer between, it waits for itself.
//!
//! ```text
//! bit 31         30              29..20            19..0
//!     WRITER     READERS WAIT    writers waiting   readers inside
//! ```
//! Each change is a pure function from word to word below; the tests walk through every order of their steps.
//!
//! Must hold: whoever is inside exclusively is alone. A writer that waits keeps new readers out, and whoever leaves
//! wakes those that may go in next. Called by `host`, for its mappings, and by `interpose`.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::fd::Timeout;
use crate::futex::{self, Scope};

const WRITER: u32 = 1 << 31;
const READERS_WAIT: u32 = 1 << 30;
const WRITER_WAITS_ONE: u32 = 1 << 20;
const WRITERS_WAIT: u32 = READERS_WAIT - WRITER_WAITS_ONE;
const READERS: u32 = WRITER_WAITS_ONE - 1;

/// Sets of waiters, so that a wake-up reaches the right kind.
const SET_READERS: u32 = 1;
const SET_WRITERS: u32 = 2;

/// What a thread that wants in does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Enter {
    /// Put this word; then it is inside.
    Inside(u32),
    /// Put this word (it says that somebody waits) and look again.
    Announce(u32),
    /// Sleep while the word stays.
    Sleep,
}

/// Whom a thread that leaves wakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum WakeWhom {
    Nobody,
    OneWriter,
    AllReaders,
}

fn enter_shared(word: u32) -> Enter {
    if word & (WRITER | WRITERS_WAIT) == 0 {
        // Readers that sleep are still marked; whoever leaves exclusively wakes them.
        Enter::Inside(word + 1)
    } else if word & READERS_WAIT == 0 {
        Enter::Announce(word | READERS_WAIT)
    } else {
        Enter::Sleep
    }
}

fn enter_exclusive(word: u32, announced: bool) -> Enter {
    match (word & (WRITER | READERS), announced) {
        (0, false) => Enter::Inside(word | WRITER),
        (0, true) => Enter::Inside((word - WRITER_WAITS_ONE) | WRITER),
        (_, false) => Enter::Announce(word + WRITER_WAITS_ONE),
        (_, true) => Enter::Sleep,
    }
}

fn leave_shared(word: u32) -> (u32, WakeWhom) {
    let word = word - 1;
    let last_with_writers = word & READERS == 0 && word & WRITERS_WAIT != 0;
    (word, if last_with_writers { WakeWhom::OneWriter } else { WakeWhom::Nobody })
}

fn leave_exclusive(word: u32) -> (u32, WakeWhom) {
    let word = word & !WRITER;
    if word & WRITERS_WAIT != 0 {
        (word, WakeWhom::OneWriter)
    } else if word & READERS_WAIT != 0 {
        (word & !READERS_WAIT, WakeWhom::AllReaders)
    } else {
        (word, WakeWhom::Nobody)
    }
}

/// A reader/writer lock in one word. At most 1023 waiting writers and 1,048,575 readers.
#[derive(Debug)]
pub struct Gate {
    word: AtomicU32,
}

/// Inside a gate together with other readers; leaves when dropped.
#[derive(Debug)]
#[must_use]
pub struct SharedGuard<'a>(&'a Gate);

/// Alone inside a gate; leaves when dropped.
#[derive(Debug)]
#[must_use]
pub struct ExclusiveGuard<'a>(&'a Gate);

impl Gate {
    /// An open gate.
    pub const fn new() -> Gate {
        Gate { word: AtomicU32::new(0) }
    }

    /// Whether nobody is inside or waits, by one look.
    pub fn is_open(&self) -> bool {
        self.word.load(Ordering::Relaxed) == 0
    }

    /// Opens the gate whatever it was: for the only thread of a forked child, where the other threads that were inside
    /// do not exist.
    pub fn reset(&self) {
        // Release pairs with the Acquire in `enter`, as that in `leave`.
        self.word.store(0, Ordering::Release);
    }

    /// Waits until no writer is inside or waits, and goes in.
    pub fn shared(&self) -> SharedGuard<'_> {
        self.enter(SET_READERS, |word, _| enter_shared(word));
        SharedGuard(self)
    }

    /// Waits until nobody is inside, and goes in alone.
    pub fn exclusive(&self) -> ExclusiveGuard<'_> {
        self.enter(SET_WRITERS, enter_exclusive);
        ExclusiveGuard(self)
    }

    /// Leaves a shared section whose guard was forgotten. Only for who is inside.
    pub fn unlock_shared_forgotten(&self) {
        self.leave(leave_shared);
    }

    /// Leaves an exclusive section whose guard was forgotten. Only for who is inside.
    pub fn unlock_exclusive_forgotten(&self) {
        self.leave(leave_exclusive);
    }

    fn enter(&self, set: u32, step: impl Fn(u32, bool) -> Enter) {
        let mut announced = false;
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            match step(word, announced) {
                Enter::Inside(new) => {
                    // Acquire pairs with the release in `leave`: what those before us did is seen.
                    match self.word.compare_exchange_weak(word, new, Ordering::Acquire, Ordering::Relaxed) {
                        Ok(_) => return,
                        Err(seen) => word = seen,
                    }
                }
                Enter::Announce(new) => {
                    match self.word.compare_exchange_weak(word, new, Ordering::Relaxed, Ordering::Relaxed) {
                        Ok(_) => {
                            announced = true;
                            word = new;
                        }
                        Err(seen) => word = seen,
                    }
                }
                Enter::Sleep => {
                    futex::wait_set(&self.word, word, Timeout::Forever, Scope::Private, set);
                    word = self.word.load(Ordering::Relaxed);
                }
            }
        }
    }

    fn leave(&self, step: impl Fn(u32) -> (u32, WakeWhom)) {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let (new, whom) = step(word);
            // Release pairs with the acquire in `enter`: what was done inside is seen by the next.
            match self.word.compare_exchange_weak(word, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => {
                    match whom {
                        WakeWhom::Nobody => {}
                        WakeWhom::OneWriter => {
                            futex::wake_set(&self.word, 1, Scope::Private, SET_WRITERS);
                        }
                        WakeWhom::AllReaders => {
                            futex::wake_set(&self.word, u32::MAX, Scope::Private, SET_READERS);
                        }
                    }
                    return;
                }
                Err(seen) => word = seen,
            }
        }
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for SharedGuard<'_> {
    fn drop(&mut self) {
        self.0.leave(leave_shared);
    }
}

impl Drop for ExclusiveGuard<'_> {
    fn drop(&mut self) {
        self.0.leave(leave_exclusive);
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
