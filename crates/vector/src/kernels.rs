//! The kernels that may be called, for pages of 64-bit words that are written as symbols.
//!
//! Must hold: nothing that is compiled for AVX-512 runs without an [`Avx512`]; these are the only calls into it. Each
//! kernel gives the same as the portable code beside its call. Called by `codec`.

use crate::Avx512;
use crate::words::{Bases, Choices, Described, Packed, Question, Recent, Shapes, Stored, Words};

/// Puts the literal of each word in its place in the page, and finds its base. Where the literals end; `None`: outside
/// of the blob, or a base is before the page.
#[must_use]
#[inline]
pub fn lay_out(
    avx512: Avx512,
    stored: &Stored<'_>,
    shapes: &Shapes,
    words: &mut Words,
    bases: &mut Bases,
) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    {
        let _ = avx512;
        // SAFETY:
        // 1. The processor has what the function is compiled for: that is what an `Avx512` shows.
        unsafe { crate::avx512::lay_out::lay_out(stored, shapes, words, bases) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (avx512, stored, shapes, words, bases);
        unreachable!("there is no `Avx512`")
    }
}

/// Finds a symbol for each word, and writes the literals. `None`: the page is none for this codec.
#[must_use]
#[inline]
pub fn describe(
    avx512: Avx512,
    question: &Question<'_>,
    tables: (&Shapes, &Choices),
    recent: (&mut Recent, &mut Recent),
    literals: &mut [u8],
    described: &mut Described,
) -> Option<()> {
    #[cfg(target_arch = "x86_64")]
    {
        let _ = avx512;
        // SAFETY:
        // 1. The processor has what the function is compiled for: that is what an `Avx512` shows.
        unsafe { crate::avx512::describe::describe(question, tables, recent, literals, described) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (avx512, question, tables, recent, literals, described);
        unreachable!("there is no `Avx512`")
    }
}

/// Packs the codes of `class` for the words from `start` to `end`.
#[inline]
pub fn pack(
    avx512: Avx512,
    described: &Described,
    choices: &Choices,
    class: usize,
    words: core::ops::Range<usize>,
    packed: &mut Packed,
) {
    #[cfg(target_arch = "x86_64")]
    {
        let _ = avx512;
        // SAFETY:
        // 1. The processor has what the function is compiled for: that is what an `Avx512` shows.
        unsafe { crate::avx512::pack::pack(described, choices, class, words, packed) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (avx512, described, choices, class, words, packed);
        unreachable!("there is no `Avx512`")
    }
}
