//! Which compressed pages go to the disk, and when: rules for that side by side, on a build under a memory limit that
//! is made up.
//!
//! | module | for |
//! |---|---|
//! | [`prices`] | what each thing costs, and the disk |
//! | [`lists`], [`memory`] | pages: in RAM (two lists, as Linux has them), compressed in the pool, or on the disk |
//! | [`build`] | the work: compilers that run side by side, and data that nobody wants again |
//! | [`shrinker`] | what a rule is asked, and how reclaim drives it |
//! | [`decaying`], [`published`] | rules: protection that decays with stores; referenced bits and a count of swap-ins from the disk |
//! | [`ours`] | the rule of uswap |
//! | [`program`] | runs all of it and prints tables |
//!
//! Left out: pages of files, huge pages, the page that a write-back needs while it runs, cells and holes of the pool (a
//! blob takes its bytes), limits of the pool, errors, and what processors do to each other. A pass of reclaim happens
//! at once at its start, and its time is added to the worker that did it.
//!
//! Time is whole nanoseconds, chance comes from one seed: the same seed gives the same figures on every machine.

pub mod build;
pub mod decaying;
pub mod lists;
pub mod memory;
pub mod ours;
pub mod prices;
pub mod program;
pub mod published;
mod rule;
pub mod shrinker;

#[cfg(test)]
mod tests;
