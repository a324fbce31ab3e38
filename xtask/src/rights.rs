//! Commands that run as `nobody`, when the caller is root: with the rights that most users of uswap have.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

pub const NOBODY: u32 = 65534;

/// What stands in front of a program and its words.
pub const AS_NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

pub fn has_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Whether that user may execute a file, and there is what makes one that user.
pub fn nobody_may_execute(path: &Path) -> bool {
    let tried = Command::new(AS_NOBODY[0]).args(&AS_NOBODY[1..]).args(["test", "-x"]).arg(path).status();
    tried.is_ok_and(|status| status.success())
}

/// A directory of that user, gone at the end.
pub struct Scratch(PathBuf);

impl Scratch {
    /// The home of a command and the place of its files. The registry and the toolchain of `cargo` stay those of the
    /// user that builds.
    pub fn of_nobody(command: &mut Command) -> Result<Scratch> {
        let path = std::env::temp_dir().join(format!("uswap-nobody-{}", std::process::id()));
        // An earlier process of this number may have left it behind.
        let _was_not_there = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).with_context(|| format!("{}", path.display()))?;
        let scratch = Scratch(path);
        std::os::unix::fs::chown(&scratch.0, Some(NOBODY), Some(NOBODY))?;
        command.env("TMPDIR", &scratch.0).env("HOME", &scratch.0);
        for (name, place) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            if let (None, Some(home)) = (std::env::var_os(name), std::env::var_os("HOME")) {
                command.env(name, Path::new(&home).join(place));
            }
        }
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _was_not_made = std::fs::remove_dir_all(&self.0);
    }
}
