//! The engine in a made-up world: one seed is one run, with its own schedule, its own faults and an oracle that knows
//! every byte.
//!
//! The same engine code that runs in real processes runs here over [`platform::SimPlatform`]. Each await is a point
//! where a seeded executor picks who goes on; processes may be killed at each of them. Must hold: the same seed gives
//! the same trace, byte for byte, on every machine.
//!
//! Map: [`run`] plays a seed; [`options`] is what it plays; [`world`] what all share; [`executor`] who runs next;
//! [`memory`] the kernel's side of a process; [`process`] its engine tasks; [`fork`] children; [`calls`] what programs
//! ask of the kernel, and [`places`] where; [`program`] the threads and the oracle; [`content`] pages by number;
//! [`disk`] the swap file; [`files`] lets files come and go; [`supervisor`] measuring and write-back; [`check`] what
//! must be true; [`platform`] the seam.
#![forbid(unsafe_code)]

pub mod calls;
pub mod check;
pub mod content;
pub mod disk;
pub mod executor;
pub mod files;
pub mod fork;
pub mod memory;
pub mod options;
pub mod places;
pub mod platform;
pub mod process;
pub mod program;
pub mod run;
pub mod supervisor;
pub mod world;

pub use options::Mix;
pub use run::{Arena, Keep, Outcome, run_seed};
