//! LZ4 of one page, with a working area that the caller keeps.
//!
//! Must hold: no allocation, and no panic on any input. The first is why `lz4_flex` is used without its `alloc`
//! feature: its hash table is then a plain array, and [`Lz4Scratch::new`] can be `const`. Should another crate of the
//! workspace switch that feature on, `Lz4Scratch::new` no longer compiles: the rule cannot be broken by accident.
//! Called by [`crate`], whose `compress` and `decompress` choose among three.

use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};

use crate::{Corrupt, PAGE_BYTES, Page};

/// What LZ4 may write for one page in the worst case. The encoder refuses smaller buffers.
const STAGING_BYTES: usize = get_maximum_output_size(PAGE_BYTES);

/// Working area of [`compress`], about 13 KiB. One for each thread that compresses.
///
/// `Lz4Scratch::new` is `const`: the value may be the initialiser of a `static`, or be written into memory of the
/// caller's (`MaybeUninit::write`). It holds no pointer and may be moved. What is in it between two calls has no effect
/// on results.
pub struct Lz4Scratch {
    table: CompressTable,
    staging: [u8; STAGING_BYTES],
}

impl Lz4Scratch {
    /// An empty working area. Does not allocate.
    #[must_use]
    pub const fn new() -> Self {
        // Small: 4096 positions of 16 bits. Good for inputs below 64 KiB.
        Self { table: CompressTable::small(), staging: [0; STAGING_BYTES] }
    }
}

/// Writes the page to the start of `out`. Its length; None: it does not fit.
pub fn compress(page: &Page, out: &mut [u8], scratch: &mut Lz4Scratch) -> Option<usize> {
    let length = compress_into_with_table(page, &mut scratch.staging, &mut scratch.table)
        .expect("the staging buffer has the size that the encoder asks for");
    out.get_mut(..length)?.copy_from_slice(&scratch.staging[..length]);
    Some(length)
}

/// Turns a blob back into the page.
///
/// # Errors
/// [`Corrupt`]: the bytes do not follow the format, or make more or less than one page.
pub fn decompress(blob: &[u8], page: &mut Page) -> Result<(), Corrupt> {
    match decompress_into(blob, page) {
        Ok(PAGE_BYTES) => Ok(()),
        Ok(_) | Err(_) => Err(Corrupt),
    }
}
