//! A small file of the kernel that is read again and again, cheaply: it stays open.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Larger than most of them, so that one call reads all.
const FIRST_READ_BYTES: usize = 8 << 10;

/// An open file of /proc, /sys or a cgroup.
#[derive(Debug)]
pub struct Reread {
    path: PathBuf,
    file: File,
}

impl Reread {
    /// Opens it.
    ///
    /// # Errors
    /// If it is not there or may not be read.
    pub fn open(path: impl Into<PathBuf>) -> anyhow::Result<Self> {
        let path = path.into();
        let file = File::open(&path).with_context(|| format!("'{}' cannot be opened", path.display()))?;
        Ok(Self { path, file })
    }

    /// Its name, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it says now.
    ///
    /// # Errors
    /// If it is gone.
    pub fn text(&self) -> anyhow::Result<String> {
        let mut bytes = vec![0; FIRST_READ_BYTES];
        let mut filled = 0;
        loop {
            let count = self
                .file
                .read_at(&mut bytes[filled..], filled as u64)
                .with_context(|| format!("'{}' cannot be read", self.path.display()))?;
            filled += count;
            if count == 0 {
                bytes.truncate(filled);
                return String::from_utf8(bytes)
                    .with_context(|| format!("'{}' is not text", self.path.display()));
            }
            if filled == bytes.len() {
                bytes.resize(2 * filled, 0);
            }
        }
    }

    /// The number that it consists of.
    ///
    /// # Errors
    /// If it is gone, or something else.
    pub fn number(&self) -> anyhow::Result<u64> {
        let text = self.text()?;
        let text = text.trim();
        text.parse().with_context(|| format!("'{}' is '{text}', not a number", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_anew_each_time_however_long_it_is() {
        let path = std::env::temp_dir().join(format!("uswap-bench-reread-{}", std::process::id()));
        std::fs::write(&path, "12\n").unwrap();
        let file = Reread::open(&path).unwrap();
        assert_eq!(file.number().unwrap(), 12);
        let long = "x".repeat(3 * FIRST_READ_BYTES + 1);
        std::fs::write(&path, &long).unwrap();
        assert_eq!(file.text().unwrap(), long);
        assert!(file.number().is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(Reread::open(&path).is_err());
    }
}
