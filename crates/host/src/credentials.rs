//! What a process may read depends on its credentials.
//!
//! Must hold: the kernel is asked each time, for the calling thread, so that a change is seen whoever made it. Called
//! by `agent` for those with which a process comes, by [`crate::process`], which keeps them, and by [`crate::leaving`]
//! and [`crate::small`], which compare.

use uswap_os::sys::prctl::PR_GET_DUMPABLE;
use uswap_os::sys::{self, abi};

/// What a process may read depends on these: real, effective and saved user and group, and whether it may be dumped.
pub type Credentials = [u32; 7];

/// Those of this process now.
pub fn credentials() -> Credentials {
    let mut ids = [0; 7];
    for (number, first) in [(abi::__NR_getresuid, 0), (abi::__NR_getresgid, 3)] {
        let [a, b, c] = [0, 1, 2].map(|index| &raw mut ids[first + index] as usize);
        // SAFETY:
        // 1. The call writes three numbers to three addresses, all in `ids`.
        let _cannot_fail = unsafe { sys::syscall3(number, a, b, c) };
    }
    // SAFETY:
    // 1. The call takes a number and answers one.
    ids[6] = unsafe { sys::syscall3(abi::__NR_prctl, PR_GET_DUMPABLE as usize, 0, 0) }
        .map_or(0, |value| value as u32);
    ids
}
