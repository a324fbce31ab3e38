//! One managed process that serves its faults in its own threads, as a value: [`Process`].
//!
//! It brings the three parts together: `interpose` shows it each system call and each fault, `engine` serves and
//! evicts, `os` asks the kernel. Called by the library that is preloaded into programs, which holds the value and
//! starts it.
//!
//! | module | for |
//! |---|---|
//! | [`process`], `latest` | the value and its life; what is set once in each process |
//! | [`small`] | sees a process grow |
//! | `owner` | whose memory this is, as long as nobody sees forks |
//! | `try_later` | when a place in the run is tried for again |
//! | [`invitation`] | into which run the process may come |
//! | [`joining`] | enters the run |
//! | [`activation`] | takes the program's memory |
//! | [`attach`] | all of that in a program that runs already |
//! | [`refused`] | why a process cannot be managed |
//! | [`fork`] | a forked child |
//! | `fork_in_progress` | what was made for it, while the call is under way |
//! | `unclaimed` | children that have not taken their memory over |
//! | [`leaving`], [`credentials`] | lets the process go; because of which change |
//! | [`supervisor`] | the supervisor of the run as this process reaches it |
//! | [`faults`], [`fault_in`], `repeats` | a SIGBUS; whoever else wants a page; a fault that comes again and again |
//! | [`calls`] | a system call |
//! | [`syscalls`] | arguments of system calls |
//! | [`program_copy`] | bytes of the program that may not be there |
//! | [`thread_words`] | what is kept for each thread |
//! | [`mappings`], [`remap`] | calls that change the [`address_space`] |
//! | `populate` | memory that is to be there at once |
//! | `dropped` | advice that drops content |
//! | [`lock_calls`], [`locks`], [`advice`] | calls that lock memory, or say what will be used |
//! | [`descriptors`], [`environment`] | calls that could take descriptors of ours away; `execve` |
//! | [`managed_ranges`] | what is managed |
//! | [`thread_stacks`], [`own_memory`] | what never is |
//! | [`regions`] | what the program names |
//! | [`residency`], [`memory`] | what the boundary asks of us; the engine's world |
//! | [`background`], `background_files` | the thread that evicts, and what it reads of its process |
//! | [`own_stack`], [`lending`] | where threads of the program do work of ours, and what they are lent for it |
//! | [`swap_files`] | the files that are open |
//! | [`contend`] | locks that others hold |
//! | [`messages`] | what the user is told |
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
mod fork_in_progress;
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
pub mod refused;
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
mod try_later;
mod unclaimed;

pub use process::{AfterSetuid, Managed, Membership, Process, Terms};
