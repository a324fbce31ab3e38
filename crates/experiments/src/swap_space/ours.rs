//! `uswap_core::clusters` as a benchmark uses it: slots without content, callers that are CPUs.

use std::ops::Range;

use uswap_core::clusters::lock::{Locker, SUPERVISOR};
use uswap_core::clusters::{CLUSTER_SLOTS, Clusters, Search, SlotUsage, Space};
use uswap_core::segment::{Geometry, Segment};
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::{ClusterId, FileSlot, MmId};

use super::slots::Slots;
use super::virtual_time::LockKind;
use super::words::Words;

/// One word a slot: its owner + 1.
#[derive(Clone, Copy)]
struct Owners<'a>(&'a [AtomicU64]);

impl SlotUsage for Owners<'_> {
    type Slot = FileSlot;

    fn is_used(&self, slot: FileSlot) -> bool {
        // Acquire pairs with the Release of `free`: its owner is done with it.
        self.0[slot.number() as usize].load(Ordering::Acquire) != 0
    }
    fn claim(&self, slot: FileSlot, by: MmId) {
        self.0[slot.number() as usize].store(by.to_word(), Ordering::Relaxed);
    }
}

/// A space of slots in clusters.
pub struct Ours {
    space: Space,
    state: Words,
    owners: Words,
    /// Nobody is in it: no caller here can die.
    nobody: Words,
}

const NOBODY: Geometry =
    Geometry { mms: 1, tables: 1, entries: CLUSTER_SLOTS, zspages: 1, slots: 8, readahead: 0 };

impl Ours {
    /// A space of so many whole clusters.
    #[must_use]
    pub fn new(clusters: u32) -> Ours {
        let space = Space {
            skipped: 0,
            count: clusters * CLUSTER_SLOTS,
            is_trimmed: false,
            search: Search::Scattered,
        };
        let nobody = Words::new(NOBODY.layout().total_words());
        Segment::create(nobody.all(), NOBODY);
        Ours { space, state: Words::new(space.words()), owners: Words::new(space.count as usize), nobody }
    }

    fn clusters(&self, cpu: MmId) -> Clusters<'_, impl SlotUsage<Slot = FileSlot>> {
        let segment = Segment::open(self.nobody.all()).expect("it was made by `new`");
        let locker = Locker::new(cpu, segment.mms());
        Clusters::new(self.state.all(), self.space, Owners(self.owners.all()), locker)
    }

    /// Bytes of state beside the word of each slot.
    #[must_use]
    pub fn state_bytes(&self) -> u64 {
        self.space.words() as u64 * 8
    }
}

impl Slots for Ours {
    fn allocate(&self, cpu: u16, order: u32) -> Option<u32> {
        self.clusters(MmId::new(cpu)).allocate(order).map(FileSlot::number)
    }

    fn free(&self, cpu: u16, first: u32, count: u32) {
        for slot in first..first + count {
            // Release pairs with the Acquire of `is_used`.
            self.owners.all()[slot as usize].store(0, Ordering::Release);
        }
        self.clusters(MmId::new(cpu)).free(FileSlot::new(first), count);
    }

    fn used(&self) -> u64 {
        self.clusters(SUPERVISOR).used()
    }

    fn locks(&self) -> Vec<(Range<usize>, LockKind)> {
        let address = |cluster| {
            let word = self.space.lock_word(ClusterId::new(cluster));
            self.state.all().as_ptr() as usize + word * 8
        };
        vec![(address(0)..address(self.space.clusters()), LockKind::Cluster)]
    }
}

#[cfg(test)]
mod tests {
    use super::Ours;
    use crate::swap_space::simulated_time::{Prices, Sockets};
    use crate::swap_space::slots::{Slots, lock_kinds, model};
    use crate::swap_space::virtual_time::{LockKind, Settings, Step, Worker, recorded, run};
    use uswap_sync::trace;
    use uswap_units::Prng;

    #[test]
    fn slots_are_handed_out_once_and_come_back() {
        let space = Ours::new(4);
        let firsts: Vec<u32> = (0..64).map(|cpu| space.allocate(cpu % 3, 4).expect("room")).collect();
        assert_eq!(firsts.iter().collect::<std::collections::BTreeSet<_>>().len(), 64);
        assert_eq!(space.used(), 1024);
        firsts.iter().for_each(|&first| space.free(0, first, 16));
        assert_eq!(space.used(), 0);
        assert!((0..4).all(|_| space.allocate(0, 9).is_some()));
    }

    #[test]
    fn random_operations_agree_with_the_model() {
        model::random_operations(&Ours::new(8), 8 * 512, &[0, 0, 1, 4, 9]);
        model::every_slot_is_had(&Ours::new(3), 3 * 512, 0);
        model::threads(&Ours::new(8), &[0, 4]);
    }

    /// Sixteen CPUs swap pages in and out of a space that is 98 of 100 full.
    #[test]
    fn what_sixteen_processors_wait_for_is_seen() {
        let space = Ours::new(256);
        let mut prng = Prng::new(7);
        let mut full: Vec<u32> = (0_u32..).map_while(|step| space.allocate((step % 16) as u16, 0)).collect();
        for _ in 0..256 * 512 / 50 {
            let slot = full.swap_remove(prng.below(full.len() as u64) as usize);
            space.free(0, slot, 1);
        }
        let share = full.len() / 16;
        let workers: Vec<Worker<'_>> = full
            .chunks(share)
            .take(16)
            .zip(0_u16..)
            .map(|(own, cpu)| {
                let (mut own, mut prng, space) = (own.to_vec(), Prng::new(u64::from(cpu)), &space);
                recorded(move || {
                    let pick = prng.below(own.len() as u64) as usize;
                    own[pick] = space
                        .allocate(cpu, 0)
                        .inspect(|_| space.free(cpu, own[pick], 1))
                        .unwrap_or(own[pick]);
                    Step::Done
                })
            })
            .collect();
        let settings = Settings {
            prices: Prices::default(),
            sockets: Sockets::Two,
            warm_up_operations: 4000,
            operations: 20_000,
            lock_kinds: lock_kinds(space.locks()),
        };
        let report = run(workers, &settings);
        assert_eq!(report.operations, 20_000);
        if trace::RECORDS {
            println!("{report}");
            assert!(report.transfers_per_operation > 1.0, "{report}");
            let waiting = report.waiting_share(LockKind::Cluster);
            assert!(waiting > 0.0 && waiting < 0.1, "{report}");
            assert_eq!(report.waiting_share(LockKind::Other), 0.0, "every lock is of a known kind");
        }
    }
}
