//! The engine in a simulated world: one seed is one run, with its own schedule, its own faults and an oracle that knows
//! every byte.
//!
//! The same engine code that runs in real processes runs here over [`seam::SimMemory`], and what `host` does around it
//! is done here as it is done there. Each await is a point where a seeded executor picks who goes on; processes may be
//! killed at each of them. Must hold: the same seed gives the same trace, byte for byte, on every machine.
//!
//! Map: [`run`] plays a seed, or a [`case`]: a seed with a [`reduction`] of its [`options`]; [`minimise`] looks for the
//! smallest that fails; [`world`] what all share; [`executor`] who runs next; [`engine`] what is simulated, and
//! [`seam`] how; [`kernel_side`] what the engine of a process finds there, with the [`memory`] as its kernel keeps it;
//! [`oracle`] what that memory must hold; [`process`] the process, with what it lends to its threads ([`lending`]), and
//! [`processes`] all of them; the thread that evicts ([`background`]), children ([`fork`]) and ranges that are
//! [`left_alone`]; [`program`] the threads; [`calls`], [`mappings`], [`remap`] and [`advice`] what programs ask of the
//! kernel, [`places`] where, and [`khugepaged`] what nobody asks for; [`content`] pages by number; [`disk`] the swap
//! files, and [`file_access`] who reads and writes them; [`files`] lets them come and go; [`supervisor`] measuring,
//! write-back and the dead; [`check`] what must be true.
#![forbid(unsafe_code)]

pub mod advice;
pub mod background;
pub mod calls;
pub mod case;
pub mod check;
pub mod content;
pub mod disk;
pub mod engine;
pub mod executor;
pub mod file_access;
pub mod files;
pub mod fork;
pub mod kernel_side;
pub mod khugepaged;
pub mod left_alone;
pub mod lending;
pub mod mappings;
pub mod memory;
pub mod minimise;
pub mod options;
pub mod oracle;
pub mod places;
pub mod process;
pub mod processes;
pub mod program;
pub mod reduction;
pub mod remap;
pub mod run;
pub mod seam;
pub mod supervisor;
pub mod world;

pub use case::Case;
pub use options::Mix;
pub use reduction::Reduction;
pub use run::{Arena, Keep, Outcome, run_case, run_seed};
