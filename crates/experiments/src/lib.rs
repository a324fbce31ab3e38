//! Experiments in simulated time: what the parts of `core` do on machines that are not here, beside what was before
//! them.
//!
//! | module | for |
//! |---|---|
//! | [`second_chance`] | rules for what goes from RAM to the disk, on a build that is made up |
//! | [`swap_space`] | the space of the swap file on CPUs that are made up |
//! | [`highalloc`] | requests for huge pages on a machine that builds kernels |
//!
//! What must hold: no clock of this machine is in a figure that is said to be made up; the same seed says the same
//! everywhere; nothing that runs beside a program depends on this.
#![forbid(unsafe_code)]

pub mod highalloc;
pub mod second_chance;
pub mod swap_space;
