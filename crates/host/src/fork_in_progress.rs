//! A fork that is under way: what was made for the child, which the parent and the child both need behind the call.
//!
//! Must hold: changed by the forking thread alone, from [`begin`](ForkInProgress::begin) on with the gate exclusive, so
//! the child finds what was made for it. Called by [`crate::process`], which has the value, by [`crate::fork`], and by
//! [`crate::calls`], which notes what a child will share.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use uswap_units::{MmId, ProcessNumber};

/// Made for a static.
pub(crate) struct ForkInProgress {
    /// The record of the child as a word; 0: none.
    child: AtomicU32,
    /// Which of all processes that is: a [`ProcessNumber`].
    child_number: AtomicU64,
    /// A copy is being made, and has the gate.
    copying: AtomicU32,
    /// Not 0: the child will have the same table of descriptors.
    shares_descriptors: AtomicU32,
}

impl ForkInProgress {
    pub(crate) const fn new() -> ForkInProgress {
        ForkInProgress {
            child: AtomicU32::new(0),
            child_number: AtomicU64::new(0),
            copying: AtomicU32::new(0),
            shares_descriptors: AtomicU32::new(0),
        }
    }

    /// A call is about to be made whose child may have the same table of descriptors.
    pub(crate) fn note_descriptors(&self, are_shared: bool) {
        self.shares_descriptors.store(u32::from(are_shared), Ordering::Relaxed);
    }

    /// A copy is about to be made; for the child there is this record, if one was made.
    pub(crate) fn begin(&self, child: Option<(MmId, ProcessNumber)>) {
        if let Some((_, number)) = child {
            self.child_number.store(number.to_word(), Ordering::Relaxed);
        }
        self.child.store(child.map_or(0, |(mm, _)| mm.to_word() as u32), Ordering::Relaxed);
        self.copying.store(1, Ordering::Relaxed);
    }

    /// In the parent, behind the call: whether a copy was begun.
    pub(crate) fn end(&self) -> bool {
        self.shares_descriptors.store(0, Ordering::Relaxed);
        self.copying.swap(0, Ordering::Relaxed) != 0
    }

    /// Behind the call, in the parent or in the child: the record that was made, once.
    pub(crate) fn take_child(&self) -> Option<MmId> {
        MmId::from_word(u64::from(self.child.swap(0, Ordering::Relaxed)))
    }

    /// The number of the process in that record.
    pub(crate) fn child_number(&self) -> ProcessNumber {
        ProcessNumber::from_word(self.child_number.load(Ordering::Relaxed))
    }

    /// In the child: no copy is being made here.
    pub(crate) fn end_in_child(&self) {
        self.copying.store(0, Ordering::Relaxed);
    }

    /// In the child: whether it has the table of descriptors of its parent.
    pub(crate) fn take_shares_descriptors(&self) -> bool {
        self.shares_descriptors.swap(0, Ordering::Relaxed) != 0
    }
}
