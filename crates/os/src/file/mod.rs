//! The swap file: made without a name, read and written whole or not at all.
//!
//! What must hold: a read or write either does all its bytes or says what failed and where, also where the page cache
//! lies in between; buffers given to a batch are free again when it returns, error or not. The supervisor makes the
//! file and writes it; agents open it again through the supervisor's /proc and read it. With O_DIRECT, offsets, lengths
//! and buffers must be multiples of 4096 ([`crate::memory::AlignedBuf`]); [`SwapFile::is_direct`] tells.
//!
//! Called by [`crate::probe`], and by the supervisor, `host` and `bench`.

use core::ffi::CStr;

use crate::fd::Fd;
use crate::memory::AlignedBuf;
use crate::ring::{Operation, Request, Ring};
use crate::sys::{Errno, Result, abi};

mod errors;
mod filesystem;

pub use errors::{IoCause, IoError, SwapFileError};
pub use filesystem::FileSystem;

/// Whether a swap file may lie in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowTmpfs {
    /// The user said so.
    Yes,
    /// Swapping from memory into memory wins nothing: refuse.
    No,
}

/// Bytes to write at an offset.
#[derive(Debug)]
pub struct WriteSlice<'a> {
    /// In bytes.
    pub offset: u64,
    /// What to write.
    pub bytes: &'a [u8],
}

/// An open swap file.
#[derive(Debug)]
pub struct SwapFile {
    fd: Fd,
    direct: bool,
}

impl SwapFile {
    /// Makes a file without a name in `directory`, readable by its user only, that nobody can link. O_DIRECT where the
    /// file system takes it, shown by a first page written and read back; that page is dropped again.
    pub fn create(
        directory: &CStr,
        allow_tmpfs: AllowTmpfs,
    ) -> core::result::Result<SwapFile, SwapFileError> {
        let place =
            Fd::open(directory, abi::O_PATH | abi::O_DIRECTORY, 0).map_err(SwapFileError::Directory)?;
        let system = FileSystem::of(&place).map_err(SwapFileError::Directory)?;
        if system.is_in_memory() && allow_tmpfs == AllowTmpfs::No {
            return Err(SwapFileError::InMemory);
        }
        if let Ok(fd) = Fd::open(directory, TMPFILE_FLAGS | abi::O_DIRECT, 0o600) {
            let file = SwapFile { fd, direct: true };
            if file.try_first_page().is_ok() {
                return Ok(file);
            }
        }
        let fd = Fd::open(directory, TMPFILE_FLAGS, 0o600).map_err(|errno| match errno {
            Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL => SwapFileError::NoTmpfile(errno),
            errno => SwapFileError::Create(errno),
        })?;
        let file = SwapFile { fd, direct: false };
        file.try_first_page().map_err(SwapFileError::FirstPage)?;
        Ok(file)
    }

    /// With what flags it is opened anew.
    pub fn flags(caching: Caching) -> u32 {
        abi::O_RDWR | if caching == Caching::Direct { abi::O_DIRECT } else { 0 }
    }

    /// Wraps a descriptor that is open already.
    pub fn from_fd(fd: Fd, caching: Caching) -> SwapFile {
        SwapFile { fd, direct: caching == Caching::Direct }
    }

    /// The descriptor.
    pub fn fd(&self) -> &Fd {
        &self.fd
    }

    /// The descriptor, no longer closed with the value.
    pub fn into_fd(self) -> Fd {
        self.fd
    }

    /// Whether offsets, lengths and buffers must be multiples of 4096.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// For [`SwapFile::from_fd`] in another process.
    pub fn caching(&self) -> Caching {
        if self.direct { Caching::Direct } else { Caching::Buffered }
    }

    /// Fills `buffer` from `offset`.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> core::result::Result<(), IoError> {
        self.read_rest(buffer, offset, 0)
    }

    /// Writes all of `bytes` at `offset`.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> core::result::Result<(), IoError> {
        self.write_rest(bytes, offset, 0)?;
        self.see_written(&[WriteSlice { offset, bytes }])
    }

    /// Writes all slices, several at once where there is a ring. On an error some of the others may be written and some
    /// not; all buffers are free.
    pub fn write_batch(
        &self,
        ring: Option<&mut Ring>,
        slices: &[WriteSlice<'_>],
    ) -> core::result::Result<(), IoError> {
        let mut finished = [0u64; FINISHED_WORDS];
        if let Some(ring) = ring {
            for (group, part) in slices.chunks(FINISHED_WORDS * 64).enumerate() {
                let base = group * FINISHED_WORDS * 64;
                // SAFETY:
                // 1. Each request names a slice that stays borrowed until `run` returns, and `run` returns after its
                //    last completion.
                // 2. The kernel only reads the buffers of writes.
                unsafe {
                    run(ring, &mut finished, part.len(), |index| Request {
                        operation: Operation::Write,
                        descriptor: self.fd.raw(),
                        buffer: part[index].bytes.as_ptr().cast_mut(),
                        bytes: request_bytes(part[index].bytes.len()),
                        offset: part[index].offset,
                        user_data: index as u64,
                    });
                }
                for (index, slice) in part.iter().enumerate() {
                    if !is_finished(&finished, index) {
                        self.write_rest(slice.bytes, slice.offset, base + index)?;
                    }
                }
            }
            return self.see_written(slices);
        }
        for (index, slice) in slices.iter().enumerate() {
            self.write_rest(slice.bytes, slice.offset, index)?;
        }
        self.see_written(slices)
    }

    /// What the page cache has taken may still fail on its way to the disk: full, or broken. Nobody would be told then,
    /// and the only other copy is given up once a write is complete. So it is waited for.
    fn see_written(&self, slices: &[WriteSlice<'_>]) -> core::result::Result<(), IoError> {
        if self.direct {
            return Ok(());
        }
        let start = slices.iter().map(|slice| slice.offset).min().unwrap_or(0);
        let end = slices.iter().map(|slice| slice.offset + slice.bytes.len() as u64).max().unwrap_or(0);
        let failed = |errno| IoError {
            operation: Operation::Write,
            index: 0,
            offset: start,
            cause: IoCause::Errno(errno),
        };
        self.fd.write_out(start, end - start).map_err(failed)
    }

    /// Gives the blocks of a range back to the file system.
    pub fn punch_hole(&self, offset: u64, bytes: u64) -> Result<()> {
        self.fd.punch_hole(offset, bytes)
    }

    /// Bytes still free on its file system.
    pub fn free_bytes(&self) -> Result<u64> {
        FileSystem::of(&self.fd).map(|system| system.free_bytes)
    }

    fn read_rest(&self, buffer: &mut [u8], offset: u64, index: usize) -> core::result::Result<(), IoError> {
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let failed = |cause| IoError { operation: Operation::Read, index, offset: at, cause };
            match self.fd.pread(&mut buffer[done..], at) {
                Ok(0) => return Err(failed(IoCause::EndOfFile)),
                Ok(bytes) => done += bytes,
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(failed(IoCause::Errno(errno))),
            }
        }
        Ok(())
    }

    fn write_rest(&self, bytes: &[u8], offset: u64, index: usize) -> core::result::Result<(), IoError> {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let failed = |cause| IoError { operation: Operation::Write, index, offset: at, cause };
            match self.fd.pwrite(&bytes[done..], at) {
                Ok(0) => return Err(failed(IoCause::NothingWritten)),
                Ok(bytes) => done += bytes,
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(failed(IoCause::Errno(errno))),
            }
        }
        Ok(())
    }

    /// Writes a page, reads it back, and empties the file again.
    fn try_first_page(&self) -> core::result::Result<(), IoError> {
        let failed = |errno| IoError {
            operation: Operation::Write,
            index: 0,
            offset: 0,
            cause: IoCause::Errno(errno),
        };
        let mut page = AlignedBuf::new(crate::PAGE_BYTES).map_err(failed)?;
        page.fill(0xA5);
        self.write_at(&page, 0)?;
        page.fill(0);
        self.read_at(&mut page, 0)?;
        if page.iter().any(|byte| *byte != 0xA5) {
            return Err(failed(Errno::EIO));
        }
        self.fd.truncate(0).map_err(failed)
    }
}

/// Whether the page cache lies between the file and its users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caching {
    /// O_DIRECT.
    Direct,
    /// Through the page cache.
    Buffered,
}

const TMPFILE_FLAGS: u32 = abi::O_TMPFILE | abi::O_RDWR | abi::O_EXCL;

/// Slices whose completion is remembered at once: 4 * 64.
const FINISHED_WORDS: usize = 4;

fn is_finished(finished: &[u64; FINISHED_WORDS], index: usize) -> bool {
    finished[index / 64] & (1 << (index % 64)) != 0
}

/// A request carries 31 bits of length; what is beyond goes the way of every short write.
fn request_bytes(bytes: usize) -> u32 {
    bytes.min(1 << 30) as u32
}

/// Sends `count` requests through the ring, as many at once as it takes, and waits for every one that was sent. Sets
/// the bits of those that did all their bytes. The caller does the others again by plain calls, which also find out
/// what is wrong with them.
///
/// # Safety
/// As [`Ring::push`], until this returns.
unsafe fn run(
    ring: &mut Ring,
    finished: &mut [u64; FINISHED_WORDS],
    count: usize,
    mut request: impl FnMut(usize) -> Request,
) {
    *finished = [0; FINISHED_WORDS];
    let mut next = 0;
    let mut broken = false;
    loop {
        while !broken && next < count {
            // SAFETY:
            // 1. The caller promises the buffers; the loop below ends only when nothing is in flight.
            if !unsafe { ring.push(request(next)) } {
                break;
            }
            next += 1;
        }
        if ring.in_flight() == 0 {
            return;
        }
        if ring.submit_and_wait(1).is_err() {
            // Nothing more can be sent. What the kernel has not taken is free; what it has taken must still be waited
            // for.
            broken = true;
            ring.forget_queued();
            crate::thread::yield_now();
        }
        while let Some(completion) = ring.pop() {
            let index = completion.user_data as usize;
            if index < count && completion.result == Ok(request(index).bytes) {
                finished[index / 64] |= 1 << (index % 64);
            }
        }
    }
}
