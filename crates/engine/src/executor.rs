//! Runs the engine where waiting blocks the thread: on Linux.
//!
//! Must hold: nothing in the world of such a future hands the thread back, so that each future is ready when it is
//! polled once. Called by `host` and the supervisor; `sim` has an executor of its own.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

/// Runs a future of the engine to its end, in a world in which everything that waits blocks the thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("waiting blocks the thread here"),
    }
}
