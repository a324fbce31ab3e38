//! Blocks of memory for numpy (NEP 49), from the pool: blocks of [`uswap::blocks`].
//!
//! What numpy says of the size of a block when it gives one back is a guess, and is not asked for.
//!
//! What must hold: a block outlives the pool that it was taken from, and the budget. After `release` new blocks are the
//! C library's, and old mappings stay what they are. A child that is forked finds no lock in use: whoever is here has
//! the interpreter lock, and so has whoever forks.

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

pub use uswap::blocks::LARGE_BYTES;
use uswap::{Error, Pool, blocks};

static POOL: OnceLock<Pool> = OnceLock::new();
/// Why the last block could not be had.
static REFUSAL: Mutex<Option<String>> = Mutex::new(None);

fn refusal() -> MutexGuard<'static, Option<String>> {
    REFUSAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on there are large blocks.
pub fn take_from(pool: Pool) {
    let _a_pool_has_no_state = POOL.set(pool);
}

/// Why the last block could not be had. It is told once.
pub fn take_refusal() -> Option<String> {
    refusal().take()
}

/// A block of the pool. Where the process has released its budget, one `of_libc`.
fn block(
    of_pool: impl FnOnce(&Pool) -> Result<NonNull<c_void>, Error>,
    of_libc: impl FnOnce() -> *mut c_void,
) -> *mut c_void {
    let Some(pool) = POOL.get() else { return of_libc() };
    match of_pool(pool) {
        Ok(block) => block.as_ptr(),
        Err(Error::LimitedBefore) => of_libc(),
        Err(error) => {
            *refusal() = Some(error.to_string());
            null_mut()
        }
    }
}

/// As `malloc`.
pub extern "C" fn allocate(_context: usize, bytes: usize) -> *mut c_void {
    #[allow(unsafe_code)]
    // SAFETY:
    // 1. It may be called with any size.
    let of_libc = || unsafe { libc::malloc(bytes) };
    block(|pool| blocks::allocate(pool, bytes), of_libc)
}

/// As `calloc`.
pub extern "C" fn allocate_zeros(_context: usize, count: usize, item_bytes: usize) -> *mut c_void {
    #[allow(unsafe_code)]
    // SAFETY:
    // 1. It may be called with any numbers: it looks whether their product is one.
    let of_libc = || unsafe { libc::calloc(count, item_bytes) };
    block(|pool| blocks::allocate_zeroed(pool, count, item_bytes), of_libc)
}

/// As `realloc`.
///
/// # Safety
/// The block is null, or one of these functions', and nobody uses it any more if this works.
#[allow(unsafe_code)]
pub unsafe extern "C" fn resize(context: usize, old: *mut c_void, bytes: usize) -> *mut c_void {
    let Some(start) = NonNull::new(old) else { return allocate(context, bytes) };
    // SAFETY:
    // 1. The caller's promise: it is a block of this module, so of `uswap::blocks` or of the C library, which is the
    //    same for small ones.
    let of_pool = |pool: &Pool| unsafe { blocks::resize(pool, start, bytes) };
    // SAFETY:
    // 1. A budget that was released refuses new large blocks, and those are asked for here in place of a small one: the
    //    block is the C library's.
    let of_libc = || unsafe { libc::realloc(old, bytes) };
    block(of_pool, of_libc)
}

/// As `free`.
///
/// # Safety
/// The block is null, or one of these functions', and nobody uses it any more.
#[allow(unsafe_code)]
pub unsafe extern "C" fn give_back(_context: usize, block: *mut c_void, _guessed_bytes: usize) {
    if let Some(block) = NonNull::new(block) {
        // SAFETY:
        // 1. As in `resize`.
        unsafe { blocks::release(block) };
    }
}
