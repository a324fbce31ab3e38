//! Copies bytes of the program that may not be there: an access that the program could not make gives `false`, and no
//! signal.
//!
//! Must hold: one instruction here touches the bytes of the program; when its fault is not served, the thread goes on
//! where the copy answers no ([`fixup`]). In a process that is not armed nobody does that, so the kernel is asked
//! first. Called by [`crate::faults`], [`crate::calls`], [`crate::syscalls`], [`crate::residency`],
//! [`crate::environment`] and [`crate::memory`], which read arguments or pages.

use core::arch::naked_asm;

/// Copies the bytes at `start`. False: not all of them may be read. A page of ours that is missing is brought by the
/// fault, as for any access.
pub fn read(start: usize, into: &mut [u8]) -> bool {
    // SAFETY:
    // 1. `into` is a live exclusive slice of that length.
    // 2. Whatever lies at `start`: a fault that is not served goes to `refused`, see `fixup`.
    unsafe { copy(into.as_mut_ptr(), start as *const u8, into.len()) == 1 }
}

/// Where a thread goes on whose access at `instruction` was refused, if that is the copy here.
pub fn fixup(instruction: usize) -> Option<usize> {
    (instruction == copy as *const () as usize + COPY_AT).then_some(refused as *const () as usize)
}

/// Offset of the instruction that copies.
const COPY_AT: usize = 3;

/// # Safety
/// `into` may be written.
#[unsafe(naked)]
unsafe extern "C" fn copy(into: *mut u8, from: *const u8, bytes: usize) -> u32 {
    naked_asm!(
        ".byte 0x48, 0x89, 0xd1", // mov rcx, rdx
        "rep movsb",
        "mov eax, 1",
        "ret",
    )
}

#[unsafe(naked)]
unsafe extern "C" fn refused() {
    naked_asm!("xor eax, eax", "ret")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_copied_and_the_copying_instruction_is_where_it_is_looked_for() {
        let (from, mut to) = ([1_u8, 2, 3], [0; 3]);
        assert!(read(from.as_ptr() as usize, &mut to));
        assert_eq!(to, from);
        let at = copy as *const () as usize + COPY_AT;
        // SAFETY: 1. the function is longer than that.
        assert_eq!(unsafe { (at as *const [u8; 2]).read() }, [0xF3, 0xA4], "rep movsb");
        assert!(fixup(at).is_some() && fixup(at + 1).is_none());
    }
}
