//! What the supervisor of a run is told.

use std::fmt::Arguments;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use crate::files::SwapFileOptions;
use crate::rules::Rule;

/// Says a line to the user: what was seen, why it matters, what to try. Any thread of the supervisor calls it, and it
/// must not wait for the program.
pub type Say = Box<dyn Fn(Arguments<'_>) + Send + Sync>;

/// What the supervisor is told.
pub struct Options {
    /// The budget.
    pub ram_bytes: u64,
    /// The part of it that compressed pages may take.
    pub pool: PoolSize,
    /// The swap files, as they were named.
    pub swap_files: Vec<SwapFileOptions>,
    /// What the file systems of them keep free.
    pub swap_min_free_bytes: u64,
    /// How much may be written to all of them in a day; `None`: as much as comes.
    pub swap_bytes_a_day: Option<u64>,
    /// What happens when pool and file are full.
    pub on_full: OnFull,
    /// What holds for processes by their names.
    pub rules: Vec<Rule>,
    /// Accept a swap directory in memory.
    pub allow_tmpfs: bool,
    /// Keep managing a process that changes its credentials.
    pub keep_after_setuid: bool,
    /// The agent, as it is in `LD_PRELOAD`.
    pub agent: PathBuf,
    /// Nothing is said that is not an error.
    pub quiet: bool,
    /// How much is said while the program runs.
    pub verbosity: u8,
}

/// How much of the budget compressed pages may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PoolSize {
    /// Between 10 % and [`PoolSize::most`], as the program needs it, but never so much that its pages have no room.
    Auto,
    /// So many bytes.
    Fixed(u64),
}

impl PoolSize {
    /// The limit at the start.
    pub fn bytes_at_start(self, ram_bytes: u64, protected_bytes: u64) -> u64 {
        match self {
            PoolSize::Auto => (ram_bytes / 10 * 6).min(beside(ram_bytes, protected_bytes)),
            PoolSize::Fixed(bytes) => bytes,
        }
    }

    /// Between what limits it moves.
    pub fn bounds(self, ram_bytes: u64, protected_bytes: u64) -> RangeInclusive<u64> {
        let most = beside(ram_bytes, protected_bytes);
        match self {
            PoolSize::Auto => (ram_bytes / 10).min(most)..=PoolSize::most(ram_bytes).min(most),
            PoolSize::Fixed(bytes) => bytes..=bytes,
        }
    }

    /// The largest that pays, where pages that are only read keep their copies (docs/adr/0023).
    pub fn most(ram_bytes: u64) -> u64 {
        ram_bytes / 20 * 17
    }
}

/// What is protected stays out of the pool, so that has to be smaller; an eighth is for uswap and the processes that
/// nobody protects.
fn beside(ram_bytes: u64, protected_bytes: u64) -> u64 {
    ram_bytes.saturating_sub(protected_bytes).saturating_sub(ram_bytes / 8).max(ram_bytes / 20)
}

impl Options {
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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnFull {
    /// The run goes over its budget.
    Grow,
    /// All its processes are stopped (SIGSTOP).
    Stop,
    /// All its processes are killed.
    Kill,
}
