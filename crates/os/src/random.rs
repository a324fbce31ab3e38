//! Random bytes of the kernel, for keys. Called by the supervisor and `host`.
//!
//! Must hold: all bytes are filled with random ones, or it is an error.

use crate::sys::{self, Errno, Result, abi};

/// Fills `bytes`; waits, at most some seconds after the machine has started, until the kernel has enough chance.
pub fn fill(bytes: &mut [u8]) -> Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let rest = &mut bytes[done..];
        // SAFETY:
        // 1. The kernel writes at most `rest.len()` bytes, which are ours.
        let answer = unsafe { sys::syscall3(abi::__NR_getrandom, rest.as_mut_ptr() as usize, rest.len(), 0) };
        match answer {
            Ok(count) => done += count,
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn two_keys_are_never_the_same_and_no_part_is_left_out() {
        let mut keys = [[0_u8; 32]; 2];
        keys.iter_mut().for_each(|key| super::fill(key).expect("the kernel has random bytes"));
        assert_ne!(keys[0], keys[1]);
        // A part of 8 bytes is zero once in 2^64.
        assert!(keys.iter().all(|key| key.as_chunks::<8>().0.iter().all(|part| *part != [0; 8])));
    }
}
