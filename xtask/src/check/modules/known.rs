//! Circles of modules that are still there. This list may only get shorter.

use super::Known;

/// Where this list is.
pub const PATH: &str = "xtask/src/check/modules/known.rs";

/// A floor of a crate, and its modules that are in a circle.
pub const CIRCLES: &[Known] =
    &[("sim", "background calls disk files fork mappings places process program seam world")];
