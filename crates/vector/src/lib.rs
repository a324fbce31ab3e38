//! Vector kernels of the page codecs: what `uswap-codec` does word by word, for eight words or 64 symbols at once.
//!
//! What must always hold:
//! - A kernel gives the same numbers as the portable code beside its call in `uswap-codec`. That crate tests both
//!   against each other.
//! - A kernel runs only where the processor and the kernel of the system have what it needs: who calls one shows an
//!   [`Avx512`], which only [`Avx512::get`] makes.
//! - Kernels are safe code, except for loads and stores, which are in `avx512::lanes`, and take arrays of the right
//!   size.
//! - Nothing allocates, waits, or panics on any content.
//!
//! Called by `uswap-codec`, which says `#![forbid(unsafe_code)]`. What symbols mean is told in tables: this crate knows
//! no format.
#![no_std]

#[cfg(target_arch = "x86_64")]
mod avx512;
mod detect;
pub mod kernels;
pub mod words;

pub use detect::Avx512;
