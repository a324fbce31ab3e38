//! The address space of the program, as the kernel has it.
//!
//! Must hold: the address space is only looked at here. No range of [`pages`] goes beyond what a program can have, and
//! nothing is a candidate ([`is_candidate`]) but private anonymous memory that may be read and not executed. Called by
//! most of this crate: whatever changes mappings or takes memory under management.

use uswap_os::maps::{Kind, Vma};
use uswap_os::sys::{self, abi};
use uswap_units::PageRange;

/// A mapping that is larger has more words than a run has room for: it is left alone.
pub(crate) const MAPPING_BYTES_MAX: usize = 32 << 30;
/// Addresses of a program end here.
pub(crate) const ADDRESSES_END: usize = 1 << 47;

/// The pages of `bytes` bytes at `start`, cut to what a program can have.
pub(crate) fn pages(start: usize, bytes: usize) -> PageRange {
    let end = start.saturating_add(bytes).min(ADDRESSES_END);
    PageRange::of_addresses(start.min(end) as u64, end as u64)
}

/// Around a thread pointer: the control block above, thread-local storage below.
const CONTROL_BLOCK_BYTES: usize = 8 * 1024;
/// In all C libraries so much of the mapping follows a thread pointer: a block, or what each thread has for its keys.
const MAPPING_BYTES_ABOVE: usize = 1024;

/// The pages around the thread pointer of a thread.
pub(crate) fn control_block(pointer: usize) -> PageRange {
    let start = pointer.saturating_sub(CONTROL_BLOCK_BYTES);
    pages(start, pointer + CONTROL_BLOCK_BYTES - start)
}

/// Those of them that are surely in one mapping with it, above it.
pub(crate) fn inner_control_block(pointer: usize) -> PageRange {
    let start = pointer.saturating_sub(CONTROL_BLOCK_BYTES);
    pages(start, pointer + MAPPING_BYTES_ABOVE - start)
}

/// The page of an area of restartable sequences (`rseq`): it is aligned to its length, or to more.
pub(crate) fn rseq_area(address: usize) -> PageRange {
    pages(address, 1)
}

/// A mapping that may be managed, as far as it tells itself.
pub(crate) fn is_candidate(vma: &Vma) -> bool {
    may_have_words(vma) && vma.readable && !vma.executable && vma.bytes() <= MAPPING_BYTES_MAX
}

/// A mapping of a kind that may be managed. The kernel joins mappings that are, so it may be of any length, and its
/// protection may have changed since.
pub(crate) fn may_have_words(vma: &Vma) -> bool {
    vma.anonymous && !vma.shared && matches!(vma.kind, Kind::Plain | Kind::Heap)
}

/// Where the heap ends.
pub(crate) fn program_break() -> usize {
    // SAFETY:
    // 1. With zero the call only answers.
    unsafe { sys::syscall3(abi::__NR_brk, 0, 0, 0) }.unwrap_or(0)
}
