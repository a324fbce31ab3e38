//! A value that is set in each process, and read by all its threads.
//!
//! A forked child sets its own while that of its parent is still in use, and never needs that of its grandparent again:
//! there are two places by turns, and nothing of ours allocates.
//!
//! Must hold: one thread at a time sets a value, once nobody uses any but the one that was set last. Called by
//! [`crate::process`].
//!
//! Memory order: `set` stores `current` with Release behind the value, which pairs with the Acquire of `get`. Who sets
//! goes on from what the one before has set: that is the order of its callers.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The latest value that was set, and room for the next. Made for a static.
pub(crate) struct Latest<T: 'static> {
    current: AtomicPtr<T>,
    /// The place of the next one. The one that was set last lies in the other, current or forgotten.
    next: AtomicUsize,
    places: [UnsafeCell<MaybeUninit<T>>; 2],
}

// SAFETY:
// 1. Values are read by many threads at once, so they must be `Sync`; they are written by one and read by others, so
//    they must be `Send`.
// 2. A place is written only in `set`, whose caller promises that nobody reads it, or writes one, meanwhile.
unsafe impl<T: Send + Sync> Sync for Latest<T> {}

impl<T> Latest<T> {
    /// None yet.
    pub(crate) const fn new() -> Latest<T> {
        Latest {
            current: AtomicPtr::new(core::ptr::null_mut()),
            next: AtomicUsize::new(0),
            places: [const { UnsafeCell::new(MaybeUninit::uninit()) }; 2],
        }
    }

    /// The one that was set last.
    #[inline]
    pub(crate) fn get(&self) -> Option<&'static T> {
        // SAFETY:
        // 1. What is not null comes from `set`, where it was written before, in a value that lives for ever.
        // 2. It stays while one more is set, forgotten or not. Who sets the one after that promises that nobody uses it
        //    any more.
        unsafe { self.current.load(Ordering::Acquire).as_ref() }
    }

    /// Sets another. The one that was set last stays where it is.
    ///
    /// # Safety
    /// Nobody else sets one meanwhile. Nobody uses any value but the one that was set last.
    pub(crate) unsafe fn set(&'static self, value: T) -> &'static T {
        let next = self.next.load(Ordering::Relaxed);
        self.next.store(1 - next, Ordering::Relaxed);
        // SAFETY:
        // 1. The one that was set last lies in the other place, and nobody uses what was here: the caller's promise.
        let value = unsafe { (*self.places[next].get()).write(value) };
        self.current.store(value, Ordering::Release);
        value
    }

    /// There is none. Who has it may go on with it.
    pub(crate) fn forget(&self) {
        self.current.store(core::ptr::null_mut(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::Latest;

    #[test]
    fn the_one_before_stays_until_the_next_is_set() {
        static LATEST: Latest<u64> = Latest::new();
        assert_eq!(LATEST.get(), None);
        // SAFETY:
        // 1. One thread, which uses no value but the last two.
        let mut before = unsafe { LATEST.set(0) };
        for number in 1..1000 {
            // SAFETY:
            // 1. As above.
            let now = unsafe { LATEST.set(number) };
            assert_eq!((*before, *now), (number - 1, number));
            assert_eq!(LATEST.get(), Some(&number));
            let places = &raw const LATEST as usize..&raw const LATEST as usize + size_of_val(&LATEST);
            assert!(places.contains(&(core::ptr::from_ref(now) as usize)));
            before = now;
        }
        LATEST.forget();
        assert_eq!(LATEST.get(), None);
        // SAFETY:
        // 1. As above.
        assert_eq!(unsafe { LATEST.set(1000) }, &1000);
        assert_eq!(before, &999, "it was forgotten, and stays all the same");
    }
}
