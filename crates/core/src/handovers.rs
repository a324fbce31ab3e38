//! Forked children that depend on their parent's engine, and how a storer and the copying of the page table for a child
//! keep out of each other's way.
//!
//! The copier reads a page word and takes a reference to the entry that it names. The storer of that page names a new
//! entry and gives the old one back. If the second happened between the two steps of the first, the child would share
//! an entry that is free, or another page's by then. A lock that both take costs a wait for each stored page. Instead
//! each does its own first and looks for the other afterwards, with a full barrier in between (as in Dekker's
//! algorithm): either the storer sees that a child is being made, and waits until the copier is done before it gives
//! the old entry back; or the copier sees the new word.

use uswap_sync::{AtomicU32, Ordering, fence};

use crate::plant::{Plant, is_planted};

/// Children that still read frames of this process's arena, or are being made.
#[derive(Default)]
pub struct Handovers(AtomicU32);

impl Handovers {
    /// Nobody.
    pub fn new() -> Handovers {
        Handovers(AtomicU32::new(0))
    }

    /// A child is made from now on. The words that the caller reads next are those of storers that did not see this.
    pub fn begin(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
        barrier();
    }

    /// The child has all it needs, or was not made. Release pairs with `any`: its shares are seen by who sees that it
    /// is over.
    pub fn end(&self) {
        let before = self.0.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "what ends has begun");
    }

    /// True while there are some.
    pub fn any(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }

    /// The caller has committed a word that names another entry than before. True: no child that is being made has read
    /// the word as it was, so that the caller may give the old entry back. False: it may, when the copier is done.
    pub fn is_seen_by_all(&self) -> bool {
        barrier();
        !self.any()
    }
}

fn barrier() {
    if !is_planted(Plant::NoBarrier) {
        fence(Ordering::SeqCst);
    }
}
