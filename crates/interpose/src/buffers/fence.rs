//! A fence of which one side pays for both: nothing in the thread that makes a call, a membarrier in the evictor.
//!
//! `membarrier(PRIVATE_EXPEDITED)` makes every running thread of the process pass a full barrier. What a thread did
//! before its own light fence is then seen by what follows the heavy one, or what follows its light fence sees what
//! went before the heavy one. Under the model checker both sides are full fences, which promise the same.
//!
//! Must hold: of a thread that publishes and then looks, and an evictor that marks and then reads, at least one sees
//! what the other has written. Called by [`crate::buffers::holder`] (light), by [`crate::buffers::hazards`] (heavy),
//! and by `host`, which registers.
//!
//! Memory order: the fence of `asymmetric_fence_light` pairs with that of `asymmetric_fence_heavy`. Where `membarrier`
//! is registered a compiler fence is enough on the light side, since the call is a full fence in each thread.
//! `IS_REGISTERED` is stored before there are two sides: no order of it matters.

use crate::plant::{Plant, is_planted};
#[cfg(loom)]
use uswap_sync::{Ordering, fence};
#[cfg(not(loom))]
use {
    core::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence},
    uswap_os::sys::syscall3,
};

/// The kernel knows that this process wants the expedited barrier. Else both sides are full fences.
#[cfg(not(loom))]
static IS_REGISTERED: AtomicBool = AtomicBool::new(false);

/// Asks the kernel for the expedited barrier. False: it has none, and each light fence is a full one.
///
/// Called once, before the first call that publishes and before the first eviction.
#[cfg(not(loom))]
pub fn register_asymmetric_fence() -> bool {
    let answer = membarrier(REGISTER_PRIVATE_EXPEDITED);
    IS_REGISTERED.store(answer, Ordering::SeqCst);
    answer
}

/// The model knows no kernel.
#[cfg(loom)]
pub fn register_asymmetric_fence() -> bool {
    true
}

/// The side of the thread that makes calls: between publishing and looking.
#[inline]
pub fn asymmetric_fence_light() {
    if is_planted(Plant::NoLightFence) {
        return;
    }
    #[cfg(loom)]
    fence(Ordering::SeqCst);
    #[cfg(not(loom))]
    if IS_REGISTERED.load(Ordering::Relaxed) {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// The side of the evictor: between marking and reading the hazards. Once a batch.
pub fn asymmetric_fence_heavy() {
    if is_planted(Plant::NoHeavyFence) {
        return;
    }
    fence(Ordering::SeqCst);
    #[cfg(not(loom))]
    if IS_REGISTERED.load(Ordering::Relaxed) {
        // A child that was forked may have to ask anew.
        let is_done = membarrier(PRIVATE_EXPEDITED)
            || membarrier(REGISTER_PRIVATE_EXPEDITED) && membarrier(PRIVATE_EXPEDITED);
        assert!(
            is_done,
            "membarrier worked when it was registered; without it a page in use could be evicted"
        );
    }
}

#[cfg(not(loom))]
const PRIVATE_EXPEDITED: usize = 1 << 3;
#[cfg(not(loom))]
const REGISTER_PRIVATE_EXPEDITED: usize = 1 << 4;

#[cfg(not(loom))]
fn membarrier(command: usize) -> bool {
    // SAFETY:
    // 1. The call names no memory.
    unsafe { syscall3(linux_raw_sys::general::__NR_membarrier, command, 0, 0) }.is_ok()
}
