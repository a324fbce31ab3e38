//! What the supervisor of a run is told.

use std::fmt::Arguments;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use uswap_core::pool::{CLASS_COUNT, ZSPAGE_BYTES};

use crate::files::SwapFileOptions;
use crate::rules::Rule;

/// Says a line to the user: what was seen, why it matters, what to try. Any thread of the supervisor calls it, and it
/// must not wait for the program.
pub type Say = Box<dyn Fn(Arguments<'_>) + Send + Sync>;

/// What the supervisor is told.
pub struct Options {
    /// The name of the program, as people know it.
    pub program: String,
    /// What the run has to keep to, at first.
    pub limits: Limits,
    /// The swap files, as they were named.
    pub swap_files: Vec<SwapFileOptions>,
    /// What the file systems of them keep free.
    pub swap_min_free_bytes: u64,
    /// How much may be written to all of them in a day; `None`: as much as comes.
    pub swap_bytes_a_day: Option<u64>,
    /// Accept a swap directory in memory.
    pub allow_tmpfs: bool,
    /// Keep managing a process that changes its credentials.
    pub keep_after_setuid: bool,
    /// The process that the run begins with, which ran before; `None`: what this one starts.
    pub root: Option<u32>,
    /// Only memory that the process names is managed, and what it executes is not of the run.
    pub regions_only: bool,
    /// The agent, as it is in `LD_PRELOAD`.
    pub agent: PathBuf,
    /// Nothing is said that is not an error.
    pub quiet: bool,
    /// How much is said while the program runs.
    pub verbosity: u8,
}

/// Smallest budget. Below it the agent's tables, one batch and the pool of a run do not fit beside the smallest C
/// program.
pub const RAM_BYTES_MIN: u64 = 8 << 20;

/// What a run has to keep to. May be changed while it goes on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The budget.
    pub ram_bytes: u64,
    /// The part of it that compressed pages may take.
    pub pool: PoolSize,
    /// What happens when pool and file are full.
    pub on_full: OnFull,
    /// What holds for processes by their names.
    pub rules: Vec<Rule>,
}

/// How much of the budget compressed pages may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PoolSize {
    /// Between 10 % and [`PoolSize::most`], as the program needs it, but never so much that its pages have no room.
    Auto,
    /// This part of the budget, if that is not less than [`PoolSize::least`].
    Fixed(Fraction),
}

/// A part of the budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Fraction {
    /// In millionths: at most 1,000,000.
    pub millionths: u32,
}

impl Fraction {
    /// This part of `bytes`, rounded down.
    pub fn of(self, bytes: u64) -> u64 {
        let part = u128::from(bytes) * u128::from(self.millionths) / 1_000_000;
        u64::try_from(part).expect("a share is no more than the whole, and the whole is 64 bits")
    }
}

impl PoolSize {
    /// The limit at the start.
    pub fn bytes_at_start(self, ram_bytes: u64, protected_bytes: u64) -> u64 {
        match self {
            PoolSize::Auto => (ram_bytes / 10 * 6).min(beside(ram_bytes, protected_bytes)),
            PoolSize::Fixed(share) => share.of(ram_bytes).max(PoolSize::least(ram_bytes)),
        }
    }

    /// Between what limits it moves.
    pub fn bounds(self, ram_bytes: u64, protected_bytes: u64) -> RangeInclusive<u64> {
        let most = beside(ram_bytes, protected_bytes);
        match self {
            PoolSize::Auto => (ram_bytes / 10).min(most)..=PoolSize::most(ram_bytes).min(most),
            PoolSize::Fixed(_) => {
                let bytes = self.bytes_at_start(ram_bytes, protected_bytes);
                bytes..=bytes
            }
        }
    }

    /// A smaller one is full before much is in it: blobs of each size class lie in zspages of their own, and each
    /// evictor fills one of its own. Of a very small budget it is a quarter.
    pub fn least(ram_bytes: u64) -> u64 {
        const ZSPAGES_OF_CLASS: usize = 4;
        ((ZSPAGES_OF_CLASS * CLASS_COUNT * ZSPAGE_BYTES) as u64).min(ram_bytes / 4)
    }

    /// The largest that pays, where pages that are only read keep their copies (docs/adr/0023).
    pub fn most(ram_bytes: u64) -> u64 {
        ram_bytes / 20 * 17
    }
}

/// What is protected stays out of the pool, so that has to be smaller; an eighth is for uswap and the processes that
/// nobody protects.
fn beside(ram_bytes: u64, protected_bytes: u64) -> u64 {
    ram_bytes.saturating_sub(protected_bytes).saturating_sub(ram_bytes / 8).max(PoolSize::least(ram_bytes))
}

impl Limits {
    /// What `--protect` asks for in all.
    pub fn protected_bytes(&self) -> u64 {
        self.rules.iter().map(|rule| rule.protected_bytes).sum()
    }

    /// The limit of the pool at the start.
    pub fn pool_bytes_at_start(&self) -> u64 {
        self.pool.bytes_at_start(self.ram_bytes, self.protected_bytes())
    }

    /// Between what limits it moves.
    pub fn pool_bounds(&self) -> RangeInclusive<u64> {
        self.pool.bounds(self.ram_bytes, self.protected_bytes())
    }
}

/// What happens when pool and file are full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnFull {
    /// The run goes over its budget.
    Grow,
    /// All its processes are stopped (SIGSTOP).
    Stop,
    /// All its processes are killed.
    Kill,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn no_pool_is_too_small_for_its_size_classes() {
        for (ram, protected) in [(8, 0), (20, 0), (20, 20), (64, 60), (128, 0), (1 << 14, 0)] {
            let (ram, protected) = (ram * MIB, protected * MIB);
            let least = PoolSize::least(ram);
            assert_eq!(least, ((31 * 4 * 32) << 10).min(ram / 4));
            for pool in [PoolSize::Auto, PoolSize::Fixed(Fraction { millionths: 50_000 })] {
                let (bounds, at_start) = (pool.bounds(ram, protected), pool.bytes_at_start(ram, protected));
                assert!(bounds.contains(&at_start) && at_start >= least, "{ram} {pool:?} {bounds:?}");
                assert!(*bounds.end() <= PoolSize::most(ram));
            }
        }
        let smallest = *PoolSize::Auto.bounds(8 * MIB, 0).start();
        assert_eq!(smallest, 8 * MIB / 10, "it gives way to pages that are needed at once");
        let tenth = PoolSize::Fixed(Fraction { millionths: 100_000 });
        assert_eq!(tenth.bytes_at_start(100 * MIB, 0), 10 * MIB, "as it was asked for");
    }
}
