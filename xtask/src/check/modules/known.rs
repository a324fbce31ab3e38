//! Circles of modules that are still there. This list may only get shorter.

use super::Known;

/// Where this list is.
pub const PATH: &str = "xtask/src/check/modules/known.rs";

/// A floor of a crate, and its modules that are in a circle.
pub const CIRCLES: &[Known] = &[
    ("bench", "report search user_program workloads"),
    ("bench::report", "contents duel"),
    ("cli::doctor", "findings newer_kernels"),
    ("codec::words", "codes lengths symbols"),
    ("core", "clusters files mm"),
    ("core::clusters", "lists record"),
    ("experiments::highalloc", "before system"),
    ("os", "clock fd"),
    ("sim", "background calls disk files fork mappings places process program seam world"),
    ("zones", "compaction kswapd node"),
    ("vector", "avx512 words"),
    ("zones", "compaction kswapd node"),
];
