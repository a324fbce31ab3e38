//! A mode that needs a debugger: it plays one itself.

use crate::support::{Case, Filled, fail, in_child, must, wait_good};
use std::time::Duration;

/// Longer than uswap waits for a forked child to report.
const HELD: Duration = Duration::from_millis(2500);

/// A child that is stopped in the moment in which it is made, and goes on after its parent's engine has given up
/// waiting for it.
pub fn late_child(case: &Case) {
    let (bytes, seed) = (case.bytes, case.seed);
    let traced = in_child(move || {
        // SAFETY:
        // 1. The call has no precondition in memory.
        unsafe { must(libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) as i32, "PTRACE_TRACEME") };
        stop_self();
        for round in 0..2 {
            let filled = Filled::new(bytes, seed, round);
            let child = in_child(move || {
                filled.verify("child that was held");
                let own = Filled::new(bytes / 2, seed, 50 + round);
                own.verify("own memory of the child that was held");
            });
            filled.verify("parent of a child that is held");
            wait_good(child, "the child that was held");
            filled.verify("parent, after its child ended");
            let _ = uswap_test_programs::memory::unmap(filled.address, filled.pages * 4096);
        }
    });
    must_stop(traced, libc::SIGSTOP, 0);
    // SAFETY:
    // 1. `traced` is stopped and traced by this thread.
    unsafe {
        must(
            libc::ptrace(libc::PTRACE_SETOPTIONS, traced, 0, libc::PTRACE_O_TRACEFORK) as i32,
            "PTRACE_SETOPTIONS",
        );
    }
    for _ in 0..2 {
        go_on(traced, 0);
        must_stop(traced, libc::SIGTRAP, libc::PTRACE_EVENT_FORK);
        let mut child: libc::c_ulong = 0;
        // SAFETY:
        // 1. `traced` is stopped and traced by this thread; 2. the kernel writes one word to `child`.
        unsafe {
            must(
                libc::ptrace(libc::PTRACE_GETEVENTMSG, traced, 0, &raw mut child) as i32,
                "PTRACE_GETEVENTMSG",
            );
        }
        let child = child as i32;
        must_stop(child, libc::SIGSTOP, 0);
        go_on(traced, 0);
        std::thread::sleep(HELD);
        // SAFETY:
        // 1. `child` is stopped and traced by this thread.
        unsafe { must(libc::ptrace(libc::PTRACE_DETACH, child, 0, 0) as i32, "PTRACE_DETACH") };
        // The parent stops when its child has ended.
        must_stop(traced, libc::SIGCHLD, 0);
    }
    go_on(traced, libc::SIGCHLD);
    wait_good(traced, "the parent of the children that were held");
}

fn stop_self() {
    // SAFETY:
    // 1. The call has no precondition in memory.
    must(unsafe { libc::raise(libc::SIGSTOP) }, "raise");
}

fn go_on(pid: i32, signal: i32) {
    // SAFETY:
    // 1. `pid` is stopped and traced by this thread.
    unsafe { must(libc::ptrace(libc::PTRACE_CONT, pid, 0, signal) as i32, "PTRACE_CONT") };
}

/// Waits until the process stops, and ends the mode if it is for another reason.
pub fn must_stop(pid: i32, signal: i32, event: i32) {
    let mut status = 0;
    // SAFETY:
    // 1. The kernel writes one word to `status`.
    let stopped = unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) };
    let good = libc::WIFSTOPPED(status) && libc::WSTOPSIG(status) == signal && status >> 16 == event;
    if stopped != pid || !good {
        fail!("process {pid}: waitpid gave {stopped} with status {status:#x}, not a stop by signal {signal}");
    }
}
