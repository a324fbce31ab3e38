//! Numbers with a meaning: ids, places, sizes, limits, dates, random numbers.
//!
//! Most crates of the project stand on this one; it depends on nothing. A page, a frame, a swap entry and a byte count
//! are different types, so that they cannot be mixed by accident.
#![no_std]
#![forbid(unsafe_code)]

mod date;
mod ids;
pub mod limits;
mod places;
mod prng;
#[cfg(feature = "seeds")]
pub mod seeds;

pub use date::civil_date;
pub use ids::{
    BlobId, Bytes, ChunkId, FileId, MmId, PageId, PageRange, ProcessNumber, SwapId, TableId, ZspageId,
};
pub use places::{ClusterId, FileOffset, FileSlot, SlotId, SwapOffset};
pub use prng::Prng;

/// Bytes of one page, frame and slot. `os` and `codec`, which do not stand on this crate, have a number of their own.
pub const PAGE_BYTES: usize = 4096;
/// `log2(PAGE_BYTES)`.
pub const PAGE_SHIFT: u32 = 12;
/// Pages of one block, the unit of a leaf of the page table: 2 MiB.
pub const BLOCK_PAGES: u64 = 512;
/// Pages that are looked at together: 256 KiB. One word holds a bit for each.
pub const CHUNK_PAGES: u64 = 64;

const _: () = assert!(1 << PAGE_SHIFT == PAGE_BYTES);
const _: () = assert!(BLOCK_PAGES.is_multiple_of(CHUNK_PAGES));
