//! What is kept of one cluster: two cache lines.
//!
//! ```text
//! word 0: lock    1: state    3: home that works with it + 1    8..15: map of used slots
//! state: 31..24 list   23..16 order   15..0 used slots
//! ```
//! Must hold: only the holder of the lock changes the other words; to anyone else they are hints. While nobody holds
//! it, *used slots* is the number of bits that are set in the map. Called by [`crate::clusters`] and its
//! [`crate::clusters::lists`].

use super::ORDERS;
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::ClusterId;

/// Words of one record.
pub(crate) const RECORD_WORDS: usize = 16;

/// Which list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct List(pub u8);

impl List {
    /// On none: never used.
    pub(crate) const NONE: List = List(0);
    pub(crate) const FREE: List = List(1);
    pub(crate) const TRIM: List = List(2);
    /// On none: full.
    pub(crate) const FULL: List = List(3);
    /// On none: its memory is just being given back.
    pub(crate) const TRIMMING: List = List(4);
    const USABLE: u8 = 5;
    const FRAGMENTS: u8 = List::USABLE + ORDERS as u8;

    pub(crate) const fn usable(order: u32) -> List {
        List(List::USABLE + order as u8)
    }
    pub(crate) const fn fragments(order: u32, largest: u32) -> List {
        List(List::FRAGMENTS + (order * (order - 1) / 2 + largest) as u8)
    }
    /// Of a cluster that is empty, and that whoever allocates begins anew.
    #[cfg(test)]
    pub(crate) const fn is_empty(self) -> bool {
        matches!(self, List::NONE | List::FREE | List::TRIM)
    }
    /// Nobody allocates from it.
    pub(crate) const fn is_closed(self) -> bool {
        matches!(self, List::FULL | List::TRIMMING)
    }
    /// Its clusters have a bit there.
    pub(crate) const fn has_bits(self) -> bool {
        matches!(self, List::FREE | List::TRIM) || self.0 >= List::USABLE
    }
}

/// Lists that there are, with those that are none.
pub(crate) const LISTS: usize = List::FRAGMENTS as usize + (ORDERS - 1) * ORDERS / 2;
const _: () = assert!(LISTS <= 64);

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
    pub cluster: ClusterId,
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
