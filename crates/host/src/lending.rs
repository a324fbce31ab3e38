//! Lends things that threads need for a short while: workspaces and evictors.
//!
//! Must hold: a thing is with one thread at a time; whoever waits for one sleeps and is woken when one comes back.
//! Called by [`crate::process`], which holds one of each kind, by [`crate::fault_in`], [`crate::fork`],
//! [`crate::leaving`] and whatever else borrows from them.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};
use uswap_os::fd::Timeout;
use uswap_os::futex::{self, Scope};

/// A few things, each lent to one thread at a time. Made for statics.
pub struct LendingPool<T, const COUNT: usize> {
    /// Bit i: thing i is lent.
    lent: AtomicU32,
    waiters: AtomicU32,
    things: [UnsafeCell<T>; COUNT],
}

// SAFETY:
// 1. A thing is reached only through `Lent`, and there is one at a time for each: `lent` says which.
// 2. The things go from thread to thread, so they must be `Send`.
unsafe impl<T: Send, const COUNT: usize> Sync for LendingPool<T, COUNT> {}

/// One thing, until this is dropped.
pub struct Lent<'a, T, const COUNT: usize> {
    pool: &'a LendingPool<T, COUNT>,
    index: usize,
}

impl<T, const COUNT: usize> LendingPool<T, COUNT> {
    /// A pool of these things.
    pub const fn new(things: [UnsafeCell<T>; COUNT]) -> LendingPool<T, COUNT> {
        assert!(COUNT > 0);
        assert!(COUNT <= 32);
        LendingPool { lent: AtomicU32::new(0), waiters: AtomicU32::new(0), things }
    }

    /// One that is free.
    pub fn try_borrow(&self) -> Option<Lent<'_, T, COUNT>> {
        let mut seen = self.lent.load(Ordering::Relaxed);
        loop {
            let index = seen.trailing_ones() as usize;
            if index >= COUNT {
                return None;
            }
            // Acquire pairs with the Release of who gave it back.
            match self.lent.compare_exchange_weak(
                seen,
                seen | 1 << index,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(Lent { pool: self, index }),
                Err(now) => seen = now,
            }
        }
    }

    /// One that is free; waits for it.
    pub fn borrow(&self) -> Lent<'_, T, COUNT> {
        loop {
            if let Some(lent) = self.try_borrow() {
                return lent;
            }
            // SeqCst pairs with that of who gives one back: he sees the waiter, or the waiter sees what he gave.
            self.waiters.fetch_add(1, Ordering::SeqCst);
            let seen = self.lent.load(Ordering::SeqCst);
            if seen.trailing_ones() as usize >= COUNT {
                futex::wait(&self.lent, seen, Timeout::Forever, Scope::Private);
            }
            self.waiters.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// In the only thread of a forked child: nothing is lent.
    pub fn reset(&self) {
        // A write copies the page.
        if self.lent.load(Ordering::Relaxed) != 0 || self.waiters.load(Ordering::Relaxed) != 0 {
            // There is no other thread to pair with.
            self.lent.store(0, Ordering::Release);
            self.waiters.store(0, Ordering::Relaxed);
        }
    }

    /// First address and bytes of the things.
    pub fn range(&self) -> (usize, usize) {
        (self.things.as_ptr() as usize, size_of_val(&self.things))
    }
}

impl<T, const COUNT: usize> Deref for Lent<'_, T, COUNT> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY:
        // 1. The bit of this thing was taken by us, so nobody else has a reference to it.
        unsafe { &*self.pool.things[self.index].get() }
    }
}

impl<T, const COUNT: usize> DerefMut for Lent<'_, T, COUNT> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY:
        // 1. As for `deref`, and `self` is borrowed exclusively.
        unsafe { &mut *self.pool.things[self.index].get() }
    }
}

impl<T, const COUNT: usize> Drop for Lent<'_, T, COUNT> {
    fn drop(&mut self) {
        // Release pairs with the Acquire of the next; the order of all says which of the two looks at the other.
        self.pool.lent.fetch_and(!(1 << self.index), Ordering::SeqCst);
        if self.pool.waiters.load(Ordering::SeqCst) > 0 {
            futex::wake(&self.pool.lent, 1, Scope::Private);
        }
    }
}
