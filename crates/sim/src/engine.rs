//! What of the engine is simulated, and the seams that this crate implements for it.

pub use uswap_engine::in_place::reclaim::{Background, Fruitless};
pub use uswap_engine::in_place::world::{FillAs, Gate, Hazards, Memory};
pub use uswap_engine::in_place::{AddressSpace, Evictor, Fault};
pub use uswap_engine::platform::{Backing, FileBuffer, FileError, Filled, Install, Touch};
pub use uswap_engine::workspace::Workspace;
