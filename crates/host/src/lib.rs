//! One managed process that serves its faults in its own threads, as a value: [`Process`].
//!
//! It brings the three parts together: `interpose` shows it each system call and each fault, `engine` serves and
//! evicts, `os` asks the kernel. Called by the library that is preloaded into programs, which holds the value and
//! starts it.
//!
//! Map: [`process`] the value and its life; [`faults`] a SIGBUS; [`calls`] a system call, with [`mappings`] for those
//! that change the address space and [`locks`] for those that lock it, [`descriptors`] for those that could take ours
//! away, and [`environment`] for `execve`; [`privileges`] a process that may read less than before; [`residency`] what
//! the boundary asks of us; [`memory`] the engine's world; [`joining`] enters the run, [`activation`] takes the
//! program's memory, and [`fork`] that of a child; [`background`] is the thread that evicts; [`own_stack`] is where
//! threads of the program do work of ours; [`pool`] lends them what they need for it; [`messages`] are for the user.
//! [`invitation`], [`heap`], [`contend`] and [`swap_files`] are of use to whoever is preloaded.
//!
//! What must hold: nothing on these ways allocates, calls libc or touches memory of the program but what is said; work
//! of ours that can wait runs with all signals blocked, so that no handler of the program interrupts it and meets its
//! own locks.
#![no_std]

extern crate alloc;

pub mod activation;
pub mod background;
pub mod calls;
pub mod contend;
pub mod descriptors;
pub mod environment;
pub mod faults;
pub mod fork;
pub mod heap;
pub mod invitation;
pub mod joining;
pub mod locks;
pub mod mappings;
pub mod memory;
pub mod messages;
pub mod own_memory;
pub mod own_stack;
pub mod pool;
pub mod privileges;
pub mod process;
pub mod program_copy;
pub mod residency;
pub mod supervisor;
pub mod swap_files;

pub use process::{AfterSetuid, Process, Run, Terms};

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

/// Runs a future of the engine. On Linux everything that waits blocks its thread, so each future is ready when it is
/// polled once.
pub(crate) fn run<F: Future>(future: F) -> F::Output {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("waiting blocks the thread here"),
    }
}
