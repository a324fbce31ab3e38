//! Whether large runs may be made at the expense of what is in use.

use uswap_core::working_set::WorkingSet;

/// Whether memory can be had without taking it from who would fetch it back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// It can.
    Ample,
    /// Too much of what is reclaimed comes back: nothing is reclaimed for large runs, and they get only what nobody
    /// else needs.
    Tight,
}

impl Room {
    /// By what came back lately.
    pub fn of(working_set: &WorkingSet) -> Room {
        if working_set.is_in_use() { Room::Tight } else { Room::Ample }
    }
}
