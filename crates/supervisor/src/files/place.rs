//! Where a swap file shall be made, and how large it gets there.
//!
//! Called at the start of a run, and when a file is added to one that is under way.

use std::io;
use std::path::{Path, PathBuf};

use uswap_core::files::FileKind;

use super::SwapFileOptions;
use crate::human;

/// Smallest size of a swap file: two clusters of 512 slots of 4 KiB make 4 MiB.
pub const SWAP_BYTES_MIN: u64 = 4 << 20;

/// As they are typed and shown.
const KINDS: [(&str, FileKind); 2] =
    [("rotational", FileKind::Rotational), ("solid-state", FileKind::SolidState)];

/// The name of a kind, as it is typed.
pub fn kind_name(kind: FileKind) -> &'static str {
    KINDS.iter().find(|(_, known)| *known == kind).map_or("", |(name, _)| name)
}

/// The kind of this name.
pub fn parse_kind(name: &str) -> Option<FileKind> {
    KINDS.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
}

/// Where a swap file is made, how large it may get, when it is filled, and what it lies on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SwapPlace {
    /// Directory of the (unnamed) swap file.
    pub dir: PathBuf,
    /// Largest size of the file in bytes; `None` is "auto": see [`swap_bytes_auto`].
    pub bytes_max: Option<u64>,
    /// Files of higher priority are filled first; `None`: after those that have one, in the order in which they are
    /// named.
    pub priority: Option<i16>,
    /// What it lies on; `None`: as the system says.
    pub kind: Option<FileKind>,
}

/// The swap files that these places ask for. Those without a priority get -1, -2 and so on, as Linux gives them.
///
/// # Errors
/// A directory that cannot be asked for its free space, or whose file system is smaller than what is asked for,
/// or has no more than what shall stay free.
pub fn swap_files(places: &[SwapPlace], min_free_bytes: u64) -> Result<Vec<SwapFileOptions>, String> {
    let mut next_priority = -1;
    let mut options = Vec::new();
    for place in places {
        let dir = std::path::absolute(&place.dir).unwrap_or_else(|_| place.dir.clone());
        let unusable = |error| {
            format!(
                "the swap directory '{}' cannot be used ({error}): create it, or name another with --swap DIR",
                dir.display()
            )
        };
        let free_bytes = free_bytes(&dir).map_err(unusable)?;
        if min_free_bytes > 0 && free_bytes < min_free_bytes.saturating_add(SWAP_BYTES_MIN) {
            return Err(format!(
                "the file system of '{}' has {} free, and {} shall stay free: nothing could be written. Make room, \
                 lower --swap-min-free, or name another with --swap DIR",
                dir.display(),
                human::bytes(free_bytes),
                human::bytes(min_free_bytes)
            ));
        }
        let total_bytes = total_bytes(&dir).map_err(unusable)?;
        if let Some(asked) = place.bytes_max.filter(|&asked| asked > total_bytes) {
            return Err(format!(
                "a swap file of {} can never lie in '{}': its file system has {} in all, and {} of that are free. Ask \
                 for less, or name another with --swap DIR",
                human::bytes(asked),
                dir.display(),
                human::bytes(total_bytes),
                human::bytes(free_bytes)
            ));
        }
        let auto = || swap_bytes_auto(&dir, min_free_bytes);
        let bytes_max = place.bytes_max.map_or_else(auto, Ok).map_err(unusable)?;
        if bytes_max < SWAP_BYTES_MIN {
            return Err(format!(
                "the file system of '{}' has only {} free, so there is no place for a swap file. Make room, or name \
                 another directory with --swap DIR",
                dir.display(),
                human::bytes(free_bytes)
            ));
        }
        let priority = place.priority.unwrap_or(next_priority);
        next_priority -= i16::from(place.priority.is_none());
        options.push(SwapFileOptions { dir, bytes_max, priority, kind: place.kind });
    }
    Ok(options)
}

/// Size of a swap file when none was given: 90 % of the free space in `dir` and not what shall stay free, at most 64
/// GiB. The file grows only as it is used.
///
/// # Errors
/// If `dir` cannot be asked for its free space.
pub fn swap_bytes_auto(dir: &Path, min_free_bytes: u64) -> Result<u64, io::Error> {
    const AUTO_BYTES_MAX: u64 = 64 << 30;
    let free_bytes = free_bytes(dir)?;
    Ok((free_bytes / 10 * 9).min(free_bytes.saturating_sub(min_free_bytes)).min(AUTO_BYTES_MAX))
}

/// Bytes that may still be taken of the file system of `dir`.
///
/// # Errors
/// If `dir` cannot be asked.
pub fn free_bytes(dir: &Path) -> Result<u64, io::Error> {
    let space = rustix::fs::statvfs(dir)?;
    Ok(space.f_bavail.saturating_mul(space.f_frsize))
}

/// Bytes that the file system of `dir` has in all, used or not.
///
/// # Errors
/// If `dir` cannot be asked.
pub fn total_bytes(dir: &Path) -> Result<u64, io::Error> {
    let space = rustix::fs::statvfs(dir)?;
    Ok(space.f_blocks.saturating_mul(space.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auto(dir: &str) -> SwapPlace {
        SwapPlace { dir: dir.into(), bytes_max: None, priority: None, kind: None }
    }

    #[test]
    fn files_without_a_priority_come_last_and_in_order() {
        let place = |dir: &str, priority| SwapPlace { priority, ..auto(dir) };
        let places = [place("/", None), place("/tmp", Some(0)), place("/usr", None), place("/", Some(7))];
        let files = swap_files(&places, 0).unwrap();
        assert_eq!(files.iter().map(|file| file.priority).collect::<Vec<_>>(), [-1, 0, -2, 7]);
        assert!(swap_files(&[auto("/no/such/dir")], 0).unwrap_err().contains("/no/such/dir"));
        assert!(swap_files(&places, u64::MAX).unwrap_err().contains("shall stay free"));
    }

    #[test]
    fn auto_size_is_at_most_64_gib_and_not_nothing() {
        let bytes = swap_bytes_auto(&std::env::temp_dir(), 0).unwrap();
        assert!(bytes > 0);
        assert!(bytes <= 64 << 30);
        assert!(swap_bytes_auto(Path::new("/no/such/dir"), 0).is_err());
        assert_eq!(swap_bytes_auto(&std::env::temp_dir(), u64::MAX).unwrap(), 0);
    }
}
