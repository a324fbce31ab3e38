//! stress-highalloc in simulated time: how many requests for 2 MiB succeed while a machine of 4 GiB builds kernels, and
//! at rest; by which means, and at what price.
//!
//! After the benchmark of mmtests that was published with kcompactd. [`world`] has the clock, the CPUs and the three
//! phases; [`jobs`] what loads the machine; [`memory`] and [`disk`] the machine; [`turn`] what somebody did
//! with a CPU; [`system`] the four ways to make room:
//! those of Linux in [`before`], and ours, which is `uswap_zones`. [`program`] prints.
//!
//! What must hold: the same seed gives the same run in each column until the columns differ; nothing decides by column
//! but [`system`] and [`before`].

pub mod before;
pub mod counts;
pub mod disk;
pub mod jobs;
pub mod memory;
pub mod prices;
pub mod program;
pub mod system;
pub mod turn;
pub mod world;

use serde::Serialize;

/// Requests may use the highest of the three zones.
pub const CLASS: usize = 2;

/// One way to make room.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Column {
    /// Linux 4.4: kswapd compacts.
    Base,
    /// And kcompactd, which is told the order that kswapd has left.
    Kcompactd,
    /// As it was merged: kswapd reclaims, and kcompactd is told the order that was asked.
    WithOrder,
    /// Ours.
    Ours,
}

impl Column {
    /// All of them.
    pub const ALL: [Column; 4] = [Column::Base, Column::Kcompactd, Column::WithOrder, Column::Ours];

    /// As it is printed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Column::Base => "base",
            Column::Kcompactd => "kcompactd",
            Column::WithOrder => "kcompactd with order",
            Column::Ours => "uswap",
        }
    }
}
