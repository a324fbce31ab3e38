//! What this process has, and whom it asks for more.
//!
//! Must hold: there is one state for the process, which changes under its lock. Called by [`mod@crate::limit`] and
//! [`crate::pool`], which change it, and by [`crate::map`] and [`crate::advice`], which ask what is loaded.

use std::ffi::OsString;
use std::sync::{Mutex, MutexGuard};

use crate::Error;
use crate::agent::Agent;
use uswap_control::unpoisoned;
use uswap_identity::RUN_VARIABLE;

/// What this process has.
pub enum State {
    /// No budget.
    Free,
    /// It asked for one, and has it.
    Limited {
        /// What holds it.
        agent: Agent,
        /// The process that the run is asked by.
        supervisor: u32,
        /// Only what is taken from a pool is managed, and this is what the pool was asked for.
        pool: Option<Vec<OsString>>,
    },
    /// It was started in a run, and takes memory from a pool there.
    OfARun {
        /// What was preloaded.
        agent: Agent,
        /// As above.
        supervisor: u32,
    },
    /// It gave its budget up.
    Released,
}

static STATE: Mutex<State> = Mutex::new(State::Free);

/// The state of this process. One thread at a time speaks with the agent.
pub fn lock() -> MutexGuard<'static, State> {
    unpoisoned(STATE.lock())
}

/// Whether this process was started in a run, or says so.
pub fn is_in_a_run() -> bool {
    std::env::var_os(RUN_VARIABLE).is_some()
}

/// The process by which the run is asked that this process was started in.
pub fn supervisor_of_run() -> Option<u32> {
    std::env::var(RUN_VARIABLE).ok()?.split(':').next()?.parse().ok()
}

/// Asks the agent of this process for something.
///
/// # Errors
/// [`Error::NotLimited`]: it has none; or what `ask` says.
pub fn with_agent<T>(ask: impl FnOnce(&Agent) -> Result<T, Error>) -> Result<T, Error> {
    match &*lock() {
        State::Limited { agent, .. } | State::OfARun { agent, .. } => ask(agent),
        State::Free => Err(Error::NotLimited),
        State::Released => Err(Error::LimitedBefore),
    }
}
