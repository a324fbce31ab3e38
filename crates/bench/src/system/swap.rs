//! Swap files, and switching swap on.
//!
//! What must hold: a swap file has no holes and nobody else may read it; it is switched off and removed when its scope
//! ends.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::tool;
use super::undo::{Scope, Step};

/// Name of the swap file in the directory that the user chose.
pub const SWAP_FILE: &str = "uswap-bench.swap";

/// Makes a swap area of `path` and switches it on until `scope` ends.
///
/// # Errors
/// If the kernel does not take it.
pub fn switch_on(scope: &mut Scope, path: &Path, priority: Option<u32>) -> anyhow::Result<()> {
    format(path)?;
    enable(scope, path, priority)
}

/// Makes a swap file in `dir` and switches it on until `scope` ends.
///
/// # Errors
/// If there is no room, or the file system takes no swap files.
pub fn make_file(scope: &mut Scope, dir: &Path, bytes: u64) -> anyhow::Result<PathBuf> {
    let path = dir.join(SWAP_FILE);
    let file = create(scope, &path)?;
    if preallocate(&file, &path, bytes)? {
        format(&path)?;
        if enable(scope, &path, None).is_ok() {
            return Ok(path);
        }
    }
    // Some file systems take only what was written.
    write_zeros(&file, &path, bytes)?;
    format(&path)?;
    enable(scope, &path, None).with_context(|| {
        format!(
            "no swap file works in '{}'; if its file system is the reason, name another directory with --swap-dir \
             (ext4 and xfs work)",
            dir.display()
        )
    })?;
    Ok(path)
}

fn format(path: &Path) -> anyhow::Result<()> {
    tool::run(Command::new("mkswap").arg(path))
}

fn enable(scope: &mut Scope, path: &Path, priority: Option<u32>) -> anyhow::Result<()> {
    scope.change(|| {
        let mut command = Command::new("swapon");
        if let Some(priority) = priority {
            command.args(["-p", &priority.to_string()]);
        }
        tool::run(command.arg(path))?;
        let path = path.to_owned();
        let mend = format!("swapoff {}", path.display());
        Ok(((), Step::new(mend, move || tool::run(Command::new("swapoff").arg(path)))))
    })
}

/// Makes an empty file that only its owner may use, removed when `scope` ends.
///
/// # Errors
/// If it exists, or cannot be made.
pub fn create(scope: &mut Scope, path: &Path) -> anyhow::Result<File> {
    scope.change(|| {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path);
        let file = file.with_context(|| {
            format!(
                "'{}' cannot be made; if it is left from a bench that was killed, and none runs now, remove it",
                path.display()
            )
        })?;
        let path = path.to_owned();
        let mend = format!("rm {}", path.display());
        let removed = move || {
            fs::remove_file(&path).with_context(|| format!("'{}' cannot be removed", path.display()))
        };
        Ok((file, Step::new(mend, removed)))
    })
}

/// Reserves the whole file. False if the file system cannot.
///
/// # Errors
/// If there is no room.
pub fn preallocate(file: &File, path: &Path, bytes: u64) -> anyhow::Result<bool> {
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
        Err(error) => Err(anyhow::Error::new(error).context(no_room(path, bytes))),
    }
}

fn write_zeros(mut file: &File, path: &Path, bytes: u64) -> anyhow::Result<()> {
    let zeros = vec![0; 1 << 20];
    let mut left = bytes;
    std::io::Seek::rewind(&mut file)?;
    while left > 0 {
        let count = left.min(zeros.len() as u64);
        file.write_all(&zeros[..count as usize]).with_context(|| no_room(path, bytes))?;
        left -= count;
    }
    file.sync_all().with_context(|| no_room(path, bytes))
}

fn no_room(path: &Path, bytes: u64) -> String {
    format!(
        "'{}' cannot be made {} MiB long: free some room, or name another directory with --swap-dir",
        path.display(),
        bytes >> 20
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::undo::Undo;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn a_file_is_private_full_and_removed() {
        let path = std::env::temp_dir().join(format!("uswap-bench-file-{}", std::process::id()));
        let undo = Undo::new();
        let mut scope = undo.scope();
        let file = create(&mut scope, &path).unwrap();
        let error = create(&mut undo.scope(), &path).unwrap_err().to_string();
        assert!(error.contains("remove it"), "{error}");
        write_zeros(&file, &path, (3 << 20) + 5).unwrap();
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!((metadata.len(), metadata.mode() & 0o777), ((3 << 20) + 5, 0o600));
        assert!(metadata.blocks() * 512 >= 3 << 20, "it has no holes");
        drop(scope);
        assert!(!path.exists());
    }
}
