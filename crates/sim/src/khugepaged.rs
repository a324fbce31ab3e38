//! The kernel's thread that makes huge pages of small ones, and fills what is missing of them with zeros.
//!
//! It passes by what is registered. Called where memory is not for a moment: by [`crate::fork`], and by
//! [`crate::mappings`] for mremap. The engine undoes it (`uswap_engine::filled`).

use crate::places::some_mapping;
use crate::process::Process;
use crate::world::World;

/// In so many of 1000 such moments it is there. On Linux that is rare, and so are the moments of a simulated run.
const CHANCE: u64 = 150;
const PAGES_MAX: u64 = 64;

/// It may come by now.
pub fn come_by(world: &World<'_>, process: &Process<'_>) {
    if !world.chance(CHANCE) {
        return;
    }
    let Some(range) = some_mapping(world, process, PAGES_MAX) else { return };
    let filled = process.kernel.memory.borrow_mut().collapse(range);
    if filled > 0 {
        world.note(format_args!("khugepaged: {filled} pages of {range:?} become zeros"));
        world.count("pages filled by khugepaged", filled);
    }
}
