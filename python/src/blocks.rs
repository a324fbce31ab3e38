//! Blocks of memory for numpy: large ones are managed mappings, each of its own, small ones are the C library's.
//!
//! A block is told by its address: what numpy says of its size when it gives one back is a guess (NEP 49). So the
//! lengths of the mappings are kept here.
//!
//! What must hold: a block outlives the pool that it was taken from, and the budget. After `release` new blocks are the
//! C library's, and old mappings stay what they are.
//!
//! The lock is held by nobody who waits. A child that is forked finds it free: whoever is here has the interpreter
//! lock, and so has whoever forks.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use uswap::{Error, Pool};

/// Smaller blocks are the C library's: a mapping takes system calls and whole pages.
pub const LARGE_BYTES: usize = 256 * 1024;

const PAGE_BYTES: usize = 4096;

/// Start and length of each mapping that somebody has.
static MAPPINGS: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());
static POOL: OnceLock<Pool> = OnceLock::new();
/// Why the last large block could not be had.
static REFUSAL: Mutex<Option<String>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on there are large blocks.
pub fn take_from(pool: Pool) {
    let _a_pool_has_no_state = POOL.set(pool);
}

/// Why the last large block could not be had. It is told once.
pub fn take_refusal() -> Option<String> {
    lock(&REFUSAL).take()
}

/// Length of the mapping that starts there, which is the caller's from here on.
fn take_mapping(block: *mut c_void) -> Option<usize> {
    let start = block as usize;
    if start.is_multiple_of(PAGE_BYTES) { lock(&MAPPINGS).remove(&start) } else { None }
}

fn keep_mapping(start: *mut c_void, bytes: usize) {
    lock(&MAPPINGS).insert(start as usize, bytes);
}

/// A new mapping; null if there is none, and `Err` if the budget was given up.
fn map(bytes: usize) -> Result<*mut c_void, GivenUp> {
    let Some(pool) = POOL.get() else { return Ok(null_mut()) };
    match pool.map_anon(bytes) {
        Ok(map) => {
            let start: *mut c_void = map.into_raw().cast().as_ptr();
            keep_mapping(start, bytes);
            Ok(start)
        }
        Err(Error::LimitedBefore) => Err(GivenUp),
        Err(error) => {
            *lock(&REFUSAL) = Some(error.to_string());
            Ok(null_mut())
        }
    }
}

/// The process has released its budget, and its memory is not managed any more.
struct GivenUp;

/// As `malloc`.
pub extern "C" fn allocate(_context: usize, bytes: usize) -> *mut c_void {
    if bytes >= LARGE_BYTES
        && let Ok(block) = map(bytes)
    {
        return block;
    }
    #[allow(unsafe_code)]
    // SAFETY:
    // 1. It may be called with any size.
    unsafe {
        libc::malloc(bytes)
    }
}

/// As `calloc`. A new mapping is zeros.
pub extern "C" fn allocate_zeros(_context: usize, count: usize, item_bytes: usize) -> *mut c_void {
    if let Some(bytes) = count.checked_mul(item_bytes)
        && bytes >= LARGE_BYTES
        && let Ok(block) = map(bytes)
    {
        return block;
    }
    #[allow(unsafe_code)]
    // SAFETY:
    // 1. It may be called with any numbers: it looks whether their product is one.
    unsafe {
        libc::calloc(count, item_bytes)
    }
}

/// As `realloc`.
///
/// # Safety
/// The block is null, or one of these functions', and nobody uses it any more if this works.
#[allow(unsafe_code)]
pub unsafe extern "C" fn resize(context: usize, block: *mut c_void, bytes: usize) -> *mut c_void {
    let Some(start) = NonNull::new(block) else { return allocate(context, bytes) };
    let Some(old_bytes) = take_mapping(block) else {
        // SAFETY:
        // 1. It is no mapping, so it is a block of the C library.
        return unsafe { resize_small(start, bytes) };
    };
    if bytes >= LARGE_BYTES {
        // SAFETY:
        // 1. The mapping was taken out of the list above: it is ours alone, and of that length.
        let moved = unsafe { libc::mremap(block, old_bytes, bytes, libc::MREMAP_MAYMOVE) };
        if moved == libc::MAP_FAILED {
            keep_mapping(block, old_bytes);
            return null_mut();
        }
        keep_mapping(moved, bytes);
        return moved;
    }
    // SAFETY:
    // 1. It may be called with any size.
    let small = unsafe { libc::malloc(bytes) };
    if small.is_null() {
        keep_mapping(block, old_bytes);
        return null_mut();
    }
    // SAFETY:
    // 1. Both have so many bytes: a mapping is longer than any small block. They are not the same.
    // 2. The mapping was taken out of the list above, and the caller uses it no more.
    unsafe {
        small.copy_from_nonoverlapping(block, bytes);
        libc::munmap(block, old_bytes);
    }
    small
}

/// # Safety
/// The block is one of the C library, and nobody uses it any more if this works.
#[allow(unsafe_code)]
unsafe fn resize_small(block: NonNull<c_void>, bytes: usize) -> *mut c_void {
    if bytes >= LARGE_BYTES
        && let Ok(large) = map(bytes)
    {
        if !large.is_null() {
            // SAFETY:
            // 1. The C library says how much of the block may be read, and the mapping is not shorter than what is
            //    copied. They are not the same.
            // 2. The caller uses the block no more.
            unsafe {
                let old_bytes = libc::malloc_usable_size(block.as_ptr());
                large.copy_from_nonoverlapping(block.as_ptr(), old_bytes.min(bytes));
                libc::free(block.as_ptr());
            }
        }
        return large;
    }
    // SAFETY:
    // 1. The caller's promise.
    unsafe { libc::realloc(block.as_ptr(), bytes) }
}

/// As `free`.
///
/// # Safety
/// The block is null, or one of these functions', and nobody uses it any more.
#[allow(unsafe_code)]
pub unsafe extern "C" fn give_back(_context: usize, block: *mut c_void, _guessed_bytes: usize) {
    // SAFETY:
    // 1. A mapping was taken out of the list: it is ours alone, and of that length.
    // 2. What is no mapping is null or a block of the C library.
    unsafe {
        match take_mapping(block) {
            Some(bytes) => _ = libc::munmap(block, bytes),
            None => libc::free(block),
        }
    }
}
