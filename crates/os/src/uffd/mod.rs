//! userfaultfd: who is told of faults and of changes of mappings, and the calls that put pages in and take them out.
//!
//! What must hold for the callers:
//! 1. MOVE works inside one address space, and its destination must be registered with the descriptor that moves.
//! 2. While an event is unread, COPY, ZEROPAGE, MOVE and WRITEPROTECT answer [`Stop::Retry`] and change nothing: the
//!    engine's gate rests on it.
//! 3. A thread that reads events must not cause one: no munmap, mremap or madvise of a range registered with events.
//! 4. Closing the last descriptor makes every missing page read as zeros.
//!
//! Called by the agent's handlers, its forkd and its kswapd.

mod message;
mod pages;

pub use message::{Message, UffdMsg};
pub use pages::{Holes, Progress, Stop, Wake};

use core::fmt;

use linux_raw_sys::ioctl::{UFFDIO_API, UFFDIO_REGISTER, UFFDIO_UNREGISTER};

use crate::fd::Fd;
use crate::sys::{self, Errno, Result, abi};
use crate::without::{KernelFeature, is_switched_off};

/// Feature bits for [`Uffd::open`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features(pub u64);

impl Features {
    /// No feature: faults only.
    pub const NONE: Features = Features(0);
    /// A fork of this process delivers a descriptor for the child. Needs CAP_SYS_PTRACE.
    pub const EVENT_FORK: Features = Features(abi::UFFD_FEATURE_EVENT_FORK as u64);
    /// mremap is told.
    pub const EVENT_REMAP: Features = Features(abi::UFFD_FEATURE_EVENT_REMAP as u64);
    /// madvise DONTNEED, FREE and REMOVE are told, before they drop pages.
    pub const EVENT_REMOVE: Features = Features(abi::UFFD_FEATURE_EVENT_REMOVE as u64);
    /// munmap is told.
    pub const EVENT_UNMAP: Features = Features(abi::UFFD_FEATURE_EVENT_UNMAP as u64);
    /// Faults carry the thread id of who faulted.
    pub const THREAD_ID: Features = Features(abi::UFFD_FEATURE_THREAD_ID as u64);
    /// [`Uffd::move_pages`].
    pub const MOVE: Features = Features(abi::UFFD_FEATURE_MOVE as u64);
    /// [`Uffd::poison`].
    pub const POISON: Features = Features(abi::UFFD_FEATURE_POISON as u64);
    /// A fault is a SIGBUS of the thread that met it, and no message.
    pub const SIGBUS: Features = Features(abi::UFFD_FEATURE_SIGBUS as u64);
    /// Write protection of pages.
    pub const WRITE_PROTECT: Features = Features(abi::UFFD_FEATURE_PAGEFAULT_FLAG_WP as u64);
    /// The four events.
    pub const EVENTS: Features =
        Self::EVENT_FORK.and(Self::EVENT_REMAP).and(Self::EVENT_REMOVE).and(Self::EVENT_UNMAP);

    /// Both sets together.
    pub const fn and(self, other: Features) -> Features {
        Features(self.0 | other.0)
    }

    /// This set without those of `other`.
    pub const fn without(self, other: Features) -> Features {
        Features(self.0 & !other.0)
    }

    /// Whether all of `other` are in this set.
    pub const fn contains(self, other: Features) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Where a userfaultfd came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UffdSource {
    /// `/dev/userfaultfd`: full rights for whoever may open it; seccomp filters do not see it.
    Device,
    /// The system call, with full rights.
    SystemCall,
    /// The fork event of another one.
    ForkEvent,
    /// The system call, for faults of user mode only: anybody may have it.
    UserMode,
}

/// Why there is no userfaultfd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UffdError {
    /// Neither way in works: what opening the device answered, and what the system call answered.
    NoWayIn {
        /// Of `open("/dev/userfaultfd")` or of its ioctl.
        device: Errno,
        /// Of `userfaultfd(2)` with full rights.
        system_call: Errno,
    },
    /// The kernel knows userfaultfd, but refuses these features: EPERM for EVENT_FORK without CAP_SYS_PTRACE, EINVAL
    /// for unknown ones.
    Features {
        /// What was asked for.
        wanted: Features,
        /// What was answered.
        errno: Errno,
    },
}

impl fmt::Display for UffdError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UffdError::NoWayIn { device, system_call } => {
                write!(out, "no userfaultfd: /dev/userfaultfd: {device}; the system call: {system_call}")
            }
            UffdError::Features { wanted, errno } => {
                write!(out, "userfaultfd refuses the features {:#x}: {errno}", wanted.0)
            }
        }
    }
}

impl core::error::Error for UffdError {}

/// What a registered range reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Faults on missing pages wait for the handler.
    Missing,
    /// Only writes to write-protected pages; missing pages are the kernel's. Enough for the destination of MOVE.
    WriteProtect,
    /// Both.
    MissingAndProtected,
}

/// One userfaultfd, non-blocking and close-on-exec.
#[derive(Debug)]
pub struct Uffd {
    fd: Fd,
    source: UffdSource,
    features: Features,
}

/// `_IO(0xAA, 0)`: a new userfaultfd from an open `/dev/userfaultfd`.
const USERFAULTFD_IOC_NEW: u32 = 0xAA00;

impl Uffd {
    /// Opens a userfaultfd with exactly `wanted`, from the device or else by the system call.
    ///
    /// If `EVENT_FORK` is refused for want of the capability, the answer is [`UffdError::Features`] with EPERM: ask
    /// again without.
    pub fn open(wanted: Features) -> core::result::Result<Uffd, UffdError> {
        Uffd::of_new(open_device(), wanted)
    }

    /// As [`Uffd::open`], from a `/dev/userfaultfd` that another process has opened: the rights are those of the
    /// descriptor.
    pub fn open_by(device: &Fd, wanted: Features) -> core::result::Result<Uffd, UffdError> {
        Uffd::of_new(new_of_device(device), wanted)
    }

    fn of_new(new: Result<Fd>, wanted: Features) -> core::result::Result<Uffd, UffdError> {
        let (fd, source) = match new {
            Ok(fd) => (fd, UffdSource::Device),
            Err(device) => match open_system_call(0) {
                Ok(fd) => (fd, UffdSource::SystemCall),
                Err(system_call) => return Err(UffdError::NoWayIn { device, system_call }),
            },
        };
        let shaken = match is_switched_off(KernelFeature::Move) && wanted.contains(Features::MOVE) {
            true => Err(Errno::EINVAL),
            false => handshake(&fd, wanted),
        };
        shaken.map_err(|errno| UffdError::Features { wanted, errno })?;
        Ok(Uffd { fd, source, features: wanted })
    }

    /// Opens one for faults of user mode, which come as SIGBUS to the thread that meets them: no privilege is needed. A
    /// system call that meets such a page answers EFAULT.
    pub fn open_in_thread() -> core::result::Result<Uffd, UffdError> {
        let wanted = Features::SIGBUS.and(Features::WRITE_PROTECT);
        let fd = open_system_call(abi::UFFD_USER_MODE_ONLY)
            .map_err(|errno| UffdError::Features { wanted: Features::NONE, errno })?;
        handshake(&fd, wanted).map_err(|errno| UffdError::Features { wanted, errno })?;
        Ok(Uffd { fd, source: UffdSource::UserMode, features: wanted })
    }

    /// Takes over the descriptor of a [`Message::Fork`]. It serves the child; its features are those of the parent's.
    pub fn from_raw_fd(number: i32, features: Features) -> Uffd {
        Uffd { fd: Fd::from_raw(number), source: UffdSource::ForkEvent, features }
    }

    /// Takes over a descriptor of a fork event.
    pub fn from_fd(fd: Fd, features: Features) -> Uffd {
        Uffd { fd, source: UffdSource::ForkEvent, features }
    }

    /// All features that this kernel knows (a userfaultfd is opened for the question and closed).
    pub fn features_known() -> core::result::Result<Features, UffdError> {
        let uffd = match open_device() {
            Ok(fd) => fd,
            Err(device) => {
                open_system_call(0).map_err(|system_call| UffdError::NoWayIn { device, system_call })?
            }
        };
        handshake(&uffd, Features::NONE)
            .map_err(|errno| UffdError::Features { wanted: Features::NONE, errno })
    }

    /// The descriptor, for [`crate::fd::poll`].
    pub fn fd(&self) -> &Fd {
        &self.fd
    }

    /// Gives up the value for its number.
    pub fn into_fd(self) -> Fd {
        self.fd
    }

    /// Where it came from.
    pub fn source(&self) -> UffdSource {
        self.source
    }

    /// The features it was opened with.
    pub fn features(&self) -> Features {
        self.features
    }

    /// Registers a range of whole pages. Dangerous: from now on whoever touches a missing page of it waits for the
    /// handler.
    ///
    /// EBUSY: a part belongs to another userfaultfd. EINVAL: a part is not mapped, or of a kind that cannot be
    /// registered (nothing of the range is registered then). ENOMEM: too many mappings; a part may be registered.
    pub fn register(&self, start: usize, bytes: usize, mode: Mode) -> Result<()> {
        let mode = match mode {
            Mode::Missing => abi::UFFDIO_REGISTER_MODE_MISSING,
            Mode::WriteProtect => abi::UFFDIO_REGISTER_MODE_WP,
            Mode::MissingAndProtected => abi::UFFDIO_REGISTER_MODE_MISSING | abi::UFFDIO_REGISTER_MODE_WP,
        };
        let mut request = abi::uffdio_register { range: range(start, bytes), mode: mode as u64, ioctls: 0 };
        // SAFETY:
        // 1. The request takes this structure.
        // 2. Registering changes no content: it decides who serves later faults.
        unsafe { sys::ioctl(self.fd.raw(), UFFDIO_REGISTER, &mut request) }.map(drop)
    }

    /// Takes a range back. Dangerous: missing pages of it read as zeros from now on. Wakes those who wait in it.
    pub fn unregister(&self, start: usize, bytes: usize) -> Result<()> {
        let mut request = range(start, bytes);
        // SAFETY:
        // 1. The request takes this structure.
        // 2. No present page changes; what missing pages mean is the caller's business, as the documentation says.
        unsafe { sys::ioctl(self.fd.raw(), UFFDIO_UNREGISTER, &mut request) }.map(drop)
    }

    /// Reads messages without waiting; answers how many are filled in, 0 when there is none.
    ///
    /// The descriptor of a fork message is new in the table of the calling thread and belongs to it.
    pub fn read(&self, messages: &mut [UffdMsg]) -> Result<usize> {
        // SAFETY:
        // 1. `UffdMsg` is a plain array of four words: any bytes are a valid value, and the slice is exclusive.
        // 2. The kernel writes whole messages of 32 bytes and not more than fit.
        let answer = unsafe {
            sys::syscall3(
                abi::__NR_read,
                self.fd.raw() as usize,
                messages.as_mut_ptr() as usize,
                size_of_val(messages),
            )
        };
        match answer {
            Ok(bytes) => Ok(bytes / size_of::<UffdMsg>()),
            Err(Errno::EAGAIN) => Ok(0),
            Err(error) => Err(error),
        }
    }
}

pub(crate) fn range(start: usize, bytes: usize) -> abi::uffdio_range {
    abi::uffdio_range { start: start as u64, len: bytes as u64 }
}

/// A userfaultfd from the device, before the handshake.
pub(crate) fn open_device() -> Result<Fd> {
    Fd::open(c"/dev/userfaultfd", abi::O_RDWR, 0).and_then(|device| new_of_device(&device))
}

fn new_of_device(device: &Fd) -> Result<Fd> {
    let flags = (abi::O_CLOEXEC | abi::O_NONBLOCK) as usize;
    sys::plain(abi::__NR_ioctl, device.raw() as usize, USERFAULTFD_IOC_NEW as usize, flags)
        .map(|number| Fd::from_raw(number as i32))
}

/// A userfaultfd by the system call, before the handshake. `flags`: 0, or `UFFD_USER_MODE_ONLY`.
pub(crate) fn open_system_call(flags: u32) -> Result<Fd> {
    let flags = (abi::O_CLOEXEC | abi::O_NONBLOCK | flags) as usize;
    sys::plain(abi::__NR_userfaultfd, flags, 0, 0).map(|number| Fd::from_raw(number as i32))
}

/// Asks for `wanted`; answers all features that the kernel knows.
pub(crate) fn handshake(fd: &Fd, wanted: Features) -> Result<Features> {
    let mut request = abi::uffdio_api { api: abi::UFFD_API as u64, features: wanted.0, ioctls: 0 };
    // SAFETY:
    // 1. The request takes this structure and touches nothing else.
    unsafe { sys::ioctl(fd.raw(), UFFDIO_API, &mut request) }?;
    Ok(Features(request.features))
}
