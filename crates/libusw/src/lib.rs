//! The C library `libusw`: what `include/usw.h` declares, on top of the crate `uswap`.
//!
//! What each function promises is written in the header, for those who call it. Here is how: arguments of C are looked
//! at once, in `structs` and in this file; why a call fails is kept for the thread, in `failure`; and which blocks are
//! mappings is known in `uswap::blocks`.
//!
//! What must hold: no panic leaves this library. It is built to abort, and an `extern "C"` function would abort too. No
//! argument that a caller can get wrong in good faith panics.

#[cfg(test)]
mod abi_tests;
mod failure;
#[cfg(test)]
mod header_tests;
mod structs;

use std::ffi::{c_char, c_int, c_void};
use std::ptr::{NonNull, null_mut, without_provenance_mut};

use uswap::{Advice, Error, advise_raw, blocks};

use failure::{Failure, or_tell, status};
use structs::{Opts, StatsStruct};

/// `usw_pool` of usw.h: each has an address of its own, and a program that forgets one is told so by those who look for
/// leaks.
#[derive(Debug)]
pub struct Pool {
    pool: uswap::Pool,
    _is_somewhere: u8,
}

/// `usw_advice` of usw.h.
const COLD: c_int = 1;
const PAGEOUT: c_int = 2;
const WILLNEED: c_int = 3;
const DEAD: c_int = 4;

/// The pool that the caller names.
///
/// # Safety
/// It is NULL, or one that is not destroyed as long as the answer is used.
unsafe fn pool_of<'a>(pool: *const Pool) -> Result<&'a uswap::Pool, Failure> {
    // SAFETY:
    // 1. The caller's promise.
    let pool = unsafe { pool.as_ref() };
    pool.map(|pool| &pool.pool).ok_or(Failure::Argument("the pool is NULL"))
}

/// A block, or NULL and why.
fn block_or_tell(block: Result<NonNull<c_void>, Failure>) -> *mut c_void {
    or_tell(block.map(NonNull::as_ptr), null_mut())
}

/// A pool, or NULL.
///
/// # Safety
/// `opts` is as usw.h says, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usw_pool_create(opts: *const Opts) -> *mut Pool {
    let builder = if opts.is_null() {
        Ok(uswap::Pool::builder())
    } else {
        // SAFETY:
        // 1. The caller's promise.
        unsafe { Opts::read(opts).and_then(|opts| opts.pool()) }
    };
    let pool = builder.and_then(|builder| Ok(builder.build()?));
    or_tell(pool.map(|pool| Box::into_raw(Box::new(Pool { pool, _is_somewhere: 0 }))), null_mut())
}

/// The handle goes; memory stays.
///
/// # Safety
/// It is NULL, or a pool that nobody uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usw_pool_destroy(pool: *mut Pool) {
    if !pool.is_null() {
        // SAFETY:
        // 1. It was made by `usw_pool_create`, and is destroyed once: the caller's promise.
        drop(unsafe { Box::from_raw(pool) });
    }
}

/// As malloc.
///
/// # Safety
/// The pool is NULL, or one that is not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usw_malloc(pool: *mut Pool, bytes: usize) -> *mut c_void {
    // SAFETY:
    // 1. The caller's promise.
    let pool = unsafe { pool_of(pool) };
    block_or_tell(pool.and_then(|pool| blocks::allocate(pool, bytes).map_err(Failure::NoneOfPool)))
}

/// As calloc.
///
/// # Safety
/// The pool is NULL, or one that is not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usw_calloc(pool: *mut Pool, count: usize, bytes: usize) -> *mut c_void {
    // SAFETY:
    // 1. The caller's promise.
    let pool = unsafe { pool_of(pool) };
    block_or_tell(
        pool.and_then(|pool| blocks::allocate_zeroed(pool, count, bytes).map_err(Failure::NoneOfPool)),
    )
}

/// As realloc.
///
/// # Safety
/// The pool is NULL, or one that is not destroyed. The block is NULL, or one of this library that nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usw_realloc(pool: *mut Pool, block: *mut c_void, bytes: usize) -> *mut c_void {
    // SAFETY:
    // 1. The caller's promise.
    let pool = unsafe { pool_of(pool) };
    block_or_tell(pool.and_then(|pool| {
        let resized = match NonNull::new(block) {
            None => blocks::allocate(pool, bytes),
            // SAFETY:
            // 1. The caller's promise.
            Some(block) => unsafe { blocks::resize(pool, block, bytes) },
        };
        resized.map_err(Failure::NoneOfPool)
    }))
}

/// As free.
///
/// # Safety
/// The block is NULL, or one of this library that nobody uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usw_free(_pool: *mut Pool, block: *mut c_void) {
    if let Some(block) = NonNull::new(block) {
        // SAFETY:
        // 1. The caller's promise.
        unsafe { blocks::release(block) };
    }
}

/// As malloc_usable_size.
///
/// # Safety
/// The block is NULL, or one of this library that nobody gives back meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usw_usable_size(_pool: *mut Pool, block: *mut c_void) -> usize {
    // SAFETY:
    // 1. The caller's promise.
    NonNull::new(block).map_or(0, |block| unsafe { blocks::usable_bytes(block) })
}

/// A mapping, or MAP_FAILED.
///
/// # Safety
/// The pool is NULL, or one that is not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usw_map(pool: *mut Pool, bytes: usize) -> *mut c_void {
    // SAFETY:
    // 1. The caller's promise.
    let pool = unsafe { pool_of(pool) };
    let map = pool.and_then(|pool| match bytes {
        0 => Err(Failure::Argument("a mapping has at least one byte")),
        _ => Ok(pool.map_anon(bytes)?.into_raw().as_ptr().cast()),
    });
    or_tell(map, libc::MAP_FAILED)
}

/// As munmap.
///
/// # Safety
/// The range is a part of mappings of `usw_map`, and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usw_unmap(start: *mut c_void, bytes: usize) -> c_int {
    // SAFETY:
    // 1. The caller's promise.
    let unmapped = unsafe { libc::munmap(start, bytes) } == 0;
    let why = || Error::Memory(std::io::Error::last_os_error()).into();
    status(if unmapped { Ok(()) } else { Err(why()) })
}

/// Tells what is known of the use of memory.
///
/// # Safety
/// With `USW_DEAD`, nobody relies on the content of the range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usw_advise(start: *mut c_void, bytes: usize, advice: c_int) -> c_int {
    let advice = match advice {
        COLD => Ok(Advice::Cold),
        PAGEOUT => Ok(Advice::PageOut),
        WILLNEED => Ok(Advice::WillNeed),
        DEAD => Ok(Advice::Dead),
        _ => Err(Failure::Argument("there is no such advice: it is USW_COLD, _PAGEOUT, _WILLNEED or _DEAD")),
    };
    // SAFETY:
    // 1. The caller's promise.
    status(advice.and_then(|advice| unsafe { advise(start.addr(), bytes, advice) }))
}

/// A range stays in RAM.
#[unsafe(no_mangle)]
pub extern "C" fn usw_pin(start: *mut c_void, bytes: usize) -> c_int {
    // SAFETY:
    // 1. The content of memory stays as it is.
    status(unsafe { advise(start.addr(), bytes, Advice::Pin) })
}

/// A range may be evicted again.
#[unsafe(no_mangle)]
pub extern "C" fn usw_unpin(start: *mut c_void, bytes: usize) -> c_int {
    // SAFETY:
    // 1. The content of memory stays as it is.
    status(unsafe { advise(start.addr(), bytes, Advice::Unpin) })
}

/// # Safety
/// With `Dead`, nobody relies on the content of the range.
unsafe fn advise(start: usize, bytes: usize, advice: Advice) -> Result<(), Failure> {
    // No program has memory in the upper half.
    let end = start.checked_add(bytes).filter(|end| *end <= isize::MAX as usize);
    if start == 0 || end.is_none() {
        return Err(Failure::Argument("the range is no memory of a program"));
    }
    // SAFETY:
    // 1. It lies in the address space, as was looked at. Nobody follows the pointer: the kernel takes a number.
    // 2. The caller's promise.
    Ok(unsafe { advise_raw(without_provenance_mut(start), bytes, advice) }?)
}

/// A budget.
///
/// # Safety
/// `opts` is as usw.h says, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usw_limit(opts: *const Opts) -> c_int {
    // SAFETY:
    // 1. The caller's promise.
    let limit = unsafe { Opts::read(opts).and_then(|opts| opts.limit()) };
    status(limit.and_then(|limit| Ok(limit.hold()?)))
}

/// The budget is given up.
#[unsafe(no_mangle)]
pub extern "C" fn usw_release() -> c_int {
    status(uswap::release().map_err(Failure::from))
}

/// Whether there is one.
#[unsafe(no_mangle)]
pub extern "C" fn usw_is_limited() -> c_int {
    c_int::from(uswap::is_limited())
}

/// How the run goes.
///
/// # Safety
/// `stats` is as usw.h says, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usw_get_stats(stats: *mut StatsStruct) -> c_int {
    // SAFETY:
    // 1. The caller's promise.
    status(unsafe { StatsStruct::fill(stats, uswap::stats) })
}

/// What went wrong last in this thread.
#[unsafe(no_mangle)]
pub extern "C" fn usw_error() -> *const c_char {
    failure::sentence()
}

/// The version of this library.
#[unsafe(no_mangle)]
pub extern "C" fn usw_version() -> *const c_char {
    VERSION.as_ptr().cast()
}

/// It ends with a zero byte.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
