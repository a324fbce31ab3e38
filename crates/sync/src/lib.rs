//! The only place that chooses between the real atomics, those of the two model checkers and those that are watched.
//!
//! `core` takes its atomics from here, but for `range_set`; so do `zones`, most modules of `engine`, and of `interpose`
//! the hazards, the lock of patches and what is kept of signals. What takes the real ones from `core::sync::atomic` is
//! seen by no model checker: the rest of `interpose`, nearly all of `host`, `os`.
//!
//! With `--cfg loom` they are loom's, and the tests of the word transitions explore every interleaving, some
//! of them only those with few preemptions; with `--cfg shuttle` they are shuttle's, and longer tests try random ones.
//! With the feature `virtual_time` they are the real ones, and each access is noted in [`trace`], from which the
//! benchmarks reckon what the same code would take on many CPUs.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(loom, shuttle, feature = "virtual_time"))]
extern crate std;

pub mod trace;
#[cfg(all(feature = "virtual_time", not(any(loom, shuttle))))]
mod watched;

#[cfg(not(any(loom, shuttle)))]
pub use core::hint::spin_loop;
#[cfg(not(any(loom, shuttle, feature = "virtual_time")))]
pub use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub use loom::hint::spin_loop;
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(all(shuttle, not(loom)))]
pub use shuttle::hint::spin_loop;
#[cfg(all(shuttle, not(loom)))]
pub use shuttle::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(all(feature = "virtual_time", not(any(loom, shuttle))))]
pub use {
    core::sync::atomic::{Ordering, fence},
    watched::{AtomicU32, AtomicU64},
};
