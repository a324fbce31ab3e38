//! Descriptors and the plain calls on them.
//!
//! A descriptor is a number in the table of the thread that uses it. Engine threads have a table of their own, so an
//! [`Fd`] made there must be used and dropped there: elsewhere the same number is another file, or none.
//!
//! Must hold: a number is closed once, by the value that owns it. New descriptors are close-on-exec. Called by most of
//! this crate, and by `agent`, `host`, `interpose`, the supervisor, `uswap` and `bench`.

use core::ffi::CStr;
use core::mem::MaybeUninit;

use crate::sys::{self, Errno, Result, abi};

/// An open descriptor, closed when dropped.
#[derive(Debug, PartialEq, Eq)]
pub struct Fd(i32);

impl Fd {
    /// Takes over a descriptor number: it will be closed with the value.
    ///
    /// The number must belong to the caller; closing a number of someone else closes his file.
    pub const fn from_raw(number: i32) -> Fd {
        Fd(number)
    }

    /// The number.
    pub const fn raw(&self) -> i32 {
        self.0
    }

    /// The number, no longer closed by anybody.
    pub fn into_raw(self) -> i32 {
        let number = self.0;
        core::mem::forget(self);
        number
    }

    /// `open(2)`; always close-on-exec. `flags` are the kernel's `O_*`, `mode` the permission bits of a new file.
    pub fn open(path: &CStr, flags: u32, mode: u32) -> Result<Fd> {
        // SAFETY:
        // 1. `path` ends with a zero byte and lives during the call, which only reads it.
        let answer = unsafe {
            sys::syscall4(
                abi::__NR_openat,
                abi::AT_FDCWD as usize,
                path.as_ptr() as usize,
                (flags | abi::O_CLOEXEC) as usize,
                mode as usize,
            )
        };
        answer.map(|number| Fd(number as i32))
    }

    /// `read(2)`; answers the bytes read, 0 at the end of the file.
    pub fn read(&self, buffer: &mut [u8]) -> Result<usize> {
        // SAFETY:
        // 1. The kernel writes at most `buffer.len()` bytes into an exclusive buffer of bytes.
        unsafe { sys::syscall3(abi::__NR_read, self.0 as usize, buffer.as_mut_ptr() as usize, buffer.len()) }
    }

    /// `write(2)`; answers the bytes written.
    pub fn write(&self, bytes: &[u8]) -> Result<usize> {
        write_raw(self.0, bytes)
    }

    /// One `pread(2)` at `offset` bytes; may be short.
    pub fn pread(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        // SAFETY:
        // 1. The kernel writes at most `buffer.len()` bytes into an exclusive buffer of bytes.
        unsafe {
            sys::syscall4(
                abi::__NR_pread64,
                self.0 as usize,
                buffer.as_mut_ptr() as usize,
                buffer.len(),
                offset as usize,
            )
        }
    }

    /// One `pwrite(2)` at `offset` bytes; may be short.
    pub fn pwrite(&self, bytes: &[u8], offset: u64) -> Result<usize> {
        // SAFETY:
        // 1. The kernel only reads `bytes`.
        unsafe {
            sys::syscall4(
                abi::__NR_pwrite64,
                self.0 as usize,
                bytes.as_ptr() as usize,
                bytes.len(),
                offset as usize,
            )
        }
    }

    /// Another descriptor of the same open file, close-on-exec, numbered `number_min` or higher.
    pub fn duplicate(&self, number_min: i32) -> Result<Fd> {
        sys::plain(abi::__NR_fcntl, self.0 as usize, abi::F_DUPFD_CLOEXEC as usize, number_min as usize)
            .map(|number| Fd(number as i32))
    }

    /// Whether something is open behind a number.
    pub fn is_open(number: i32) -> bool {
        sys::plain(abi::__NR_fcntl, number as usize, abi::F_GETFD as usize, 0).is_ok()
    }

    /// Puts this open file, close-on-exec, behind a number that is in use, in one step: nobody finds the number free in
    /// between.
    pub fn replace(&self, number: i32) -> Result<()> {
        sys::plain(abi::__NR_dup3, self.0 as usize, number as usize, abi::O_CLOEXEC as usize).map(drop)
    }

    /// Sets the length of the file, in bytes.
    pub fn truncate(&self, bytes: u64) -> Result<()> {
        sys::plain(abi::__NR_ftruncate, self.0 as usize, bytes as usize, 0).map(drop)
    }

    /// Waits until what was written to a range has left the page cache, and says whether it could (sync_file_range(2)).
    /// That it outlives the machine is not said.
    pub fn write_out(&self, offset: u64, bytes: u64) -> Result<()> {
        let how =
            abi::SYNC_FILE_RANGE_WAIT_BEFORE | abi::SYNC_FILE_RANGE_WRITE | abi::SYNC_FILE_RANGE_WAIT_AFTER;
        // SAFETY:
        // 1. All arguments are numbers.
        unsafe {
            sys::syscall4(
                abi::__NR_sync_file_range,
                self.0 as usize,
                offset as usize,
                bytes as usize,
                how as usize,
            )
        }
        .map(drop)
    }

    /// Gives the blocks of a range back to the file system; the file keeps its length and reads zeros there.
    pub fn punch_hole(&self, offset: u64, bytes: u64) -> Result<()> {
        let mode = abi::FALLOC_FL_PUNCH_HOLE | abi::FALLOC_FL_KEEP_SIZE;
        // SAFETY:
        // 1. All arguments are numbers. A mapping of the file reads zeros afterwards, which is what the caller asks
        //    for.
        unsafe {
            sys::syscall4(
                abi::__NR_fallocate,
                self.0 as usize,
                mode as usize,
                offset as usize,
                bytes as usize,
            )
        }
        .map(drop)
    }

    /// Length and allocated bytes of the file.
    pub fn status(&self) -> Result<FileStatus> {
        let mut status = MaybeUninit::<abi::stat>::zeroed();
        // SAFETY:
        // 1. `fstat` writes one `struct stat` of this architecture, which is what `abi::stat` is.
        unsafe { sys::syscall3(abi::__NR_fstat, self.0 as usize, status.as_mut_ptr() as usize, 0) }?;
        // SAFETY:
        // 1. Plain integers, zeroed before and filled by a call that succeeded.
        let status = unsafe { status.assume_init() };
        Ok(FileStatus {
            bytes: status.st_size as u64,
            // The unit of st_blocks is 512 bytes, whatever the file system's block size.
            bytes_allocated: status.st_blocks as u64 * 512,
            mode: status.st_mode,
            link_count: status.st_nlink,
            inode: status.st_ino,
        })
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        // Linux releases the number even when close answers an error: nothing to do about it.
        let _ = sys::plain(abi::__NR_close, self.0 as usize, 0, 0);
    }
}

/// What `fstat` says of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStatus {
    /// Length in bytes.
    pub bytes: u64,
    /// Bytes that the file system holds for it.
    pub bytes_allocated: u64,
    /// Type and permission bits.
    pub mode: u32,
    /// Names that the file has in directories.
    pub link_count: u64,
    /// Its number in its file system.
    pub inode: u64,
}

/// `write(2)` to a descriptor number that the caller does not own, standard error for example.
pub fn write_raw(number: i32, bytes: &[u8]) -> Result<usize> {
    // SAFETY:
    // 1. The kernel only reads `bytes`.
    unsafe { sys::syscall3(abi::__NR_write, number as usize, bytes.as_ptr() as usize, bytes.len()) }
}

/// Reads a whole small file, below /proc for example, into `buffer`; answers what was read, cut to the buffer.
pub fn read_file<'b>(path: &CStr, buffer: &'b mut [u8]) -> Result<&'b [u8]> {
    let file = Fd::open(path, abi::O_RDONLY, 0)?;
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(bytes) => length += bytes,
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(&buffer[..length])
}

/// What a descriptor waits for in [`poll`], and what came.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct PollEntry {
    number: i32,
    wanted: i16,
    came: i16,
}

impl PollEntry {
    /// Waits for nothing: a place that is not used.
    pub const NONE: PollEntry = PollEntry { number: -1, wanted: 0, came: 0 };

    /// Waits until `descriptor` can be read, or the other end is gone.
    pub fn readable(descriptor: &Fd) -> PollEntry {
        PollEntry { number: descriptor.0, wanted: abi::POLLIN as i16, came: 0 }
    }

    /// As [`PollEntry::readable`] for a number that the caller does not own.
    pub fn readable_raw(number: i32) -> PollEntry {
        PollEntry { number, wanted: abi::POLLIN as i16, came: 0 }
    }

    /// Whether there is something to read.
    pub fn is_readable(&self) -> bool {
        self.came & abi::POLLIN as i16 != 0
    }

    /// Whether the other end is gone or the descriptor is in error.
    pub fn is_gone(&self) -> bool {
        self.came & (abi::POLLHUP | abi::POLLERR | abi::POLLNVAL) as i16 != 0
    }
}

const _: () = assert!(size_of::<PollEntry>() == size_of::<abi::pollfd>());

/// How long a call may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timeout {
    /// Not at all.
    Never,
    /// That many nanoseconds.
    Nanoseconds(u64),
    /// Until it happens.
    Forever,
}

/// Waits for one of `entries`; answers how many have something, 0 when the time is over.
pub fn poll(entries: &mut [PollEntry], timeout: Timeout) -> Result<usize> {
    let mut time = match timeout {
        Timeout::Never => abi::__kernel_timespec { tv_sec: 0, tv_nsec: 0 },
        Timeout::Nanoseconds(nanoseconds) => sys::timespec(nanoseconds),
        Timeout::Forever => abi::__kernel_timespec { tv_sec: 0, tv_nsec: 0 },
    };
    let time_address = match timeout {
        Timeout::Forever => 0,
        _ => &raw mut time as usize,
    };
    // SAFETY:
    // 1. `entries` is an exclusive slice of structures of the kernel's layout (sizes compared above, repr(C)).
    // 2. The time is null or a live structure; no signal mask is given.
    unsafe { sys::syscall4(abi::__NR_ppoll, entries.as_mut_ptr() as usize, entries.len(), time_address, 0) }
}

/// A pipe: the end to read, the end to write. Close-on-exec.
pub fn pipe() -> Result<(Fd, Fd)> {
    let mut ends = [0i32; 2];
    // SAFETY:
    // 1. The kernel writes two `int` into an array of two.
    unsafe { sys::syscall3(abi::__NR_pipe2, ends.as_mut_ptr() as usize, abi::O_CLOEXEC as usize, 0) }?;
    Ok((Fd(ends[0]), Fd(ends[1])))
}

/// A counter to wake a thread that polls; non-blocking, close-on-exec.
#[derive(Debug)]
pub struct Event(Fd);

impl Event {
    /// A new counter at zero.
    pub fn new() -> Result<Event> {
        let flags = (abi::EFD_CLOEXEC | abi::EFD_NONBLOCK) as usize;
        sys::plain(abi::__NR_eventfd2, 0, flags, 0).map(|number| Event(Fd(number as i32)))
    }

    /// The descriptor, for [`poll`].
    pub fn fd(&self) -> &Fd {
        &self.0
    }

    /// Makes the descriptor readable. A counter that is full is readable already.
    pub fn raise(&self) {
        let _ = self.0.write(&1u64.to_ne_bytes());
    }

    /// Makes it unreadable until the next [`Event::raise`]; answers how often it was raised.
    pub fn clear(&self) -> u64 {
        let mut count = [0; 8];
        match self.0.read(&mut count) {
            Ok(8) => u64::from_ne_bytes(count),
            _ => 0,
        }
    }
}
