//! System calls as instructions, and the error numbers that come back.
//!
//! Called by every other module of this crate, and by `host`, `interpose`, the supervisor and `cli`. The callers give
//! each call its meaning; this module only knows registers.
//!
//! Must hold: an answer from -4095 to -1 is an error, whatever the call; every other answer is passed on as it is.

use core::arch::asm;
use core::fmt;

pub use linux_raw_sys::general as abi;
pub use linux_raw_sys::prctl;

/// A time as the kernel takes it.
pub(crate) fn timespec(nanoseconds: u64) -> abi::__kernel_timespec {
    abi::__kernel_timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as i64,
        tv_nsec: (nanoseconds % 1_000_000_000) as i64,
    }
}

/// An error number of the kernel, 1..4096.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(u16);

impl Errno {
    /// Builds one from the positive number of the kernel's header, cut to 16 bits.
    pub const fn from_number(number: u32) -> Errno {
        Errno(number as u16)
    }

    /// The positive number.
    pub const fn number(self) -> i32 {
        self.0 as i32
    }

    /// What a system call answers when it fails in this way.
    pub const fn as_answer(self) -> isize {
        -(self.0 as isize)
    }

    /// The name of the kernel's header, for the numbers that uswap meets; `None` for others.
    pub fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|entry| entry.0 == self).map(|entry| entry.1)
    }
}

macro_rules! errnos {
    ($($name:ident $text:literal),* $(,)?) => {
        impl Errno {
            $(#[doc = $text] pub const $name: Errno = Errno(linux_raw_sys::errno::$name as u16);)*
        }
        const NAMES: &[(Errno, &str, &str)] = &[$((Errno::$name, stringify!($name), $text)),*];
    };
}

errnos! {
    EPERM "operation not permitted",
    ENOENT "no such file or entry",
    ESRCH "no such process",
    EINTR "interrupted by a signal",
    EIO "input/output error",
    ENXIO "no such device or address",
    EBADF "bad descriptor",
    ECHILD "no child process",
    EAGAIN "try again",
    ENOMEM "out of memory",
    EACCES "permission denied",
    EFAULT "bad address",
    EBUSY "busy",
    EEXIST "exists already",
    ENODEV "no such device",
    ENOTDIR "not a directory",
    EISDIR "is a directory",
    EINVAL "invalid argument",
    EMFILE "too many open files",
    ENFILE "too many open files in the system",
    ENOTSOCK "not a socket",
    ENOTTY "request not known to this device",
    EFBIG "file too large",
    ENOSPC "no space left on device",
    EROFS "read-only file system",
    EPIPE "broken pipe",
    ENAMETOOLONG "name too long",
    ENOSYS "system call not known to this kernel, or forbidden",
    EOVERFLOW "value too large",
    EOPNOTSUPP "operation not supported",
    ETIMEDOUT "timed out",
    EDQUOT "disk quota exceeded",
}

impl fmt::Debug for Errno {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => out.write_str(name),
            None => write!(out, "E{}", self.0),
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|entry| entry.0 == *self) {
            Some((_, name, text)) => write!(out, "{text} ({name})"),
            None => write!(out, "error {}", self.0),
        }
    }
}

impl core::error::Error for Errno {}

/// What a system call answers.
pub type Result<T> = core::result::Result<T, Errno>;

/// Turns the register into a result: -4095..=-1 are error numbers.
#[inline]
fn decode(value: isize) -> Result<usize> {
    if (-4095..0).contains(&value) { Err(Errno((-value) as u16)) } else { Ok(value as usize) }
}

/// Makes one system call with up to six arguments.
///
/// # Safety
/// The arguments must be valid for the call `number`: pointers point to memory of the size that the call reads or
/// writes, and the call does not break what Rust assumes about memory that others hold.
#[inline]
pub unsafe fn syscall6(
    number: u32,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> Result<usize> {
    let value: isize;
    // SAFETY:
    // 1. The instruction follows the kernel's convention: number in rax, arguments in rdi, rsi, rdx, r10, r8, r9; it
    //    destroys rcx and r11.
    // 2. What the call does to memory is the caller's promise.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => value,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    decode(value)
}

/// [`syscall6`] with four arguments.
///
/// # Safety
/// As [`syscall6`].
#[inline]
pub unsafe fn syscall4(number: u32, a: usize, b: usize, c: usize, d: usize) -> Result<usize> {
    // SAFETY:
    // 1. The caller promises what `syscall6` demands; the kernel ignores arguments that a call does not have.
    unsafe { syscall6(number, a, b, c, d, 0, 0) }
}

/// [`syscall6`] with three arguments.
///
/// # Safety
/// As [`syscall6`].
#[inline]
pub unsafe fn syscall3(number: u32, a: usize, b: usize, c: usize) -> Result<usize> {
    // SAFETY:
    // 1. The caller promises what `syscall6` demands; the kernel ignores arguments that a call does not have.
    unsafe { syscall6(number, a, b, c, 0, 0, 0) }
}

/// A system call that takes no pointer and changes no memory that this process has mapped.
///
/// Private to the crate: each use names such a call.
#[inline]
pub(crate) fn plain(number: u32, a: usize, b: usize, c: usize) -> Result<usize> {
    // SAFETY:
    // 1. Every caller in this crate names a call whose arguments are numbers: getpid, kill, close, fallocate, ...
    unsafe { syscall3(number, a, b, c) }
}

/// `ioctl` with a structure that the kernel reads and may write.
///
/// # Safety
/// `request` must take a pointer to a `T`, and what the request does to memory named inside the structure is the
/// caller's promise.
#[inline]
pub(crate) unsafe fn ioctl<T>(descriptor: i32, request: u32, argument: &mut T) -> Result<usize> {
    // SAFETY:
    // 1. `argument` is a live, exclusive reference of the size that the request demands (the caller's promise).
    unsafe { syscall3(abi::__NR_ioctl, descriptor as usize, request as usize, argument as *mut T as usize) }
}

/// Number of an ioctl that reads and writes a structure of `bytes` bytes.
pub(crate) const fn ioctl_read_write(kind: u8, number: u32, bytes: usize) -> u32 {
    (3 << 30) | ((bytes as u32) << 16) | ((kind as u32) << 8) | number
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn errors_have_names() {
        assert_eq!(format!("{:?}", Errno::EAGAIN), "EAGAIN");
        assert_eq!(format!("{:?}", Errno::from_number(131)), "E131");
        assert_eq!(format!("{}", Errno::ENOSPC), "no space left on device (ENOSPC)");
        assert_eq!(plain(abi::__NR_close, 1 << 20, 0, 0), Err(Errno::EBADF));
    }

    #[test]
    fn ioctl_numbers_equal_those_of_the_headers() {
        let copy = core::mem::size_of::<abi::uffdio_copy>();
        assert_eq!(ioctl_read_write(0xAA, abi::_UFFDIO_COPY, copy), linux_raw_sys::ioctl::UFFDIO_COPY);
    }
}
