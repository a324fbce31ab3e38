//! A program whose sites lie at every distance from eight aligned bytes, and are patched while threads run them:
//! `alignments`.
//!
//! It calls `getuid`, which nothing else here does, from three kinds of sites: with the number directly ahead, with
//! other instructions between the two, and with no room but padding near.

use std::arch::global_asm;

/// Calls of each of four threads, which meet at a few sites at a time.
const ROUNDS: usize = 5_000;
/// Calls of each site afterwards: one that is still dispatched is seen in the count.
const ROUNDS_AFTER: usize = 30_000;
const SITES: usize = 24;

macro_rules! sites {
    ($($skipped:literal)*) => {
        $(global_asm!(
            concat!(
                ".pushsection .text.alignments, \"ax\", @progbits\n",
                // The number directly ahead.
                ".p2align 6\n", ".skip 16 + ", $skipped, ", 0xcc\n",
                ".globl site_ahead_", $skipped, "\n", ".type site_ahead_", $skipped, ", @function\n",
                "site_ahead_", $skipped, ":\n", ".cfi_startproc\n",
                "mov eax, edi\n", "mov eax, 102\n", "syscall\n", "ret\n", ".cfi_endproc\n",
                ".size site_ahead_", $skipped, ", . - site_ahead_", $skipped, "\n",
                // Something between them.
                ".p2align 6\n", ".skip 16 + ", $skipped, ", 0xcc\n",
                ".globl site_between_", $skipped, "\n", ".type site_between_", $skipped, ", @function\n",
                "site_between_", $skipped, ":\n", ".cfi_startproc\n",
                "mov eax, 102\n", "mov r8, rdi\n", "mov rdx, r8\n", "syscall\n", "ret\n", ".cfi_endproc\n",
                ".size site_between_", $skipped, ", . - site_between_", $skipped, "\n",
                // Padding behind.
                ".p2align 6\n", ".skip 16 + ", $skipped, ", 0xcc\n",
                ".globl site_padded_", $skipped, "\n", ".type site_padded_", $skipped, ", @function\n",
                "site_padded_", $skipped, ":\n", ".cfi_startproc\n",
                "mov eax, edi\n", "syscall\n", "ret\n", ".skip 16, 0xcc\n", "ret\n", ".cfi_endproc\n",
                ".size site_padded_", $skipped, ", . - site_padded_", $skipped, "\n",
                ".popsection\n",
            )
        );)*
    };
}

sites!(0 1 2 3 4 5 6 7);

macro_rules! table {
    ($($name:ident)*) => {{
        // SAFETY:
        // 1. They are the functions above, which take one number and answer one.
        unsafe extern "C" {
            $(fn $name(number: usize) -> usize;)*
        }
        [$($name),*]
    }};
}

fn main() {
    let sites: [unsafe extern "C" fn(usize) -> usize; SITES] = table!(
        site_ahead_0 site_ahead_1 site_ahead_2 site_ahead_3 site_ahead_4 site_ahead_5 site_ahead_6 site_ahead_7
        site_between_0 site_between_1 site_between_2 site_between_3
        site_between_4 site_between_5 site_between_6 site_between_7
        site_padded_0 site_padded_1 site_padded_2 site_padded_3
        site_padded_4 site_padded_5 site_padded_6 site_padded_7
    );
    let user = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").expect("it is there"));
    let call = |site: usize| {
        // SAFETY:
        // 1. The call names no memory.
        let found = unsafe { sites[site % SITES](102) };
        assert_eq!(found, user as usize, "site {site}");
    };
    std::thread::scope(|scope| {
        for first in 0..4 {
            scope.spawn(move || (0..ROUNDS).for_each(|round| call(first * 6 + round / 100)));
        }
    });
    (0..SITES * ROUNDS_AFTER).for_each(call);
    println!("{} calls", 4 * ROUNDS + SITES * ROUNDS_AFTER);
}
