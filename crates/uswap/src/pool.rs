//! Memory that is managed by name.
//!
//! Must hold: there is a pool only in a process that has a budget, its own or that of its run; two pools of one process
//! are the same one. Called by programs, by [`crate::blocks`] and by `libusw`.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use bytemuck::Pod;

use crate::agent::Agent;
use crate::state::{self, State};
use crate::{Error, Limit, Map, Stats};

/// Memory that may be larger than RAM, in a process that is otherwise left alone.
///
/// It is a handle: what was taken from it lives on without it. In a process with a budget ([`crate::limit()`],
/// `uswap run`) everything is managed, and so is the memory of a pool, within that budget.
///
/// ```no_run
/// # fn main() -> Result<(), uswap::Error> {
/// let pool = uswap::Pool::builder().ram("2G").dir("/scratch").build()?;
/// let mut bytes = pool.map_anon(64 << 30)?;
/// bytes[1 << 30] = 1;
/// let mut numbers = allocator_api2::vec::Vec::with_capacity_in(1 << 30, &pool);
/// numbers.push(1_u64);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Pool(());

/// What a [`Pool`] is to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolBuilder {
    limit: Limit,
    has_ram: bool,
}

impl Pool {
    /// A pool with its own budget, or one that shares the budget that this process has.
    pub fn builder() -> PoolBuilder {
        PoolBuilder::default()
    }

    /// `bytes` zero bytes. Nothing is taken for them before they are touched.
    ///
    /// # Errors
    /// [`Error::Memory`]: the kernel has no room in the address space. [`Error::NotManaged`]: the run has none for its
    /// page tables. [`Error::LimitedBefore`]: the process has given up its budget, and the pool with it.
    pub fn map_anon(&self, bytes: usize) -> Result<Map<u8>, Error> {
        self.map(bytes)
    }

    /// `count` values of zero bytes.
    ///
    /// # Errors
    /// As of [`Pool::map_anon`].
    pub fn map<T: Pod>(&self, count: usize) -> Result<Map<T>, Error> {
        Map::new(count)
    }

    /// How the run goes of which the pool is.
    ///
    /// # Errors
    /// As of [`crate::stats()`].
    pub fn stats(&self) -> Result<Stats, Error> {
        crate::stats()
    }
}

impl PoolBuilder {
    /// RAM for the process: 2G, or a number of bytes. What lies outside of the pool counts, and cannot be evicted.
    /// Needed, unless the process has a budget.
    pub fn ram(self, ram: impl Display) -> PoolBuilder {
        PoolBuilder { limit: self.limit.option("--ram", ram.to_string()), has_ram: true }
    }

    /// Directory of a swap file, and what may follow it: `DIR[:SIZE[:PRIORITY]]`. May be called several times. Without
    /// it there is one in `/var/tmp`.
    pub fn dir(self, place: impl AsRef<Path>) -> PoolBuilder {
        self.option("--swap", place.as_ref())
    }

    /// Any other option of `uswap run` that limits memory, and its value.
    pub fn option(self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> PoolBuilder {
        PoolBuilder { limit: self.limit.option(name, value), ..self }
    }

    /// The same of an option that has no value, such as `--allow-tmpfs`.
    pub fn flag(self, name: &str) -> PoolBuilder {
        PoolBuilder { limit: self.limit.flag(name), ..self }
    }

    /// The command `uswap`.
    pub fn command(self, path: impl Into<PathBuf>) -> PoolBuilder {
        PoolBuilder { limit: self.limit.command(path), ..self }
    }

    /// The pool. A process has one budget: it is set by the first pool, and others are told the same, or nothing.
    ///
    /// # Errors
    /// The process is as it was: [`Error`] says why.
    pub fn build(self) -> Result<Pool, Error> {
        let asks = self != PoolBuilder::default();
        let mut state = state::lock();
        match &*state {
            State::Limited { pool: Some(pool), .. } if !asks || *pool == self.limit.options => {
                return Ok(Pool(()));
            }
            State::Limited { pool: None, .. } if !asks => return Ok(Pool(())),
            State::Limited { supervisor, .. } => {
                return Err(Error::LimitedAlready { supervisor: *supervisor });
            }
            State::OfARun { .. } if !asks => return Ok(Pool(())),
            State::OfARun { .. } => return Err(Error::InARun),
            State::Released => return Err(Error::LimitedBefore),
            State::Free => (),
        }
        if state::is_in_a_run() {
            if asks {
                return Err(Error::InARun);
            }
            let supervisor = state::supervisor_of_run().ok_or(Error::NoBudget)?;
            *state = State::OfARun { agent: Agent::preloaded()?, supervisor };
            return Ok(Pool(()));
        }
        if !self.has_ram {
            return Err(Error::NoBudget);
        }
        *state = self.limit.begin(true)?;
        Ok(Pool(()))
    }
}
