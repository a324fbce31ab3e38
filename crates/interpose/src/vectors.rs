//! The vector registers of the program, kept while code of ours uses them.
//!
//! What must hold: `with_vectors` comes back with the registers that it has found, whatever the work does to them.
//! Called by `host`, around work that uses more than general registers.

use core::arch::asm;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::kernel;

/// Components of the processor state that `with_vectors` saves; 0: not asked yet.
static VECTOR_MASK: AtomicU32 = AtomicU32::new(0);

const VECTOR_HEADER_WORDS: usize = 8;

/// What `xsave` writes: the registers of x87 and SSE, a header, and the others (Intel SDM, volume 1, 13.4).
#[repr(C, align(64))]
struct VectorArea {
    legacy: [u8; 512],
    header: [u64; VECTOR_HEADER_WORDS],
    extended: [u8; kernel::VECTOR_AREA_BYTES - 512 - VECTOR_HEADER_WORDS * 8],
}

/// Runs `work` with all vector registers saved and given back: it may use AVX and AVX-512.
///
/// Takes 2.8 KiB of stack.
pub fn with_vectors<T>(work: impl FnOnce() -> T) -> T {
    // Not zeroed as a whole: what fills memory may itself use wide registers, and leave zeros there.
    let mut area = MaybeUninit::<VectorArea>::uninit();
    // SAFETY:
    // 1. The header is part of the area, at the address of a `u64`.
    // 2. Volatile, so that the compiler calls nothing for it.
    unsafe {
        let header = (&raw mut (*area.as_mut_ptr()).header).cast::<u64>();
        (0..VECTOR_HEADER_WORDS).for_each(|word| header.add(word).write_volatile(0));
    }
    let mask = vector_mask();
    // SAFETY:
    // 1. `area` is aligned to 64 bytes and as large as the components of `mask` need: `vector_mask`
    //    leaves out what ends behind it.
    // 2. The header of the area is zero.
    unsafe { asm!("xsave [{}]", in(reg) area.as_mut_ptr(), in("eax") mask, in("edx") 0, options(nostack)) };
    let value = work();
    // SAFETY:
    // 1. The area was written by xsave with the same mask; of what that left out the header tells.
    // 2. The registers that it changes are told to the compiler, or are wider than any it uses here.
    unsafe {
        asm!("xrstor [{}]", in(reg) area.as_ptr(), in("eax") mask, in("edx") 0, options(nostack),
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
            out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _);
    }
    value
}

/// Asks the processor once, when it is first needed: `cpuid` takes 20 us in guests.
fn vector_mask() -> u32 {
    match VECTOR_MASK.load(Ordering::Relaxed) {
        0 => {
            let mask = kernel::vector_mask();
            VECTOR_MASK.store(mask, Ordering::Relaxed);
            mask
        }
        mask => mask,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_with_vectors_leaves_them_as_they_were() {
        if !std::is_x86_feature_detected!("avx") {
            return;
        }
        let before = [0x0123_4567_89AB_CDEFu64; 4];
        let mut after = [0u64; 4];
        extern "C" fn work() {
            with_vectors(|| {
                // SAFETY:
                // 1. The processor has AVX; the register is told to the compiler.
                unsafe {
                    asm!("vpcmpeqd xmm3, xmm3, xmm3", "vinsertf128 ymm3, ymm3, xmm3, 1", out("xmm3") _)
                };
            });
        }
        // SAFETY:
        // 1. The processor has AVX; the call is made with an aligned stack and all that it may change is told.
        unsafe {
            asm!("vmovups ymm3, [r12]",
                "mov r15, rsp", "and rsp, -16", "call {work}", "mov rsp, r15",
                "vmovups [r13], ymm3", "vzeroupper",
                in("r12") before.as_ptr(), in("r13") after.as_mut_ptr(), work = sym work,
                out("r15") _, clobber_abi("C"));
        }
        // Rust code for plain x86-64 may use the lower half: only `with_vectors` in whole saves it.
        assert_eq!(after[2..], before[2..]);
    }
}
