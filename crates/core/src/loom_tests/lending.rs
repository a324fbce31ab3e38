//! A thing is with one thread at a time, and nobody sleeps while one is free.

use super::waiting::Futex;
use crate::lending::Lending;
use loom::sync::Arc;
use loom::thread;
use uswap_sync::{AtomicU64, Ordering};

struct Pool {
    lending: Lending,
    /// What is lent. Changed by a load and a store, so that two at once, or one that has not seen the other, show.
    thing: AtomicU64,
    futex: Futex,
}

impl Pool {
    fn new() -> Arc<Pool> {
        Arc::new(Pool { lending: Lending::new(1), thing: AtomicU64::new(0), futex: Futex::new() })
    }

    fn use_and_give_back(&self, index: usize) {
        self.thing.store(self.thing.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if self.lending.give_back(index) {
            self.futex.wake();
        }
    }

    /// Whether it got the thing: else it sleeps, or another has come before it.
    fn borrow_once_or_wait(&self) -> bool {
        if let Some(index) = self.lending.try_take() {
            self.use_and_give_back(index);
            return true;
        }
        if let Some(seen) = self.lending.begin_wait() {
            self.futex.sleep_while(|| self.lending.word().load(Ordering::Relaxed) == seen);
        }
        false
    }
}

#[test]
fn loom_a_thing_comes_back_while_somebody_begins_to_wait_for_it() {
    a_thing_comes_back_while_somebody_begins_to_wait_for_it();
}

pub(super) fn a_thing_comes_back_while_somebody_begins_to_wait_for_it() {
    loom::model(|| {
        let pool = Pool::new();
        let index = pool.lending.try_take().expect("it is free");
        let other = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.borrow_once_or_wait())
        };
        pool.use_and_give_back(index);
        let has_borrowed = other.join().unwrap();
        pool.futex.check();
        assert_eq!(pool.thing.load(Ordering::Relaxed), 1 + u64::from(has_borrowed), "a change is lost");
    });
}

#[test]
fn loom_a_thing_is_with_one_thread_at_a_time() {
    loom::model(|| {
        let pool = Pool::new();
        let others = [0, 1].map(|_| {
            let pool = Arc::clone(&pool);
            thread::spawn(move || match pool.lending.try_take() {
                Some(index) => {
                    pool.use_and_give_back(index);
                    1
                }
                None => 0,
            })
        });
        let used: u64 = others.map(|other| other.join().unwrap()).iter().sum();
        assert!(used > 0);
        assert_eq!(pool.thing.load(Ordering::Relaxed), used, "a change is lost");
        assert_eq!(pool.lending.try_take(), Some(0));
    });
}
