//! What the program knows of the use of its memory.
//!
//! Must hold: advice that drops or writes out content goes to pages that are wholly inside of the range, advice that
//! brings pages in to all that it touches. Called by programs, by [`crate::map`] and by `libusw`.

use bytemuck::Pod;
use rustix::mm::{Advice as Kernel, madvise};
use uswap_units::PAGE_BYTES;

use crate::{Error, state};

/// What the program knows of the use of its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Advice {
    /// It is not used soon: it goes before others when memory gets short (MADV_COLD).
    Cold,
    /// It is not used soon: it goes now (MADV_PAGEOUT).
    PageOut,
    /// It is used soon: it is brought, as far as nothing else has to go for it (MADV_WILLNEED).
    WillNeed,
    /// Its content is not needed any more, and becomes zeros: whole pages of it (MADV_DONTNEED).
    Dead,
    /// It is brought and stays in RAM: a device or another process may use it. It is not counted how often.
    Pin,
    /// It may be evicted again.
    Unpin,
}

/// Tells what is known of the use of memory: of a [`crate::Map`], or, in a process with a budget, of any other. Of what
/// shares a page with its neighbours, [`Advice::Pin`], [`Advice::Unpin`] and [`Advice::WillNeed`] are about these, too,
/// and other advice about neither.
///
/// # Errors
/// [`Error::Memory`]: the kernel refuses, such as for locked memory. [`Error::NotLimited`]: memory of a process without
/// a budget and without a pool cannot be kept in RAM by its name. [`Error::NotManaged`]: too much is kept.
pub fn advise<T: Pod>(memory: &mut [T], advice: Advice) -> Result<(), Error> {
    // SAFETY:
    // 1. Plain values, borrowed for nobody else: they may become zeros.
    // 2. A slice lies inside of the address space.
    unsafe { advise_raw(memory.as_mut_ptr().cast(), size_of_val(memory), advice) }
}

/// As [`advise()`], of `bytes` bytes at `start`: for memory that others use at the same time, or that has no slice.
///
/// # Errors
/// As of [`advise()`].
///
/// # Safety
/// The range does not go round the end of the address space. With [`Advice::Dead`], whole pages of it become zeros:
/// nobody relies on their content.
pub unsafe fn advise_raw(start: *mut u8, bytes: usize, advice: Advice) -> Result<(), Error> {
    let start = start as usize;
    let end = start + bytes;
    let inside = start.next_multiple_of(PAGE_BYTES)..end & !(PAGE_BYTES - 1);
    let around = start & !(PAGE_BYTES - 1)..end.next_multiple_of(PAGE_BYTES);
    if start == end {
        return Ok(());
    }
    let (range, told) = match advice {
        Advice::Cold => (inside, Kernel::LinuxCold),
        Advice::PageOut => (inside, Kernel::LinuxPageOut),
        Advice::Dead => (inside, Kernel::LinuxDontNeed),
        Advice::WillNeed => (around, Kernel::WillNeed),
        Advice::Pin | Advice::Unpin => {
            let stays = advice == Advice::Pin;
            return state::with_agent(|agent| agent.keep(around.start, around.len(), stays));
        }
    };
    if range.is_empty() {
        return Ok(());
    }
    // SAFETY:
    // 1. Advice changes the content of no memory but Dead, which makes zeros of whole pages of the range: the caller's
    //    promise.
    unsafe { madvise(range.start as *mut _, range.len(), told) }.map_err(|errno| Error::Memory(errno.into()))
}
