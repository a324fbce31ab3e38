//! `cargo xtask manual --out DIR`: man pages and completions, made by the package `uswap-manual` from the definition of
//! the command line.
//!
//! A program of its own, since `cargo xtask` would otherwise build the whole command before it does anything.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::commands::{cargo_of_commit, succeed, target_directory};

/// Makes them below `out`, as they lie below `/usr/share`.
///
/// # Errors
/// The build fails, or a file cannot be written.
pub fn run(out: &Path) -> Result<()> {
    // With the profile of what is installed: the command is built already then.
    let mut command = cargo_of_commit(&["run", "--quiet", "--release", "-p", "uswap-manual", "--"]);
    command.arg(std::path::absolute(out)?);
    succeed(command)
}

/// Makes them anew among what is built; the directory.
///
/// # Errors
/// As above.
pub fn make() -> Result<PathBuf> {
    let share = target_directory().join("manual");
    // A page of a command that is gone.
    let _there_was_none = fs::remove_dir_all(&share);
    fs::create_dir_all(&share)?;
    run(&share)?;
    Ok(share)
}
