//! Modes about handlers of signals that have little room, or fail themselves.

use crate::signals::{install, set_alternate_stack, start_timer_of};
use crate::support::{Case, Filled, fail, in_child, wait, wait_good};
use core::ffi::CStr;
use uswap_test_programs::{PAGE_BYTES, memory};

/// What a handler may use of its stack, beside the kernel's frame.
const ROOM: usize = 4096;
/// In the auxiliary vector: what the kernel writes to the stack for a signal.
const AT_MINSIGSTKSZ: u64 = 51;
/// So often each call is made before: its site is patched by then.
const TIMES: usize = 30;

/// Calls that a handler may make.
fn make_calls() {
    // SAFETY:
    // 1. The calls name memory of this frame only.
    unsafe {
        let mut pipe = [0; 2];
        let mut byte = 7u8;
        let mut action: libc::sigaction = core::mem::zeroed();
        let good = libc::getppid() > 0
            && libc::pipe(pipe.as_mut_ptr()) == 0
            && libc::write(pipe[1], (&raw const byte).cast(), 1) == 1
            && libc::read(pipe[0], (&raw mut byte).cast(), 1) == 1
            && libc::close(pipe[0]) == 0
            && libc::close(pipe[1]) == 0
            && libc::sigaction(libc::SIGSEGV, core::ptr::null(), &raw mut action) == 0
            && libc::sigaction(libc::SIGSEGV, &raw const action, core::ptr::null_mut()) == 0
            && libc::kill(libc::getpid(), 0) == 0;
        if !good {
            fail!("a call failed");
        }
    }
}

extern "C" fn on_user_signal(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    make_calls();
}

/// An alternate stack for signals, with nothing below it.
fn set_small_stack() {
    // SAFETY:
    // 1. The call takes a number.
    let frame = unsafe { libc::getauxval(AT_MINSIGSTKSZ) } as usize;
    let bytes = (frame.max(libc::MINSIGSTKSZ) + ROOM).next_multiple_of(16);
    let mapped = PAGE_BYTES + bytes.next_multiple_of(PAGE_BYTES);
    let start = memory::map_private(mapped, 0).unwrap_or_else(|error| fail!("mmap: errno {error}"));
    memory::protect(start, PAGE_BYTES, libc::PROT_NONE).unwrap_or_else(|error| fail!("mprotect: {error}"));
    set_alternate_stack(start + PAGE_BYTES, bytes);
}

/// A handler makes calls on an alternate stack that has 4 KiB beside the kernel's frame.
pub fn small_alternate_stack(case: &Case) {
    (0..TIMES).for_each(|_| make_calls());
    set_small_stack();
    install(libc::SIGUSR1, on_user_signal, libc::SA_ONSTACK);
    let filled = Filled::new(case.bytes, case.seed, 1);
    for _ in 0..3 {
        filled.verify("between signals on a small stack");
        // SAFETY:
        // 1. The call takes a number.
        unsafe { libc::raise(libc::SIGUSR1) };
    }
}

extern "C" fn fault_again(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    memory::write_word(PAGE_BYTES, 0);
}

/// A handler that faults itself ends its process, as the kernel has it: its signal is blocked then.
pub fn fault_in_handler(case: &Case) {
    let filled = Filled::new(case.bytes, case.seed, 1);
    for (flags, has_stack) in [(0, false), (libc::SA_ONSTACK, true)] {
        let child = in_child(|| {
            if has_stack {
                set_small_stack();
            }
            install(libc::SIGSEGV, fault_again, flags);
            fault_again(0, core::ptr::null_mut(), core::ptr::null_mut());
        });
        let status = wait(child);
        if !libc::WIFSIGNALED(status) || libc::WTERMSIG(status) != libc::SIGSEGV {
            fail!("a process whose handler faults ended with wait status {status:#x}");
        }
    }
    filled.verify("after children whose handlers failed");
}

/// Programs that are executed under a storm of signals.
const EXECUTED: usize = 400;
const STORM_NS: i64 = 20_000;

/// Executes a program by this path, with this environment alone. Comes back only if it cannot.
fn execute(path: &CStr, environment: &CStr) {
    let arguments = [
        c"evil".as_ptr(),
        c"execute_in_handler".as_ptr(),
        c"--depth".as_ptr(),
        c"1".as_ptr(),
        core::ptr::null(),
    ];
    let environment = [environment.as_ptr(), core::ptr::null()];
    // SAFETY:
    // 1. Both arrays hold strings and end with null.
    unsafe { libc::execve(path.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
}

extern "C" fn on_urgent(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    execute(c"/no/such/program", c"WHO=handler");
}

/// A handler executes a program, in vain, while its thread is about to execute another one: that gets its own
/// environment. A timer does not live on in it, and the signal is ignored there.
pub fn execute_in_handler(case: &Case) {
    if case.depth > 0 {
        match std::env::var("WHO").as_deref() {
            Ok("program") => std::process::exit(0),
            other => fail!("the program was given WHO={other:?}"),
        }
    }
    let filled = Filled::new(case.bytes, case.seed, 1);
    for _ in 0..EXECUTED {
        let child = in_child(|| {
            install(libc::SIGURG, on_urgent, 0);
            start_timer_of(libc::SIGURG, STORM_NS);
            execute(c"/proc/self/exe", c"WHO=program");
            fail!("it could not be executed");
        });
        wait_good(child, "a program");
    }
    filled.verify("beside programs");
}
