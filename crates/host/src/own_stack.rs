//! Where threads of the program do work of ours: on the alternate stack that each of them has for our signal handlers,
//! with all signals blocked.
//!
//! The stack of the program may have no room left for it, and may lie in memory that we are about to change.
//!
//! Must hold: signals are blocked until the work is done, because a handler of the program that interrupted it could
//! make a call that needs a lock which the work holds. Called by most of this crate: whatever does work of ours in a
//! thread of the program, outside of a handler of ours or in one.

use core::arch::naked_asm;
use core::ops::Range;
use uswap_interpose::thread::{self, Slot};
use uswap_interpose::with_vectors;
use uswap_os::thread::BlockedSignals;

/// Runs `work` there, with all vector registers saved.
pub fn on_own_stack<T>(slot: &Slot, work: impl FnOnce() -> T) -> T {
    let _until_it_is_done = BlockedSignals::block_all();
    let start = slot.alternate_stack();
    on_stack(start..start + thread::ALTERNATE_STACK_BYTES, work)
}

/// The same on a stack that nobody else uses; the caller has blocked the signals of the program.
pub(crate) fn on_stack<T>(stack: Range<usize>, work: impl FnOnce() -> T) -> T {
    let mut job = Job { work: Some(work), answer: None };
    let end = stack.end;
    let here = &raw const job as usize;
    if stack.contains(&here) {
        // A handler of ours runs, and is what asks.
        do_job(&mut job);
    } else {
        // SAFETY:
        // 1. The stack is this thread's, and nobody is on it: signals are blocked, and `here` is elsewhere.
        // 2. `run_job` gets the type that it expects, and `job` lives until the call returns.
        unsafe { call_on(end & !15, runner(&job), (&raw mut job).cast()) };
    }
    job.answer.expect("the job was done")
}

struct Job<T, F> {
    work: Option<F>,
    answer: Option<T>,
}

fn do_job<T, F: FnOnce() -> T>(job: &mut Job<T, F>) {
    let work = job.work.take().expect("it is done once");
    job.answer = Some(with_vectors(work));
}

/// What runs a job of these types.
fn runner<T, F: FnOnce() -> T>(_: &Job<T, F>) -> unsafe extern "C" fn(*mut u8) {
    run_job::<T, F>
}

/// # Safety
/// `job` is an exclusive pointer to a job of these types.
unsafe extern "C" fn run_job<T, F: FnOnce() -> T>(job: *mut u8) {
    // SAFETY:
    // 1. The caller's promise.
    do_job(unsafe { &mut *job.cast::<Job<T, F>>() });
}

/// Calls `function(argument)` with another stack pointer.
///
/// # Safety
/// `stack_end` is the end of a stack that nobody uses, aligned to 16 bytes, with enough room for the function.
#[unsafe(naked)]
unsafe extern "C" fn call_on(stack_end: usize, function: unsafe extern "C" fn(*mut u8), argument: *mut u8) {
    naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "mov rsp, rdi",
        "mov rdi, rdx",
        "call rsi",
        "mov rsp, rbp",
        "pop rbp",
        "ret",
    )
}
