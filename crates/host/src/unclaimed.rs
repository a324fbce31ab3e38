//! Children that were forked, until they have taken their memory over.
//!
//! The parent has made a record and page words for each. A child that is killed before it claims them leaves them
//! behind, with a reference to everything that was evicted, and only its parent knows its process id.
//!
//! Must hold: a child is noted with the gate exclusive, and forgotten with the gate shared, by one thread: so never
//! both at once.
//!
//! Called by [`crate::process`], which has the list, and by [`crate::fork`], which notes children and looks after them.

use core::sync::atomic::{AtomicU64, Ordering};
use uswap_units::{MmId, ProcessNumber};

/// A child claims its record within a millisecond. In a storm of forks those that were noted first are forgotten: what
/// is left behind by one of them stays until its parent ends.
const CHILDREN: usize = 64;
const PROCESS_ID_BITS: u32 = 32;

/// The last children. Made for a static.
pub(crate) struct Unclaimed {
    next: AtomicU64,
    /// Process id, and above it the record as a word; 0: none.
    children: [AtomicU64; CHILDREN],
    numbers: [AtomicU64; CHILDREN],
}

impl Unclaimed {
    /// No child yet.
    pub(crate) const fn new() -> Unclaimed {
        Unclaimed {
            next: AtomicU64::new(0),
            children: [const { AtomicU64::new(0) }; CHILDREN],
            numbers: [const { AtomicU64::new(0) }; CHILDREN],
        }
    }

    /// With the gate exclusive: a child was forked, which has this record, and this number in it.
    pub(crate) fn note(&self, process_id: u32, record: MmId, number: ProcessNumber) {
        let index = self.next.fetch_add(1, Ordering::Relaxed) as usize % CHILDREN;
        self.children[index]
            .store(record.to_word() << PROCESS_ID_BITS | u64::from(process_id), Ordering::Relaxed);
        self.numbers[index].store(number.to_word(), Ordering::Relaxed);
    }

    /// In a forked child: those are not its children.
    pub(crate) fn reset(&self) {
        for child in &self.children {
            // A write copies the page.
            if child.load(Ordering::Relaxed) != 0 {
                child.store(0, Ordering::Relaxed);
            }
        }
    }
}

impl Unclaimed {
    /// With the gate shared: forgets those of which `forgets` answers true, by process id, record and number.
    pub(crate) fn forget(&self, mut forgets: impl FnMut(u32, MmId, ProcessNumber) -> bool) {
        for (child, number) in self.children.iter().zip(&self.numbers) {
            let noted = child.load(Ordering::Relaxed);
            let Some(record) = MmId::from_word(noted >> PROCESS_ID_BITS) else { continue };
            if forgets(noted as u32, record, ProcessNumber::from_word(number.load(Ordering::Relaxed))) {
                child.store(0, Ordering::Relaxed);
            }
        }
    }
}
