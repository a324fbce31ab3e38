//! A page in, bytes out: what uswap does with the content of one page.
//!
//! Three steps, cheapest first, as the engine asks them when a page is stored:
//! ```text
//! same_filled -> Some(value)            nothing to store but one word
//! hash        -> equal to the old one   the retained copy is still good
//! compress    -> Bytes(length)          goes into the pool
//!             -> Incompressible         goes to the swap file as it is
//! ```
//! What must always hold:
//! - `decompress(compress(page)) == page`, for every page.
//! - Nothing here allocates, waits, or asks for time or chance. It runs on small stacks inside other people's
//!   programs; the one large buffer is [`Scratch`], which the caller owns.
//! - `decompress` ends on any input and writes nothing outside of the page. A blob that came from a disk may hold
//!   anything.
//!
//! Called by the engine (store, fault, write-back). It leaves to the caller to compare the [`ContentHash`] of what was
//! read back: LZ4 has no checksum of its own, so bytes that were changed may decompress to a wrong page.
#![no_std]
#![forbid(unsafe_code)]

mod hash;
mod lz4;
mod same;

pub use hash::{ContentHash, hash};
pub use lz4::{COMPRESSED_BYTES_MAX, Compressed, Corrupt, Scratch, compress, decompress};
pub use same::{fill, same_filled};

/// Bytes of one page.
pub const PAGE_BYTES: usize = 4096;

/// The content of one page.
pub type Page = [u8; PAGE_BYTES];
