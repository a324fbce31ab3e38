//! A page in, bytes out: what uswap does with the content of one page.
//!
//! Three steps, as the engine asks them of a page that has no good copy:
//! ```text
//! hash                                  kept beside the entry, and compared whenever the content is loaded
//! same_filled -> Some(value)            nothing to store but one word
//! compress    -> Bytes(length)          goes into the pool
//!             -> Incompressible         stays in RAM while few pages are so, else goes into the pool as it is
//! ```
//! Three codecs, chosen for each page (docs/adr/0006): `words` for pages made of 64-bit words, which it takes itself;
//! else `lz4` while there is room, `dense` when it is short.
//!
//! What must always hold:
//! - `decompress(compress(page)) == page`, for every page.
//! - Nothing here allocates, waits, or asks for time or chance. It runs on small stacks inside other people's
//!   programs; the one large buffer is [`Scratch`], which the caller owns.
//! - `decompress` ends on any input and writes nothing outside of the page. A blob that came from a disk may hold
//!   anything.
//!
//! Some steps have a copy for newer processors (`uswap-vector`). Which one worked does not show in the bytes.
//!
//! Called by the engine (store, fault, write-back). It leaves to the caller to compare the [`ContentHash`] of what was
//! read back: no codec has a checksum of its own, so bytes that were changed may decompress to a wrong page.
#![no_std]
#![forbid(unsafe_code)]

mod dense;
mod hash;
mod lz4;
mod same;
mod words;

use uswap_vector::Avx512;

pub use hash::{ContentHash, hash};
pub use same::{fill, same_filled};

/// Bytes of one page.
pub const PAGE_BYTES: usize = 4096;

/// The content of one page.
pub type Page = [u8; PAGE_BYTES];

/// Largest blob worth keeping, in bytes. A page that needs more is stored as it is: it would save less than an eighth
/// of the page, and cost a decompression at each load.
pub const COMPRESSED_BYTES_MAX: usize = 3632;

/// Whether time counts or room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// There is room: LZ4.
    Quick,
    /// Room is short: the dense codec, which takes twice as long and two thirds of the room.
    Dense,
}

/// Which codec makes a blob, or made it: the first byte of the blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Codec {
    /// LZ4.
    Lz4 = LZ4,
    /// Matches and prefix codes made for the page.
    Dense = DENSE,
    /// Prefix codes for 64-bit words.
    Words = WORDS,
}

const LZ4: u8 = 1;
const DENSE: u8 = 2;
const WORDS: u8 = 3;

impl Codec {
    /// Which codec made the blob; None: none of ours.
    #[must_use]
    pub fn of(blob: &[u8]) -> Option<Self> {
        match blob {
            [LZ4, ..] => Some(Self::Lz4),
            [DENSE, ..] => Some(Self::Dense),
            [WORDS, ..] => Some(Self::Words),
            _ => None,
        }
    }
}

/// Pages that need more than so many bytes in words are given to the codec of the effort: many are text among pointers,
/// which it makes smaller.
const QUICK_WORDS_MAX: usize = 2300;
const DENSE_WORDS_MAX: usize = 1700;

/// Working area of [`compress`] and [`decompress`]: 80 KiB, of which a thread that only decompresses uses 20. One for
/// each thread.
///
/// `Scratch::new` is `const`: the value may be the initialiser of a `static`, or be written into memory of the caller's
/// (`MaybeUninit::write`). It holds no pointer and may be moved. What is in it between two calls has no effect on
/// results.
pub struct Scratch {
    words: words::WordsScratch,
    lz4: lz4::Lz4Scratch,
    dense: dense::DenseScratch,
    path: Path,
}

/// Which code does the work. The bytes are the same.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Path {
    /// The fastest that the processor has.
    Fastest,
    /// What every processor has.
    Portable,
}

impl Path {
    fn vectors(self) -> Option<Avx512> {
        if self == Self::Portable { None } else { Avx512::get() }
    }
}

impl Scratch {
    /// An empty working area. Does not allocate.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            words: words::WordsScratch::new(),
            lz4: lz4::Lz4Scratch::new(),
            dense: dense::DenseScratch::new(),
            path: Path::Fastest,
        }
    }

    /// As [`Scratch::new`], and what works in it leaves vector registers alone. For tests and benchmarks: the bytes are
    /// the same, and take longer.
    #[must_use]
    pub const fn portable() -> Self {
        Self { path: Path::Portable, ..Self::new() }
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
    /// The first so many bytes of the output are the blob. From 2 to [`COMPRESSED_BYTES_MAX`].
    Bytes(usize),
    /// The blob would need more than [`COMPRESSED_BYTES_MAX`] bytes, or more than the output has. What is in the output
    /// is no blob.
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

/// Compresses `page` into the start of `out`. Give `out` [`COMPRESSED_BYTES_MAX`] bytes; with less, pages that would
/// have fitted are `Incompressible` too.
///
/// The same page gives the same bytes whatever `scratch` was used for before.
pub fn compress(page: &Page, out: &mut [u8], effort: Effort, scratch: &mut Scratch) -> Compressed {
    let (words_max, other) = match effort {
        Effort::Quick => (QUICK_WORDS_MAX, Codec::Lz4),
        Effort::Dense => (DENSE_WORDS_MAX, Codec::Dense),
    };
    let words_room = out.len().min(1 + words_max);
    match compress_with(Codec::Words, page, &mut out[..words_room], scratch) {
        Compressed::Bytes(length) => Compressed::Bytes(length),
        Compressed::Incompressible => compress_with(other, page, out, scratch),
    }
}

/// As [`compress`] with one codec only, whatever the page is. `Incompressible` is also a page that is not of its kind.
/// Benchmarks look at each codec so.
pub fn compress_with(codec: Codec, page: &Page, out: &mut [u8], scratch: &mut Scratch) -> Compressed {
    let room = out.len().min(COMPRESSED_BYTES_MAX);
    let Some((first, blob)) = out[..room].split_first_mut() else { return Compressed::Incompressible };
    *first = codec as u8;
    let length = match codec {
        Codec::Lz4 => lz4::compress(page, blob, &mut scratch.lz4),
        Codec::Dense => dense::compress(page, blob, &mut scratch.dense),
        Codec::Words => words::compress(page, blob, &mut scratch.words, scratch.path.vectors()),
    };
    length.map_or(Compressed::Incompressible, |length| Compressed::Bytes(1 + length))
}

/// Turns a blob back into the page. `blob` must be exactly the bytes that [`compress`] wrote.
///
/// # Errors
/// [`Corrupt`] when the bytes do not follow the format, or make more or less than one page. The content of `page` is
/// then undefined: do not show it to anyone. `Ok` does not prove that the bytes are unchanged; compare the content
/// hash.
pub fn decompress(blob: &[u8], page: &mut Page, scratch: &mut Scratch) -> Result<(), Corrupt> {
    match blob {
        [LZ4, blob @ ..] => lz4::decompress(blob, page),
        [WORDS, blob @ ..] => words::decompress(blob, page, scratch.path.vectors()),
        [DENSE, blob @ ..] => dense::decompress(blob, page, &mut scratch.dense),
        _ => Err(Corrupt),
    }
}
