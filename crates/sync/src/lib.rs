//! The only place that chooses between the real atomics and those of the model checker.
//!
//! `core` and `engine` take their atomics from here. With `--cfg loom` they are loom's, and the tests of the word transitions
//! explore every interleaving.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(loom)]
extern crate std;

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
