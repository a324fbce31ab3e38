//! The file system below a file: its kind and its room.
//!
//! Asked before a swap file is made (memory is refused) and while it grows.
//!
//! Must hold: sizes are of the moment: what is free may be gone when it is wanted. Called by [`crate::file`] and
//! [`crate::probe`].

use core::ffi::CStr;
use core::mem::MaybeUninit;

use crate::fd::Fd;
use crate::sys::{self, Result, abi};

/// What a file system is, as far as swap cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSystem {
    /// The magic number of `statfs`.
    pub magic: u32,
    /// Bytes that a process without privileges may still take.
    pub free_bytes: u64,
    /// All its bytes.
    pub total_bytes: u64,
}

impl FileSystem {
    /// Of the file system that an open file lies on.
    pub fn of(file: &Fd) -> Result<FileSystem> {
        let mut status = MaybeUninit::<abi::statfs>::zeroed();
        // SAFETY:
        // 1. `fstatfs` writes one `struct statfs` of this architecture.
        unsafe { sys::syscall3(abi::__NR_fstatfs, file.raw() as usize, status.as_mut_ptr() as usize, 0) }?;
        // SAFETY:
        // 1. Plain integers, zeroed before and filled by a call that succeeded.
        let status = unsafe { status.assume_init() };
        let unit = status.f_bsize as u64;
        Ok(FileSystem {
            magic: status.f_type as u32,
            free_bytes: (status.f_bavail as u64).saturating_mul(unit),
            total_bytes: (status.f_blocks as u64).saturating_mul(unit),
        })
    }

    /// Of the file system that a path lies on.
    pub fn of_path(path: &CStr) -> Result<FileSystem> {
        FileSystem::of(&Fd::open(path, abi::O_PATH, 0)?)
    }

    /// Whether its files lie in memory.
    pub fn is_in_memory(&self) -> bool {
        self.magic == abi::TMPFS_MAGIC || self.magic == abi::RAMFS_MAGIC
    }

    /// A name for people, where it is a usual one.
    pub fn name(&self) -> &'static str {
        match self.magic {
            abi::TMPFS_MAGIC => "tmpfs",
            abi::RAMFS_MAGIC => "ramfs",
            0xEF53 => "ext4",
            0x5846_5342 => "xfs",
            0x9123_683E => "btrfs",
            0x794C_7630 => "overlay",
            0x6969 => "nfs",
            0xF2F5_2010 => "f2fs",
            0x2FC1_2FC1 => "zfs",
            0x0102_1997 => "9p",
            0x6573_5546 => "fuse",
            _ => "another",
        }
    }
}
