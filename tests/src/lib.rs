//! Harness of the tests that run whole programs under uswap.
//!
//! What must hold: a test that measures memory or time has the machine for itself (`turn` takes a file lock); one that
//! only looks at content runs beside others of its kind (`shared_turn`). Every process that a test starts is dead when
//! the test ends. A test that cannot run here says so on a line that begins with `SKIP:` and is counted.
//!
//! `USWAP_BIN` names the binary under test; `USWAP_BIN=plain` runs everything without uswap, which tests the tests.
//! `USWAP_TEST_FULL=1` uses the full sizes, and
//! `USWAP_TEST_SECONDS` makes tests that can go on for as long as one likes do so. Called by the files in `tests/`.
#![forbid(unsafe_code)]

pub mod build;
pub mod c_program;
pub mod content;
pub mod loads;
pub mod memory_group;
pub mod modes;
pub mod pair;
pub mod places;
pub mod process;
pub mod redis;
pub mod run;
pub mod sampler;
pub mod small_disk;
pub mod steering;
pub mod touched;

pub use c_program::{compile, compile_by};
pub use memory_group::MemoryGroup;
pub use pair::{compare, compare_outputs};
pub use places::{
    Scratch, full_size, long_run, needs, needs_root, needs_uswap, program, report, scaled_mib, scaled_mib_by,
    shared_turn, skip, turn, uswap_binary,
};
pub use run::{Outcome, Run, Running};
pub use small_disk::SmallDisk;

/// Bytes of a mebibyte.
pub const MIB: u64 = 1 << 20;
