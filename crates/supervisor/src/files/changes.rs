//! Swap files come and go one at a time, and the shrinker knows when one is on its way.
//!
//! What must hold: the count is odd while a file is on its way, and larger when it has come or failed to.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use uswap_control::unpoisoned;

/// Swap files that come or go.
#[derive(Default)]
pub struct FileChanges {
    one_at_a_time: Mutex<()>,
    coming: AtomicU64,
}

impl FileChanges {
    /// Adds a file by `add`.
    pub fn add<T>(&self, add: impl FnOnce() -> T) -> T {
        let _one_at_a_time = unpoisoned(self.one_at_a_time.lock());
        // Release pairs with the Acquire of `coming`: whoever sees that it has come finds room there.
        self.coming.fetch_add(1, Ordering::Release);
        let added = add();
        self.coming.fetch_add(1, Ordering::Release);
        added
    }

    /// Takes a file away by `remove`.
    pub fn remove<T>(&self, remove: impl FnOnce() -> T) -> T {
        let _one_at_a_time = unpoisoned(self.one_at_a_time.lock());
        remove()
    }

    /// Counts swap files that are on their way, and that have come or failed to: odd while one is. Whoever found no
    /// room for its pages need not be stopped for it if one is, or was since. Acquire pairs with `add`.
    pub fn coming(&self) -> u64 {
        self.coming.load(Ordering::Acquire)
    }
}
