//! Mappings that are managed.
//!
//! Must hold: a [`Map`] has its mapping for itself until it is dropped or taken apart, and a mapping that the agent
//! does not take is not left behind. Called by [`crate::pool`] and [`crate::allocator`].

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Bound, Deref, DerefMut, RangeBounds};
use std::ptr::NonNull;

use bytemuck::Pod;
use uswap_units::PAGE_BYTES;

use crate::advice::{self, Advice};
use crate::{Error, state};

/// Managed memory, as a slice of plain values. It is zeros first, and given back when it is dropped.
pub struct Map<T: Pod> {
    start: NonNull<T>,
    count: usize,
}

// SAFETY:
// 1. It owns its mapping, as a `Vec` does; plain values may be anywhere.
unsafe impl<T: Pod> Send for Map<T> {}
// SAFETY:
// 1. A shared reference to it gives nothing but shared references to its values, which are plain.
unsafe impl<T: Pod> Sync for Map<T> {}

impl<T: Pod> Map<T> {
    pub(crate) fn new(count: usize) -> Result<Map<T>, Error> {
        const { assert!(align_of::<T>() <= PAGE_BYTES, "a mapping starts at a page") };
        let bytes =
            count.checked_mul(size_of::<T>()).ok_or(Error::Memory(rustix::io::Errno::NOMEM.into()))?;
        let start = if bytes == 0 { NonNull::dangling() } else { map(bytes)?.cast() };
        Ok(Map { start, count })
    }

    /// What the program knows of the use of this memory.
    ///
    /// # Errors
    /// As of [`crate::advise()`].
    pub fn advise(&mut self, advice: Advice) -> Result<(), Error> {
        advice::advise(self, advice)
    }

    /// The same of a part of it, by indices.
    ///
    /// # Errors
    /// As of [`crate::advise()`].
    ///
    /// # Panics
    /// The range ends before it starts, or behind the values.
    pub fn advise_range(&mut self, advice: Advice, range: impl RangeBounds<usize>) -> Result<(), Error> {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&before) => before + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last + 1,
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.count,
        };
        advice::advise(&mut self[start..end], advice)
    }

    /// Gives the mapping out of Rust's hands: whoever gets it gives it back with `munmap`. If there are no values,
    /// there is none.
    pub fn into_raw(self) -> NonNull<[T]> {
        let map = ManuallyDrop::new(self);
        NonNull::slice_from_raw_parts(map.start, map.count)
    }

    fn bytes(&self) -> usize {
        self.count * size_of::<T>()
    }
}

/// A new managed mapping. By the C library: a small process in a run of others sees that it grows there only.
pub(crate) fn map(bytes: usize) -> Result<NonNull<u8>, Error> {
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    // SAFETY:
    // 1. The kernel finds a place where nothing is.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(Error::Memory(std::io::Error::last_os_error()));
    }
    let managed = state::with_agent(|agent| agent.manage(start as usize, bytes));
    if let Err(error) = managed {
        // SAFETY:
        // 1. It was made above, and nobody knows it.
        let _it_is_whole = unsafe { libc::munmap(start, bytes) };
        return Err(error);
    }
    Ok(NonNull::new(start.cast()).expect("nothing is mapped at address 0"))
}

impl<T: Pod> Drop for Map<T> {
    fn drop(&mut self) {
        if self.bytes() > 0 {
            // SAFETY:
            // 1. The mapping is this value's, and nobody has a reference to it any more.
            let _it_is_whole = unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes()) };
        }
    }
}

impl<T: Pod> Deref for Map<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY:
        // 1. The mapping has room for so many values, and starts at a page; any bytes are values (`Pod`).
        // 2. It lives as long as this value, and is written through `&mut` only.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl<T: Pod> DerefMut for Map<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY:
        // 1. As in `deref`; this value is borrowed for nobody else.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.count) }
    }
}

impl<T: Pod> fmt::Debug for Map<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map").field("start", &self.start).field("count", &self.count).finish()
    }
}
