//! A program that makes calls under a storm of signals: `storm`.
//!
//! Threads send bytes through pipes and check them, fork and wait, start threads, change their alternate stacks, and
//! ignore a signal and handle it again; timers send signals every 100 microseconds, whose handlers make calls too, on
//! alternate stacks and not. Every answer is checked; what it prints is always the same.

use std::ffi::{c_int, c_void};
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const ROUNDS: u8 = 200;

static HANDLED: AtomicU64 = AtomicU64::new(0);
static WRONG: AtomicU64 = AtomicU64::new(0);

extern "C" fn handler(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY:
    // 1. Calls without pointers, and a place of the C library that is the thread's own.
    unsafe {
        let errno = *libc::__errno_location();
        if libc::getpid() != libc::syscall(libc::SYS_getpid) as i32 {
            WRONG.fetch_add(1, Ordering::Relaxed);
        }
        *libc::__errno_location() = errno;
    }
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

fn main() {
    for (signal, flags) in [(libc::SIGALRM, libc::SA_ONSTACK), (libc::SIGPROF, 0), (libc::SIGVTALRM, 0)] {
        handle(signal, flags);
    }
    set_timers(100);
    let threads: Vec<_> = (0..4u8).map(|seed| std::thread::spawn(move || work(seed))).collect();
    let others = [std::thread::spawn(change_stacks), std::thread::spawn(ignore_and_handle)];
    threads.into_iter().chain(others).for_each(|thread| thread.join().expect("the thread ends"));
    set_timers(0);
    println!("handled {} wrong {}", HANDLED.load(Ordering::Relaxed) > 0, WRONG.load(Ordering::Relaxed));
}

fn handle(signal: c_int, flags: c_int) {
    // SAFETY:
    // 1. The handler has the form that SA_SIGINFO asks for and makes only calls that it may.
    unsafe {
        let mut action = zeroed::<libc::sigaction>();
        action.sa_sigaction = handler as *const () as usize;
        if flags == libc::SA_ONSTACK {
            // The alternate stacks of the standard library have room for one frame of the kernel.
            libc::sigfillset(&mut action.sa_mask);
        }
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | flags;
        assert_eq!(libc::sigaction(signal, &action, null_mut()), 0);
    }
}

/// An alternate stack goes and comes while another thread sends signals all the time: a handler runs on it, or on that
/// of the thread.
fn change_stacks() {
    const BYTES: usize = 64 * 1024;
    static ENDS: AtomicBool = AtomicBool::new(false);
    handle(libc::SIGUSR1, libc::SA_ONSTACK);
    // SAFETY:
    // 1. The call has no arguments.
    let target = unsafe { libc::pthread_self() };
    let sender = std::thread::spawn(move || {
        while !ENDS.load(Ordering::Relaxed) {
            // SAFETY:
            // 1. The thread waits for this one before it ends.
            unsafe { libc::pthread_kill(target, libc::SIGUSR1) };
        }
    });
    let mut stacks = [vec![0u8; BYTES], vec![0u8; BYTES]];
    let places = stacks.each_mut().map(|stack| stack.as_mut_ptr().cast::<c_void>());
    for round in 0..30_000 {
        let on = libc::stack_t { ss_sp: places[round % 2], ss_flags: 0, ss_size: BYTES };
        let off = libc::stack_t { ss_sp: null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        for stack in [on, off] {
            // SAFETY:
            // 1. The stack lives longer than this loop, whose last round takes it away.
            assert_eq!(unsafe { libc::sigaltstack(&stack, null_mut()) }, 0);
        }
    }
    ENDS.store(true, Ordering::Relaxed);
    sender.join().expect("it ends");
}

/// A signal that was on its way to a handler is not the end when the handler goes.
fn ignore_and_handle() {
    for _ in 0..20_000 {
        // SAFETY:
        // 1. No code runs for a signal that is ignored.
        unsafe { libc::signal(libc::SIGALRM, libc::SIG_IGN) };
        handle(libc::SIGALRM, libc::SA_ONSTACK);
    }
}

fn set_timers(microseconds: i64) {
    // SAFETY:
    // 1. The C library has this function with this type.
    unsafe extern "C" {
        fn setitimer(which: c_int, new: *const libc::itimerval, old: *mut libc::itimerval) -> c_int;
    }
    for which in 0..3 {
        let time = libc::timeval { tv_sec: 0, tv_usec: microseconds };
        // SAFETY:
        // 1. The structure is this frame's.
        unsafe { setitimer(which, &libc::itimerval { it_interval: time, it_value: time }, null_mut()) };
    }
}

fn work(seed: u8) {
    let mut pipe = [0; 2];
    // SAFETY:
    // 1. The array has two integers.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    for round in 0..ROUNDS {
        let sent = [seed ^ round; 64];
        let mut received = [0u8; 64];
        for _ in 0..50 {
            // SAFETY:
            // 1. Both buffers have 64 bytes.
            let counts = unsafe {
                let written = libc::write(pipe[1], sent.as_ptr().cast(), 64);
                (written, libc::read(pipe[0], received.as_mut_ptr().cast(), 64))
            };
            assert_eq!(counts, (64, 64));
            assert_eq!(received, sent);
        }
        if round % 8 == seed {
            // SAFETY:
            // 1. The child makes two calls and ends.
            let status = unsafe {
                let child = libc::fork();
                if child == 0 {
                    libc::getppid();
                    libc::_exit(i32::from(round & 63));
                }
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &mut status, 0), child);
                status
            };
            assert!(libc::WIFEXITED(status), "round {round}: status {status:#x}");
            assert_eq!(libc::WEXITSTATUS(status), i32::from(round & 63));
            let spawned = std::process::Command::new("/bin/true").status().expect("true runs");
            assert!(spawned.success());
            let inner = std::thread::spawn(move || seed ^ round);
            assert_eq!(inner.join().expect("it ends"), seed ^ round);
        }
    }
}
