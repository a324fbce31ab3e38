//! `uswap._native`: the crate `uswap`, as the Python package calls it.
//!
//! It takes words as the command takes them, and answers plain values. The package makes the words from what its
//! callers write, and the exceptions are classes of its module `_errors`.
//!
//! # The interpreter lock
//! [`limit`](_native::limit) keeps it, for about as long as an import takes. No other thread can then fork or start a
//! program while the process takes its place in a run: a child that is made halfway would be no member of it, and one
//! that still shares the memory (`subprocess` uses vfork) makes the run refuse. Nobody waits for the lock to whom the
//! caller waits in turn: threads that are stopped for the run stand still whether they wait for the lock or not, and
//! are let go by a process that needs no Python.
//!
//! The other functions give it up: memory that comes home takes seconds, and a run answers when it gets to it.
//!
//! What must hold: nothing here waits for the state of the crate with the interpreter lock in its hands, other than
//! `limit`, during which nobody can hold that state: the package lets in one thread at a time.

#![forbid(unsafe_code)]

use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::OsString;
use std::path::PathBuf;
use uswap::Error;

/// The name of its exception, in `uswap._errors`.
fn class_of(error: &Error) -> &'static str {
    match error {
        Error::LimitedAlready { .. } | Error::InARun => "AlreadyLimitedError",
        Error::LimitedBefore => "ReleasedError",
        Error::NotLimited => "NotLimitedError",
        Error::NoCommand(_) => "CommandNotFoundError",
        Error::NotStarted { .. } | Error::Strange { .. } | Error::NoAgent(_) => "CommandError",
        Error::Refused(_) => "RefusedError",
        Error::Unmanageable(_) => "UnmanageableError",
        Error::NoStats(_) => "NoStatsError",
        _ => "Error",
    }
}

fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let instance = || py.import("uswap._errors")?.getattr(class_of(error))?.call1((error.to_string(),));
    instance().map_or_else(|failure| failure, PyErr::from_value)
}

/// The native part of the package uswap.
#[pymodule]
mod _native {
    use super::{OsString, PathBuf, PyDict, PyModule, PyResult, Python, exception};
    use pyo3::prelude::*;
    use uswap::Limit;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }

    /// Keeps this process within a budget from now on.
    #[pyfunction]
    #[pyo3(signature = (ram, *, swap, pool, on_full, report, command))]
    pub fn limit(
        py: Python<'_>,
        ram: OsString,
        swap: Vec<OsString>,
        pool: Option<OsString>,
        on_full: Option<OsString>,
        report: Option<PathBuf>,
        command: Option<PathBuf>,
    ) -> PyResult<()> {
        let mut limit = swap.into_iter().fold(Limit::new(ram), Limit::swap);
        if let Some(share) = pool {
            limit = limit.pool(share);
        }
        if let Some(rule) = on_full {
            limit = limit.on_full(rule);
        }
        if let Some(file) = report {
            limit = limit.report(file);
        }
        if let Some(path) = command {
            limit = limit.command(path);
        }
        limit.hold().map_err(|error| exception(py, &error))
    }

    /// Gives the budget up.
    #[pyfunction]
    fn release(py: Python<'_>) -> PyResult<()> {
        py.detach(uswap::release).map_err(|error| exception(py, &error))
    }

    /// How the run goes: the fields of `uswap.Stats`.
    #[pyfunction]
    fn stats(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let stats = py.detach(uswap::stats).map_err(|error| exception(py, &error))?;
        let fields = PyDict::new(py);
        for (name, bytes) in [
            ("ram_bytes", stats.ram_bytes),
            ("used_bytes", stats.used_bytes),
            ("resident_bytes", stats.resident_bytes),
            ("pool_bytes", stats.pool_bytes),
            ("pool_bytes_max", stats.pool_bytes_max),
            ("swap_file_bytes", stats.swap_file_bytes),
        ] {
            fields.set_item(name, bytes)?;
        }
        fields.set_item("counters", stats.counters)?;
        Ok(fields)
    }

    /// Whether there is a budget.
    #[pyfunction]
    fn is_limited(py: Python<'_>) -> bool {
        py.detach(uswap::is_limited)
    }
}
