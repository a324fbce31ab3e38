//! What all allocators of slots that are compared can do.

use std::ops::Range;

use super::virtual_time::{LockKind, LockKinds};

/// CPUs that an allocator keeps something for.
pub const CPUS_MAX: usize = 128;

/// A space of slots that CPUs take runs from.
pub trait Slots: Sync {
    /// The first of `1 << order` slots, for a CPU. None: there is no such run, or it was not found.
    fn allocate(&self, cpu: u16, order: u32) -> Option<u32>;

    /// Gives slots of one cluster back.
    fn free(&self, cpu: u16, first: u32, count: u32);

    /// Slots that were taken and not given back.
    fn used(&self) -> u64;

    /// Where its locks are, and what they guard.
    fn locks(&self) -> Vec<(Range<usize>, LockKind)>;
}

/// The kinds of some locks.
#[must_use]
pub fn lock_kinds(locks: Vec<(Range<usize>, LockKind)>) -> LockKinds {
    let mut kinds = LockKinds::default();
    locks.into_iter().for_each(|(addresses, kind)| kinds.add(addresses, kind));
    kinds
}

/// Tests that every allocator must pass.
#[cfg(test)]
pub(super) mod model {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use super::Slots;
    use uswap_units::Prng;

    /// Random operations against a set of used slots. Orders are drawn from `orders`.
    pub fn random_operations(slots: &dyn Slots, slot_count: u32, orders: &[u32]) {
        let mut prng = Prng::new(11);
        let mut used: BTreeSet<u32> = BTreeSet::new();
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for step in 0..20_000_u32 {
            // Three phases: more and more, about as much, less and less.
            let allocates = prng.chance([3, 2, 1][step as usize / 7000], 4);
            let cpu = prng.below(5) as u16;
            if allocates {
                let order = orders[prng.below(orders.len() as u64) as usize];
                let Some(first) = slots.allocate(cpu, order) else { continue };
                assert_eq!(first % (1 << order), 0, "a run is aligned");
                for slot in first..first + (1 << order) {
                    assert!(slot < slot_count, "{slot} is no slot");
                    assert!(used.insert(slot), "{slot} has two owners");
                }
                runs.push((first, 1 << order));
            } else if !runs.is_empty() {
                let at = prng.below(runs.len() as u64) as usize;
                let (first, count) = runs.swap_remove(at);
                // Sometimes only a part comes back, as pages that are read one by one do.
                let part = if prng.chance(1, 3) { prng.below(u64::from(count)) as u32 + 1 } else { count };
                slots.free(cpu, first, part);
                used.retain(|slot| !(first..first + part).contains(slot));
                runs.extend((first + part..first + count).map(|slot| (slot, 1)));
            }
            assert_eq!(slots.used(), used.len() as u64);
        }
        for (first, count) in runs {
            slots.free(0, first, count);
        }
        assert_eq!(slots.used(), 0);
    }

    /// Takes single slots until there is none: all but `spare`, each once.
    pub fn every_slot_is_had(slots: &dyn Slots, slot_count: u32, spare: u32) {
        let all: BTreeSet<u32> = std::iter::from_fn(|| slots.allocate(1, 0)).collect();
        assert_eq!(all.len() as u32, slot_count - spare);
        assert_eq!(slots.used(), all.len() as u64);
        all.into_iter().for_each(|slot| slots.free(1, slot, 1));
        assert_eq!(slots.used(), 0);
    }

    /// Threads take and give back at the same time; no slot has two owners.
    pub fn threads(slots: &dyn Slots, orders: &[u32]) {
        let owned: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());
        std::thread::scope(|scope| {
            for cpu in 0..4 {
                let owned = &owned;
                scope.spawn(move || {
                    let mut prng = Prng::new(u64::from(cpu));
                    let mut runs: Vec<(u32, u32)> = Vec::new();
                    // Nobody's any more before another can have it.
                    let give = |(first, count): (u32, u32)| {
                        let mut owned = owned.lock().expect("nobody panicked");
                        owned.retain(|slot| !(first..first + count).contains(slot));
                        drop(owned);
                        slots.free(cpu, first, count);
                    };
                    for _ in 0..3000 {
                        let order = orders[prng.below(orders.len() as u64) as usize];
                        if let Some(first) = slots.allocate(cpu, order) {
                            let mut owned = owned.lock().expect("nobody panicked");
                            for slot in first..first + (1 << order) {
                                assert!(owned.insert(slot), "{slot} has two owners");
                            }
                            runs.push((first, 1 << order));
                        }
                        if runs.len() > 20 {
                            let at = prng.below(runs.len() as u64) as usize;
                            give(runs.swap_remove(at));
                        }
                    }
                    runs.into_iter().for_each(give);
                });
            }
        });
        assert_eq!(slots.used(), 0);
    }
}
