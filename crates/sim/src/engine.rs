//! What of the engine is simulated, and the seams that this crate implements for it.

pub use uswap_engine::reclaim::{Background, KswapdFailures};
pub use uswap_engine::workspace::Workspace;
pub use uswap_engine::world::{
    Backing, BlockBits, FileBuffer, FileError, FillAs, Filled, Gate, Hazards, Install, Memory, Touch,
};
pub use uswap_engine::{AddressSpace, Evictor, FaultOutcome};
