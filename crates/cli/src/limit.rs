//! From what was typed to what the supervisor of a run is told.

use std::fs::File;
use std::path::Path;

use uswap_supervisor::files::place::swap_files;
use uswap_supervisor::options::{Limits, Options, PoolSize};

use crate::args::LimitArguments;
use crate::named;
use crate::process::StartFailure;

/// What does not limit memory.
pub struct Told {
    /// See [`Options::program`].
    pub program: String,
    /// See [`Options::root`].
    pub root: Option<u32>,
    /// See [`Options::regions_only`].
    pub regions_only: bool,
    /// See [`Options::quiet`].
    pub quiet: bool,
    /// See [`Options::verbosity`].
    pub verbosity: u8,
}

/// What the supervisor is told.
///
/// # Errors
/// What was typed does not fit together.
pub fn options(arguments: &LimitArguments, agent: &Path, told: Told) -> Result<Options, StartFailure> {
    let min_free_bytes = arguments.swap_min_free.unwrap_or(0);
    Ok(Options {
        program: told.program,
        limits: Limits {
            ram_bytes: arguments.ram.bytes,
            pool: arguments.pool.map_or(PoolSize::Auto, PoolSize::Fixed),
            on_full: arguments.on_full.into(),
            rules: named::rules(&arguments.protect, &arguments.weight, arguments.ram.bytes)
                .map_err(StartFailure::own)?,
        },
        swap_files: swap_files(&arguments.swap, min_free_bytes).map_err(StartFailure::own)?,
        swap_min_free_bytes: min_free_bytes,
        swap_bytes_a_day: arguments.swap_write_limit,
        allow_tmpfs: arguments.allow_tmpfs,
        keep_after_setuid: arguments.keep_after_setuid,
        root: told.root,
        regions_only: told.regions_only,
        agent: agent.to_owned(),
        quiet: told.quiet,
        verbosity: told.verbosity,
    })
}

/// The file of `--json` and its path. Opened before the run begins, so that a mistake in the path does not cost one.
///
/// # Errors
/// It cannot be written.
pub fn create_json(arguments: &LimitArguments) -> Result<Option<(File, &Path)>, StartFailure> {
    let Some(path) = arguments.json.as_deref() else { return Ok(None) };
    let file = File::create(path).map_err(|error| {
        StartFailure::own(format!(
            "the report file '{}' cannot be written ({error}): check --json",
            path.display()
        ))
    })?;
    Ok(Some((file, path)))
}
