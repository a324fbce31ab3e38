//! `cargo xtask install --prefix DIR`: the command to `DIR/bin`, the agent to `DIR/lib/uswap`, and the C library with
//! its header and what pkg-config wants to know to `DIR/lib` and `DIR/include`; man pages, completions, units of
//! systemd and recipes to `DIR/share`. What goes where is listed in [`content`].

use std::path::Path;

use anyhow::Result;

use crate::commands;
use crate::package::content::{self, Layout};
use crate::package::{manual, put};

/// Builds, then copies.
///
/// # Errors
/// The build fails, or a file cannot be written.
pub fn run(prefix: &Path) -> Result<()> {
    commands::build()?;
    let prefix = std::path::absolute(prefix)?;
    for item in content::items(Layout::Prefix, &prefix, &manual::make()?)? {
        println!("installed {}", put::put(&item, &prefix)?.display());
    }
    Ok(())
}
