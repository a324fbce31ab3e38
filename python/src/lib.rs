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
//! [`pool`](_native::pool) keeps it as `limit` does. The other functions give it up: memory that comes home takes
//! seconds, and a run answers when it gets to it. numpy asks for memory, and gives it back, with the lock in its hands
//! (`blocks`): it may wait for the state of the crate while that is held by a thread that needs no Python to go on.
//!
//! What must hold: whoever holds the state of the crate does not wait for the interpreter lock. And whoever wants the
//! state comes from the package, which lets in one thread at a time and no fork meanwhile, or from numpy, which has the
//! interpreter lock: so a child that is forked never finds the state locked.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::OsString;
use std::path::PathBuf;
use uswap::{Advice, Error, Limit, Pool, PoolBuilder};

mod blocks;
mod numpy;

/// The name of its exception, in `uswap._errors`.
fn class_of(error: &Error) -> &'static str {
    match error {
        Error::LimitedAlready { .. } | Error::InARun => "AlreadyLimitedError",
        Error::LimitedBefore => "ReleasedError",
        Error::NotLimited | Error::NoBudget => "NotLimitedError",
        Error::NoCommand(_) => "CommandNotFoundError",
        Error::NotStarted { .. } | Error::Strange { .. } | Error::NoAgent(_) => "CommandError",
        Error::Refused(_) => "RefusedError",
        Error::Unmanageable(_) => "UnmanageableError",
        Error::NoStats(_) => "NoStatsError",
        Error::NotManaged(_) | Error::Memory(_) => "NotManagedError",
        _ => "Error",
    }
}

fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let instance = || py.import("uswap._errors")?.getattr(class_of(error))?.call1((error.to_string(),));
    instance().map_or_else(|failure| failure, PyErr::from_value)
}

/// The words of `uswap run`, each for what `limit` and `pool` are told of it.
fn options(
    swap: Vec<OsString>,
    share: Option<OsString>,
    on_full: Option<OsString>,
    report: Option<PathBuf>,
) -> Vec<(&'static str, OsString)> {
    let swap = swap.into_iter().map(|place| ("--swap", place));
    let share = share.map(|share| ("--pool", share));
    let on_full = on_full.map(|rule| ("--on-full", rule));
    let report = report.map(|file| ("--json", file.into_os_string()));
    swap.chain(share).chain(on_full).chain(report).collect()
}

/// A process that was started in a run knows that it has a budget when it has asked for a share of it.
fn share() -> Result<Pool, Error> {
    Pool::builder().build()
}

/// The advice of this name.
fn advice_of(name: &str) -> PyResult<Advice> {
    Ok(match name {
        "cold" => Advice::Cold,
        "pageout" => Advice::PageOut,
        "willneed" => Advice::WillNeed,
        "dead" => Advice::Dead,
        "pin" => Advice::Pin,
        "unpin" => Advice::Unpin,
        _ => {
            let known = "'cold', 'pageout', 'willneed', 'dead', 'pin' or 'unpin'";
            return Err(PyValueError::new_err(format!("'{name}' is no advice: give {known}")));
        }
    })
}

/// The native part of the package uswap.
#[pymodule]
mod _native {
    use super::{
        Advice, Limit, OsString, PathBuf, Pool, PoolBuilder, PyDict, PyModule, PyResult, Python, advice_of,
        blocks, exception, numpy, options, share,
    };
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("LARGE_BYTES", blocks::LARGE_BYTES)
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
        let words = options(swap, pool, on_full, report);
        let limit = words.into_iter().fold(Limit::new(ram), |limit, (name, value)| limit.option(name, value));
        let limit = command.into_iter().fold(limit, Limit::command);
        limit.hold().map_err(|error| exception(py, &error))
    }

    /// From now on there is managed memory: in a budget of its own, or in that of the process.
    #[pyfunction]
    #[pyo3(signature = (ram, *, swap, pool, on_full, report, command))]
    pub fn pool(
        py: Python<'_>,
        ram: Option<String>,
        swap: Vec<OsString>,
        pool: Option<OsString>,
        on_full: Option<OsString>,
        report: Option<PathBuf>,
        command: Option<PathBuf>,
    ) -> PyResult<()> {
        let words = options(swap, pool, on_full, report);
        let builder = ram.into_iter().fold(Pool::builder(), PoolBuilder::ram);
        let mut builder =
            words.into_iter().fold(builder, |builder, (name, value)| builder.option(name, value));
        // Who only shares a budget starts no command.
        if builder != Pool::builder() {
            builder = command.into_iter().fold(builder, PoolBuilder::command);
        }
        blocks::take_from(builder.build().map_err(|error| exception(py, &error))?);
        Ok(())
    }

    /// In this context new arrays of numpy have managed memory. Answers the handler that was there before.
    #[pyfunction]
    fn use_managed(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        numpy::use_managed(py)
    }

    /// In this context new arrays of numpy have memory of this handler. Answers the one that was there before.
    #[pyfunction]
    fn use_handler<'py>(handler: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        numpy::exchange(handler)
    }

    /// Why the last managed block could not be had. It is told once.
    #[pyfunction]
    fn take_refusal() -> Option<String> {
        blocks::take_refusal()
    }

    /// Tells what is known of the use of a range of memory. The caller holds it, and nobody needs it as it is if it is
    /// dead.
    #[pyfunction]
    fn advise(py: Python<'_>, start: usize, bytes: usize, advice: &str) -> PyResult<()> {
        let advice = advice_of(advice)?;
        #[allow(unsafe_code)]
        let told = py.detach(|| {
            if matches!(advice, Advice::Pin | Advice::Unpin) {
                let _without_one_it_is_refused = share();
            }
            // SAFETY:
            // 1. The package has the range from a buffer that it holds: it is mapped, and ends where memory does.
            // 2. What is dead may become zeros: it may be written, has no references to objects, and its owner says so.
            unsafe { uswap::advise_raw(start as *mut u8, bytes, advice) }
        });
        told.map_err(|error| exception(py, &error))
    }

    /// Gives the budget up.
    #[pyfunction]
    fn release(py: Python<'_>) -> PyResult<()> {
        py.detach(uswap::release).map_err(|error| exception(py, &error))
    }

    /// How the run goes: the fields of `uswap.Stats`.
    #[pyfunction]
    fn stats(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let ask = || {
            let _none_has_no_stats = share();
            uswap::stats()
        };
        let stats = py.detach(ask).map_err(|error| exception(py, &error))?;
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
