//! Segments of System V shared memory.
//!
//! Called by `host`, which must know what a segment replaces before the program attaches it.
//!
//! Must hold: the length is what was asked for, and not whole pages. A number may be another segment by the next call.

use crate::sys::{self, Result, abi};

/// The command of `shmctl` that tells of a segment.
const IPC_STAT: usize = 2;
/// The words of `struct shmid64_ds`, and which of them is the length of the segment.
const WORDS: usize = 14;
const BYTES_AT: usize = 6;

/// How long the segment is that has this number, in bytes, as it was asked for.
///
/// # Errors
/// There is none, or who asks may not read it.
pub fn bytes(number: u32) -> Result<usize> {
    let mut status = [0_usize; WORDS];
    // SAFETY:
    // 1. With this command the kernel writes that structure, 112 bytes, to the address, which is that of as many.
    unsafe { sys::syscall3(abi::__NR_shmctl, number as usize, IPC_STAT, status.as_mut_ptr() as usize) }?;
    Ok(status[BYTES_AT])
}
