//! The story of a page: fault, evict, store, write back, fork. Written once, as straight-line `async` code over small
//! traits ([`world`]).
//!
//! Called by `host` in the threads of a program and by the supervisor in its own, which block, so that each future is
//! ready when it is polled; and by `sim` with a seeded executor. No allocation after start-up in what a process runs,
//! no unsafe code, no knowledge of Linux.
//!
//! The kernel reports no events, because whoever owns the system-call boundary sees each change of a mapping before it
//! is made. So a fault is a call, in the thread that meets it, and a page is evicted where it lies:
//!
//! ```text
//! fault     lock the word -> get the content -> fill the page (protected, if its copy is kept) -> commit
//! evict     lock words -> look at hazards -> protect -> isolated | store | lock -> look at hazards -> drop -> swapped
//! write     of a protected page: lock the word -> give the copy up -> take the protection away -> commit
//! ```
//!
//! What must hold:
//! 1. The newest content of a page is where its word says, and nowhere else; a copy beside it is *clean*
//!    ([`PageWord::is_clean`]).
//! 2. A page is dropped only while its word is locked, its copy is complete, and no hazard names it; it is protected
//!    only while its word is locked and no hazard names it. Whoever is about to let the kernel touch a page publishes a
//!    hazard first, and looks at the word then.
//! 3. Nothing here waits for a thread of the program while it has a word locked or is inside the gate, but for the one
//!    that has the lock it needs.
//! 4. Mappings, and with them the words of whole ranges, change only with the gate exclusive.
//!
//! Lock order: gate (shared or exclusive) -> page words; several words only in one shared section, tried, never waited
//! for.
//!
//! Map: [`world`] is the seam; [`space`] the parts of one process; [`fault`] serves faults, and [`fault::load`] gets
//! content; [`evict`] takes pages away, [`evict::store`] compresses them, [`evict::copies`] decides what is kept;
//! [`reclaim`] decides when; [`mapping`] follows the mapping calls, [`fork`] copies for a child, [`filled`] undoes what
//! the kernel did in between; [`memory_map`] counts what is where; [`workspace`] is the buffers of one task. The
//! supervisor's tasks: [`writeback`] moves the pool to the swap files, [`fault::serve_readahead`] reads these ahead of
//! faults, [`reaper`] cleans up after the dead. [`record`] seals and opens what lies in the files. [`pool`] gives back
//! what nobody names. [`executor`] runs all of these where waiting blocks the thread. [`plant`] has the bugs that the
//! simulator must find.
//!
//! [`PageWord::is_clean`]: uswap_core::page_word::PageWord::is_clean
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod evict;
pub mod executor;
pub mod fault;
pub mod filled;
pub mod fork;
pub mod mapping;
pub mod memory_map;
pub mod plant;
pub mod pool;
pub mod reaper;
pub mod reclaim;
pub mod record;
pub mod space;
pub mod workspace;
pub mod world;
pub mod writeback;

#[cfg(test)]
mod tests;

pub use evict::{Evicted, Evictor};
pub use executor::block_on;
pub use fault::FaultOutcome;
pub use space::AddressSpace;
pub use workspace::Workspace;
pub use world::{Backing, Gate, Hazards, Memory, World};
