//! What uswap asks of Linux, and nothing else.
//!
//! Linked into two very different places: the agent, whose threads are raw clones inside other people's programs, and
//! the command line. The first one sets the rules, for every function here:
//! 1. no libc, no allocation, no thread-local storage: a system call is an instruction;
//! 2. no panic on anything that the kernel may answer: expected answers are enum values, others carry the [`Errno`];
//! 3. nothing touches memory that the caller did not name.
//!
//! Descriptor numbers mean something only to threads that share a descriptor table; see [`fd::Fd`].
//!
//! | module | for |
//! |---|---|
//! | [`sys`] | system calls as instructions, and the error numbers that come back |
//! | [`fd`], [`mod@file`] | descriptors and the plain calls on them; files that are written and read |
//! | [`memory`] | address ranges of ours |
//! | [`mlock`] | locked memory |
//! | [`protection_keys`] | what a thread may do to memory that has a key |
//! | [`uffd`] | userfaultfd: what is registered, filled and protected |
//! | [`maps`] | the mappings of this process |
//! | [`smaps`] | what `madvise` has made of mappings |
//! | [`pagemap`] | which pages are present |
//! | [`thread`] | threads that no libc knows |
//! | [`futex`] | waiting on a word |
//! | [`gate`] | a lock of many readers or one writer |
//! | [`process`], [`pidfd`], [`ptrace`] | processes seen from outside; held by a descriptor; their threads, stopped |
//! | [`record_lock`] | locks by which a process shows that it lives |
//! | [`detached`] | a program that is started apart from this process |
//! | [`socket`], [`shared_segment`] | descriptors that go to another process; System V shared memory |
//! | [`ring`] | a small io_uring |
//! | [`clock`], `vdso` | time, by a system call or without one |
//! | [`random`] | random bytes for keys |
//! | [`text`], [`message`] | text without allocation; one message to a person |
//! | [`probe`] | what this machine allows |
//! | [`without`] | what a process goes without on purpose |
//! | [`own_calls`] | which calls a filter must allow |

#![no_std]
#![warn(clippy::undocumented_unsafe_blocks)]

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("uswap runs on Linux on x86_64 only: its system calls are written for that machine");

#[cfg(test)]
extern crate std;

pub mod clock;
pub mod detached;
pub mod fd;
pub mod file;
pub mod futex;
pub mod gate;
pub mod maps;
pub mod memory;
pub mod message;
pub mod mlock;
pub mod own_calls;
pub mod pagemap;
pub mod pidfd;
pub mod probe;
pub mod process;
pub mod protection_keys;
pub mod ptrace;
pub mod random;
pub mod record_lock;
pub mod ring;
pub mod shared_segment;
pub mod smaps;
pub mod socket;
pub mod sys;
pub mod text;
pub mod thread;
pub mod uffd;
mod vdso;
pub mod without;

pub use fd::Fd;
pub use sys::Errno;

/// Bytes of a page: 4096 on every machine that this crate compiles for.
pub const PAGE_BYTES: usize = 4096;
