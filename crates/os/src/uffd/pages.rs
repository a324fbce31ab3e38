//! Pages in and out: COPY, ZEROPAGE, MOVE, POISON, WAKE, WRITEPROTECT.
//!
//! A call over several pages may stop in the middle. The kernel then says only "try again"; the functions here go on
//! from there at once, so that [`Progress::stop`] is always the true reason of the page at `start + bytes_done`.

use linux_raw_sys::ioctl::{UFFDIO_COPY, UFFDIO_WAKE, UFFDIO_WRITEPROTECT, UFFDIO_ZEROPAGE};

use super::{Uffd, range};
use crate::PAGE_BYTES;
use crate::sys::{self, Errno, Result, abi};
use crate::without::{KernelFeature, is_switched_off};

const UFFDIO_MOVE: u32 = sys::ioctl_read_write(0xAA, abi::_UFFDIO_MOVE, size_of::<abi::uffdio_move>());
const UFFDIO_POISON: u32 = sys::ioctl_read_write(0xAA, abi::_UFFDIO_POISON, size_of::<abi::uffdio_poison>());
const MOVE_ALLOW_SRC_HOLES: u64 = 2;
const WRITEPROTECT_MODE_WP: u64 = 1;

/// Why a call stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// A page is there already (EEXIST): wake the waiter all the same.
    AlreadyMapped,
    /// An event is unread, or the page is locked by the kernel for a moment (EAGAIN). Nothing changed: later, not under
    /// a lock that the event needs.
    Retry,
    /// The page is pinned or shared after a fork (EBUSY). [`crate::memory::populate_write`] cures the latter, of a part
    /// of a huge page after [`crate::memory::split_large`].
    Busy,
    /// Nothing to move there, or the range is not registered with this descriptor (ENOENT).
    NoSource,
    /// Another kind of memory, other protection, mlocked, not aligned (EINVAL).
    Refused,
    /// The process is gone (ESRCH).
    Gone,
    /// The source cannot be read (EFAULT) or there is no memory (ENOMEM), or something new.
    Other(Errno),
}

impl Stop {
    fn from_errno(errno: Errno) -> Stop {
        match errno {
            Errno::EEXIST => Stop::AlreadyMapped,
            Errno::EAGAIN => Stop::Retry,
            Errno::EBUSY => Stop::Busy,
            Errno::ENOENT => Stop::NoSource,
            Errno::EINVAL => Stop::Refused,
            Errno::ESRCH => Stop::Gone,
            errno => Stop::Other(errno),
        }
    }
}

/// How far a call came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Progress {
    /// Bytes done from the start, whole pages.
    pub bytes_done: usize,
    /// Why not further; `None`: all done.
    pub stop: Option<Stop>,
}

impl Progress {
    /// Whether all was done.
    pub fn is_done(self) -> bool {
        self.stop.is_none()
    }

    /// Nothing was done, and that may be because the range is not all in one mapping.
    fn may_cross_mappings(self) -> bool {
        self.bytes_done == 0 && matches!(self.stop, Some(Stop::NoSource | Stop::Refused))
    }
}

/// Whether MOVE takes holes of the source as moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holes {
    /// They count as moved; the destination has a hole there.
    Allow,
    /// They stop the call with [`Stop::NoSource`].
    Refuse,
}

/// Whether threads that wait for the page go on at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// Yes.
    Now,
    /// They wait until [`Uffd::wake`].
    Later,
}

/// Repeats `call(bytes_done)` while it makes progress. It answers the kernel's result and the field that says how far
/// this call came.
fn go_on(bytes: usize, mut call: impl FnMut(usize) -> (Result<usize>, i64)) -> Progress {
    let mut bytes_done = 0;
    loop {
        let (answer, field) = call(bytes_done);
        let errno = match answer {
            Ok(_) => return Progress { bytes_done: bytes, stop: None },
            Err(errno) => errno,
        };
        // On an error the field is a negative error number, untouched (zero), or the bytes done before the bad page.
        if errno != Errno::EAGAIN || field <= 0 {
            return Progress { bytes_done, stop: Some(Stop::from_errno(errno)) };
        }
        bytes_done += field as usize;
        if bytes_done >= bytes {
            return Progress { bytes_done: bytes, stop: None };
        }
    }
}

impl Uffd {
    /// Fills the missing pages at `target` with a copy of `bytes` bytes at `source`. Never touches a page that is
    /// there.
    ///
    /// # Safety
    /// `source..source + bytes` must be readable, must not change during the call and must not be memory whose faults
    /// the calling thread would have to serve. The pages at `target` must hold nothing that a live Rust reference
    /// relies on to be missing or zero.
    pub unsafe fn copy(&self, target: usize, source: *const u8, bytes: usize, wake: Wake) -> Progress {
        let mode = match wake {
            Wake::Now => 0,
            Wake::Later => abi::UFFDIO_COPY_MODE_DONTWAKE as u64,
        };
        go_on(bytes, |done| {
            let mut request = abi::uffdio_copy {
                dst: (target + done) as u64,
                src: (source as usize + done) as u64,
                len: (bytes - done) as u64,
                mode,
                copy: 0,
            };
            // SAFETY:
            // 1. The request takes this structure.
            // 2. It reads the source, which the caller promises to be readable, and maps new pages only where none is.
            let answer = unsafe { sys::ioctl(self.fd.raw(), UFFDIO_COPY, &mut request) };
            (answer, request.copy)
        })
    }

    /// [`Uffd::copy`] of pages out of an ordinary buffer; at least one. The kernel refuses a range that crosses from
    /// one mapping into another: then a shorter one is filled.
    pub fn copy_pages(&self, target: usize, pages: &[[u8; PAGE_BYTES]], wake: Wake) -> Progress {
        // SAFETY:
        // 1. `pages` is a live shared reference of the size that is read.
        // 2. A page is put only where none is and where the kernel has it registered: memory that nobody could have
        //    read before.
        let progress = unsafe { self.copy(target, pages.as_ptr().cast(), size_of_val(pages), wake) };
        match progress.may_cross_mappings() && pages.len() > 1 {
            true => self.copy_pages(target, &pages[..pages.len() / 2], wake),
            false => progress,
        }
    }

    /// [`Uffd::copy_pages`], of a shorter range too, and the first write to each of the pages is a fault.
    pub fn copy_pages_protected(&self, target: usize, pages: &[[u8; PAGE_BYTES]]) -> Progress {
        let progress = go_on(size_of_val(pages), |done| {
            let mut request = abi::uffdio_copy {
                dst: (target + done) as u64,
                src: (pages.as_ptr() as usize + done) as u64,
                len: (size_of_val(pages) - done) as u64,
                mode: abi::UFFDIO_COPY_MODE_WP as u64,
                copy: 0,
            };
            // SAFETY:
            // 1. The request takes this structure.
            // 2. It reads `pages`, a live shared reference of the size, and maps new pages only where none is and where
            //    the kernel has it registered.
            let answer = unsafe { sys::ioctl(self.fd.raw(), UFFDIO_COPY, &mut request) };
            (answer, request.copy)
        });
        match progress.may_cross_mappings() && pages.len() > 1 {
            true => self.copy_pages_protected(target, &pages[..pages.len() / 2]),
            false => progress,
        }
    }

    /// [`Uffd::copy`] of one page out of an ordinary buffer.
    pub fn copy_page(&self, target: usize, page: &[u8; PAGE_BYTES], wake: Wake) -> Progress {
        self.copy_pages(target, core::slice::from_ref(page), wake)
    }

    /// True when `target` is mapped and registered with this descriptor. Changes nothing: `unreadable` is a page
    /// without access of the calling process, so that the copy which is asked for fails after the kernel has looked at
    /// the target, and before it maps anything.
    pub fn is_registered(&self, target: usize, unreadable: usize) -> bool {
        // SAFETY:
        // 1. Nothing can be read from the source, so nothing is mapped.
        let progress = unsafe { self.copy(target, unreadable as *const u8, PAGE_BYTES, Wake::Later) };
        !matches!(progress.stop, Some(Stop::NoSource | Stop::Refused | Stop::Gone))
    }

    /// Fills the missing pages of a range with zeros (the kernel's shared zero page: a first write copies it). A range
    /// that crosses from one mapping into another is filled in part, as by [`Uffd::copy_pages`].
    pub fn zeropage(&self, target: usize, bytes: usize, wake: Wake) -> Progress {
        let mode = match wake {
            Wake::Now => 0,
            Wake::Later => abi::UFFDIO_ZEROPAGE_MODE_DONTWAKE as u64,
        };
        let progress = go_on(bytes, |done| {
            let mut request =
                abi::uffdio_zeropage { range: range(target + done, bytes - done), mode, zeropage: 0 };
            // SAFETY:
            // 1. The request takes this structure, and maps pages only where none is.
            let answer = unsafe { sys::ioctl(self.fd.raw(), UFFDIO_ZEROPAGE, &mut request) };
            (answer, request.zeropage)
        });
        match progress.may_cross_mappings() && bytes > PAGE_BYTES {
            true => self.zeropage(target, bytes / 2 / PAGE_BYTES * PAGE_BYTES, wake),
            false => progress,
        }
    }

    /// Moves the pages at `source` to the missing pages at `target`: no copy, the frames change their address.
    ///
    /// Dangerous: what was at `source` is missing afterwards. Threads that wait at `target` are woken.
    ///
    /// # Safety
    /// No live Rust reference points into `source`, unless a touch of it faults and the page is brought back unchanged;
    /// none into `target` that relies on it to be missing or zero.
    pub unsafe fn move_pages(&self, target: usize, source: usize, bytes: usize, holes: Holes) -> Progress {
        let mode = match holes {
            Holes::Allow => MOVE_ALLOW_SRC_HOLES,
            Holes::Refuse => 0,
        };
        if is_switched_off(KernelFeature::Move) {
            return Progress { bytes_done: 0, stop: Some(Stop::Refused) };
        }
        go_on(bytes, |done| {
            let mut request = abi::uffdio_move {
                dst: (target + done) as u64,
                src: (source + done) as u64,
                len: (bytes - done) as u64,
                mode,
                move_: 0,
            };
            // SAFETY:
            // 1. The request takes this structure.
            // 2. Who may look at the two ranges is the caller's promise.
            let answer = unsafe { sys::ioctl(self.fd.raw(), UFFDIO_MOVE, &mut request) };
            (answer, request.move_)
        })
    }

    /// Makes the missing pages of a range raise SIGBUS (EFAULT in a system call): content that is lost must never read
    /// as zeros.
    pub fn poison(&self, start: usize, bytes: usize) -> Progress {
        go_on(bytes, |done| {
            let mut request =
                abi::uffdio_poison { range: range(start + done, bytes - done), mode: 0, updated: 0 };
            // SAFETY:
            // 1. The request takes this structure, and marks pages only where none is.
            let answer = unsafe { sys::ioctl(self.fd.raw(), UFFDIO_POISON, &mut request) };
            (answer, request.updated)
        })
    }

    /// Lets all threads that wait in a range look again.
    pub fn wake(&self, start: usize, bytes: usize) -> Result<()> {
        let mut request = range(start, bytes);
        // SAFETY:
        // 1. The request takes this structure and changes no memory.
        unsafe { sys::ioctl(self.fd.raw(), UFFDIO_WAKE, &mut request) }.map(drop)
    }

    /// Takes the write protection off a range registered with [`super::Mode::WriteProtect`].
    ///
    /// On a range where none is, this changes nothing: it is the harmless call that answers [`Stop::Retry`] while an
    /// event is unread.
    pub fn write_unprotect(&self, start: usize, bytes: usize) -> Progress {
        self.write_protection(start, bytes, 0)
    }

    /// Lets the next write to a present page of a range wait for the handler.
    pub fn write_protect(&self, start: usize, bytes: usize) -> Progress {
        self.write_protection(start, bytes, WRITEPROTECT_MODE_WP)
    }

    /// Older kernels (6.1 is one) refuse a range that is not all in one mapping: then each half is tried by itself.
    fn write_protection(&self, start: usize, bytes: usize, mode: u64) -> Progress {
        let mut request = abi::uffdio_writeprotect { range: range(start, bytes), mode };
        // SAFETY:
        // 1. The request takes this structure and changes no content.
        let answer = unsafe { sys::ioctl(self.fd.raw(), UFFDIO_WRITEPROTECT, &mut request) };
        match answer {
            Ok(_) => Progress { bytes_done: bytes, stop: None },
            Err(Errno::ENOENT) if bytes > PAGE_BYTES => {
                let half = (bytes / 2).next_multiple_of(PAGE_BYTES);
                let first = self.write_protection(start, half, mode);
                if !first.is_done() {
                    return first;
                }
                let second = self.write_protection(start + half, bytes - half, mode);
                Progress { bytes_done: half + second.bytes_done, stop: second.stop }
            }
            Err(errno) => Progress { bytes_done: 0, stop: Some(Stop::from_errno(errno)) },
        }
    }

    /// Whether no event is unread, asked of the kernel by [`Uffd::write_unprotect`] of one page of `probe`, an address
    /// that is registered in write-protect mode. `Err` when that page cannot be asked about.
    pub fn no_event_pending(&self, probe: usize) -> core::result::Result<bool, Stop> {
        match self.write_unprotect(probe, PAGE_BYTES).stop {
            None => Ok(true),
            Some(Stop::Retry) => Ok(false),
            Some(stop) => Err(stop),
        }
    }
}
