//! Locked memory: how much a process has, and the calls that lock and unlock a range.
//!
//! Must hold: nothing of the engine's own stays locked, whatever the program asks for. Called by the supervisor, which
//! asks what holds memory, and by `host`, which unlocks its own mappings and locks what is the program's.

use crate::PAGE_BYTES;
use crate::fd::Fd;
use crate::memory;
use crate::process;
use crate::sys::{self, Errno, Result, abi};
use crate::text::{TextBuffer, for_each_line, skip_spaces, take_number};

/// The longest part of a line that matters: its name and a number.
const LINE_BYTES: usize = 64;

/// Bytes of a process that are locked in RAM (mlock, mlockall), as `VmLck` in `/proc/PID/status`
/// has them; `None` is the calling process. The kernel counts mappings, so it includes pages that
/// are not there yet. 0 of a process that has ended and was not waited for.
pub fn locked_bytes(process_id: Option<u32>) -> Result<u64> {
    StatusFile::open(process_id)?.locked_bytes()
}

/// An open `/proc/PID/status`.
#[derive(Debug)]
pub struct StatusFile(Fd);

impl StatusFile {
    /// Opens that of a process; `None`: of the calling one.
    pub fn open(process_id: Option<u32>) -> Result<StatusFile> {
        let path: TextBuffer<64> = match process_id {
            Some(process_id) => TextBuffer::format(format_args!("/proc/{process_id}/status")),
            None => TextBuffer::format(format_args!("/proc/self/status")),
        };
        Fd::open(path.as_c_str(), abi::O_RDONLY | abi::O_CLOEXEC, 0).map(StatusFile)
    }

    /// An open one.
    pub fn from_fd(file: Fd) -> StatusFile {
        StatusFile(file)
    }

    /// The open file.
    pub fn into_fd(self) -> Fd {
        self.0
    }

    /// How much the process has locked now, as [`locked_bytes`]. One thread asks at a time.
    pub fn locked_bytes(&self) -> Result<u64> {
        let mut locked_bytes = 0;
        for_each_line::<LINE_BYTES>(&self.0, |line| locked_bytes = locked_of(line).unwrap_or(locked_bytes))?;
        Ok(locked_bytes)
    }
}

/// The bytes of the line `VmLck`.
fn locked_of(line: &[u8]) -> Option<u64> {
    let number = line.strip_prefix(b"VmLck:")?;
    take_number(skip_spaces(number), 10).map(|(kib, _)| kib * 1024)
}

/// In the flags of [`lock_all`]: what is mapped now.
pub const CURRENT: u32 = abi::MCL_CURRENT;
/// In the flags of [`lock_all`]: what is mapped from now on.
pub const FUTURE: u32 = abi::MCL_FUTURE;
/// In the flags of [`lock_all`]: pages that are not there are locked when they are touched.
pub const ON_FAULT: u32 = abi::MCL_ONFAULT;

/// The system call `mlockall`, as it is: also what is the engine's own is locked.
pub fn lock_all(flags: u32) -> Result<()> {
    sys::plain(abi::__NR_mlockall, flags as usize, 0, 0).map(drop)
}

/// Which pages of a range are made present when it is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// All of them.
    Now,
    /// Each when it is touched.
    OnFault,
}

/// Locks the pages of a range.
pub fn lock(start: usize, bytes: usize, presence: Presence) -> Result<()> {
    let flags = if presence == Presence::OnFault { abi::MLOCK_ONFAULT as usize } else { 0 };
    sys::plain(abi::__NR_mlock2, start, bytes, flags).map(drop)
}

/// Unlocks the pages of a range. A hole in it is an error, but what is in front of the hole is
/// unlocked.
pub fn unlock(start: usize, bytes: usize) -> Result<()> {
    sys::plain(abi::__NR_munlock, start, bytes, 0).map(drop)
}

/// Whether the mapping of private anonymous memory at `start`, not of huge pages, is locked: the kernel refuses to call
/// a locked page cold, and for any other that is a hint to reclaim it a little earlier.
pub fn is_locked(start: usize) -> bool {
    let page = start & !(PAGE_BYTES - 1);
    sys::plain(abi::__NR_madvise, page, PAGE_BYTES, abi::MADV_COLD as usize) == Err(Errno::EINVAL)
}

/// Whether the process may lock more than its limit of `limit_pages`, which depends on its user namespace too: so it
/// is tried, with a mapping of which no page can be touched.
pub fn may_exceed(limit_pages: u64) -> bool {
    let bytes = (limit_pages as usize + 1).saturating_mul(PAGE_BYTES);
    let flags = abi::MAP_PRIVATE | abi::MAP_ANONYMOUS | abi::MAP_NORESERVE | abi::MAP_LOCKED;
    // SAFETY:
    // 1. A new mapping at a free place, which nobody knows; it takes no memory.
    let tried = unsafe {
        sys::syscall6(abi::__NR_mmap, 0, bytes, abi::PROT_NONE as usize, flags as usize, usize::MAX, 0)
    };
    match tried {
        Ok(start) => {
            // SAFETY:
            // 1. It was made above.
            let _is_mapped = unsafe { memory::unmap(start, bytes) };
            true
        }
        Err(_) => false,
    }
}

/// How many pages the process may lock without the right to lock any number. None: as many as it
/// likes.
pub fn limit_pages() -> Result<Option<u64>> {
    let bytes = process::limit(abi::RLIMIT_MEMLOCK)?;
    Ok(bytes.map(|bytes| bytes / PAGE_BYTES as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Lines;
    use std::borrow::ToOwned;

    #[test]
    fn the_line_is_found_in_any_parts_and_behind_a_name_that_looks_like_it() {
        let status = "Name:\tVmLck: 7\nGroups:\t".to_owned()
            + &"100 ".repeat(1000)
            + "\nVmSize:\t    2972 kB\nVmLck:\t   28052 kB\nVmPin:\t       0 kB\n";
        for part_bytes in [1, 7, 1024, status.len()] {
            let (mut lines, mut seen) = (Lines::<LINE_BYTES>::new(), None);
            for part in status.as_bytes().chunks(part_bytes) {
                lines.take(part, |line| seen = seen.or(locked_of(line)));
            }
            assert_eq!(seen, Some(28052 * 1024));
        }
        assert_eq!(locked_of(b"State:\tZ (zombie)"), None);
    }

    #[test]
    fn what_is_locked_is_seen_and_a_process_without_it_has_none() {
        assert_eq!(locked_bytes(None), Ok(0));
        assert_eq!(locked_bytes(Some(crate::process::process_id())), Ok(0));
        assert!(locked_bytes(Some(u32::MAX)).is_err());
        let mapping = memory::Mapping::anonymous(2 * PAGE_BYTES, PAGE_BYTES, memory::Access::ReadWrite)
            .expect("there is room");
        assert!(!is_locked(mapping.start()));
        if lock(mapping.start(), mapping.bytes(), Presence::OnFault).is_ok() {
            assert!(is_locked(mapping.start() + PAGE_BYTES + 7));
            unlock(mapping.start(), mapping.bytes()).expect("it is mapped");
        }
        assert!(!is_locked(mapping.start()));
    }
}
