//! Mappings of raw memory for the programs here, thin over libc.
//!
//! What must hold: functions that fail answer the error number and change nothing. Addresses are plain numbers:
//! the programs unmap, move and protect memory behind the compiler's back, so no reference to it may be kept.
//! Reading and writing goes through volatile-like copies (`copy_page_out`, `copy_page_in`) only.

use std::os::unix::fs::FileExt;

use crate::PAGE_BYTES;
use crate::message::errno;
use crate::pattern::Page;

/// Maps `bytes` of private anonymous memory that can be read and written; `extra_flags` are added `MAP_` flags.
pub fn map_private(bytes: usize, extra_flags: i32) -> Result<usize, i32> {
    map(0, bytes, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | extra_flags)
}

/// Maps `bytes` of shared anonymous memory: a child of fork and its parent see the same.
pub fn map_shared(bytes: usize) -> Result<usize, i32> {
    map(0, bytes, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS)
}

/// Maps anonymous memory with the given protection and flags, near `hint` if that is not 0.
pub fn map(hint: usize, bytes: usize, protection: i32, flags: i32) -> Result<usize, i32> {
    // SAFETY:
    // 1. Without MAP_FIXED a new mapping replaces nothing; the callers that pass MAP_FIXED own the range.
    let address = unsafe { libc::mmap(hint as *mut libc::c_void, bytes, protection, flags, -1, 0) };
    if address == libc::MAP_FAILED { Err(errno()) } else { Ok(address as usize) }
}

/// Unmaps a range that the caller owns.
pub fn unmap(address: usize, bytes: usize) -> Result<(), i32> {
    // SAFETY:
    // 1. The caller owns the range and keeps no reference into it (see the top of this file).
    check(unsafe { libc::munmap(address as *mut libc::c_void, bytes) })
}

/// Changes the protection of a range that the caller owns.
pub fn protect(address: usize, bytes: usize, protection: i32) -> Result<(), i32> {
    // SAFETY:
    // 1. The caller owns the range and keeps no reference into it.
    check(unsafe { libc::mprotect(address as *mut libc::c_void, bytes, protection) })
}

/// Gives advice about a range that the caller owns.
pub fn advise(address: usize, bytes: usize, advice: i32) -> Result<(), i32> {
    // SAFETY:
    // 1. The caller owns the range and keeps no reference into it; it accepts that the content may change.
    check(unsafe { libc::madvise(address as *mut libc::c_void, bytes, advice) })
}

/// Moves or resizes a mapping that the caller owns; `target` is used with MREMAP_FIXED.
pub fn remap(
    address: usize,
    old_bytes: usize,
    new_bytes: usize,
    flags: i32,
    target: usize,
) -> Result<usize, i32> {
    let old = address as *mut libc::c_void;
    // SAFETY:
    // 1. The caller owns the old range and, with MREMAP_FIXED, the target range; it keeps no reference into them.
    let moved = unsafe { libc::mremap(old, old_bytes, new_bytes, flags, target as *mut libc::c_void) };
    if moved == libc::MAP_FAILED { Err(errno()) } else { Ok(moved as usize) }
}

/// Reads 4096 bytes at `address`, which must be readable.
pub fn copy_page_out(address: usize, page: &mut Page) {
    // SAFETY:
    // 1. The caller owns at least 4096 readable bytes at `address`, and no other thread writes them now.
    // 2. `page` is a local buffer, so the ranges do not overlap.
    unsafe { core::ptr::copy_nonoverlapping(address as *const u8, page.as_mut_ptr(), PAGE_BYTES) };
}

/// Writes 4096 bytes at `address`, which must be writable.
pub fn copy_page_in(address: usize, page: &Page) {
    // SAFETY:
    // 1. The caller owns at least 4096 writable bytes at `address`, and no other thread uses them now.
    // 2. `page` is a local buffer, so the ranges do not overlap.
    unsafe { core::ptr::copy_nonoverlapping(page.as_ptr(), address as *mut u8, PAGE_BYTES) };
}

/// Reads the 64-bit word at `address` (aligned, readable).
pub fn read_word(address: usize) -> u64 {
    debug_assert_eq!(address % 8, 0);
    // SAFETY:
    // 1. The caller owns 8 readable bytes at the aligned `address`.
    unsafe { core::ptr::read_volatile(address as *const u64) }
}

/// Writes the 64-bit word at `address` (aligned, writable).
pub fn write_word(address: usize, value: u64) {
    debug_assert_eq!(address % 8, 0);
    // SAFETY:
    // 1. The caller owns 8 writable bytes at the aligned `address`.
    unsafe { core::ptr::write_volatile(address as *mut u64, value) };
}

/// How many of `pages` pages at `address` are present: mapped into this process now.
pub fn present_pages(address: usize, pages: usize) -> Result<usize, i32> {
    let error = |error: std::io::Error| error.raw_os_error().unwrap_or(0);
    let pagemap = std::fs::File::open("/proc/self/pagemap").map_err(error)?;
    let mut words = [0; 4096];
    let mut present = 0;
    for first in (0..pages).step_by(words.len() / 8) {
        let bytes = (pages - first).min(words.len() / 8) * 8;
        pagemap
            .read_exact_at(&mut words[..bytes], ((address / PAGE_BYTES + first) * 8) as u64)
            .map_err(error)?;
        // Bit 63 of each little-endian word.
        present += words[..bytes].chunks_exact(8).filter(|word| word[7] & 0x80 != 0).count();
    }
    Ok(present)
}

/// How many bytes of this process are in huge pages that are mapped as one; 0 where the kernel does not tell.
pub fn huge_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("AnonHugePages:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).and_then(|kib| kib.trim().parse().ok());
    kib.unwrap_or(0) * 1024
}

/// Turns the answer of a libc call into a result.
pub fn check(answer: i32) -> Result<(), i32> {
    if answer == 0 { Ok(()) } else { Err(errno()) }
}
