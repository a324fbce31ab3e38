//! A budget for the process.
//!
//! Must hold: a budget is asked for once in the life of a process, and what fails leaves the state as it was. Called by
//! programs, by [`crate::pool`], whose budget begins here too, and by `libusw`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::state::{self, State};
use crate::{Error, Stats, command, conversation};

/// A budget, before it holds.
///
/// ```no_run
/// # fn main() -> Result<(), uswap::Error> {
/// uswap::Limit::new("512M").swap("/scratch:20G").pool("30%").hold()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    pub(crate) options: Vec<OsString>,
    command: Option<PathBuf>,
}

impl Limit {
    /// RAM for the process, its children and uswap together: a number with K, M, G or T (powers of 1024), 8M at least.
    pub fn new(ram: impl AsRef<OsStr>) -> Limit {
        Limit::default().option("--ram", ram)
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

    /// The same of an option that has no value, such as `--allow-tmpfs`.
    pub fn flag(mut self, name: &str) -> Limit {
        self.options.push(name.into());
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
        let mut state = state::lock();
        match &*state {
            State::Free => (),
            State::Limited { supervisor, .. } => {
                return Err(Error::LimitedAlready { supervisor: *supervisor });
            }
            State::Released => return Err(Error::LimitedBefore),
            State::OfARun { .. } => return Err(Error::InARun),
        }
        if state::is_in_a_run() {
            return Err(Error::InARun);
        }
        *state = self.begin(false)?;
        Ok(())
    }

    /// Starts a supervisor, and enters its run. With a pool, only memory that is taken from it is managed.
    pub(crate) fn begin(self, is_pool: bool) -> Result<State, Error> {
        let command = command::find(self.command.as_deref())?;
        let mut words = self.options.clone();
        if is_pool {
            words.push("--regions-only".into());
        }
        let (agent, supervisor) = conversation::begin(&command, &words)?;
        Ok(State::Limited { agent, supervisor, pool: is_pool.then_some(self.options) })
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
    let mut state = state::lock();
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
    let supervisor = match &*state::lock() {
        State::Limited { supervisor, .. } | State::OfARun { supervisor, .. } => *supervisor,
        State::Free | State::Released => return Err(Error::NotLimited),
    };
    // Who wants memory from a pool does not wait for the answer.
    crate::stats::of_run(supervisor)
}

/// Whether this process has a budget that it asked for itself, or that its parent did before it was forked. A pool has
/// one, too.
pub fn is_limited() -> bool {
    matches!(*state::lock(), State::Limited { .. })
}
