//! Where the functions are by whose calls a small process is seen to grow.
//!
//! Must hold: an address is that of the function which calls of the program reach, or 0; the names are those of
//! `uswap_identity`, in their order. Called by [`crate`], when the library is loaded.

use core::arch::{asm, global_asm};
use uswap_identity::GROWTH_FUNCTIONS as FUNCTIONS;

/// Names are told to the linker, and the dynamic linker writes where each is, or 0.
macro_rules! addresses {
    ($($name:literal),+) => {
        global_asm!($(concat!(".weak ", $name)),+);

        /// Names of the addresses.
        const NAMES: [&str; FUNCTIONS.len()] = [$($name),+];

        /// The addresses of `FUNCTIONS`, in the first library that has such a name; 0: none has.
        pub fn addresses() -> [usize; FUNCTIONS.len()] {
            [$({
                let address: usize;
                // SAFETY:
                // 1. This reads one word of this library, which the dynamic linker has written.
                unsafe {
                    asm!(concat!("mov {}, qword ptr [rip + ", $name, "@GOTPCREL]"), out(reg) address,
                        options(nomem, nostack, preserves_flags));
                }
                address
            }),+]
        }
    };
}

addresses!("mmap", "brk", "mremap", "madvise", "mlock", "mlockall", "prctl", "execve");

const _: () = {
    let mut index = 0;
    while index < FUNCTIONS.len() {
        assert!(is_same(NAMES[index].as_bytes(), FUNCTIONS[index].as_bytes()));
        index += 1;
    }
};

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut index = 0;
    while index < one.len() && index < other.len() && one[index] == other[index] {
        index += 1;
    }
    index == one.len() && index == other.len()
}
