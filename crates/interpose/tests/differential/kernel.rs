//! Calls as they stand.

use uswap_interpose::Call;
use uswap_os::sys::syscall6;

/// Makes a call; an error is a small negative number.
pub fn make(call: &Call) -> isize {
    let [a, b, c, d, e, f] = call.arguments;
    // SAFETY:
    // 1. The test gives the kernel memory of its own, or none.
    match unsafe { syscall6(call.number as u32, a, b, c, d, e, f) } {
        Ok(answer) => answer as isize,
        Err(error) => error.as_answer(),
    }
}

/// A call with fewer arguments.
pub fn call<const N: usize>(number: i64, given: [u64; N]) -> Call {
    let mut arguments = [0; 6];
    for (argument, given) in arguments.iter_mut().zip(given) {
        *argument = given as usize;
    }
    Call { number: number as usize, arguments }
}

/// Makes a call of the test itself, past the boundary.
pub fn raw<const N: usize>(number: i64, given: [u64; N]) -> i64 {
    make(&call(number, given)) as i64
}
