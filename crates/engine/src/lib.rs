//! The story of a page: fault, evict, store, write back, fork. Written once, as straight-line `async` code over
//! [`Platform`].
//!
//! `os` (through the agent) runs it with threads that block, so that each future is ready when it is polled; `sim` runs
//! it with a seeded executor. No allocation after start-up, no unsafe code, no knowledge of Linux.
//!
//! Lock order: gate (exclusive or shared) -> page word locks -> private lock of the process. The private lock is never
//! held across an await. A page word lock may be held across a wait for the file or for room in the pool; whoever holds
//! the gate exclusive therefore never waits for a page word without giving the gate back first.
//!
//! Map: [`platform`] the seam; [`engine`] the parts of one process; [`fault`] serves a fault; [`load`] gets content;
//! [`run`] and [`streams`] bring the next pages along, `ahead` asks for them before, and [`loader`] decodes what is
//! asked for; [`evict`] stages, `huge` does so with huge pages, `huge_fill` gives some to first touches, and `huge_in`
//! brings back those that were stored; [`store`] stores staged pages, [`storer`] does that for others, and `proposals`
//! is what they make of it; [`reclaim`] decides when, and `share` from which process; [`messages`] takes messages and
//! [`event`] follows the program's mappings, where [`arrivals`], `later` and `order` tell which event is the older one;
//! [`region`] takes memory under management; [`fork`] clones; [`release`] gives things back; [`writeback`] moves the
//! pool to the files, where [`record`] seals what lies there, `turns` says to which, [`aged`] does that for what nobody
//! touched for a while, [`drain`] empties one of them; [`reaper`] cleans up after the dead. [`in_place`] is the other
//! way to do it: faults served in the faulting thread, and pages evicted where they lie.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod aged;
pub mod ahead;
mod arena;
pub mod arrivals;
mod compact;
mod copies;
pub mod drain;
mod drop_behind;
pub mod engine;
pub mod event;
pub mod evict;
pub mod fault;
pub mod fork;
mod homeless;
mod huge;
mod huge_fill;
mod huge_in;
pub mod in_place;
pub mod late_unmaps;
mod later;
pub mod load;
pub mod loader;
pub mod messages;
mod order;
pub mod plant;
pub mod platform;
mod proposals;
pub mod reaper;
pub mod reclaim;
pub mod record;
pub mod region;
pub mod release;
mod remap;
mod run;
mod sampled;
mod share;
pub mod store;
pub mod storer;
mod streams;
pub mod throttle;
mod turns;
mod unfinished;
pub mod workspace;
pub mod writeback;

pub use arena::arena_frames;
pub use engine::{Engine, EngineOptions, HugePages};
pub use platform::{Backing, Platform};
pub use workspace::Workspace;
