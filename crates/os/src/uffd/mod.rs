//! userfaultfd: the calls that make faults come to us, and those that fill and protect pages.
//!
//! A fault is a SIGBUS of the thread that meets it; the kernel sends no messages. A system call that meets a missing or
//! protected page answers EFAULT. What must hold for the callers:
//! 1. Closing the last descriptor makes every missing page read as zeros.
//! 2. A forked child and the target of an mremap have neither registration nor protection.
//!
//! Called by [`crate::probe`], by `host`, and by the supervisor and `cli`, which ask whether there is one.

mod pages;

pub use pages::{Progress, Stop};

use core::fmt;

use linux_raw_sys::ioctl::{UFFDIO_API, UFFDIO_REGISTER, UFFDIO_UNREGISTER};

use crate::fd::Fd;
use crate::sys::{self, Errno, Result, abi};

/// A fault is a SIGBUS; pages can be protected against writing.
const FEATURES: u64 = abi::UFFD_FEATURE_SIGBUS as u64 | abi::UFFD_FEATURE_PAGEFAULT_FLAG_WP as u64;

/// Why there is no userfaultfd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UffdError {
    /// Neither way in works: what the system call answered, and what opening the device answered.
    NoWayIn {
        /// Of `userfaultfd(2)` for faults of user mode, which anybody may have. EPERM or ENOSYS: a filter forbids it,
        /// or it is not built.
        system_call: Errno,
        /// Of `open("/dev/userfaultfd")` or of its ioctl. ENOENT: no such device; EACCES: no rights.
        device: Errno,
    },
    /// The kernel knows userfaultfd, and not all that is needed of it. EINVAL: it is older than Linux 5.11.
    Features(Errno),
}

impl fmt::Display for UffdError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UffdError::NoWayIn { system_call, device } => {
                write!(out, "no userfaultfd: the system call: {system_call}; /dev/userfaultfd: {device}")
            }
            UffdError::Features(errno) => {
                write!(out, "userfaultfd has no faults by SIGBUS or no write protection: {errno}")
            }
        }
    }
}

impl core::error::Error for UffdError {}

/// Which faults of a registered range are ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Those on missing pages.
    Missing,
    /// Those, and writes to protected pages.
    MissingAndProtected,
}

/// One userfaultfd, close-on-exec.
#[derive(Debug)]
pub struct Uffd {
    fd: Fd,
}

/// `_IO(0xAA, 0)`: a new userfaultfd from an open `/dev/userfaultfd`.
const USERFAULTFD_IOC_NEW: u32 = 0xAA00;

impl Uffd {
    /// Opens one by the system call, which needs no privilege; where a filter forbids that, by the device, if this
    /// process may open it.
    pub fn open() -> core::result::Result<Uffd, UffdError> {
        let fd = match open_system_call() {
            Ok(fd) => fd,
            // Before 5.11 the kernel does not know the flag.
            Err(Errno::EINVAL) => return Err(UffdError::Features(Errno::EINVAL)),
            Err(system_call) => open_device().map_err(|device| UffdError::NoWayIn { system_call, device })?,
        };
        handshake(&fd).map_err(UffdError::Features)?;
        Ok(Uffd { fd })
    }

    /// Takes over the descriptor of one.
    pub fn from_fd(fd: Fd) -> Uffd {
        Uffd { fd }
    }

    /// Gives up the value for its descriptor.
    pub fn into_fd(self) -> Fd {
        self.fd
    }

    /// The descriptor.
    pub fn fd(&self) -> &Fd {
        &self.fd
    }

    /// Registers a range of whole pages. Dangerous: from now on whoever touches a missing page of it gets
    /// SIGBUS.
    ///
    /// EBUSY: a part belongs to another userfaultfd. EINVAL: a part is not mapped, or of a kind that cannot be
    /// registered (nothing of the range is registered then). ENOMEM: too many mappings; a part may be registered.
    pub fn register(&self, start: usize, bytes: usize, mode: Mode) -> Result<()> {
        let mode = match mode {
            Mode::Missing => abi::UFFDIO_REGISTER_MODE_MISSING,
            Mode::MissingAndProtected => abi::UFFDIO_REGISTER_MODE_MISSING | abi::UFFDIO_REGISTER_MODE_WP,
        };
        let mut request = abi::uffdio_register { range: range(start, bytes), mode: mode as u64, ioctls: 0 };
        // SAFETY:
        // 1. The request takes this structure.
        // 2. Registering changes no content: it decides who serves later faults.
        unsafe { sys::ioctl(self.fd.raw(), UFFDIO_REGISTER, &mut request) }.map(drop)
    }

    /// Takes a range back. Dangerous: missing pages of it read as zeros from now on.
    pub fn unregister(&self, start: usize, bytes: usize) -> Result<()> {
        let mut request = range(start, bytes);
        // SAFETY:
        // 1. The request takes this structure.
        // 2. No present page changes; what missing pages mean is the caller's business, as the documentation says.
        unsafe { sys::ioctl(self.fd.raw(), UFFDIO_UNREGISTER, &mut request) }.map(drop)
    }
}

pub(crate) fn range(start: usize, bytes: usize) -> abi::uffdio_range {
    abi::uffdio_range { start: start as u64, len: bytes as u64 }
}

/// A userfaultfd by the system call, before the handshake.
pub(crate) fn open_system_call() -> Result<Fd> {
    let flags = (abi::O_CLOEXEC | abi::O_NONBLOCK | abi::UFFD_USER_MODE_ONLY) as usize;
    sys::plain(abi::__NR_userfaultfd, flags, 0, 0).map(|number| Fd::from_raw(number as i32))
}

/// A userfaultfd from the device, before the handshake.
pub(crate) fn open_device() -> Result<Fd> {
    let device = Fd::open(c"/dev/userfaultfd", abi::O_RDWR, 0)?;
    let flags = (abi::O_CLOEXEC | abi::O_NONBLOCK | abi::UFFD_USER_MODE_ONLY) as usize;
    sys::plain(abi::__NR_ioctl, device.raw() as usize, USERFAULTFD_IOC_NEW as usize, flags)
        .map(|number| Fd::from_raw(number as i32))
}

fn handshake(fd: &Fd) -> Result<()> {
    let mut request = abi::uffdio_api { api: abi::UFFD_API as u64, features: FEATURES, ioctls: 0 };
    // SAFETY:
    // 1. The request takes this structure and touches nothing else.
    unsafe { sys::ioctl(fd.raw(), UFFDIO_API, &mut request) }.map(drop)
}
