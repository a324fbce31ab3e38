//! A signal between any two instructions of a call: `stepped`.
//!
//! A child changes its alternate stack again and again. Its parent traces it, lets it make one instruction more each
//! time, and then sends a signal whose handler wants that stack, until it has gone through the whole call. What it
//! prints is always the same.

mod tracing;

use std::arch::asm;
use std::ffi::{c_int, c_void};
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

use tracing::{Stop, go_on, wait};

const STACK_BYTES: usize = 64 * 1024;
/// More instructions than any call takes.
const STEPS_MAX: u32 = 20_000;

static HANDLED: AtomicU32 = AtomicU32::new(0);

extern "C" fn handler(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

fn main() {
    // SAFETY:
    // 1. This process has one thread: its child may do what it likes.
    match unsafe { libc::fork() } {
        0 => child(),
        child => parent(child),
    }
}

/// Comes back to the same instruction before each round.
fn child() -> ! {
    let mut stack = vec![0_u8; STACK_BYTES];
    let on = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: STACK_BYTES };
    let off = libc::stack_t { ss_sp: null_mut(), ss_flags: libc::SS_DISABLE, ss_size: STACK_BYTES };
    // SAFETY:
    // 1. The handler has the form that SA_SIGINFO asks for; the stacks live as long as this process.
    // 2. A breakpoint stops the process for its tracer, which lets it go on.
    unsafe {
        let mut action = zeroed::<libc::sigaction>();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, null_mut()), 0);
        assert_eq!(libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0), 0);
        // What is patched after some calls is patched before it counts.
        for _ in 0..32 {
            assert_eq!(libc::sigaltstack(&on, null_mut()), 0);
        }
        for round in 0.. {
            let new = if round % 2 == 0 { &off } else { &on };
            asm!("int3");
            let answer = libc::sigaltstack(new, null_mut());
            asm!("int3");
            assert_eq!(answer, 0);
        }
    }
    unreachable!("it is killed")
}

fn has_ended(status: c_int) -> ! {
    println!("the child has ended: status {status:#x}");
    std::process::exit(1);
}

/// Runs until the next breakpoint, by these steps.
fn run(child: libc::pid_t, mut signal: c_int) {
    loop {
        go_on(child, libc::PTRACE_CONT, signal);
        match wait(child) {
            Stop::Breakpoint => return,
            Stop::Step => signal = 0,
            Stop::Signal(other) => signal = other,
            Stop::Ended(status) => has_ended(status),
        }
    }
}

/// So many instructions of the call; false: it has fewer.
fn step(child: libc::pid_t, steps: u32) -> bool {
    let (mut made, mut signal) = (0, 0);
    while made < steps {
        go_on(child, libc::PTRACE_SINGLESTEP, signal);
        signal = 0;
        match wait(child) {
            Stop::Breakpoint => return false,
            Stop::Step => made += 1,
            Stop::Signal(other) => signal = other,
            Stop::Ended(status) => has_ended(status),
        }
    }
    true
}

fn parent(child: libc::pid_t) {
    run_to_start(child);
    // Off, then on: each is gone through with the same number of instructions.
    for steps in 0..STEPS_MAX {
        let mut is_through = 0;
        for _ in 0..2 {
            match step(child, steps) {
                true => run(child, libc::SIGUSR1),
                false => is_through += 1,
            }
            // To the begin of the next.
            run(child, 0);
        }
        if is_through == 2 {
            println!("a signal after each instruction");
            // SAFETY:
            // 1. The child is ours, and nobody has waited for it.
            unsafe { libc::kill(child, libc::SIGKILL) };
            return;
        }
    }
    println!("the call has no end");
}

/// To the first breakpoint.
fn run_to_start(child: libc::pid_t) {
    match wait(child) {
        Stop::Breakpoint => (),
        Stop::Signal(signal) => run(child, signal),
        Stop::Step => run(child, 0),
        Stop::Ended(status) => has_ended(status),
    }
}
