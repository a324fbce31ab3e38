//! Lends things that threads need for a short while: workspaces and evictors.
//!
//! Must hold: a thing is with one thread at a time; whoever waits for one sleeps and is woken when one comes back
//! ([`Lending`]). Called by [`crate::process`], which holds one of each kind, by [`crate::fault_in`], [`crate::fork`],
//! [`crate::leaving`] and whatever else borrows from them.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use uswap_core::lending::Lending;
use uswap_os::fd::Timeout;
use uswap_os::futex::{self, Scope};

/// A few things, each lent to one thread at a time. Made for statics.
pub struct LendingPool<T, const COUNT: usize> {
    lending: Lending,
    things: [UnsafeCell<T>; COUNT],
}

// SAFETY:
// 1. A thing is reached only through `Lent`, and there is one at a time for each: `lending` says which, and `reset`,
//    which makes it forget, asks for a thread that is alone and holds none.
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
        LendingPool { lending: Lending::new(COUNT as u32), things }
    }

    /// One that is free.
    pub fn try_borrow(&self) -> Option<Lent<'_, T, COUNT>> {
        self.lending.try_take().map(|index| Lent { pool: self, index })
    }

    /// One that is free; waits for it.
    pub fn borrow(&self) -> Lent<'_, T, COUNT> {
        loop {
            if let Some(lent) = self.try_borrow() {
                return lent;
            }
            if let Some(seen) = self.lending.begin_wait() {
                futex::wait(self.lending.word(), seen, Timeout::Forever, Scope::Private);
            }
            self.lending.end_wait();
        }
    }

    /// Nothing is lent any more.
    ///
    /// # Safety
    /// This is the only thread of a forked child, and uses nothing that it or another thread had borrowed.
    pub unsafe fn reset(&self) {
        self.lending.reset();
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
        if self.pool.lending.give_back(self.index) {
            futex::wake(self.pool.lending.word(), 1, Scope::Private);
        }
    }
}
