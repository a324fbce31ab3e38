//! Every system call of a process passes through one function of ours, on any thread, whoever made it.
//!
//! This crate stands between a program and the kernel and knows nothing of swap. A library inside the
//! program gives it an [`Interposer`] and calls `install`; from then on:
//! 1. each system call reaches [`Interposer::before`] ahead of the kernel. Code that makes many calls
//!    is patched with a jump to a trampoline; every other call arrives by Syscall User Dispatch;
//! 2. each new thread and each child process is armed before any code of the program runs in it;
//! 3. the signals that this needs stay ours, and the program cannot tell.
//!
//! What must hold: no libc, no allocation after `install`, no thread-local storage. Whatever runs
//! between `before` and the end of the call runs on the stack of the program, inside any of its
//! functions: it may not lock what the program's own code can hold.
//!
//! ```text
//! program ── jmp ──> trampoline ─┐
//!         ── SIGSYS ─> handler ──┴> entry ─> before ─> the kernel ─> after ─> back in the program
//! ```
//!
//! The calls of the library itself are not seen: its whole text is the range that dispatch allows.
//!
//! | module | for |
//! |---|---|
//! | [`call`] | a system call as the interposer sees it, and the trait that it implements |
//! | [`mod@install`] | puts everything in place, once |
//! | [`attach`] | arms threads that run already, from outside |
//! | [`thread`] | what is kept for each thread, and the stacks of ours that it has |
//! | [`patch`] | replaces `syscall` instructions by jumps |
//! | [`sites`] | finds how an instruction can be replaced |
//! | [`trampoline_area`] | where the jumps of patches lead |
//! | [`dispatch`] | calls that no patch covers arrive as SIGSYS |
//! | [`delivery`] | each signal that has our action arrives here |
//! | [`entry`] | the way of one call, in assembly |
//! | [`frame`] | what lies on the stack meanwhile |
//! | [`serve`] | what is done with the call |
//! | [`birth`] | calls by which threads and processes begin |
//! | [`signals`] | which signals stay ours, and how the program does not see that; filters that it sets |
//! | [`cancellation`] | threads that are cancelled while they wait in a call |
//! | [`table`] | what each system call does with the memory of the program, one row a number |
//! | [`buffers`] | the memory of a call is present before the kernel looks, and stays until it has answered |
//! | [`vectors`] | keeps the vector registers of the program |
//! | [`plant`] | bugs that a model checker must find |
//! | [`kernel`] | numbers and structures of the kernel, and the calls that this crate makes itself |
//!
//! What it cannot do:
//! - threads that run before `install` are armed only if [`Options::arms_others`] asks for it; the [`Report`] counts
//!   the others;
//! - a thread or child that the program's own seccomp filter forbids to be armed (`prctl`) ends the process;
//! - a filter has to allow `rt_sigprocmask`, `getpid` and `gettid`, which calls about signals and threads make beside;
//! - a program that inherits by exec a filter which forbids `rt_sigreturn` is killed at its first dispatched call: who
//!   executes one asks [`ends_programs`];
//! - a signal of ours that a process sends is delivered though the program has blocked it, and no call that waits for
//!   signals finds it;
//! - between `PTRACE_TRACEME` and the exec that follows only patched calls are seen;
//! - a tracer sees a SIGSYS for each dispatched call, and a SIGSEGV of a thread that meets a site while it is patched:
//!   it has to let them pass;
//! - a child with a stack of less than 1 KiB, more than 128 threads in `vfork` at a time, and `clone3` with a
//!   structure longer than 128 bytes are refused (ENOMEM, EAGAIN, E2BIG).

#![no_std]
#![warn(clippy::undocumented_unsafe_blocks)]

#[cfg(test)]
extern crate std;

mod attach;
mod birth;
pub mod buffers;
mod call;
mod cancellation;
mod delivery;
mod dispatch;
mod entry;
mod frame;
mod install;
mod kernel;
mod patch;
mod plant;
mod serve;
mod signals;
pub mod sites;
pub mod table;
pub mod thread;
mod trampoline_area;
mod vectors;

pub use birth::Births;
pub use call::{Before, Call, Context, Fault, Interposer, NewProcess, Origin};
pub use cancellation::make_as_program;
pub use entry::{INTERRUPTED, interrupted};
pub use install::{
    Error, MAIN_STACK_BYTES, Options, Report, install, install_in_functions, is_installed, make_unarmed,
};
pub use patch::{KNOWN_FUNCTION_BYTES, KnownFunction, SiteReport, sites_seen};
pub use signals::actions::has_handler_in_place;
pub use signals::filter::ends_programs;
pub use vectors::with_vectors;
