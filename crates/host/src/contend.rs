//! How the threads of a managed program wait for a lock of the swap table.
//!
//! Must hold: nobody is taken for dead here: the holder may have another number, in another pid namespace, so only the
//! supervisor breaks a lock. Called by `core`, whose locks of clusters wait so; [`crate::invitation`] gives it to the
//! segment that it opens.

use uswap_core::clusters::lock::Holder;
use uswap_core::mm::MmTable;
use uswap_os::{clock, thread};
use uswap_units::MmId;

/// A lock is held for less than 1 us by who runs.
const SPINS: u32 = 64;
/// Its holder may wait for the processor that we are on.
const YIELDS: u32 = 64;
/// It does not run, or is dead: the supervisor finds out, and breaks the lock.
const SLEEP_NS: u64 = 200_000;

/// Waits a moment, longer with each try. Who is dead is decided by the supervisor alone: here the holder may have
/// another number, in another pid namespace.
pub fn wait_for_lock(_: MmTable<'_>, _: MmId, tries: u32) -> Holder {
    match tries {
        0..SPINS => core::hint::spin_loop(),
        SPINS.. if tries < SPINS + YIELDS => thread::yield_now(),
        _ => clock::sleep_ns(SLEEP_NS),
    }
    Holder::Lives
}
