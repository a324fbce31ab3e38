//! Modes about what each thread has for itself and a new thread inherits: the state of the floating point unit, and the
//! right to read the time stamp.

use crate::support::{Case, Filled, fail, in_child, must, wait_good};
use std::arch::asm;
use uswap_test_programs::memory;

/// Rounds up, and every floating point exception is a signal: as after `fesetround(FE_UPWARD)` and
/// `feenableexcept(FE_ALL_EXCEPT)`.
const UPWARD_AND_STRICT: u32 = 2 << 13;
const USUAL: u32 = 0x1F80;

fn set_control(control: u32) {
    // SAFETY:
    // 1. The register is this thread's own, and the value has no reserved bits. Until it is set back the program counts
    //    with integers only.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const control) };
}

/// Prices: decimal fractions, which are the same bits everywhere only where divisions round to the nearest. A process
/// that rounds upward, and its child, find them as they were.
pub fn rounding(case: &Case) {
    let words = case.bytes / 8;
    let address = memory::map_private(case.bytes, 0).unwrap_or_else(|error| fail!("mmap: errno {error}"));
    let mut sum = 0;
    for index in 0..words {
        let cents = (index as u64).wrapping_mul(7_919).wrapping_add(case.seed) % 100_000;
        let price = (cents as f64 / 100.0).to_bits();
        memory::write_word(address + index * 8, price);
        sum = add(sum, price);
    }
    let verify = |who: &str| {
        let found = (0..words).fold(0, |sum, index| add(sum, memory::read_word(address + index * 8)));
        if found != sum {
            fail!("{who}: prices changed");
        }
    };
    set_control(UPWARD_AND_STRICT);
    let child = in_child(|| {
        verify("child");
        verify("child, again");
    });
    wait_good(child, "the child");
    verify("parent");
    set_control(USUAL);
}

fn add(sum: u64, word: u64) -> u64 {
    sum.rotate_left(7).wrapping_add(word)
}

/// The program may not read the processor's time stamp, and neither may threads that it makes: it and its child use
/// their memory as before. (Nothing here may ask for the time.)
pub fn no_time_stamps(case: &Case) {
    let filled = Filled::new(case.bytes, case.seed, 1);
    // SAFETY:
    // 1. The call takes numbers only.
    must(unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV, 0, 0, 0) }, "PR_SET_TSC");
    let child = in_child(|| {
        filled.verify("child");
        filled.fill();
        filled.verify("child, what it wrote itself");
    });
    wait_good(child, "the child");
    filled.verify("parent");
}
