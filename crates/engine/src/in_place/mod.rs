//! Faults served in the thread that meets them, and pages evicted where they lie.
//!
//! The other way to keep a process within its budget ([`crate::engine`] is the first): the kernel reports no events,
//! because whoever owns the system-call boundary sees each change of a mapping before it is made. So a fault is a call,
//! and a page is evicted without moving it anywhere:
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
//!    only while its word is locked and no hazard names it. Who is about to let the kernel touch a page publishes a
//!    hazard first, and looks at the word then.
//! 3. Nothing here waits for a thread of the program while it has a word locked or is inside the gate, but for the one
//!    that has the lock it needs.
//! 4. Mappings, and with them the words of whole ranges, change only with the gate exclusive.
//!
//! Lock order: gate (shared or exclusive) -> page words; several words only in one shared section, tried, never waited
//! for.
//!
//! Map: [`world`] is the seam; [`space`] the parts of one process; [`fault`] serves faults; [`evict`] takes pages away;
//! [`reclaim`] decides when, [`copies`] what is kept; [`mapping`] follows the mapping calls, [`fork`] copies for a
//! child; [`readahead`] sees what is in order;
//! [`words`] waits for locks.
//!
//! [`PageWord::is_clean`]: uswap_core::page_word::PageWord::is_clean

mod copies;
pub mod evict;
pub mod fault;
pub mod fork;
pub mod mapping;
mod readahead;
pub mod reclaim;
pub mod space;
mod words;
pub mod world;

#[cfg(test)]
mod tests;

pub use evict::{Evicted, Evictor};
pub use fault::Fault;
pub use space::AddressSpace;
pub use world::{Gate, Hazards, Memory, World};
