//! The memory of a workload, as pages of atomic words.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::ops::Range;
use std::os::fd::IntoRawFd as _;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

use anyhow::{Context as _, ensure};
use uswap_os::Fd;
use uswap_os::memory::Words;
use uswap_units::PAGE_BYTES;

use super::content::PAGE_WORDS;

/// Names a file that is mapped, shared, in place of anonymous memory. It is made anew; whoever set the variable removes
/// it.
pub const BACKING: &str = "USWAP_BENCH_BACKING";

/// Memory in pages.
pub struct Area(Words);

impl Area {
    /// Room for `bytes` bytes, rounded down to pages: anonymous memory, or the file that [`BACKING`] names. The file's
    /// name gets `suffix`, so that each process has its own.
    pub fn new(bytes: u64, suffix: &str) -> anyhow::Result<Area> {
        let bytes = usize::try_from(bytes)? / PAGE_BYTES * PAGE_BYTES;
        ensure!(bytes > 0, "--bytes must be at least {PAGE_BYTES}: memory is used in whole pages");
        let words = match backing(suffix) {
            None => Words::anonymous(bytes).map_err(|error| {
                anyhow::anyhow!(
                    "{bytes} bytes cannot be mapped ({error:?}): is RLIMIT_AS set? Try a smaller --bytes"
                )
            })?,
            Some(path) => {
                let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path);
                let file = file.with_context(|| {
                    format!("the file {} that {BACKING} names cannot be made", path.display())
                })?;
                file.set_len(bytes as u64)?;
                Words::of_file(&Fd::from_raw(file.into_raw_fd()), bytes)
                    .map_err(|error| anyhow::anyhow!("{} cannot be mapped: {error:?}", path.display()))?
            }
        };
        Ok(Area(words))
    }

    /// Pages in it.
    pub fn pages(&self) -> u64 {
        (self.0.len() / PAGE_WORDS) as u64
    }

    /// Bytes in it.
    pub fn bytes(&self) -> u64 {
        self.pages() * PAGE_BYTES as u64
    }

    /// The words of page `number`, which is less than `pages()`.
    #[inline]
    pub fn page(&self, number: u64) -> &[AtomicU64] {
        &self.0[number as usize * PAGE_WORDS..][..PAGE_WORDS]
    }

    /// All words.
    pub fn words(&self) -> &[AtomicU64] {
        &self.0
    }

    /// The pages of part `part` of `parts`: all parts together are all pages.
    pub fn part(&self, part: u64, parts: u64) -> Range<u64> {
        self.pages() * part / parts..self.pages() * (part + 1) / parts
    }
}

/// The file that [`BACKING`] names, with `suffix`.
pub fn backing(suffix: &str) -> Option<PathBuf> {
    let mut path = std::env::var_os(BACKING).filter(|path| !path.is_empty())?;
    path.push(OsStr::new(suffix));
    Some(path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_all_pages() {
        let area = Area::new(103 * PAGE_BYTES as u64 + 5, "").unwrap();
        assert_eq!(area.pages(), 103);
        assert_eq!(area.bytes(), 103 * PAGE_BYTES as u64);
        for parts in 1..9 {
            let pages: Vec<u64> = (0..parts).flat_map(|part| area.part(part, parts)).collect();
            assert_eq!(pages, (0..103).collect::<Vec<_>>());
        }
        assert_eq!(area.page(102).len(), PAGE_WORDS);
        assert!(Area::new(PAGE_BYTES as u64 - 1, "").is_err());
    }
}
