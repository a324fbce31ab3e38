//! The allocator of Linux 6.12 to 6.18, to compare with: clusters on lists by state and order, each scanned slot by
//! slot.
//!
//! Built from a description of it. A cluster is `free`, `nonfull` (a slot was given back since it was last looked
//! through), `frag` (looked through since), or full. The device's lock guards the lists, a cluster's lock its bytes.
//! Each CPU has a current cluster for each order.
//!
//! The cover letter of 6.18 says what matters here: a large run that finds no usable cluster looked through all of
//! `frag`, and since then through one. It also has `nonfull` before `free` since then.
//!
//! Left out: reclaim of slots whose page is in memory again, discard, more than one device, turning disks.

use std::ops::Range;

use uswap_sync::{AtomicU64, Ordering};

use super::slots::{CPUS_MAX, Slots};
use super::virtual_time::LockKind;
use super::words::{Bytes, Held, LINE_WORDS, Words, lock, try_lock};

const CLUSTER: u32 = 512;
const ORDER_MAX: usize = 9;

/// How many clusters of the fragment list a large run looks through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Walk {
    /// As many as there are.
    All,
    /// One.
    One,
}

/// Which clusters a run is taken from first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prefer {
    /// Empty ones.
    Free,
    /// Those with free slots.
    Nonfull,
}

/// What tells the variants apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Of the fragment list.
    pub walk: Walk,
    /// Of the lists before it.
    pub prefer: Prefer,
}

/// The list that a cluster is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum List {
    /// None: somebody works on it.
    None,
    Free,
    Nonfull(usize),
    Fragments(usize),
    Full,
}

impl List {
    /// Number in the state word; lists with a number below [`LISTS`] are linked.
    const fn number(self) -> usize {
        match self {
            List::Free => 0,
            List::Full => 1,
            List::Nonfull(order) => 2 + order,
            List::Fragments(order) => 12 + order,
            List::None => LISTS,
        }
    }
    const fn of(number: usize) -> List {
        match number {
            0 => List::Free,
            1 => List::Full,
            2..12 => List::Nonfull(number - 2),
            12..LISTS => List::Fragments(number - 12),
            _ => List::None,
        }
    }
}
const LISTS: usize = 22;

// Words of a list: first and last cluster, as index + 1, and how many.
const LIST_WORDS: usize = 4;
// Words of a cluster.
const RECORD_WORDS: usize = LINE_WORDS;
const STATE: usize = 1;
const NEXT: usize = 2;
const PREVIOUS: usize = 3;
/// Words of a CPU: where it looks next in its cluster of each order, 0 if it has none.
const CPU_WORDS: usize = 2 * LINE_WORDS;

/// Used slots, order and list of a cluster.
#[derive(Clone, Copy)]
struct State {
    count: u32,
    order: usize,
    list: List,
}

/// A device with lists of clusters.
pub struct Fragments {
    rules: Rules,
    bytes: Bytes,
    records: Words,
    /// The lock in a line of its own, the lists, then the count of used slots in a line of its own.
    device: Words,
    cpus: Words,
}

const LISTS_START: usize = LINE_WORDS;
const IN_USE: usize = LISTS_START + LISTS * LIST_WORDS;

impl Fragments {
    /// A device of so many clusters. Slot 0 is never handed out.
    #[must_use]
    pub fn new(clusters: u32, rules: Rules) -> Fragments {
        let fragments = Fragments {
            rules,
            bytes: Bytes::new(clusters * CLUSTER),
            records: Words::new(clusters as usize * RECORD_WORDS),
            device: Words::new(IN_USE + LINE_WORDS),
            cpus: Words::new(CPUS_MAX * CPU_WORDS),
        };
        for cluster in 0..clusters {
            fragments.set_state(cluster, State { count: 0, order: 0, list: List::None });
            let list = if cluster == 0 { List::Nonfull(0) } else { List::Free };
            fragments.move_to(cluster, list);
        }
        fragments.bytes.set(0, 1);
        fragments.set_state(0, State { count: 1, ..fragments.state(0) });
        fragments
    }

    fn word(&self, cluster: u32, word: usize) -> usize {
        cluster as usize * RECORD_WORDS + word
    }
    fn lock_of(&self, cluster: u32) -> &AtomicU64 {
        &self.records.all()[self.word(cluster, 0)]
    }
    fn device_lock(&self) -> &AtomicU64 {
        &self.device.all()[0]
    }
    fn state(&self, cluster: u32) -> State {
        let raw = self.records.get(self.word(cluster, STATE));
        let [list, order, ..] = raw.to_le_bytes().map(usize::from);
        State { count: (raw >> 32) as u32, order, list: List::of(list) }
    }
    fn set_state(&self, cluster: u32, state: State) {
        let raw = u64::from(state.count) << 32 | (state.order as u64) << 8 | state.list.number() as u64;
        self.records.set(self.word(cluster, STATE), raw);
    }

    /// Clusters of a list.
    fn list_len(&self, list: List) -> u64 {
        self.device.get(LISTS_START + list.number() * LIST_WORDS + 2)
    }

    // With the device's lock held.

    fn unlink(&self, cluster: u32, list: List) {
        let list = LISTS_START + list.number() * LIST_WORDS;
        let next = self.records.get(self.word(cluster, NEXT));
        let previous = self.records.get(self.word(cluster, PREVIOUS));
        match (previous as u32).checked_sub(1) {
            Some(previous) => self.records.set(self.word(previous, NEXT), next),
            None => self.device.set(list, next),
        }
        match (next as u32).checked_sub(1) {
            Some(next) => self.records.set(self.word(next, PREVIOUS), previous),
            None => self.device.set(list + 1, previous),
        }
        self.device.set(list + 2, self.device.get(list + 2) - 1);
    }

    fn append(&self, cluster: u32, list: List) {
        let list = LISTS_START + list.number() * LIST_WORDS;
        let last = self.device.get(list + 1);
        self.records.set(self.word(cluster, NEXT), 0);
        self.records.set(self.word(cluster, PREVIOUS), last);
        match (last as u32).checked_sub(1) {
            Some(last) => self.records.set(self.word(last, NEXT), u64::from(cluster) + 1),
            None => self.device.set(list, u64::from(cluster) + 1),
        }
        self.device.set(list + 1, u64::from(cluster) + 1);
        self.device.set(list + 2, self.device.get(list + 2) + 1);
    }

    // With the cluster's lock held.

    /// To the end of a list.
    fn move_to(&self, cluster: u32, list: List) {
        let state = self.state(cluster);
        let held = lock(self.device_lock());
        if state.list != List::None {
            self.unlink(cluster, state.list);
        }
        self.append(cluster, list);
        drop(held);
        self.set_state(cluster, State { list, ..state });
    }

    /// To the list where it belongs after an allocation was tried.
    fn relocate(&self, cluster: u32) {
        let state = self.state(cluster);
        let list = match state.count {
            0 => List::Free,
            CLUSTER => List::Full,
            _ => List::Fragments(state.order),
        };
        if state.list != list {
            self.move_to(cluster, list);
        }
    }

    /// The first cluster of a list whose lock is free: taken off, and locked.
    fn isolate(&self, list: List) -> Option<(u32, Held<'_>)> {
        if self.list_len(list) == 0 {
            return None;
        }
        let device = lock(self.device_lock());
        let mut at = self.device.get(LISTS_START + list.number() * LIST_WORDS) as u32;
        while let Some(cluster) = at.checked_sub(1) {
            if let Some(tried) = try_lock(self.lock_of(cluster)) {
                self.unlink(cluster, list);
                drop(device);
                let held = tried.held();
                self.set_state(cluster, State { list: List::None, ..self.state(cluster) });
                return Some((cluster, held));
            }
            at = self.records.get(self.word(cluster, NEXT)) as u32;
        }
        None
    }

    fn serves(&self, cluster: u32, order: usize) -> bool {
        let state = self.state(cluster);
        state.list != List::Full && (order == 0 || state.count == 0 || state.order == order)
    }

    /// Looks through a locked cluster, from slot `from` of it on.
    fn scan(&self, cpu: u16, cluster: u32, from: u32, order: usize, held: Held<'_>) -> Option<u32> {
        let (state, size) = (self.state(cluster), 1 << order);
        let first = cluster * CLUSTER;
        let is_free = |&at: &u32| {
            state.count == 0 || (first + at..first + at + size).all(|slot| self.bytes.get(slot) == 0)
        };
        let found = if state.count + size > CLUSTER {
            None
        } else {
            (from..=CLUSTER - size).step_by(size as usize).find(is_free)
        };
        let mut next = 0;
        if let Some(at) = found {
            (first + at..first + at + size).for_each(|slot| self.bytes.set(slot, 1));
            let count = state.count + size;
            let order = if state.count == 0 { order } else { state.order };
            self.set_state(cluster, State { count, order, ..state });
            self.device.all()[IN_USE].fetch_add(u64::from(size), Ordering::Relaxed);
            if at + size < CLUSTER && count < CLUSTER {
                next = first + at + size;
            }
        }
        self.relocate(cluster);
        drop(held);
        self.cpus.set(usize::from(cpu) * CPU_WORDS + order, u64::from(next));
        found.map(|at| first + at)
    }

    /// From the first cluster of a list.
    fn take_from_one(&self, cpu: u16, list: List, order: usize) -> Option<u32> {
        let (cluster, held) = self.isolate(list)?;
        self.scan(cpu, cluster, 0, order, held)
    }

    /// From the clusters of a list that may still serve, one after the other.
    fn take_from_all(&self, cpu: u16, list: List, order: usize) -> Option<u32> {
        loop {
            let (cluster, held) = self.isolate(list)?;
            if let Some(found) = self.scan(cpu, cluster, 0, order, held) {
                return Some(found);
            }
        }
    }

    fn take_from_fragments(&self, cpu: u16, order: usize) -> Option<u32> {
        let list = List::Fragments(order);
        match self.rules.walk {
            Walk::One => self.take_from_one(cpu, list, order),
            Walk::All => {
                let mut looks = 0;
                while looks < self.list_len(list) {
                    let (cluster, held) = self.isolate(list)?;
                    if let Some(found) = self.scan(cpu, cluster, 0, order, held) {
                        return Some(found);
                    }
                    looks += 1;
                }
                None
            }
        }
    }

    fn take_from_lists(&self, cpu: u16, order: usize) -> Option<u32> {
        let free = || self.take_from_one(cpu, List::Free, order);
        let nonfull = || self.take_from_all(cpu, List::Nonfull(order), order);
        let found = match self.rules.prefer {
            Prefer::Free => free().or_else(nonfull),
            Prefer::Nonfull => nonfull().or_else(free),
        };
        found.or_else(|| self.take_from_fragments(cpu, order))
    }

    /// Single slots may be had in clusters of any order.
    fn steal(&self, cpu: u16) -> Option<u32> {
        (1..=ORDER_MAX).find_map(|order| {
            self.take_from_all(cpu, List::Fragments(order), 0)
                .or_else(|| self.take_from_all(cpu, List::Nonfull(order), 0))
        })
    }
}

impl Slots for Fragments {
    fn allocate(&self, cpu: u16, order: u32) -> Option<u32> {
        let order = order as usize;
        let next = self.cpus.get(usize::from(cpu) * CPU_WORDS + order) as u32;
        if next != 0 {
            let cluster = next / CLUSTER;
            let held = lock(self.lock_of(cluster));
            if self.serves(cluster, order) {
                let from = if self.state(cluster).count == 0 { 0 } else { next % CLUSTER };
                if let Some(found) = self.scan(cpu, cluster, from, order, held) {
                    return Some(found);
                }
            }
        }
        self.take_from_lists(cpu, order).or_else(|| if order == 0 { self.steal(cpu) } else { None })
    }

    fn free(&self, _cpu: u16, first: u32, count: u32) {
        let cluster = first / CLUSTER;
        let held = lock(self.lock_of(cluster));
        (first..first + count).for_each(|slot| self.bytes.set(slot, 0));
        let state = self.state(cluster);
        let left = state.count - count;
        self.device.all()[IN_USE].fetch_sub(u64::from(count), Ordering::Relaxed);
        let order = if left == 0 { 0 } else { state.order };
        self.set_state(cluster, State { count: left, order, ..state });
        let list = if left == 0 { List::Free } else { List::Nonfull(order) };
        if state.list != list {
            self.move_to(cluster, list);
        }
        drop(held);
    }

    fn used(&self) -> u64 {
        self.device.get(IN_USE)
    }

    fn locks(&self) -> Vec<(Range<usize>, LockKind)> {
        vec![(self.device.addresses(), LockKind::Device), (self.records.addresses(), LockKind::Cluster)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swap_space::slots::model;

    const VARIANTS: [Rules; 3] = [
        Rules { walk: Walk::All, prefer: Prefer::Free },
        Rules { walk: Walk::One, prefer: Prefer::Free },
        Rules { walk: Walk::One, prefer: Prefer::Nonfull },
    ];

    #[test]
    fn random_operations_agree_with_the_model() {
        for rules in VARIANTS {
            model::random_operations(&Fragments::new(8, rules), 8 * CLUSTER, &[0, 0, 1, 4, 9]);
            model::every_slot_is_had(&Fragments::new(3, rules), 3 * CLUSTER, 1);
            model::threads(&Fragments::new(8, rules), &[0, 4]);
        }
    }

    /// Two clusters with one used slot in each run of 16, and a third of the fragment list that has a free run.
    #[test]
    fn only_who_walks_all_finds_the_last_fragment() {
        for rules in VARIANTS {
            let device = Fragments::new(8, rules);
            let runs: Vec<u32> = std::iter::from_fn(|| device.allocate(0, 4)).collect();
            // Each free puts a cluster on `nonfull`; a search that fails puts it on `frag`.
            let (whole, broken) = runs.split_last().expect("there is room");
            broken.iter().for_each(|&first| device.free(0, first, 8));
            assert_eq!(device.allocate(0, 4), None, "no run is free");
            device.free(0, *whole, 16);
            assert_eq!(device.allocate(1, 4), Some(*whole), "what was given back is looked at");
            assert_eq!(device.used(), 16 + broken.len() as u64 * 8);
        }
    }
}
