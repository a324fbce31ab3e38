//! The swap cache of before 6.18, to compare with: which page is in which slot, in a tree for each 64 MB, with a lock
//! each.
//!
//! Built from a description of Linux up to 6.17. A tree has three levels of 64; nodes come and go as they are needed,
//! each nine cache lines. Who looks up takes no lock. Beside the trees there is one byte a slot that counts what refers
//! to it, under a lock for each cluster.
//!
//! A reader here may see a node that was just given back: nodes are never other memory, so it sees a wrong page at
//! worst. The scenes look up only what stays. Left out: allocation of nodes that fails.

use std::ops::Range;

use uswap_sync::trace;

use super::virtual_time::LockKind;
use super::words::{Bytes, Held, LINE_WORDS, Words, lock};

/// Slots of one tree: 64 MB.
const TREE_SLOTS: u32 = 1 << 14;
/// Bits of an index that one level uses.
const LEVEL_BITS: u32 = 6;
const FANOUT: usize = 1 << LEVEL_BITS;

/// A count and its line, then 64 slots.
const NODE_WORDS: usize = LINE_WORDS + FANOUT;
/// One root, four below it, and leaves.
const NODES: usize = 1 + 4 + TREE_SLOTS as usize / FANOUT;
const ROOT: usize = 0;

// Words of a tree: lock, count of nodes that are given back, those nodes, all nodes.
const LOCK: usize = 0;
const SPARE_COUNT: usize = 1;
const SPARE: usize = LINE_WORDS;
const NODES_START: usize = SPARE + NODES.next_multiple_of(LINE_WORDS);
const TREE_WORDS: usize = NODES_START + NODES * NODE_WORDS;

/// Slots of a cluster.
const CLUSTER: u32 = 512;

/// The trees of a device, and the byte of each slot.
pub struct Trees {
    tree_count: usize,
    words: Words,
    counts: Bytes,
    /// A lock a cluster, each in a line of its own.
    locks: Words,
    /// Nanoseconds of instructions under each lock of a tree, in simulated time.
    held_ns: u32,
}

impl Trees {
    /// For a device of so many clusters.
    #[must_use]
    pub fn new(clusters: u32) -> Trees {
        let slots = clusters * CLUSTER;
        let tree_count = slots.div_ceil(TREE_SLOTS) as usize;
        let trees = Trees {
            tree_count,
            words: Words::new(tree_count * TREE_WORDS),
            counts: Bytes::new(slots),
            locks: Words::new(clusters as usize * LINE_WORDS),
            held_ns: 0,
        };
        for tree in 0..tree_count {
            let start = tree * TREE_WORDS;
            trees.words.set(start + SPARE_COUNT, NODES as u64 - 1);
            // The smallest numbers are taken first.
            (1..NODES).for_each(|at| trees.words.set(start + SPARE + at - 1, (NODES - at) as u64));
        }
        trees
    }

    fn tree_of(slot: u32) -> usize {
        (slot / TREE_SLOTS) as usize * TREE_WORDS
    }
    fn node(tree: usize, node: usize) -> usize {
        tree + NODES_START + node * NODE_WORDS
    }
    /// Index in a node of the level: 2 at the root, 0 at the leaf.
    fn index(slot: u32, level: u32) -> usize {
        (slot % TREE_SLOTS) as usize >> (level * LEVEL_BITS) & (FANOUT - 1)
    }
    fn place(tree: usize, node: usize, slot: u32, level: u32) -> usize {
        Self::node(tree, node) + LINE_WORDS + Self::index(slot, level)
    }
    /// The same, doing so many nanoseconds of something else under each lock of a tree, in simulated time.
    #[must_use]
    pub fn holding(self, held_ns: u32) -> Trees {
        Trees { held_ns, ..self }
    }

    fn lock_tree(&self, slot: u32) -> Held<'_> {
        let held = lock(&self.words.all()[Self::tree_of(slot) + LOCK]);
        if self.held_ns > 0 {
            trace::worked(self.held_ns);
        }
        held
    }
    fn lock_cluster(&self, slot: u32) -> Held<'_> {
        lock(&self.locks.all()[(slot / CLUSTER) as usize * LINE_WORDS])
    }

    /// What is in the slot; 0 is nothing. Takes no lock.
    #[must_use]
    pub fn lookup(&self, slot: u32) -> u64 {
        let tree = Self::tree_of(slot);
        let mut node = ROOT;
        for level in [2, 1] {
            node = self.words.get(Self::place(tree, node, slot, level)) as usize;
            if node == 0 {
                return 0;
            }
        }
        self.words.get(Self::place(tree, node, slot, 0))
    }

    /// Sets what is in the slot, and returns what was.
    pub fn insert(&self, slot: u32, value: u64) -> u64 {
        assert_ne!(value, 0, "0 is nothing");
        let held = self.lock_tree(slot);
        let tree = Self::tree_of(slot);
        let mut node = ROOT;
        for level in [2, 1] {
            let place = Self::place(tree, node, slot, level);
            let mut next = self.words.get(place) as usize;
            if next == 0 {
                next = self.take_node(tree);
                self.words.set(place, next as u64);
                self.add_to_count(tree, node, 1);
            }
            node = next;
        }
        let place = Self::place(tree, node, slot, 0);
        let before = self.words.get(place);
        self.words.set(place, value);
        if before == 0 {
            self.add_to_count(tree, node, 1);
        }
        drop(held);
        before
    }

    /// Takes what is in the slots out, which are of one tree.
    pub fn remove(&self, first: u32, count: u32) {
        let held = self.lock_tree(first);
        (first..first + count).for_each(|slot| self.remove_one(slot));
        drop(held);
    }

    fn remove_one(&self, slot: u32) {
        let tree = Self::tree_of(slot);
        let mut path = [ROOT; 3];
        for level in [2, 1] {
            let next = self.words.get(Self::place(tree, path[2 - level], slot, level as u32)) as usize;
            if next == 0 {
                return;
            }
            path[3 - level] = next;
        }
        if self.words.get(Self::place(tree, path[2], slot, 0)) == 0 {
            return;
        }
        for level in 0..3 {
            let node = path[2 - level];
            self.words.set(Self::place(tree, node, slot, level as u32), 0);
            let is_empty = self.add_to_count(tree, node, u64::MAX) == 0;
            if !is_empty || node == ROOT {
                return;
            }
            self.give_node(tree, node);
        }
    }

    /// A count of `u64::MAX` takes one away.
    fn add_to_count(&self, tree: usize, node: usize, count: u64) -> u64 {
        let at = Self::node(tree, node);
        let now = self.words.get(at).wrapping_add(count);
        self.words.set(at, now);
        now
    }

    fn take_node(&self, tree: usize) -> usize {
        let left = self.words.get(tree + SPARE_COUNT) - 1;
        self.words.set(tree + SPARE_COUNT, left);
        self.words.get(tree + SPARE + left as usize) as usize
    }

    fn give_node(&self, tree: usize, node: usize) {
        let left = self.words.get(tree + SPARE_COUNT);
        self.words.set(tree + SPARE + left as usize, node as u64);
        self.words.set(tree + SPARE_COUNT, left + 1);
    }

    /// The count of a slot is changed by this. Returns it after that.
    pub fn change_count(&self, slot: u32, change: impl FnOnce(u8) -> u8) -> u8 {
        let held = self.lock_cluster(slot);
        let now = change(self.counts.get(slot));
        self.counts.set(slot, now);
        drop(held);
        now
    }

    /// Takes one from the count of each of some slots of one cluster, and returns how many from the first on are at 0
    /// now: those behind them are left as they are.
    pub fn put_run(&self, first: u32, count: u32) -> u32 {
        let held = self.lock_cluster(first);
        let once = (first..first + count).take_while(|&slot| self.counts.get(slot) == 1).count() as u32;
        (first..first + once).for_each(|slot| self.counts.set(slot, 0));
        drop(held);
        once
    }

    /// Bytes of the nodes that are in use.
    #[must_use]
    pub fn node_bytes(&self) -> u64 {
        let spare = |tree: usize| self.words.get(tree * TREE_WORDS + SPARE_COUNT);
        let used: u64 = (0..self.tree_count).map(|tree| NODES as u64 - spare(tree)).sum();
        used * NODE_WORDS as u64 * 8
    }

    /// Where its locks are, and what they guard.
    #[must_use]
    pub fn locks(&self) -> Vec<(Range<usize>, LockKind)> {
        vec![(self.words.addresses(), LockKind::Tree), (self.locks.addresses(), LockKind::Cluster)]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use uswap_units::Prng;

    use super::*;

    #[test]
    fn random_operations_agree_with_a_map() {
        let slots = 2 * TREE_SLOTS;
        let trees = Trees::new(slots / CLUSTER);
        let mut model = BTreeMap::new();
        let mut prng = Prng::new(3);
        for step in 1..60_000_u64 {
            // Few in one tree, many in the other.
            let slot =
                if prng.chance(1, 2) { prng.below(200) as u32 } else { prng.below(u64::from(slots)) as u32 };
            match prng.below(3) {
                0 => assert_eq!(trees.insert(slot, step), model.insert(slot, step).unwrap_or(0)),
                1 => {
                    let count = 1 + prng.below(8) as u32;
                    let count = count.min(TREE_SLOTS - slot % TREE_SLOTS);
                    trees.remove(slot, count);
                    model.retain(|at, _| !(slot..slot + count).contains(at));
                }
                _ => assert_eq!(trees.lookup(slot), model.get(&slot).copied().unwrap_or(0)),
            }
        }
        (0..slots).for_each(|slot| assert_eq!(trees.lookup(slot), model.get(&slot).copied().unwrap_or(0)));
        model.keys().for_each(|&slot| trees.remove(slot, 1));
        assert_eq!(trees.node_bytes(), 2 * NODE_WORDS as u64 * 8, "only the roots are left");
    }

    #[test]
    fn a_count_that_is_shared_ends_a_run() {
        let trees = Trees::new(1);
        (3..9).for_each(|slot| assert_eq!(trees.change_count(slot, |count| count + 1), 1));
        assert_eq!(trees.change_count(6, |count| count + 1), 2);
        assert_eq!(trees.put_run(3, 6), 3);
        assert_eq!(trees.change_count(6, |count| count - 1), 1);
        assert_eq!(trees.put_run(6, 3), 3);
    }
}
