//! What the processor has, asked once.
//!
//! Must hold: there is an [`Avx512`] only where the processor has all that the kernels are compiled for, and the system
//! keeps the registers of threads; the answer is the same for every thread. Called by `codec`, which goes without
//! vectors where there is none, and by [`crate::kernels`], which take one as the proof.

/// Shows that the kernels for AVX-512 may be called.
///
/// Holding one tells you: the processor has AVX-512 F, BW, CD, DQ, VL, VBMI, VBMI2 (Intel since 2019, AMD since 2022),
/// BMI1, BMI2, LZCNT and POPCNT, and the kernel of the system keeps the registers of threads.
#[derive(Clone, Copy, Debug)]
pub struct Avx512(());

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    /// `None`: use portable code.
    #[inline]
    #[must_use]
    pub fn get() -> Option<Self> {
        use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

        /// In a virtual machine the question takes microseconds. It always has the same answer, so it does not matter
        /// who notes it.
        static FOUND: AtomicU8 = AtomicU8::new(NOT_ASKED);
        const NOT_ASKED: u8 = 0;
        const YES: u8 = 1;
        const NO: u8 = 2;
        match FOUND.load(Relaxed) {
            YES => Some(Self(())),
            NO => None,
            _ => {
                let found = asked().then_some(Self(()));
                FOUND.store(if found.is_some() { YES } else { NO }, Relaxed);
                found
            }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl Avx512 {
    /// `None`: use portable code.
    #[inline]
    #[must_use]
    pub fn get() -> Option<Self> {
        None
    }
}

#[cfg(target_arch = "x86_64")]
#[cold]
fn asked() -> bool {
    use core::arch::x86_64::{__cpuid, __cpuid_count};

    const OSXSAVE: u32 = 1 << 27;
    const POPCNT: u32 = 1 << 23;
    // Leaf 7, EBX: BMI1, BMI2; AVX-512 F, DQ, CD, BW, VL. ECX: VBMI, VBMI2.
    const LEAF_7_EBX: u32 = 1 << 3 | 1 << 8 | 1 << 16 | 1 << 17 | 1 << 28 | 1 << 30 | 1 << 31;
    const LEAF_7_ECX: u32 = 1 << 1 | 1 << 6;
    // Leaf 0x8000_0001, ECX.
    const LZCNT: u32 = 1 << 5;
    // Kept for each thread: SSE and AVX registers, mask registers, both halves of the large registers.
    const KEPT: u64 = 0b1110_0110;

    let has = |bits: u32, wanted: u32| bits & wanted == wanted;
    if __cpuid(0).eax < 7 || __cpuid(0x8000_0000).eax < 0x8000_0001 {
        return false;
    }
    let leaf_7 = __cpuid_count(7, 0);
    if !has(__cpuid(1).ecx, OSXSAVE | POPCNT)
        || !has(leaf_7.ebx, LEAF_7_EBX)
        || !has(leaf_7.ecx, LEAF_7_ECX)
        || !has(__cpuid(0x8000_0001).ecx, LZCNT)
    {
        return false;
    }
    // SAFETY:
    // 1. `xgetbv` exists where OSXSAVE is set: looked at above.
    // 2. It reads register 0, which exists wherever it does.
    let kept = unsafe { core::arch::x86_64::_xgetbv(0) };
    kept & KEPT == KEPT
}
