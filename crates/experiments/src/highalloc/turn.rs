//! What somebody who has a CPU says when it is done with it.
//!
//! Said by jobs, kswapd and kcompactd, of all ways to make room; `world` gives the next one the CPU.

use uswap_zones::wake::Asked;

/// When somebody goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Then {
    /// As soon as a CPU is free.
    GoOn,
    /// At this time, or when it is woken.
    At(u64),
    /// When it is woken.
    Sleep,
}

/// What somebody did with a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// For so long.
    pub ns: u64,
    /// And then.
    pub then: Then,
    /// kcompactd is told this.
    pub wakes_kcompactd: Option<Asked>,
}

impl Turn {
    /// Nobody is woken.
    pub const fn of(ns: u64, then: Then) -> Turn {
        Turn { ns, then, wakes_kcompactd: None }
    }
}
