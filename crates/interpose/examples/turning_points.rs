//! A signal right behind the instruction by which something becomes true: `turning_points filter` and
//! `turning_points thread_pointer`.
//!
//! A child makes a call, and its parent traces it until the kernel has done what the call asks for. Then it sends a
//! signal: what the library has noted must be right by then, as the handler finds.

mod tracing;

use std::arch::asm;
use std::ffi::{c_int, c_void};
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tracing::{Stop, go_on, wait};
use uswap_interpose::{Before, Call, Context, Interposer, Options, ends_programs, install, thread};

/// More instructions than the library needs behind the call.
const STEPS_MAX: u32 = 20_000;
const IS_WRONG: c_int = 3;

struct Nothing;

impl Interposer for Nothing {
    fn before(&self, _: &mut Call, _: &Context) -> Before {
        Before::Pass
    }
}

static HANDLED: AtomicU32 = AtomicU32::new(0);
static WERE_TO_END: AtomicBool = AtomicBool::new(false);

extern "C" fn handler(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    WERE_TO_END.store(ends_programs(), Ordering::Relaxed);
    // A call that is dispatched: the library looks for what it knows of the thread.
    // SAFETY:
    // 1. The call takes nothing.
    unsafe { libc::getppid() };
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

fn main() {
    let way = std::env::args().nth(1).expect("a way");
    let is_filter = way == "filter";
    // SAFETY:
    // 1. This process has one thread: its child may do what it likes.
    match unsafe { libc::fork() } {
        0 if is_filter => sets_filter(),
        0 => changes_thread_pointer(),
        child if is_filter => see_filter(child),
        child => see_thread_pointers(child),
    }
}

/// The child is traced and knows the signal.
fn prepare() {
    // SAFETY:
    // 1. The handler has the form that SA_SIGINFO asks for.
    unsafe {
        assert_eq!(libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0), 0);
        let mut action = zeroed::<libc::sigaction>();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, null_mut()), 0);
    }
    install(&Nothing, &Options { patch_after: None, ..Options::default() }).expect("calls can be seen");
}

/// A process that comes under the library would be ended by it.
fn sets_filter() -> ! {
    prepare();
    let op = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut code = [
        op(0x20, 0, 0, 0),
        op(0x15, 0, 1, libc::SYS_getdents64 as u32),
        op(0x06, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        op(0x06, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: code.len() as u16, filter: code.as_mut_ptr() };
    // SAFETY:
    // 1. The kernel reads the program, which lives in this frame.
    // 2. A breakpoint stops the process for its tracer, which lets it go on.
    let is_right = unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        asm!("int3");
        let answer = libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &program);
        asm!("int3");
        answer == 0 && WERE_TO_END.load(Ordering::Relaxed)
    };
    std::process::exit(if is_right { 0 } else { IS_WRONG })
}

/// To a copy of what is there, and back, in each round.
fn changes_thread_pointer() -> ! {
    /// The part of it that libraries look at while they make calls.
    const COPIED_BYTES: usize = 1024;
    const ARCH_SET_FS: c_int = 0x1002;
    const ARCH_GET_FS: c_int = 0x1003;
    prepare();
    let mut pointers = [0_usize; 2];
    let mut copy = vec![0_u128; COPIED_BYTES / size_of::<u128>()];
    pointers[1] = copy.as_mut_ptr() as usize;
    // SAFETY:
    // 1. What is behind the thread pointer is longer than this, and may be read.
    // 2. The calls behind the change look at nothing but what is copied, and at the thread's errors not at all.
    // 3. A breakpoint stops the process for its tracer, which lets it go on.
    unsafe {
        assert_eq!(libc::syscall(libc::SYS_arch_prctl, ARCH_GET_FS, &raw mut pointers[0]), 0);
        std::ptr::copy_nonoverlapping(pointers[0] as *const u8, pointers[1] as *mut u8, COPIED_BYTES);
        for round in 1.. {
            asm!("int3");
            let answer = libc::syscall(libc::SYS_arch_prctl, ARCH_SET_FS, pointers[round % 2]);
            asm!("int3");
            if answer != 0 || thread::slots().count() != 1 {
                libc::_exit(IS_WRONG);
            }
        }
    }
    unreachable!("it is killed")
}

/// Runs until the next breakpoint, or the end.
fn run(child: libc::pid_t, mut signal: c_int) -> Stop {
    loop {
        go_on(child, libc::PTRACE_CONT, signal);
        match wait(child) {
            Stop::Step => signal = 0,
            Stop::Signal(other) => signal = other,
            stop => return stop,
        }
    }
}

/// Makes one instruction more. False: it has come to a breakpoint.
fn step(child: libc::pid_t) -> bool {
    let mut signal = 0;
    loop {
        go_on(child, libc::PTRACE_SINGLESTEP, signal);
        match wait(child) {
            Stop::Breakpoint => return false,
            Stop::Step => return true,
            Stop::Signal(other) => signal = other,
            Stop::Ended(status) => panic!("the child has ended: status {status:#x}"),
        }
    }
}

fn run_to_start(child: libc::pid_t) {
    let start = match wait(child) {
        Stop::Signal(signal) => run(child, signal),
        stop => stop,
    };
    assert!(start == Stop::Breakpoint, "it ends early");
}

fn see_filter(child: libc::pid_t) {
    let is_filtered = || {
        let status = std::fs::read_to_string(format!("/proc/{child}/status")).expect("it lives");
        status.contains("\nSeccomp:\t2\n")
    };
    run_to_start(child);
    assert!(!is_filtered(), "it has a filter from the beginning");
    while !is_filtered() {
        assert!(step(child), "it has set no filter");
    }
    assert!(run(child, libc::SIGUSR1) == Stop::Breakpoint);
    match run(child, 0) {
        Stop::Ended(0) => println!("programs are left alone as soon as there is a filter"),
        _ => println!("there is a filter, and programs are not left alone"),
    }
}

fn see_thread_pointers(child: libc::pid_t) {
    let thread_pointer = || {
        // SAFETY:
        // 1. The call writes the structure, for which zeros are a value.
        unsafe {
            let mut registers = zeroed::<libc::user_regs_struct>();
            assert_eq!(libc::ptrace(libc::PTRACE_GETREGS, child, 0, &mut registers), 0);
            registers.fs_base
        }
    };
    run_to_start(child);
    for more in 0..STEPS_MAX {
        let before = thread_pointer();
        while thread_pointer() == before {
            assert!(step(child), "it is the same");
        }
        let is_through = !(0..more).all(|_| step(child));
        // To its end, and to the begin of the next.
        if is_through {
            println!("the thread is known behind each instruction");
            break;
        }
        assert!(run(child, libc::SIGUSR1) == Stop::Breakpoint);
        if run(child, 0) != Stop::Breakpoint {
            println!("the thread was not known {more} instructions behind the change");
            return;
        }
    }
    // SAFETY:
    // 1. The child is ours, and nobody has waited for it.
    unsafe { libc::kill(child, libc::SIGKILL) };
}
