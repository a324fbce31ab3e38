//! One managed process that serves its faults in its own threads, as a value: [`Process`].
//!
//! It brings the three parts together: `interpose` shows it each system call and each fault, `engine` serves and
//! evicts, `os` asks the kernel. Called by the library that is preloaded into programs, which holds the value and
//! starts it.
//!
//! Map: [`process`] the value and its life; [`faults`] a SIGBUS, and [`fault_in`] whoever else wants a page; [`calls`]
//! a system call ([`syscalls`]), with [`mappings`] and [`remap`] for those that change the [`address_space`],
//! [`lock_calls`] for those that lock it ([`locks`]), [`advice`] for those that say what will be used, [`descriptors`]
//! for those that could take ours away, and [`environment`] for `execve`; [`managed_ranges`] and [`thread_stacks`] say
//! what is managed, and [`regions`] what the program names; [`residency`] what the boundary asks of us; [`memory`] the
//! engine's world; [`small`] sees a process grow, [`joining`] enters the run, [`activation`] takes the program's
//! memory, [`attach`] does all of that in a program that runs, [`fork`] in a child, and [`leaving`] lets it go;
//! [`background`] is the thread that evicts; [`own_stack`] is where threads of the program do work of ours; [`lending`]
//! lends them what they need for it; [`messages`] are for the user. [`invitation`], [`contend`] and [`swap_files`] are
//! of use to whoever is preloaded.
//!
//! What must hold: nothing on these ways allocates, calls libc or touches memory of the program but what is said; work
//! of ours that can wait runs with all signals blocked, so that no handler of the program interrupts it and meets its
//! own locks.
#![no_std]

pub mod activation;
pub mod address_space;
pub mod advice;
pub mod attach;
pub mod background;
mod background_files;
pub mod calls;
pub mod contend;
pub mod credentials;
pub mod descriptors;
mod dropped;
pub mod environment;
pub mod fault_in;
pub mod faults;
pub mod fork;
pub mod invitation;
pub mod joining;
mod latest;
pub mod leaving;
pub mod lending;
pub mod lock_calls;
pub mod locks;
pub mod managed_ranges;
pub mod mappings;
pub mod memory;
pub mod messages;
pub mod own_memory;
pub mod own_stack;
mod owner;
mod populate;
pub mod process;
pub mod program_copy;
pub mod regions;
pub mod remap;
mod repeats;
pub mod residency;
pub mod small;
pub mod supervisor;
pub mod swap_files;
pub mod syscalls;
pub mod thread_stacks;
pub mod thread_words;

pub use process::{AfterSetuid, Managed, Membership, Process, Terms};

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

/// Runs a future of the engine. On Linux everything that waits blocks its thread, so each future is ready when it is
/// polled once.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("waiting blocks the thread here"),
    }
}
