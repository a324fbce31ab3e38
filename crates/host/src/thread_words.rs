//! The words of a thread's slot that are ours, by their numbers in [`Slot::user`](uswap_interpose::thread::Slot::user).
//!
//! Must hold: no two have the same number, and 0 in each is right for a thread that begins. Called by [`crate::calls`],
//! [`crate::environment`], [`crate::repeats`] and [`crate::thread_stacks`].

/// Where its stack pointer was when it was last looked at.
pub(crate) const STACK_SEEN: usize = 0;
/// The thread is about to end.
pub(crate) const ENDS: usize = 1;
/// Start and length of the mapping that holds the environment of its last `execve`.
pub(crate) const ENVIRONMENT: usize = 2;
pub(crate) const ENVIRONMENT_BYTES: usize = 3;
/// Not 0: an `execve` with it is under way.
pub(crate) const ENVIRONMENT_USED: usize = 4;
/// The page of its last fault, if that found the page there; and how many such faults of that page it has met in a row.
pub(crate) const REPEATED_PAGE: usize = 5;
pub(crate) const REPEATS: usize = 6;
/// The area of restartable sequences that it was last about to tell the kernel.
pub(crate) const RSEQ_AREA: usize = 7;
