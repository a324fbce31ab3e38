//! The table: one file for each kind of program.

mod allocators;
mod debuggers;
mod files;
mod python;
mod runtimes;
mod sanitizers;
mod servers;
mod stress;
mod tools;

use super::case::Case;

/// All cases, the quick ones first.
pub fn all() -> Vec<Case> {
    let kinds: [fn() -> Vec<Case>; 9] = [
        tools::cases,
        servers::cases,
        files::cases,
        allocators::cases,
        runtimes::cases,
        debuggers::cases,
        sanitizers::cases,
        python::cases,
        stress::cases,
    ];
    kinds.into_iter().flat_map(|cases| cases()).collect()
}
