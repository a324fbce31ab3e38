//! Pages filled and protected: COPY, ZEROPAGE, WRITEPROTECT.
//!
//! A call over several pages may stop in the middle. The kernel then says only "try again"; the functions here go on
//! from there at once, so that [`Progress::stop`] is always the true reason of the page at `start + bytes_done`.
//!
//! Must hold: a page that is there is never written over, and what is said to be done is done. Called by `host`.

use linux_raw_sys::ioctl::{UFFDIO_COPY, UFFDIO_WRITEPROTECT, UFFDIO_ZEROPAGE};

use super::{Uffd, range};
use crate::PAGE_BYTES;
use crate::sys::{self, Errno, Result, abi};

const WRITEPROTECT_MODE_WP: u64 = 1;

/// Why a call stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// A page is there already (EEXIST).
    AlreadyMapped,
    /// The mappings are just being changed (EAGAIN). Nothing changed: later.
    Retry,
    /// The range is not mapped, not registered with this descriptor (ENOENT), or of another kind of memory (EINVAL).
    Refused,
    /// There is no memory (ENOMEM), the process is ending (ESRCH), or something new.
    Other(Errno),
}

impl Stop {
    fn from_errno(errno: Errno) -> Stop {
        match errno {
            Errno::EEXIST => Stop::AlreadyMapped,
            Errno::EAGAIN => Stop::Retry,
            Errno::ENOENT | Errno::EINVAL => Stop::Refused,
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
        self.bytes_done == 0 && self.stop == Some(Stop::Refused)
    }
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
    /// Fills the missing pages at `target` with copies of `pages`, at least one. Never touches a page that is there.
    /// The kernel refuses a range that crosses from one mapping into another: then a shorter one is filled.
    pub fn copy_pages(&self, target: usize, pages: &[[u8; PAGE_BYTES]]) -> Progress {
        self.copy(target, pages, 0)
    }

    /// [`Uffd::copy_pages`], and the first write to each of the pages is a fault.
    pub fn copy_pages_protected(&self, target: usize, pages: &[[u8; PAGE_BYTES]]) -> Progress {
        self.copy(target, pages, abi::UFFDIO_COPY_MODE_WP as u64)
    }

    fn copy(&self, target: usize, pages: &[[u8; PAGE_BYTES]], mode: u64) -> Progress {
        let bytes = size_of_val(pages);
        let progress = go_on(bytes, |done| {
            let mut request = abi::uffdio_copy {
                dst: (target + done) as u64,
                src: (pages.as_ptr() as usize + done) as u64,
                len: (bytes - done) as u64,
                // Nobody waits: a fault is a signal.
                mode: mode | abi::UFFDIO_COPY_MODE_DONTWAKE as u64,
                copy: 0,
            };
            // SAFETY:
            // 1. The request takes this structure.
            // 2. It reads `pages`, a live shared reference of the size, and maps new pages only where none is and where
            //    the kernel has it registered: memory that nobody could have read before.
            let answer = unsafe { sys::ioctl(self.fd.raw(), UFFDIO_COPY, &mut request) };
            (answer, request.copy)
        });
        match progress.may_cross_mappings() && pages.len() > 1 {
            true => self.copy(target, &pages[..pages.len() / 2], mode),
            false => progress,
        }
    }

    /// Fills the missing pages of a range with zeros (the kernel's shared zero page: a first write copies it). A range
    /// that crosses from one mapping into another is filled in part, as by [`Uffd::copy_pages`].
    pub fn zeropage(&self, target: usize, bytes: usize) -> Progress {
        let progress = go_on(bytes, |done| {
            let mut request = abi::uffdio_zeropage {
                range: range(target + done, bytes - done),
                mode: abi::UFFDIO_ZEROPAGE_MODE_DONTWAKE as u64,
                zeropage: 0,
            };
            // SAFETY:
            // 1. The request takes this structure, and maps pages only where none is.
            let answer = unsafe { sys::ioctl(self.fd.raw(), UFFDIO_ZEROPAGE, &mut request) };
            (answer, request.zeropage)
        });
        match progress.may_cross_mappings() && bytes > PAGE_BYTES {
            true => self.zeropage(target, bytes / 2 / PAGE_BYTES * PAGE_BYTES),
            false => progress,
        }
    }

    /// Takes the protection off the pages of a range that is registered with it.
    pub fn write_unprotect(&self, start: usize, bytes: usize) -> Progress {
        self.write_protection(start, bytes, 0)
    }

    /// The next write to a present page of a range is a fault.
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
}
