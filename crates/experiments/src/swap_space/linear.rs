//! The scanner of before 2024, to compare with: one byte a slot, and who needs a slot looks from where the last one was
//! found.
//!
//! Built from a description of Linux up to 5.8. One lock guards the device. While there are empty clusters each CPU has
//! one; after that all go along the bytes, without the lock, from `cluster_next` on: one place for all, or since 5.9
//! one for each CPU, which goes to a random 64 MB when it comes to the end of its own. Each CPU has 64 slots at hand
//! and gives 64 back at a time, while there are enough.
//!
//! Left out: reclaim of slots whose page is in memory again, bad slots, discard, runs that are not one slot or a whole
//! cluster.

use std::ops::Range;

use uswap_units::Prng;

use super::slots::{CPUS_MAX, Slots};
use super::virtual_time::LockKind;
use super::words::{Bytes, LINE_WORDS, Words, lock};

/// Slots of a cluster.
const CLUSTER: u32 = 512;
/// Slots that a CPU takes or gives back at once.
const BATCH: u32 = 64;
/// Bytes that are looked at under the lock for one more slot of a batch.
const LOOKS_MAX: u32 = 256;
/// Slots of 64 MB.
const TRUNK: u32 = 1 << 14;

/// Where a search without an empty cluster begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Base {
    /// Behind the last slot that anyone took.
    Shared,
    /// Behind the last slot that this CPU took.
    EachCpu,
}

// Words of the device; the lock has a line of its own.
const LOCK: usize = 0;
const NEXT: usize = LINE_WORDS;
const LOWEST: usize = LINE_WORDS + 1;
const HIGHEST: usize = LINE_WORDS + 2;
const IN_USE: usize = LINE_WORDS + 3;
/// Empty clusters, first in first out: index + 1, 0 for none.
const EMPTY_FIRST: usize = LINE_WORDS + 4;
const EMPTY_LAST: usize = LINE_WORDS + 5;

// Words of a CPU.
const CPU_CLUSTER: usize = 0;
const CPU_NEXT: usize = 1;
const CPU_BASE: usize = 2;
const CPU_SEED: usize = 3;
const TAKE_LOCK: usize = LINE_WORDS;
const TAKE_COUNT: usize = LINE_WORDS + 1;
const GIVE_LOCK: usize = LINE_WORDS + 2;
const GIVE_COUNT: usize = LINE_WORDS + 3;
const TAKE: usize = 2 * LINE_WORDS;
const GIVE: usize = TAKE + BATCH as usize;
const CPU_WORDS: usize = GIVE + BATCH as usize;

/// A device with one byte a slot.
pub struct Linear {
    slot_count: u32,
    base: Base,
    bytes: Bytes,
    device: Words,
    /// A word a cluster: used slots, and above them the next of the empty ones, as index + 1.
    clusters: Words,
    cpus: Words,
}

impl Linear {
    /// A device of so many clusters. Slot 0 is never handed out.
    #[must_use]
    pub fn new(clusters: u32, base: Base) -> Linear {
        let slot_count = clusters * CLUSTER;
        let linear = Linear {
            slot_count,
            base,
            bytes: Bytes::new(slot_count),
            device: Words::new(2 * LINE_WORDS),
            clusters: Words::new(clusters as usize),
            cpus: Words::new(CPUS_MAX * CPU_WORDS),
        };
        linear.bytes.set(0, 1);
        linear.clusters.set(0, 1);
        (1..clusters).for_each(|cluster| linear.append_empty(cluster));
        linear.device.set(NEXT, 1);
        linear.device.set(LOWEST, 1);
        linear.device.set(HIGHEST, u64::from(slot_count) - 1);
        let mut prng = Prng::new(0x51);
        for cpu in 0..CPUS_MAX {
            linear.cpus.set(cpu * CPU_WORDS + CPU_BASE, 1 + prng.below(u64::from(slot_count) - 1));
            linear.cpus.set(cpu * CPU_WORDS + CPU_SEED, prng.next_u64());
        }
        linear
    }

    fn cpu(&self, cpu: u16, word: usize) -> usize {
        usize::from(cpu) * CPU_WORDS + word
    }

    fn lowest(&self) -> u32 {
        self.device.get(LOWEST) as u32
    }
    fn highest(&self) -> u32 {
        self.device.get(HIGHEST) as u32
    }

    // What follows is called with the device's lock held.

    fn used_in(&self, cluster: u32) -> u32 {
        self.clusters.get(cluster as usize) as u32
    }

    fn append_empty(&self, cluster: u32) {
        let last = self.device.get(EMPTY_LAST);
        if last == 0 {
            self.device.set(EMPTY_FIRST, u64::from(cluster) + 1);
        } else {
            let word = self.clusters.get(last as usize - 1) & 0xFFFF_FFFF;
            self.clusters.set(last as usize - 1, word | (u64::from(cluster) + 1) << 32);
        }
        self.clusters.set(cluster as usize, 0);
        self.device.set(EMPTY_LAST, u64::from(cluster) + 1);
    }

    /// The first of the empty clusters; it stays one of them until a slot of it is taken.
    fn first_empty(&self) -> Option<u32> {
        (self.device.get(EMPTY_FIRST) as u32).checked_sub(1)
    }

    fn remove_first_empty(&self) {
        let Some(first) = self.first_empty() else { return };
        let next = self.clusters.get(first as usize) >> 32;
        self.device.set(EMPTY_FIRST, next);
        if next == 0 {
            self.device.set(EMPTY_LAST, 0);
        }
        self.clusters.set(first as usize, 0);
    }

    /// A free slot of the CPU's cluster, or of the first empty one, which becomes the CPU's.
    fn in_own_cluster(&self, cpu: u16) -> Option<u32> {
        loop {
            let own = self.cpus.get(self.cpu(cpu, CPU_CLUSTER)) as u32;
            let (cluster, from) = match own.checked_sub(1) {
                Some(cluster) => (cluster, self.cpus.get(self.cpu(cpu, CPU_NEXT)) as u32),
                None => {
                    let cluster = self.first_empty()?;
                    self.cpus.set(self.cpu(cpu, CPU_CLUSTER), u64::from(cluster) + 1);
                    (cluster, cluster * CLUSTER)
                }
            };
            // Empty, and not the first: it was given back meanwhile, and waits for its turn.
            let is_queued = self.used_in(cluster) == 0 && self.first_empty() != Some(cluster);
            let end = (cluster + 1) * CLUSTER;
            let found = if is_queued { None } else { (from..end).find(|&slot| self.bytes.get(slot) == 0) };
            match found {
                Some(slot) => {
                    self.cpus.set(self.cpu(cpu, CPU_NEXT), u64::from(slot) + 1);
                    return Some(slot);
                }
                None => self.cpus.set(self.cpu(cpu, CPU_CLUSTER), 0),
            }
        }
    }

    fn take(&self, slot: u32) {
        let cluster = slot / CLUSTER;
        if self.used_in(cluster) == 0 {
            self.remove_first_empty();
        }
        self.bytes.set(slot, 1);
        self.clusters.set(cluster as usize, self.clusters.get(cluster as usize) + 1);
        let used = self.device.get(IN_USE) + 1;
        self.device.set(IN_USE, used);
        if slot == self.lowest() {
            self.device.set(LOWEST, u64::from(slot) + 1);
        }
        if slot == self.highest() {
            self.device.set(HIGHEST, u64::from(slot) - 1);
        }
        if used == u64::from(self.slot_count) - 1 {
            self.device.set(LOWEST, u64::from(self.slot_count));
            self.device.set(HIGHEST, 0);
        }
    }

    fn give(&self, slot: u32) {
        let cluster = slot / CLUSTER;
        self.bytes.set(slot, 0);
        let used = self.clusters.get(cluster as usize) - 1;
        self.clusters.set(cluster as usize, used);
        if used == 0 {
            self.append_empty(cluster);
        }
        self.device.set(IN_USE, self.device.get(IN_USE) - 1);
        if slot < self.lowest() {
            self.device.set(LOWEST, u64::from(slot));
        }
        if slot > self.highest() {
            self.device.set(HIGHEST, u64::from(slot));
        }
    }

    fn base(&self, cpu: u16) -> u32 {
        match self.base {
            Base::Shared => self.device.get(NEXT) as u32,
            Base::EachCpu => self.cpus.get(self.cpu(cpu, CPU_BASE)) as u32,
        }
    }

    fn set_base(&self, cpu: u16, slot: u32) {
        match self.base {
            Base::Shared => self.device.set(NEXT, u64::from(slot) + 1),
            Base::EachCpu => {
                let next = slot + 1;
                let is_same = self.base(cpu) / TRUNK == next / TRUNK;
                let next = if is_same { next } else { self.random_trunk(cpu).unwrap_or(next) };
                self.cpus.set(self.cpu(cpu, CPU_BASE), u64::from(next));
            }
        }
    }

    fn random_trunk(&self, cpu: u16) -> Option<u32> {
        let (lowest, highest) = (self.lowest(), self.highest());
        let span = highest.checked_sub(lowest)?;
        let seed = self.cpu(cpu, CPU_SEED);
        let mut prng = Prng::new(self.cpus.get(seed));
        let at = lowest + prng.below(u64::from(span) + 1) as u32;
        self.cpus.set(seed, prng.next_u64());
        Some((at / TRUNK * TRUNK).max(lowest))
    }

    // Called without the lock.

    /// The first free slot behind `from`, or else before it.
    fn scan(&self, from: u32) -> Option<u32> {
        let (lowest, highest) = (self.lowest(), self.highest());
        let mut slots = (from..=highest).chain(lowest..from.min(highest + 1));
        slots.find(|&slot| self.bytes.get(slot) == 0)
    }

    /// Takes up to `wanted` slots.
    fn take_some(&self, cpu: u16, wanted: u32, mut taken: impl FnMut(u32)) {
        let mut held = lock(&self.device.all()[LOCK]);
        let mut got = 0;
        let mut last = None;
        let mut from = self.base(cpu);
        while got < wanted {
            let slot = match self.in_own_cluster(cpu) {
                Some(slot) => slot,
                None if got > 0 => {
                    // More of them only if they are near: the lock is held.
                    let end = from.saturating_add(LOOKS_MAX).min(self.highest() + 1);
                    let Some(slot) = (from..end).find(|&slot| self.bytes.get(slot) == 0) else { break };
                    slot
                }
                None => {
                    let is_outside = from > self.highest();
                    let start = if is_outside { self.lowest() } else { from };
                    drop(held);
                    let found = self.scan(start);
                    held = lock(&self.device.all()[LOCK]);
                    let Some(slot) = found else { break };
                    if self.bytes.get(slot) != 0 || self.used_in(slot / CLUSTER) == 0 {
                        // Another was faster, or it is in an empty cluster by now.
                        from = slot;
                        continue;
                    }
                    slot
                }
            };
            self.take(slot);
            if self.base == Base::Shared {
                self.set_base(cpu, slot);
            }
            last = Some(slot);
            from = slot + 1;
            got += 1;
            taken(slot);
        }
        if let Some(slot) = last
            && self.base == Base::EachCpu
        {
            self.set_base(cpu, slot);
        }
        drop(held);
    }

    fn take_cluster(&self, cpu: u16) -> Option<u32> {
        let held = lock(&self.device.all()[LOCK]);
        let first = self.first_empty()? * CLUSTER;
        (first..first + CLUSTER).for_each(|slot| self.take(slot));
        self.set_base(cpu, first + CLUSTER - 1);
        drop(held);
        Some(first)
    }

    /// Whether there is so much left that CPUs may keep some.
    fn is_plenty(&self) -> bool {
        u64::from(self.slot_count) - self.device.get(IN_USE) > CPUS_MAX as u64 * 2 * u64::from(BATCH)
    }

    fn take_one(&self, cpu: u16) -> Option<u32> {
        let (count_at, first_at) = (self.cpu(cpu, TAKE_COUNT), self.cpu(cpu, TAKE));
        let held = lock(&self.cpus.all()[self.cpu(cpu, TAKE_LOCK)]);
        if self.cpus.get(count_at) == 0 {
            let wanted = if self.is_plenty() { BATCH } else { 1 };
            let mut count = 0;
            self.take_some(cpu, wanted, |slot| {
                self.cpus.set(first_at + count, u64::from(slot));
                count += 1;
            });
            // Taken from the end: the first one found goes there.
            for at in 0..count / 2 {
                let (low, high) = (self.cpus.get(first_at + at), self.cpus.get(first_at + count - 1 - at));
                self.cpus.set(first_at + at, high);
                self.cpus.set(first_at + count - 1 - at, low);
            }
            self.cpus.set(count_at, count as u64);
        }
        let left = self.cpus.get(count_at).checked_sub(1)?;
        self.cpus.set(count_at, left);
        let slot = self.cpus.get(first_at + left as usize);
        drop(held);
        Some(slot as u32)
    }

    fn give_one(&self, cpu: u16, slot: u32) {
        let (count_at, first_at) = (self.cpu(cpu, GIVE_COUNT), self.cpu(cpu, GIVE));
        let held = lock(&self.cpus.all()[self.cpu(cpu, GIVE_LOCK)]);
        let count = self.cpus.get(count_at) as usize;
        self.cpus.set(first_at + count, u64::from(slot));
        self.cpus.set(count_at, count as u64 + 1);
        if count + 1 == BATCH as usize || !self.is_plenty() {
            let device = lock(&self.device.all()[LOCK]);
            (0..=count).for_each(|at| self.give(self.cpus.get(first_at + at) as u32));
            drop(device);
            self.cpus.set(count_at, 0);
        }
        drop(held);
    }
}

impl Slots for Linear {
    fn allocate(&self, cpu: u16, order: u32) -> Option<u32> {
        match order {
            0 => self.take_one(cpu),
            9 => self.take_cluster(cpu),
            _ => None,
        }
    }

    fn free(&self, cpu: u16, first: u32, count: u32) {
        if count == 1 {
            self.give_one(cpu, first);
            return;
        }
        let held = lock(&self.device.all()[LOCK]);
        (first..first + count).for_each(|slot| self.give(slot));
        drop(held);
    }

    fn used(&self) -> u64 {
        let at_hand = |cpu: usize| {
            let word = |word| self.cpus.get(cpu * CPU_WORDS + word);
            word(TAKE_COUNT) + word(GIVE_COUNT)
        };
        self.device.get(IN_USE) - (0..CPUS_MAX).map(at_hand).sum::<u64>()
    }

    fn locks(&self) -> Vec<(Range<usize>, LockKind)> {
        vec![(self.device.addresses(), LockKind::Device), (self.cpus.addresses(), LockKind::Cache)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swap_space::slots::model;

    #[test]
    fn random_operations_agree_with_the_model() {
        for base in [Base::Shared, Base::EachCpu] {
            model::random_operations(&Linear::new(8, base), 8 * CLUSTER, &[0, 0, 0, 9]);
            // So large that CPUs keep slots at hand.
            model::random_operations(&Linear::new(64, base), 64 * CLUSTER, &[0, 0, 0, 9]);
            model::every_slot_is_had(&Linear::new(8, base), 8 * CLUSTER, 1);
            model::threads(&Linear::new(2, base), &[0]);
            model::threads(&Linear::new(64, base), &[0]);
        }
    }

    #[test]
    fn without_an_empty_cluster_all_go_along_one_place_or_each_along_its_own() {
        for (base, is_near) in [(Base::Shared, true), (Base::EachCpu, false)] {
            let linear = Linear::new(256, base);
            while linear.first_empty().is_some() {
                let _ = linear.allocate(0, 9);
            }
            while linear.allocate(0, 0).is_some() {}
            // Every eighth slot of all but the first cluster.
            (CLUSTER..256 * CLUSTER).step_by(8).for_each(|slot| linear.free(0, slot, 1));
            let taken: Vec<u32> = (1..9).filter_map(|cpu| linear.allocate(cpu, 0)).collect();
            let (least, most) = (taken.iter().min(), taken.iter().max());
            let distance = most.expect("there are free ones") - least.expect("there are free ones");
            assert_eq!(distance < TRUNK, is_near, "{base:?}: {taken:?}");
        }
    }
}
