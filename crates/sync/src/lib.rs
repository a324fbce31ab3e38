//! The only place that chooses between the real atomics, those of the model checker and those that are watched.
//!
//! `core` and `engine` take their atomics from here. With `--cfg loom` they are loom's, and the tests of the word transitions
//! explore every interleaving. With `--cfg virtual_time` they are the real ones, and each access is noted in [`trace`], from
//! which the benchmarks reckon what the same code would take on many CPUs.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(loom, virtual_time))]
extern crate std;

pub mod trace;
#[cfg(all(virtual_time, not(loom)))]
mod watched;

#[cfg(not(any(loom, virtual_time)))]
pub use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(all(virtual_time, not(loom)))]
pub use {
    core::sync::atomic::Ordering,
    watched::{AtomicU32, AtomicU64},
};
