//! `uswap bench`: uswap and the kernel's ways to swap on the same work, at the same true RAM, in one run.
//!
//! | module | for |
//! |---|---|
//! | [`command`], [`args`], [`plan`], [`user_program`] | the command: what is run; with a scenario, or any program |
//! | [`bench`](mod@bench), [`search`], [`order`], [`one_run`] | the whole course; the limit at which true RAM is the budget; the order of runs; one run, watched |
//! | [`machine`], [`counts`] | what machine this is; what the kernel counts |
//! | [`results`] | what was measured, as plain data and JSON |
//! | [`rivals`] | one way to swap: set up, limit, true RAM, torn down |
//! | [`system`] | cgroups, swap devices and settings of the kernel, and the list of what must be undone |
//! | [`workloads`] | programs that are run: `uswap workload NAME`, and scripts around real programs |
//! | [`statistics`] | medians, spreads, and when two are a tie |
//! | [`report`] | table, page with plots, comparison of two results |
//!
//! What must hold: after a bench no swap device, cgroup, process or changed setting is left, however it ended; a run
//! that was killed is a result, not an error; what the noise swallows is called a tie.
#![forbid(unsafe_code)]

pub mod args;
pub mod bench;
pub mod command;
pub mod counts;
pub mod machine;
pub mod one_run;
pub mod order;
pub mod plan;
pub mod report;
pub mod results;
pub mod rivals;
pub mod search;
pub mod statistics;
pub mod system;
pub mod user_program;
pub mod workloads;
