//! What a thread does to shared memory: which cache lines it reads and writes, which locks it holds.
//!
//! Code that takes a lock says so here. In the normal build and under loom all of this is empty and costs nothing. With
//! the feature `virtual_time` each thread notes its events, those of the atomics too, in order, and the benchmarks take
//! them with [`take`]. A thread notes nothing before its first [`take`], so that threads nobody watches keep no growing
//! list.

/// Bytes of a cache line.
pub const LINE_BYTES: usize = 64;

/// Whether this build notes events.
pub const RECORDS: bool = cfg!(feature = "virtual_time");

/// One thing a thread did.
///
/// A line is its address divided by [`LINE_BYTES`]. A lock is the address itself: several locks may be in one line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// An atomic in this line was loaded.
    Read(usize),
    /// An atomic in this line was stored.
    Write(usize),
    /// An atomic in this line was read and written in one step, or that was tried: a `compare_exchange` that fails
    /// needs the line for itself all the same.
    Exchange(usize),
    /// The lock at this address was taken.
    Locked(usize),
    /// The lock at this address was given back.
    Unlocked(usize),
    /// So many nanoseconds went by that are not seen in the atomics.
    Worked(u32),
}

/// The caller has just taken the lock at `address`.
///
/// If the lock is an atomic of this crate, its exchange is noted too, and before this.
#[inline]
pub fn locked(address: usize) {
    note(Event::Locked(address));
}

/// The caller has just given back the lock at `address`.
///
/// Said after the store that gives it back, so that the store counts as part of the hold.
#[inline]
pub fn unlocked(address: usize) {
    note(Event::Unlocked(address));
}

/// The caller has just done something that takes `nanoseconds` and that the atomics do not show, such as to copy a
/// page.
#[inline]
pub fn worked(nanoseconds: u32) {
    note(Event::Worked(nanoseconds));
}

/// Moves what this thread did since its last `take` to the end of `events`. From the first call on the thread notes
/// what it does. Without the feature `virtual_time` there is never anything to take.
pub fn take(events: &mut impl Extend<Event>) {
    #[cfg(feature = "virtual_time")]
    recorder::take(events);
    #[cfg(not(feature = "virtual_time"))]
    events.extend(None);
}

/// Appends to what this thread did.
#[inline]
pub(crate) fn note(event: Event) {
    #[cfg(feature = "virtual_time")]
    recorder::note(event);
    #[cfg(not(feature = "virtual_time"))]
    let _ = event;
}

#[cfg(feature = "virtual_time")]
mod recorder {
    //! The list of one thread.

    use core::cell::RefCell;
    use std::vec::Vec;

    use super::Event;

    std::thread_local! {
        /// None before the first `take`.
        static NOTED: RefCell<Option<Vec<Event>>> = const { RefCell::new(None) };
    }

    pub(super) fn note(event: Event) {
        // A thread that ends may run destructors after its list is gone. Nobody can take those events.
        let _ = NOTED.try_with(|noted| {
            if let Some(events) = noted.borrow_mut().as_mut() {
                events.push(event);
            }
        });
    }

    pub(super) fn take(events: &mut impl Extend<Event>) {
        NOTED.with(|noted| events.extend(noted.borrow_mut().get_or_insert_default().drain(..)));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::vec::Vec;

    use super::{Event, LINE_BYTES, RECORDS, locked, take, unlocked, worked};
    use crate::{AtomicU32, AtomicU64, Ordering};

    extern crate std;

    fn taken() -> Vec<Event> {
        let mut events = Vec::new();
        take(&mut events);
        events
    }

    #[test]
    fn each_access_is_noted_once_in_order_and_taken_once() {
        let (word, small) = (AtomicU64::new(1), AtomicU32::new(1));
        let line = core::ptr::from_ref(&word) as usize / LINE_BYTES;
        let small_line = core::ptr::from_ref(&small) as usize / LINE_BYTES;
        word.store(5, Ordering::Relaxed);
        assert_eq!(taken(), [], "nothing is noted before the first take");

        assert_eq!(word.load(Ordering::Relaxed), 5);
        word.store(6, Ordering::Relaxed);
        assert_eq!(word.compare_exchange(7, 8, Ordering::Relaxed, Ordering::Relaxed), Err(6));
        locked(12);
        assert_eq!(small.fetch_add(2, Ordering::Relaxed), 1);
        worked(30);
        unlocked(12);
        let seen = taken();
        if RECORDS {
            let expected = [
                Event::Read(line),
                Event::Write(line),
                Event::Exchange(line),
                Event::Locked(12),
                Event::Exchange(small_line),
                Event::Worked(30),
                Event::Unlocked(12),
            ];
            assert_eq!(seen, expected);
        } else {
            assert_eq!(seen, []);
        }
        assert_eq!(taken(), []);
    }

    #[test]
    fn an_update_is_a_read_and_as_many_exchanges_as_it_takes() {
        let word = AtomicU64::new(1);
        taken();
        assert_eq!(
            word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |value| value.checked_add(1)),
            Ok(1)
        );
        assert_eq!(word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |_| None), Err(2));
        let seen = taken();
        let line = core::ptr::from_ref(&word) as usize / LINE_BYTES;
        if RECORDS {
            assert_eq!(seen, [Event::Read(line), Event::Exchange(line), Event::Read(line)]);
        } else {
            assert_eq!(seen, []);
        }
    }
}
