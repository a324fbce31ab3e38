//! The engine in a made-up world: one seed is one run, with its own schedule, its own faults and an oracle that knows
//! every byte.
//!
//! The same engine code that runs in real processes runs here over [`seam::SimMemory`], and what `host` does around it
//! is done here as it is done there. Each await is a point where a seeded executor picks who goes on; processes may be
//! killed at each of them. Must hold: the same seed gives the same trace, byte for byte, on every machine.
//!
//! Map: [`run`] plays a seed; [`options`] is what it plays; [`world`] what all share; [`executor`] who runs next;
//! [`engine`] what is simulated, and [`seam`] how; [`memory`] the kernel's side of a process; [`process`] the
//! process, with what it lends to its threads ([`lending`]), the thread that evicts ([`background`]), its children
//! ([`fork`]) and the ranges that are [`left_alone`]; [`program`] the threads and the oracle; [`calls`] and
//! [`mappings`] what programs ask of the kernel, and [`places`] where; [`content`] pages by number; [`disk`] the swap
//! file; [`files`] lets files come and go; [`supervisor`] measuring, write-back and the dead; [`check`] what must be
//! true.
#![forbid(unsafe_code)]

pub mod background;
pub mod calls;
pub mod check;
pub mod content;
pub mod disk;
pub mod engine;
pub mod executor;
pub mod files;
pub mod fork;
pub mod left_alone;
pub mod lending;
pub mod mappings;
pub mod memory;
pub mod options;
pub mod places;
pub mod process;
pub mod program;
pub mod run;
pub mod seam;
pub mod supervisor;
pub mod world;

pub use options::Mix;
pub use run::{Arena, Keep, Outcome, run_seed};
