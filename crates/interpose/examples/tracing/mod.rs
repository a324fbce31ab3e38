//! A child that its parent traces, instruction by instruction.

use std::ffi::c_int;
use std::mem::zeroed;

/// Why the child stands still.
#[derive(PartialEq, Eq)]
pub enum Stop {
    Breakpoint,
    Step,
    Signal(c_int),
    Ended(c_int),
}

/// Waits until it does.
pub fn wait(child: libc::pid_t) -> Stop {
    let mut status = 0;
    // SAFETY:
    // 1. Both calls write to variables of this frame.
    unsafe {
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        if !libc::WIFSTOPPED(status) {
            return Stop::Ended(status);
        }
        let mut info = zeroed::<libc::siginfo_t>();
        libc::ptrace(libc::PTRACE_GETSIGINFO, child, 0, &mut info);
        match libc::WSTOPSIG(status) {
            // The kernel's own code is that of the instruction.
            libc::SIGTRAP if info.si_code == 0x80 => Stop::Breakpoint,
            libc::SIGTRAP => Stop::Step,
            signal => Stop::Signal(signal),
        }
    }
}

/// Lets it go on, with a signal or with 0.
pub fn go_on(child: libc::pid_t, how: libc::c_uint, signal: c_int) {
    // SAFETY:
    // 1. The call takes numbers.
    assert_eq!(unsafe { libc::ptrace(how, child, 0, signal) }, 0);
}
