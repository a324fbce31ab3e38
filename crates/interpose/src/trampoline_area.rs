//! The first area of trampolines, in the text of this library.
//!
//! Must hold: the area begins at a page and lies in the text from which calls are allowed. Each trampoline has its
//! parts where the unwind table of the area says. Called by [`crate::patch`], which writes into it, by
//! [`mod@crate::install`], and by [`crate::frame`].

use core::arch::naked_asm;

/// Room for trampolines that make calls themselves: it lies in the text that dispatch allows.
///
/// Every trampoline has its parts at the same places, so that there can be an unwind table for code that is
/// written later: a thread that is cancelled in a call unwinds through it. The stack pointer is the
/// program's but for the middle part, and the address where the program goes on is at the end.
///
/// # Safety
/// Nobody calls this: only its address is used. A thread comes into a trampoline from the site for which it was
/// written, and from nowhere else.
#[unsafe(naked)]
pub unsafe extern "C" fn area() {
    naked_asm!(
        ".balign 4096",
        ".cfi_startproc",
        ".cfi_def_cfa rsp, 0",
        // DW_CFA_expression of rip: ((rip - 1) | 127) - 7.
        ".cfi_escape 0x10, 16, 7, 0x80, 0x7f, 0x08, 127, 0x21, 0x37, 0x1c",
        ".rept {count}",
        ".space {middle}, 0xcc",
        ".cfi_def_cfa_offset 128",
        ".space {tail} - {middle}, 0xcc",
        ".cfi_def_cfa_offset 0",
        ".space {bytes} - {tail}, 0xcc",
        ".endr",
        ".cfi_endproc",
        count = const AREA_BYTES / TRAMPOLINE_BYTES,
        middle = const TRAMPOLINE_MIDDLE,
        tail = const TRAMPOLINE_TAIL,
        bytes = const TRAMPOLINE_BYTES,
    )
}

/// Bytes of [`area`].
pub const AREA_BYTES: usize = 128 * 1024;
/// Bytes of a trampoline, whose start is a multiple of them.
pub const TRAMPOLINE_BYTES: usize = 128;
/// From here on the stack pointer is below the red zone; from `TRAMPOLINE_TAIL` on no more.
pub const TRAMPOLINE_MIDDLE: usize = 64 + 5;
/// See `TRAMPOLINE_MIDDLE`.
pub const TRAMPOLINE_TAIL: usize = TRAMPOLINE_MIDDLE + 5 + 2 + 8;
const _: () = assert!(TRAMPOLINE_BYTES == 128, "the unwind table of `area` says so");
