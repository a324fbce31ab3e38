//! Nobody sleeps for ever: a thread that begins to wait for a page word while it is unlocked, and one that begins to
//! wait for a signal of the budget while it is raised.

use crate::budget::{BUDGET_WORDS, Budget, Signal};
use crate::page_word::{Commit, EvictableChunks, PageWordRef, TryLock, Warmth};
use crate::wait_queue::{WaitQueue, behind_unlocking};
use loom::sync::{Arc, Mutex};
use loom::thread;
use std::vec::Vec;
use uswap_sync::{AtomicU64, Ordering};

/// A futex on which one thread sleeps, once: the kernel compares the word, and wakes, inside of one lock.
pub(super) struct Futex(Mutex<Sleeper>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sleeper {
    Awake,
    Asleep,
    Woken,
}

impl Futex {
    pub(super) fn new() -> Futex {
        Futex(Mutex::new(Sleeper::Awake))
    }
    pub(super) fn sleep_while(&self, is_as_seen: impl Fn() -> bool) {
        let mut sleeper = self.0.lock().unwrap();
        if is_as_seen() {
            *sleeper = Sleeper::Asleep;
        }
    }
    pub(super) fn wake(&self) {
        let mut sleeper = self.0.lock().unwrap();
        if *sleeper == Sleeper::Asleep {
            *sleeper = Sleeper::Woken;
        }
    }
    /// When both threads have ended.
    pub(super) fn check(&self) {
        assert_ne!(*self.0.lock().unwrap(), Sleeper::Asleep, "it sleeps for ever");
    }
}

struct Page {
    word: AtomicU64,
    chunks: AtomicU64,
    queue: WaitQueue,
    futex: Futex,
}

impl Page {
    fn locked() -> Page {
        let page = Page {
            word: AtomicU64::new(0),
            chunks: AtomicU64::new(0),
            queue: WaitQueue::default(),
            futex: Futex::new(),
        };
        assert!(page.word_ref().adopt());
        assert!(page.try_lock());
        page
    }
    fn word_ref(&self) -> PageWordRef<'_> {
        PageWordRef { word: &self.word, evictable: EvictableChunks(&self.chunks), chunk_in_block: 0 }
    }
    fn try_lock(&self) -> bool {
        matches!(self.word_ref().try_lock(), TryLock::Locked(_))
    }
    fn unlock(&self) {
        assert_eq!(self.word_ref().commit_present(None, Warmth::Cold), Commit::Done);
        behind_unlocking();
        if self.queue.begin_wakeup() {
            self.futex.wake();
        }
    }
    fn lock_or_wait(&self) {
        if self.try_lock() {
            return;
        }
        let seen = self.queue.begin();
        if self.word_ref().load().is_locked() {
            self.futex.sleep_while(|| self.queue.wakeups().load(Ordering::Relaxed) == seen);
        }
    }
}

#[test]
fn loom_a_page_word_is_unlocked_while_somebody_begins_to_wait_for_it() {
    a_page_word_is_unlocked_while_somebody_begins_to_wait_for_it();
}

pub(super) fn a_page_word_is_unlocked_while_somebody_begins_to_wait_for_it() {
    loom::model(|| {
        let page = Arc::new(Page::locked());
        let other = {
            let page = Arc::clone(&page);
            thread::spawn(move || page.lock_or_wait())
        };
        page.unlock();
        other.join().unwrap();
        page.futex.check();
    });
}

#[test]
fn loom_a_signal_is_raised_while_somebody_begins_to_wait_for_it() {
    loom::model(|| {
        let words: Arc<Vec<AtomicU64>> = Arc::new((0..BUDGET_WORDS).map(|_| AtomicU64::new(0)).collect());
        let futex = Arc::new(Futex::new());
        Budget { words: &words }.add(10);
        let other = {
            let (words, futex) = (Arc::clone(&words), Arc::clone(&futex));
            thread::spawn(move || {
                let budget = Budget { words: &words };
                let count = || budget.signal_word(Signal::Room).load(Ordering::Relaxed) as u32;
                let seen = budget.signal_count(Signal::Room);
                if budget.used().bytes() > 0 {
                    futex.sleep_while(|| count() == seen);
                }
            })
        };
        let budget = Budget { words: &words };
        budget.subtract(10);
        budget.raise(Signal::Room);
        futex.wake();
        other.join().unwrap();
        futex.check();
    });
}
