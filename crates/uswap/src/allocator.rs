//! A pool as an allocator: large blocks are mappings of their own, small ones the program's.
//!
//! Must hold: the layout alone says which of both a block is, and a block that is a mapping has the length of its
//! layout. Called by collections of programs that are given a pool.

use std::alloc::Layout;
use std::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator, Global};
use uswap_units::PAGE_BYTES;

use crate::Pool;
use crate::blocks::LARGE_BYTES;
use crate::map::map;

fn is_large(layout: Layout) -> bool {
    layout.size() >= LARGE_BYTES && layout.align() <= PAGE_BYTES
}

// SAFETY:
// 1. A large block is a mapping of its own, and stays where it is until it is given back or grown; what a block is goes
//    by its layout, which is the same then. Others are blocks of `Global`.
// 2. A pool has no state: each of its copies may give back what another has given out.
unsafe impl Allocator for Pool {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if !is_large(layout) {
            return Global.allocate(layout);
        }
        let start = map(layout.size()).map_err(|_| AllocError)?;
        Ok(NonNull::slice_from_raw_parts(start, layout.size()))
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if is_large(layout) { self.allocate(layout) } else { Global.allocate_zeroed(layout) }
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if is_large(layout) {
            // SAFETY:
            // 1. It is a mapping of its own, and the caller uses it no more.
            let _it_is_whole = unsafe { libc::munmap(block.as_ptr().cast(), layout.size()) };
        } else {
            // SAFETY:
            // 1. It is a block of the global allocator, of this layout.
            unsafe { Global.deallocate(block, layout) }
        }
    }

    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if is_large(old) && is_large(new) {
            // SAFETY:
            // 1. The block is a mapping of its own, of that length; the caller goes on with the answer only.
            return unsafe { resize(block, old, new) };
        }
        let grown = self.allocate(new)?;
        // SAFETY:
        // 1. Both blocks have room for so many bytes, and are not the same.
        // 2. The caller uses the old one no more.
        unsafe {
            block.copy_to_nonoverlapping(grown.cast(), old.size());
            self.deallocate(block, old);
        }
        Ok(grown)
    }

    unsafe fn grow_zeroed(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // New pages of a mapping are zeros; what is behind the block in its last page need not be.
        let end =
            if is_large(old) { old.size().next_multiple_of(PAGE_BYTES).min(new.size()) } else { new.size() };
        // SAFETY:
        // 1. The caller's promise, for both layouts.
        // 2. The new block has `new.size()` bytes, and `end` is no more than that.
        unsafe {
            let grown = self.grow(block, old, new)?;
            grown.cast::<u8>().add(old.size()).write_bytes(0, end - old.size());
            Ok(grown)
        }
    }

    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if is_large(old) && is_large(new) {
            // SAFETY:
            // 1. As in `grow`.
            return unsafe { resize(block, old, new) };
        }
        let shrunk = self.allocate(new)?;
        // SAFETY:
        // 1. As in `grow`.
        unsafe {
            block.copy_to_nonoverlapping(shrunk.cast(), new.size());
            self.deallocate(block, old);
        }
        Ok(shrunk)
    }
}

/// # Safety
/// The block is a large one of the old layout, and nobody uses it any more under its old address.
unsafe fn resize(block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
    // SAFETY:
    // 1. The caller's promise.
    let start = unsafe { libc::mremap(block.as_ptr().cast(), old.size(), new.size(), libc::MREMAP_MAYMOVE) };
    if start == libc::MAP_FAILED {
        return Err(AllocError);
    }
    let start = NonNull::new(start.cast()).expect("nothing is mapped at address 0");
    Ok(NonNull::slice_from_raw_parts(start, new.size()))
}
