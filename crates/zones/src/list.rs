//! Doubly linked lists in words: which of many nodes are on a list, in order. No pointers, nothing is allocated.
//!
//! ```text
//! node   63..56 not ours   55..28 next + 1   27..0 previous + 1
//! ends   two words a list:  55..28 last + 1  27..0 first + 1;  how many there are
//! ```
//! Must hold: a node is on one list at most; whoever keeps it knows on which. Called by the other files of `zones`,
//! under the lock of the zone.

use uswap_sync::{AtomicU64, Ordering};

/// Nodes there may be: their number + 1 has 28 bits.
pub(super) const NODES_MAX: u32 = (1 << 28) - 1;
/// Words of the ends of a list.
pub(super) const LIST_WORDS: usize = 2;

const LINK: u64 = (1 << 28) - 1;
const LINKS: u64 = (1 << 56) - 1;

/// Some lists that share nodes.
#[derive(Clone, Copy)]
pub(super) struct Lists<'a> {
    pub ends: &'a [AtomicU64],
    pub nodes: &'a [AtomicU64],
}

fn link(node: Option<u32>) -> u64 {
    node.map_or(0, |node| u64::from(node) + 1)
}
fn node(link: u64) -> Option<u32> {
    ((link & LINK) as u32).checked_sub(1)
}
fn pair(upper: Option<u32>, lower: Option<u32>) -> u64 {
    link(upper) << 28 | link(lower)
}

impl Lists<'_> {
    fn load(&self, at: u32) -> u64 {
        self.nodes[at as usize].load(Ordering::Relaxed)
    }
    fn set_links(&self, at: u32, next: Option<u32>, previous: Option<u32>) {
        let word = self.load(at) & !LINKS | pair(next, previous);
        self.nodes[at as usize].store(word, Ordering::Relaxed);
    }
    fn ends(&self, list: usize) -> u64 {
        self.ends[list * LIST_WORDS].load(Ordering::Relaxed)
    }
    fn set_ends(&self, list: usize, first: Option<u32>, last: Option<u32>) {
        self.ends[list * LIST_WORDS].store(pair(last, first), Ordering::Relaxed);
    }
    fn set_count(&self, list: usize, count: u32) {
        self.ends[list * LIST_WORDS + 1].store(u64::from(count), Ordering::Relaxed);
    }

    /// Nodes on it.
    pub fn count(&self, list: usize) -> u32 {
        self.ends[list * LIST_WORDS + 1].load(Ordering::Relaxed) as u32
    }
    pub fn first(&self, list: usize) -> Option<u32> {
        node(self.ends(list))
    }
    pub fn last(&self, list: usize) -> Option<u32> {
        node(self.ends(list) >> 28)
    }
    pub fn next(&self, at: u32) -> Option<u32> {
        node(self.load(at) >> 28)
    }
    fn previous(&self, at: u32) -> Option<u32> {
        node(self.load(at))
    }

    pub fn push_front(&self, list: usize, at: u32) {
        let (first, last) = (self.first(list), self.last(list));
        self.set_links(at, first, None);
        if let Some(first) = first {
            self.set_links(first, self.next(first), Some(at));
        }
        self.set_ends(list, Some(at), last.or(Some(at)));
        self.set_count(list, self.count(list) + 1);
    }
    pub fn push_back(&self, list: usize, at: u32) {
        let (first, last) = (self.first(list), self.last(list));
        self.set_links(at, None, last);
        if let Some(last) = last {
            self.set_links(last, Some(at), self.previous(last));
        }
        self.set_ends(list, first.or(Some(at)), Some(at));
        self.set_count(list, self.count(list) + 1);
    }
    /// `at` is on `list`.
    pub fn remove(&self, list: usize, at: u32) {
        let (next, previous) = (self.next(at), self.previous(at));
        match previous {
            Some(before) => self.set_links(before, next, self.previous(before)),
            None => self.set_ends(list, next, self.last(list)),
        }
        match next {
            Some(behind) => self.set_links(behind, self.next(behind), previous),
            None => self.set_ends(list, self.first(list), previous),
        }
        self.set_links(at, None, None);
        self.set_count(list, self.count(list) - 1);
    }
}
