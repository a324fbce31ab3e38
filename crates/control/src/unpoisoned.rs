//! Locks of threads of which one may have panicked.

use std::sync::{LockResult, PoisonError};

/// What a lock gives, also if a thread panicked that held it. What is behind our locks is whole between any two
/// statements: poison says nothing of it.
pub fn unpoisoned<T>(locked: LockResult<T>) -> T {
    locked.unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, RwLock};

    #[test]
    fn a_lock_whose_holder_panicked_gives_what_is_in_it() {
        let (one, other) = (Mutex::new(1), RwLock::new(2));
        let panicked = std::thread::scope(|scope| {
            let holder = || {
                let _held = (one.lock(), other.write());
                panic!("with both");
            };
            scope.spawn(holder).join().is_err()
        });
        assert!(panicked && one.is_poisoned() && other.is_poisoned());
        assert_eq!((*unpoisoned(one.lock()), *unpoisoned(other.read())), (1, 2));
    }
}
