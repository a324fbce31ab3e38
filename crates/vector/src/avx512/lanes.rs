//! Loads and stores of whole registers: all of the unsafe code of the kernels.
//!
//! Must hold: each reads or writes as many bytes as its array has, which the type of the array says; none needs an
//! aligned address. Called by [`super::describe`], [`super::lay_out`] and [`super::pack`].

use core::arch::x86_64::{
    __m512i, _mm_loadl_epi64, _mm512_cvtepu8_epi64, _mm512_loadu_si512, _mm512_storeu_si512,
};

#[inline]
#[target_feature(enable = "avx512f")]
pub fn load(bytes: &[u8; 64]) -> __m512i {
    // SAFETY:
    // 1. It reads 64 bytes, as many as the array has, wherever they lie.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub fn store(bytes: &mut [u8; 64], value: __m512i) {
    // SAFETY:
    // 1. It writes 64 bytes, as many as the array has, wherever they lie.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), value) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub fn store_16(numbers: &mut [u16; 32], value: __m512i) {
    // SAFETY:
    // 1. It writes 64 bytes, as many as the array has, wherever they lie.
    unsafe { _mm512_storeu_si512(numbers.as_mut_ptr().cast(), value) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub fn load_64(numbers: &[u64; 8]) -> __m512i {
    // SAFETY:
    // 1. It reads 64 bytes, as many as the array has, wherever they lie.
    unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub fn load_32(numbers: &[u32; 16]) -> __m512i {
    // SAFETY:
    // 1. It reads 64 bytes, as many as the array has, wherever they lie.
    unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub fn store_64(numbers: &mut [u64; 8], value: __m512i) {
    // SAFETY:
    // 1. It writes 64 bytes, as many as the array has, wherever they lie.
    unsafe { _mm512_storeu_si512(numbers.as_mut_ptr().cast(), value) }
}

/// 0 to 63.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn iota() -> __m512i {
    load(&core::array::from_fn(|byte| byte as u8))
}

/// What one register says about 64 words, to be read in eights.
#[repr(align(64))]
pub struct Batch([u8; 64]);

impl Batch {
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub fn of(value: __m512i) -> Self {
        let mut batch = Self([0; 64]);
        store(&mut batch.0, value);
        batch
    }

    #[inline]
    pub fn eights(&self) -> &[[u8; 8]; 8] {
        self.0.as_chunks().0.try_into().expect("64 are 8 times 8")
    }
}

/// Eight bytes as eight words.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn widen(bytes: &[u8; 8]) -> __m512i {
    // SAFETY:
    // 1. It reads 8 bytes, as many as the array has, wherever they lie.
    let low = unsafe { _mm_loadl_epi64(bytes.as_ptr().cast()) };
    _mm512_cvtepu8_epi64(low)
}
