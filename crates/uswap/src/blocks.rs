//! Blocks as of malloc, for callers that know no layouts: large ones are managed mappings of their own, small ones are
//! the C library's.
//!
//! ```no_run
//! # fn main() -> Result<(), uswap::Error> {
//! use uswap::blocks;
//! let pool = uswap::Pool::builder().ram("2G").build()?;
//! let block = blocks::allocate(&pool, 16 << 30)?;
//! // SAFETY:
//! // 1. It is a block of this module, and nobody uses it afterwards.
//! unsafe { blocks::release(block) };
//! # Ok(())
//! # }
//! ```
//!
//! A large block is found by its address in a table. A header in front of it would be simpler to find, but would keep a
//! page of each block in RAM, could be overwritten by the program, and could not be told from a block of libc's: a
//! pointer alone does not say which of both it is. Only addresses at the start of a page are looked up, so that small
//! blocks hardly ever wait for the lock of the table.
//!
//! A block outlives its pool, and the budget of the process. A child that is forked while another thread is in this
//! module may find the table locked for ever.
//!
//! Must hold: who has a block in the table has its mapping; so the entry goes before the mapping does, and comes after
//! it. Nothing but the table is touched under its lock.
//!
//! Called by `libusw`, for programs in C; [`crate::allocator`] takes the same blocks as large.

use std::collections::HashMap;
use std::ffi::c_void;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard};

use uswap_control::unpoisoned;
use uswap_units::PAGE_BYTES;

use crate::{Advice, Error, Pool, advise_raw};

/// Smaller blocks are not managed: a mapping takes system calls and whole pages. 256 KiB.
pub const LARGE_BYTES: usize = 256 * 1024;

/// Bytes of each large block, by its address.
type Table = HashMap<usize, usize, BuildHasherDefault<DefaultHasher>>;

static TABLE: Mutex<Table> = Mutex::new(HashMap::with_hasher(BuildHasherDefault::new()));

fn table() -> MutexGuard<'static, Table> {
    unpoisoned(TABLE.lock())
}

fn no_memory() -> Error {
    Error::Memory(rustix::io::Errno::NOMEM.into())
}

fn or_no_memory(block: *mut c_void) -> Result<NonNull<c_void>, Error> {
    NonNull::new(block).ok_or_else(no_memory)
}

/// The length of a large block. None: it is one of libc's.
fn length_of(block: NonNull<c_void>) -> Option<usize> {
    let address = block.addr().get();
    if !address.is_multiple_of(PAGE_BYTES) {
        return None;
    }
    table().get(&address).copied()
}

/// The same, and the entry goes.
fn take(block: NonNull<c_void>) -> Option<usize> {
    let address = block.addr().get();
    if !address.is_multiple_of(PAGE_BYTES) {
        return None;
    }
    table().remove(&address)
}

fn whole_pages(bytes: usize) -> Result<usize, Error> {
    // Differences of pointers are to fit, as of malloc.
    if bytes > isize::MAX as usize - PAGE_BYTES {
        return Err(no_memory());
    }
    Ok(bytes.next_multiple_of(PAGE_BYTES))
}

/// A new block, aligned as of malloc. What is in it is not said.
///
/// # Errors
/// As of [`Pool::map_anon`], and [`Error::Memory`] where libc has none.
pub fn allocate(pool: &Pool, bytes: usize) -> Result<NonNull<c_void>, Error> {
    if bytes >= LARGE_BYTES {
        return allocate_large(pool, bytes);
    }
    // SAFETY:
    // 1. It may be called with any size.
    or_no_memory(unsafe { libc::malloc(bytes.max(1)) })
}

/// A new block of zeros, for `count` items of `item_bytes` each.
///
/// # Errors
/// As of [`allocate`].
pub fn allocate_zeroed(pool: &Pool, count: usize, item_bytes: usize) -> Result<NonNull<c_void>, Error> {
    let bytes = count.checked_mul(item_bytes).ok_or_else(no_memory)?;
    if bytes >= LARGE_BYTES {
        return allocate_large(pool, bytes);
    }
    // SAFETY:
    // 1. It may be called with any size.
    or_no_memory(unsafe { libc::calloc(1, bytes.max(1)) })
}

/// A new mapping is zeros.
fn allocate_large(pool: &Pool, bytes: usize) -> Result<NonNull<c_void>, Error> {
    let length = whole_pages(bytes)?;
    let map = pool.map_anon(length)?;
    {
        let mut table = table();
        // Without room in it the mapping goes at the end of this function.
        table.try_reserve(1).map_err(|_| no_memory())?;
        table.insert(map.as_ptr() as usize, length);
    }
    Ok(map.into_raw().cast())
}

/// Bytes that a block has room for.
///
/// # Safety
/// It is a block of this module, and nobody gives it back meanwhile.
pub unsafe fn usable_bytes(block: NonNull<c_void>) -> usize {
    // SAFETY:
    // 1. What is no large block is one of libc's: the caller's promise.
    length_of(block).unwrap_or_else(|| unsafe { libc::malloc_usable_size(block.as_ptr()) })
}

/// A block at another size, with its content, as far as that fits.
///
/// # Errors
/// As of [`allocate`]; the block is as it was.
///
/// # Safety
/// It is a block of this module, and nobody uses it meanwhile, nor afterwards at its old address.
pub unsafe fn resize(pool: &Pool, block: NonNull<c_void>, bytes: usize) -> Result<NonNull<c_void>, Error> {
    match length_of(block) {
        Some(length) if bytes >= LARGE_BYTES => {
            // SAFETY:
            // 1. It is a large block of that length; the caller's promise.
            unsafe { remap(pool, block, length, whole_pages(bytes)?) }
        }
        None if bytes < LARGE_BYTES => {
            // SAFETY:
            // 1. It is a block of libc's; the caller's promise.
            or_no_memory(unsafe { libc::realloc(block.as_ptr(), bytes.max(1)) })
        }
        _ => {
            let new = allocate(pool, bytes)?;
            // SAFETY:
            // 1. Both have room for so many bytes, and are not the same.
            // 2. Nobody uses the old one any more: the caller's promise.
            unsafe {
                let count = usable_bytes(block).min(bytes);
                new.copy_from_nonoverlapping(block, count);
                release(block);
            }
            Ok(new)
        }
    }
}

/// # Safety
/// The block is a large one of that length, and nobody uses it.
unsafe fn remap(
    pool: &Pool,
    block: NonNull<c_void>,
    length: usize,
    new_length: usize,
) -> Result<NonNull<c_void>, Error> {
    if length == new_length {
        return Ok(block);
    }
    // Another thread may get the old address as soon as the block has moved.
    take(block);
    // SAFETY:
    // 1. It is a mapping of ours, of that length; the caller's promise.
    let moved = unsafe { libc::mremap(block.as_ptr(), length, new_length, libc::MREMAP_MAYMOVE) };
    let failed = moved == libc::MAP_FAILED;
    let error = std::io::Error::last_os_error();
    let (now, length) = if failed { (block.as_ptr(), length) } else { (moved, new_length) };
    // The one that was taken has left its room, unless others have filled it.
    table().insert(now as usize, length);
    if failed {
        // What is said of a new mapping of that length may say more.
        return Err(match pool.map_anon(new_length) {
            Err(why @ Error::NotManaged(_)) => why,
            _ => Error::Memory(error),
        });
    }
    or_no_memory(now)
}

/// Gives a block back. `errno` stays as it is.
///
/// # Safety
/// It is a block of this module that nobody uses any more.
pub unsafe fn release(block: NonNull<c_void>) {
    let Some(length) = take(block) else {
        // SAFETY:
        // 1. What is no large block is one of libc's: the caller's promise.
        return unsafe { libc::free(block.as_ptr()) };
    };
    // SAFETY:
    // 1. The C library answers a pointer to a variable of this thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY:
    // 1. As above.
    let errno_before = unsafe { *errno };
    // SAFETY:
    // 1. It is a mapping of ours, of that length; the caller's promise.
    if unsafe { libc::munmap(block.as_ptr(), length) } != 0 {
        // There are so many mappings that none can be cut off its neighbours. At least it takes no memory.
        // SAFETY:
        // 1. As above; it lies in the address space.
        let _it_stays_as_it_is = unsafe { advise_raw(block.as_ptr().cast(), length, Advice::Dead) };
    }
    // SAFETY:
    // 1. As above.
    unsafe { *errno = errno_before };
}
