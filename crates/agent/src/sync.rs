//! Locks for the engine, and running its futures.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use uswap_os::gate::Lock;

/// The engine's private lock as `lock_api` wants it.
pub struct RawLock(Lock);

// SAFETY:
// 1. `Lock` is a mutual exclusion lock: between `lock` (or a `try_lock` that succeeded) and `unlock` no other thread
//    gets it.
// 2. `unlock` is called only by who holds it, as `lock_api` promises.
unsafe impl lock_api::RawMutex for RawLock {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: RawLock = RawLock(Lock::new());
    type GuardMarker = lock_api::GuardSend;

    fn lock(&self) {
        core::mem::forget(self.0.lock());
    }
    fn try_lock(&self) -> bool {
        self.0.try_lock().map(core::mem::forget).is_some()
    }
    unsafe fn unlock(&self) {
        self.0.unlock_forgotten();
    }
}

/// Runs a future of the engine. On Linux everything that waits blocks its thread, so each future is ready when it is
/// polled once.
pub fn run<F: Future>(future: F) -> F::Output {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("waiting blocks the thread here"),
    }
}
