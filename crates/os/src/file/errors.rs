//! What can go wrong with a swap file: which step, where, and the kernel's word for it.
//!
//! Must hold: an error says how far things came: which step, which slice, which byte. Called by [`crate::file`], which
//! says so, by [`crate::probe`], and by `host`, the supervisor and `cli`, which tell people.

use core::fmt;

use crate::ring::Operation;
use crate::sys::Errno;

/// Why there is no swap file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwapFileError {
    /// The directory cannot be opened.
    Directory(Errno),
    /// The directory lies on tmpfs or ramfs.
    InMemory,
    /// The file system makes no files without a name (O_TMPFILE).
    NoTmpfile(Errno),
    /// The file cannot be made: rights, space, read-only.
    Create(Errno),
    /// The file was made, but a first page cannot be written and read back.
    FirstPage(IoError),
}

impl fmt::Display for SwapFileError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SwapFileError::Directory(errno) => write!(out, "cannot open the swap directory: {errno}"),
            SwapFileError::InMemory => {
                out.write_str("the swap directory lies in memory (tmpfs or ramfs): swapping to it frees none")
            }
            SwapFileError::NoTmpfile(errno) => {
                write!(out, "the file system of the swap directory has no O_TMPFILE: {errno}")
            }
            SwapFileError::Create(errno) => write!(out, "cannot make a file in the swap directory: {errno}"),
            SwapFileError::FirstPage(error) => write!(out, "the new swap file does not work: {error}"),
        }
    }
}

impl core::error::Error for SwapFileError {}

/// Why bytes did not go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoCause {
    /// The kernel's answer. ENOSPC and EDQUOT: full. EIO: the device.
    Errno(Errno),
    /// A read met the end of the file.
    EndOfFile,
    /// A write took nothing and gave no reason.
    NothingWritten,
}

/// A read or write that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoError {
    /// Which way.
    pub operation: Operation,
    /// Which slice of a batch; 0 for a single call.
    pub index: usize,
    /// Where in the file the bytes that failed begin.
    pub offset: u64,
    /// Why.
    pub cause: IoCause,
}

impl fmt::Display for IoError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.operation {
            Operation::Read => "read",
            Operation::Write => "write",
        };
        write!(out, "{what} at byte {}: ", self.offset)?;
        match self.cause {
            IoCause::Errno(errno) => write!(out, "{errno}"),
            IoCause::EndOfFile => out.write_str("end of file"),
            IoCause::NothingWritten => out.write_str("nothing was written"),
        }
    }
}

impl core::error::Error for IoError {}
