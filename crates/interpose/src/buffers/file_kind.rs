//! What a descriptor is, for the questions that the table leaves to it: may a read be repeated, may it go in parts.
//!
//! Must hold: what cannot be told is [`FileKind::Other`]: reads of it are neither repeated nor made in parts. Called by
//! [`crate::buffers::boundary`], [`crate::buffers::interrupted`] and [`crate::buffers::parts`].

use crate::Call;
use crate::table::{AfterFault, Row};
use linux_raw_sys::general::{
    __NR_fcntl, __NR_fstat, __NR_getsockopt, F_GETFL, O_APPEND, O_DIRECT, S_IFBLK, S_IFCHR, S_IFIFO, S_IFMT,
    S_IFREG, S_IFSOCK, stat,
};
use linux_raw_sys::net::{SO_TYPE, SOL_SOCKET};

/// Kind of a file, as far as reads and writes differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileKind {
    /// Bytes at a position: a regular file, a block device, `/dev/zero` and its neighbours.
    Plain,
    /// A file whose writes go to its end, wherever that is by then.
    Appending,
    /// A file that goes around the page cache: one call is one transfer.
    Direct,
    /// A pipe, a stream of bytes.
    Pipe,
    /// A socket that is a stream of bytes.
    Stream,
    /// Whatever else can be read or written: messages, events, counts, lines.
    Other,
}

/// Sockets of type SOCK_STREAM.
const STREAM: u32 = 1;
/// Major number of `/dev/null`, `/dev/zero`, `/dev/urandom`.
const MEMORY_DEVICES: u64 = 1;

impl FileKind {
    /// Asks the kernel, by `make`.
    pub fn of(file: usize, make: &mut dyn FnMut(&Call) -> isize) -> FileKind {
        let mut about = core::mem::MaybeUninit::<stat>::zeroed();
        let mut ask = |number: u32, arguments: [usize; 5]| {
            let [a, b, c, d, e] = arguments;
            make(&Call { number: number as usize, arguments: [a, b, c, d, e, 0] })
        };
        if ask(__NR_fstat, [file, about.as_mut_ptr() as usize, 0, 0, 0]) != 0 {
            return FileKind::Other;
        }
        // SAFETY:
        // 1. The kernel has filled it; every bit pattern is a `stat`.
        let about = unsafe { about.assume_init() };
        let kind = about.st_mode & S_IFMT;
        if kind == S_IFSOCK {
            let (mut socket_kind, mut bytes) = (0_u32, 4_u32);
            let value = (&raw mut socket_kind) as usize;
            let length = (&raw mut bytes) as usize;
            let answer = ask(__NR_getsockopt, [file, SOL_SOCKET as usize, SO_TYPE as usize, value, length]);
            return if answer == 0 && socket_kind == STREAM { FileKind::Stream } else { FileKind::Other };
        }
        let flags = ask(__NR_fcntl, [file, F_GETFL as usize, 0, 0, 0]) as u32;
        match kind {
            // A pipe with O_DIRECT keeps packets apart. Only its end for writing says so; a packet is
            // no longer than a page.
            S_IFIFO if flags & O_DIRECT != 0 => FileKind::Other,
            S_IFIFO => FileKind::Pipe,
            S_IFREG | S_IFBLK if flags & O_DIRECT != 0 => FileKind::Direct,
            S_IFREG if flags & O_APPEND != 0 => FileKind::Appending,
            S_IFREG | S_IFBLK => FileKind::Plain,
            S_IFCHR if about.st_rdev >> 8 & 0xfff == MEMORY_DEVICES => FileKind::Plain,
            _ => FileKind::Other,
        }
    }
}

/// May a call that was answered with EFAULT be repeated without loss?
pub(super) fn is_intact(row: &Row, call: &Call, make: &mut dyn FnMut(&Call) -> isize) -> bool {
    let mut by_file = || !matches!(FileKind::of(call.arguments[0], make), FileKind::Other);
    match row.after_fault() {
        AfterFault::Intact => true,
        AfterFault::Consumed | AfterFault::Applied => false,
        AfterFault::ByFile => by_file(),
        AfterFault::ByFileUnless(argument) => call.arguments[usize::from(argument)] == 0 && by_file(),
    }
}
