//! Who patches, and whether anybody may.
//!
//! A patch makes system calls. A filter that the program sets on its calls may forbid them, or end the process for one.
//! So who is about to set a filter closes the lock, and waits for the thread that is at work. Both are in one word: who
//! begins has looked at both at once.
//!
//! ```text
//! bit 63 .. 32                         31 .. 0
//!     calls before a patch, 0: never   id of the thread at work, 0: nobody
//! ```
//!
//! What must hold: nobody begins once the lock is closed. A thread at work has all signals blocked and waits for no
//! other, so who waits for it waits for less than a millisecond of its time, but for these: it was killed at it (a
//! child that shares the memory, or by a filter from before the program), or it stands still for a debugger.
//!
//! Called by [`crate::patch`].
//!
//! Memory order: the Release by which work ends pairs with the Acquire of who begins next, which sees what the patch
//! has noted; and with the Acquire of who closes the lock or waits: the calls of the patch are behind it.

use uswap_os::sys::Errno;
use uswap_os::{clock, process};
use uswap_sync::{AtomicU64, Ordering};

/// Beyond it the thread at work counts as gone. A patch reads code that may have to come from a busy disk first.
const PATIENCE_NS: u64 = 10_000_000_000;
/// Between two looks.
const PAUSE_NS: u64 = 100_000;
const THREAD: u64 = u32::MAX as u64;
const THREAD_BITS: u32 = 32;

/// Closed at first.
pub(super) struct PatchLock {
    word: AtomicU64,
}

/// This thread patches, until it is dropped.
#[must_use]
pub(super) struct Work<'a>(&'a PatchLock);

impl PatchLock {
    #[cfg(not(loom))]
    pub(super) const fn new() -> PatchLock {
        PatchLock { word: AtomicU64::new(0) }
    }

    /// Atomics of the model checker are not made for statics.
    #[cfg(loom)]
    pub(super) fn new() -> PatchLock {
        PatchLock { word: AtomicU64::new(0) }
    }

    /// Sites may be patched after so many calls. Nobody is at work yet.
    pub(super) fn open(&self, patch_after: u32) {
        self.word.store(u64::from(patch_after) << THREAD_BITS, Ordering::Relaxed);
    }

    /// Calls of a site before it is patched; 0: never.
    pub(super) fn patch_after(&self) -> u32 {
        (self.word.load(Ordering::Relaxed) >> THREAD_BITS) as u32
    }

    /// None: the lock is closed, or another thread is at work.
    pub(super) fn begin(&self, thread_id: impl FnOnce() -> u32) -> Option<Work<'_>> {
        let open = self.word.load(Ordering::Relaxed);
        if open & THREAD != 0 || open == 0 {
            return None;
        }
        let taken = open | u64::from(thread_id());
        self.word.compare_exchange(open, taken, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(Work(self))
    }

    /// Nobody begins from now on. Answers which thread is still at work.
    pub(super) fn close(&self) -> Option<u32> {
        thread_of(self.word.fetch_and(THREAD, Ordering::Acquire))
    }

    /// The thread at work.
    pub(super) fn at_work(&self) -> Option<u32> {
        thread_of(self.word.load(Ordering::Acquire))
    }

    /// Nobody begins from now on, and nobody is at work any more.
    pub(super) fn close_and_wait(&self) {
        let Some(mut thread_id) = self.close() else { return };
        let end_ns = clock::now_ns() + PATIENCE_NS;
        while !is_gone(thread_id) && clock::now_ns() < end_ns {
            clock::sleep_ns(PAUSE_NS);
            match self.at_work() {
                Some(found) => thread_id = found,
                None => return,
            }
        }
        // Who closes it next need not wait again. It is closed: nobody else has begun meanwhile.
        self.forget_thread();
    }

    /// The thread at work is gone: it was killed, or this is the only thread of a forked child.
    pub(super) fn forget_thread(&self) {
        self.word.fetch_and(!THREAD, Ordering::Relaxed);
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        self.0.word.fetch_and(!THREAD, Ordering::Release);
    }
}

fn thread_of(word: u64) -> Option<u32> {
    Some(word as u32).filter(|thread_id| *thread_id != 0)
}

/// Whether there is no such thread, in this process or in a child that shares the memory. The first thread of a process
/// stays until the others have ended. By a call that this library makes anyway ([`uswap_os::own_calls`]).
fn is_gone(thread_id: u32) -> bool {
    process::robust_list(thread_id) == Err(Errno::ESRCH)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::kernel;
    use std::time::{Duration, Instant};

    #[test]
    fn one_thread_patches_at_a_time_and_nobody_once_it_is_closed() {
        let lock = PatchLock::new();
        assert!(lock.begin(|| 1).is_none(), "it is not open yet");
        lock.open(8);
        let work = lock.begin(|| 1);
        assert!(work.is_some());
        assert!(lock.begin(|| 2).is_none());
        drop(work);
        drop(lock.begin(|| 2).expect("the other has ended"));
        assert_eq!((lock.patch_after(), lock.close()), (8, None));
        assert!(lock.begin(|| 3).is_none());
        assert_eq!(lock.patch_after(), 0);
    }

    #[test]
    fn who_closes_it_waits_for_the_thread_at_work() {
        let lock = PatchLock::new();
        lock.open(1);
        std::thread::scope(|scope| {
            let (begun, has_begun) = std::sync::mpsc::channel();
            let lock = &lock;
            let worker = scope.spawn(move || {
                let work = lock.begin(kernel::thread_id).expect("nobody is at work");
                begun.send(()).expect("the other end waits");
                // Until the other has closed it, and some time longer.
                while lock.patch_after() != 0 {
                    std::thread::yield_now();
                }
                std::thread::sleep(Duration::from_millis(20));
                let ended = Instant::now();
                drop(work);
                ended
            });
            has_begun.recv().expect("it has begun");
            lock.close_and_wait();
            let closed = Instant::now();
            assert!(worker.join().expect("it ends") <= closed);
        });
    }

    #[test]
    fn nobody_waits_for_a_thread_that_was_killed_at_work() {
        let lock = PatchLock::new();
        lock.open(1);
        let killed = std::thread::spawn(kernel::thread_id).join().expect("it ends");
        core::mem::forget(lock.begin(|| killed));
        assert_eq!(lock.at_work(), Some(killed));
        assert!(!is_gone(kernel::thread_id()));
        // The kernel may know it for a moment longer than who has joined it.
        while !is_gone(killed) {
            std::thread::yield_now();
        }
        lock.close_and_wait();
        assert_eq!(lock.close(), None);
    }

    #[test]
    fn a_forked_child_patches_on() {
        let lock = PatchLock::new();
        lock.open(3);
        core::mem::forget(lock.begin(|| 7));
        lock.forget_thread();
        assert_eq!(lock.patch_after(), 3);
        assert!(lock.begin(|| 8).is_some());
    }
}
