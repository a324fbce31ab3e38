//! A budget of RAM for the process that asks for it.
//!
//! ```no_run
//! # fn main() -> Result<(), uswap::Error> {
//! uswap::limit("4G")?; // from here on this process and its children stay within 4 GiB
//! let table = vec![0_u64; 2 << 30]; // 16 GiB
//! # drop(table);
//! # Ok(())
//! # }
//! ```
//!
//! Cold pages of the process are compressed into a pool, and the coldest are written, compressed and encrypted, to a
//! swap file. No privilege is needed, and no kernel swap. `uswap run --ram 4G -- PROGRAM` does the same from outside.
//!
//! [`limit`] may be called at any time, also when many threads run: they stand still for some milliseconds, and no call
//! of theirs ends in another way for it. What is mapped privately and is not of a file is managed from then on; not the
//! stacks of threads. What the process starts belongs to the run: what it forks, and what it executes. Children that
//! run already count towards the budget, and cannot be reclaimed.
//!
//! # What is needed
//! Linux 5.11 or newer on x86-64, userfaultfd for programs (since 5.11 anybody has it, but in containers with Docker's
//! own profile of system calls), and the command `uswap` with its agent: in `PATH`, where `USWAP_COMMAND` says, or
//! where [`Limit::command`] does. `uswap doctor` says what is missing.
//!
//! # What must hold
//! A call that fails leaves the process as it was: its memory is not managed.

mod agent;
mod command;
mod conversation;
mod error;
mod stats;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

pub use error::Error;
pub use stats::Stats;

/// What this process has.
enum State {
    /// No budget.
    Free,
    /// It asked for one, and has it.
    Limited {
        /// What holds it.
        agent: agent::Agent,
        /// The process that the run is asked by.
        supervisor: u32,
    },
    /// It gave it up.
    Released,
}

static STATE: Mutex<State> = Mutex::new(State::Free);

/// A budget, before it holds.
///
/// ```no_run
/// # fn main() -> Result<(), uswap::Error> {
/// uswap::Limit::new("512M").swap("/scratch:20G").pool("30%").hold()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Limit {
    options: Vec<OsString>,
    command: Option<PathBuf>,
}

impl Limit {
    /// RAM for the process, its children and uswap together: a number with K, M, G or T (powers of 1024), 8M at least.
    pub fn new(ram: impl AsRef<OsStr>) -> Limit {
        Limit { options: Vec::new(), command: None }.option("--ram", ram)
    }

    /// Directory of a swap file, and what may follow it: `DIR[:SIZE[:PRIORITY]]`. May be called several times. Without
    /// it there is one in `/var/tmp`.
    pub fn swap(self, place: impl AsRef<OsStr>) -> Limit {
        self.option("--swap", place)
    }

    /// Largest part of the budget that compressed pages may take: `30%`. Without it that is found out all the time.
    pub fn pool(self, share: impl AsRef<OsStr>) -> Limit {
        self.option("--pool", share)
    }

    /// What happens when pool and swap file are full: `grow` over the budget, `stop` the process, or `kill` it.
    pub fn on_full(self, rule: impl AsRef<OsStr>) -> Limit {
        self.option("--on-full", rule)
    }

    /// Writes a report to a file, as JSON, when the run has ended.
    pub fn report(self, file: impl AsRef<Path>) -> Limit {
        self.option("--json", file.as_ref())
    }

    /// Any other option of `uswap run` that limits memory, and its value.
    pub fn option(mut self, name: &str, value: impl AsRef<OsStr>) -> Limit {
        // One word: a value may look like an option.
        let mut word = OsString::from(name);
        word.push("=");
        word.push(value);
        self.options.push(word);
        self
    }

    /// The command `uswap`.
    pub fn command(mut self, path: impl Into<PathBuf>) -> Limit {
        self.command = Some(path.into());
        self
    }

    /// From now on it holds.
    ///
    /// # Errors
    /// The process is as it was: [`Error`] says why.
    pub fn hold(self) -> Result<(), Error> {
        let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
        match *state {
            State::Limited { supervisor, .. } => return Err(Error::LimitedAlready { supervisor }),
            State::Released => return Err(Error::LimitedBefore),
            State::Free => (),
        }
        if std::env::var_os("USWAP_RUN").is_some() {
            return Err(Error::InARun);
        }
        let command = command::find(self.command.as_deref())?;
        let (agent, supervisor) = conversation::begin(&command, &self.options)?;
        *state = State::Limited { agent, supervisor };
        Ok(())
    }
}

/// Keeps this process and its children within so much RAM: `Limit::new(ram).hold()`.
///
/// # Errors
/// As of [`Limit::hold`].
pub fn limit(ram: impl AsRef<OsStr>) -> Result<(), Error> {
    Limit::new(ram).hold()
}

/// Gives the budget up: all memory of the process comes back into RAM, and stays there. Children stay in the run.
///
/// # Errors
/// [`Error::NotLimited`]: this process has not asked for one.
pub fn release() -> Result<(), Error> {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    let State::Limited { agent, .. } = &*state else { return Err(Error::NotLimited) };
    if !agent.release() {
        // A child that was forked since.
        return Err(Error::NotLimited);
    }
    *state = State::Released;
    Ok(())
}

/// How the run of this process goes.
///
/// # Errors
/// [`Error::NotLimited`]: neither this process nor its parent, before it was forked, has asked for a budget.
/// [`Error::NoStats`]: the run does not answer.
pub fn stats() -> Result<Stats, Error> {
    let state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    let State::Limited { supervisor, .. } = &*state else { return Err(Error::NotLimited) };
    stats::of_run(*supervisor)
}

/// Whether this process has a budget that it asked for itself, or that its parent did before it was forked.
pub fn is_limited() -> bool {
    matches!(*STATE.lock().unwrap_or_else(PoisonError::into_inner), State::Limited { .. })
}
