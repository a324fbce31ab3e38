//! What is kept of one cluster: two cache lines.
//!
//! ```text
//! word 0: lock    1: state    3: home that works with it + 1    8..15: map of used slots
//! state: 31..24 list   23..16 order   15..0 used slots
//! ```

use super::lists::List;
use uswap_sync::{AtomicU64, Ordering};

/// Words of one record.
pub(crate) const RECORD_WORDS: usize = 16;

/// The state word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct State {
    /// Used slots; those that there are not (in front of the first, behind the last) are not counted.
    pub count: u32,
    /// Order that it serves; 0 in an empty one.
    pub order: u32,
    /// The list it is on, or why it is on none.
    pub list: List,
}

/// View of one record.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    pub index: u32,
    pub words: &'a [AtomicU64],
}

impl<'a> Record<'a> {
    pub(crate) fn lock(self) -> &'a AtomicU64 {
        &self.words[0]
    }
    pub(crate) fn state(self) -> State {
        let raw = self.words[1].load(Ordering::Relaxed);
        State { count: raw as u16 as u32, order: u32::from((raw >> 16) as u8), list: List((raw >> 24) as u8) }
    }
    /// The caller holds the cluster's lock.
    pub(crate) fn set_state(self, state: State) {
        let raw = u64::from(state.count) | (u64::from(state.order) << 16) | (u64::from(state.list.0) << 24);
        self.words[1].store(raw, Ordering::Relaxed);
    }
    /// The home that allocates from it: others rather take another cluster. A hint.
    pub(crate) fn current(self) -> Option<u32> {
        (self.words[3].load(Ordering::Relaxed) as u32).checked_sub(1)
    }
    pub(crate) fn set_current(self, home: Option<u32>) {
        self.words[3].store(home.map_or(0, |home| u64::from(home) + 1), Ordering::Relaxed);
    }
    pub(crate) fn map(self) -> &'a [AtomicU64] {
        &self.words[8..]
    }
    pub(crate) fn map_word(self, index: usize) -> u64 {
        self.map()[index].load(Ordering::Relaxed)
    }
}
