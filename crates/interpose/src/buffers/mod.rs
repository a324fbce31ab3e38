//! Buffers of a system call are present before the kernel looks, and stay until it has answered.
//!
//! ```text
//! ranges of the call ─> published as hazards ─> page words looked at ─> missing ones made present
//!     ─> looked at again ─> the call ─> hazards cleared
//! evictor: marks a batch of pages ─> one membarrier ─> reads all hazards ─> evicts what nobody names
//! ```
//!
//! Must hold: a page that is in a range of a call under way is never evicted. Either the evictor sees the hazard, or
//! the thread sees the mark: each writes its own word first and reads the other's afterwards. The thread orders the
//! two for the compiler only; the evictor's membarrier orders them for the processor of every thread.
//!
//! Knows nothing of swap: who keeps pages is a [`Residency`]. The interposer calls [`Boundary::before`] and
//! [`Boundary::after`] around each call, on the thread that makes it. No allocation, no lock.
//!
//! Called by `host`, around each call that it lets pass.

mod boundary;
mod deferred_signals;
mod fence;
mod file_kind;
mod hazards;
mod holder;
mod interrupted;
mod parts;
mod residency;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

pub use boundary::{Begun, Boundary};
pub use fence::{asymmetric_fence_heavy, asymmetric_fence_light, register_asymmetric_fence};
pub use file_kind::FileKind;
pub use hazards::{FRAMES_MAX, HazardSlot, HazardTable, RANGES_MAX, StackPoint};
pub(crate) use interrupted::may_wait;
pub use residency::{Make, Page, Residency};
