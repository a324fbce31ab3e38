//! LZ4 of one page, with a working area that the caller keeps.
//!
//! Must always hold: no allocation, and no panic on any input. The first is why `lz4_flex` is used without its `alloc`
//! feature: its hash table is then a plain array, and [`Scratch::new`] can be `const`. Should another crate of the
//! workspace switch that feature on, `Scratch::new` no longer compiles: the rule cannot be broken by accident.

use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};

use crate::{PAGE_BYTES, Page};

/// Largest blob worth keeping, in bytes. A page that needs more is stored as it is: it would save less than an eighth of
/// the page, and cost a decompression at each load.
pub const COMPRESSED_BYTES_MAX: usize = 3632;

/// What LZ4 may write for one page in the worst case. The encoder refuses smaller buffers.
const STAGING_BYTES: usize = get_maximum_output_size(PAGE_BYTES);

/// Working area of [`compress`], about 13 KiB. One for each thread that compresses.
///
/// `Scratch::new` is `const`: the value may be the initialiser of a `static`, or be written into memory of the
/// caller's (`MaybeUninit::write`). It holds no pointer and may be moved. What is in it between two calls has no effect on
/// results.
pub struct Scratch {
    table: CompressTable,
    staging: [u8; STAGING_BYTES],
}

impl Scratch {
    /// An empty working area. Does not allocate.
    #[must_use]
    pub const fn new() -> Self {
        // Small: 4096 positions of 16 bits. Good for inputs below 64 KiB.
        Self { table: CompressTable::small(), staging: [0; STAGING_BYTES] }
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

/// What [`compress`] made of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Compressed {
    /// The first so many bytes of the output are the blob. From 1 to [`COMPRESSED_BYTES_MAX`].
    Bytes(usize),
    /// The blob would need more than [`COMPRESSED_BYTES_MAX`] bytes, or more than the output has. The output is untouched.
    Incompressible,
}

/// The bytes are not a blob of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

impl core::fmt::Display for Corrupt {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.write_str("the bytes do not decompress to one page")
    }
}

impl core::error::Error for Corrupt {}

/// Compresses `page` into the start of `out`. Give `out` [`COMPRESSED_BYTES_MAX`] bytes; with less, pages that would have
/// fitted are `Incompressible` too.
///
/// The same page gives the same bytes whatever `scratch` was used for before.
pub fn compress(page: &Page, out: &mut [u8], scratch: &mut Scratch) -> Compressed {
    let length = compress_into_with_table(page, &mut scratch.staging, &mut scratch.table)
        .expect("the staging buffer has the size that the encoder asks for");
    if length > COMPRESSED_BYTES_MAX {
        return Compressed::Incompressible;
    }
    match out.get_mut(..length) {
        Some(blob) => {
            blob.copy_from_slice(&scratch.staging[..length]);
            Compressed::Bytes(length)
        }
        None => Compressed::Incompressible,
    }
}

/// Turns a blob back into the page. `blob` must be exactly the bytes that [`compress`] wrote.
///
/// # Errors
/// [`Corrupt`] when the bytes do not follow the format, or make more or less than one page. The content of `page` is then
/// undefined: do not show it to anyone. `Ok` does not prove that the bytes are unchanged; compare the content hash.
pub fn decompress(blob: &[u8], page: &mut Page) -> Result<(), Corrupt> {
    match decompress_into(blob, page) {
        Ok(PAGE_BYTES) => Ok(()),
        Ok(_) | Err(_) => Err(Corrupt),
    }
}
