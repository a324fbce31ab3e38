//! Protection keys (`pkey_mprotect`): what a thread may do to memory that has a key, on processors that know them.
//!
//! Called by `host`, which reads pages of the program in threads to which it may have denied them: a new thread and a
//! handler of signals may use nothing but the first key.
//!
//! Must hold: behind [`with_all`] the rights are what they were before, for each key.

use core::arch::asm;
use core::arch::x86_64::{__cpuid, __cpuid_count};
use core::sync::atomic::{AtomicU32, Ordering};

/// Of leaf 7 in `ecx`: the kernel has switched the keys on.
const OSPKE: u32 = 1 << 4;

const UNKNOWN: u32 = 0;
const MISSING: u32 = 1;
const THERE: u32 = 2;

fn are_there() -> bool {
    static KNOWN: AtomicU32 = AtomicU32::new(UNKNOWN);
    match KNOWN.load(Ordering::Relaxed) {
        UNKNOWN => {
            let found = __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ecx & OSPKE != 0;
            KNOWN.store(if found { THERE } else { MISSING }, Ordering::Relaxed);
            found
        }
        known => known == THERE,
    }
}

/// What keys deny to the calling thread.
fn denied() -> u32 {
    let denied;
    // SAFETY:
    // 1. The processor and the kernel have keys: the caller has asked.
    // 2. It reads a register, needs zero in `ecx`, and clears `edx`.
    unsafe { asm!("rdpkru", in("ecx") 0, out("eax") denied, out("edx") _, options(nomem, nostack)) };
    denied
}

/// Sets what keys deny to the calling thread.
fn deny(what: u32) {
    // SAFETY:
    // 1. The processor and the kernel have keys: the caller has asked.
    // 2. Nothing that the thread may use is denied by it that was not denied before. No memory may be touched earlier
    //    or later than it says: `nomem` is not given.
    unsafe { asm!("wrpkru", in("eax") what, in("ecx") 0, in("edx") 0, options(nostack)) };
}

/// Does `work`, in which the calling thread may use memory whatever its key. No handler of the program may run
/// meanwhile: the caller has blocked signals.
pub fn with_all<T>(work: impl FnOnce() -> T) -> T {
    if !are_there() {
        return work();
    }
    let before = denied();
    deny(0);
    let done = work();
    deny(before);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_may_use_is_as_before_afterwards() {
        if !are_there() {
            std::println!("SKIP: no protection keys");
            return;
        }
        let before = denied();
        assert_eq!(with_all(denied), 0);
        assert_eq!(denied(), before);
    }
}
