//! What the shrinker is told to do by a command, and how it answers. It alone writes, whenever the pool needs no room.

use std::sync::mpsc;

use uswap_engine::writeback::aged::Marked;
use uswap_engine::writeback::drain::Drain;

/// Marked pages on their way to the shrinker, which alone writes.
pub struct Aged {
    pub marked: Marked,
    /// Gets the pages that were written, or why not all could be.
    pub answer: mpsc::Sender<Result<u64, String>>,
}

/// A swap file on its way to the shrinker, which moves what is in it to others.
pub struct Emptying {
    pub drain: Drain,
    /// Gets the pages that were moved, or why not all could be.
    pub answer: mpsc::Sender<Result<u64, String>>,
}
