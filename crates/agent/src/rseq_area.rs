//! Where glibc keeps the area of restartable sequences (rseq) of each thread.
//!
//! It tells the kernel of that of the first thread before this library is loaded. The kernel writes there whenever the
//! thread goes on, and since glibc 2.41 it may lie far from the thread pointer, below all thread-local storage.
//!
//! Must hold: what is answered is what the library that the program uses says; musl and glibc before 2.35 say nothing.
//! Called by [`crate`], when a process enters a run.

use core::arch::asm;

/// How far from the thread pointer it is. None: there is none.
pub fn offset() -> Option<isize> {
    let (offset, bytes): (*const isize, *const u32);
    // SAFETY:
    // 1. This reads two words of this library, into which the dynamic linker has written where glibc has the two
    //    variables, or 0. The names are weak where they are used: in another object file that would not be known here.
    unsafe {
        asm!(".weak __rseq_offset, __rseq_size",
            "mov {0}, qword ptr [rip + __rseq_offset@GOTPCREL]",
            "mov {1}, qword ptr [rip + __rseq_size@GOTPCREL]",
            out(reg) offset, out(reg) bytes, options(nomem, nostack, preserves_flags));
    }
    // SAFETY:
    // 1. Each is 0, or where glibc has a variable of this type, which it sets before constructors run, and then never.
    let (offset, bytes) = unsafe { (offset.as_ref()?, bytes.as_ref()?) };
    (*bytes != 0).then_some(*offset)
}
