//! Kernels for AVX-512.
//!
//! Must hold: all functions here are called only where an [`Avx512`](crate::Avx512) was shown. They are safe code but
//! for the loads and stores of [`lanes`]. Called by [`crate::kernels`].

pub mod describe;
pub mod lanes;
pub mod lay_out;
pub mod pack;
