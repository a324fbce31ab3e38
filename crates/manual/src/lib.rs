//! Man pages and shell completions of the command `uswap`.
//!
//! Must hold: they are made from the definition that the command itself reads its arguments by (`uswap_cli::args`), so
//! an option that is new is in them; what that hides is in none of them. What a definition cannot say (files,
//! environment, examples) is in `prose`.
//!
//! Called by `cargo xtask manual`, which `cargo xtask install` and `cargo xtask package` go through.
#![forbid(unsafe_code)]

mod completions;
mod pages;
mod prose;
mod visible;

use std::io;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory as _};
use uswap_cli::args::Arguments;

/// A file that is made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// Its directory below one like `/usr/share`: `man/man1`.
    pub place: &'static str,
    /// Its name: `uswap.1`.
    pub name: String,
    /// What is in it.
    pub content: Vec<u8>,
}

/// All of them.
///
/// # Errors
/// None that is known: they are written to memory.
pub fn all() -> io::Result<Vec<Page>> {
    let command = command();
    let mut all = pages::pages(&command)?;
    all.extend(completions::completions(&command));
    Ok(all)
}

/// Writes all of them below a directory like `/usr/share`; their paths.
///
/// # Errors
/// A directory or a file cannot be written.
pub fn write_to(share: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for page in all()? {
        let directory = share.join(page.place);
        std::fs::create_dir_all(&directory)?;
        let path = directory.join(page.name);
        std::fs::write(&path, page.content)?;
        paths.push(path);
    }
    Ok(paths)
}

/// What a person may type.
fn command() -> Command {
    // Names in a definition are static: whatever is made of them lives as long as this program.
    visible::only_visible(Box::leak(Box::new(Arguments::command())))
}
