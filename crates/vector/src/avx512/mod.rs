//! Kernels for AVX-512. All functions here may be called only where an [`Avx512`](crate::Avx512) was shown.

pub mod describe;
pub mod lanes;
pub mod lay_out;
pub mod pack;
