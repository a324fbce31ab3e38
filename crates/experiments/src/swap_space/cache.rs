//! What happens to a page that is swapped: a slot, what is found there, and how many refer to it. Two ways to keep
//! that.
//!
//! [`WithTrees`] is an allocator of slots with the trees of before Linux 6.18: a page that leaves is put in the tree,
//! is counted, and when its memory is given up the tree keeps a note of when; that is taken out when the slot is given
//! back. [`Table`] is ours: one word has all of it.

use std::ops::Range;

use uswap_core::clusters::CLUSTER_SLOTS;
use uswap_core::clusters::lock::Holder;
use uswap_core::mm::MmTable;
use uswap_core::segment::{Geometry, Segment};
use uswap_core::swap_table::{Put, SwapTable};
use uswap_core::swap_word::Content;
use uswap_units::{BlobId, MmId, SwapId};

use super::slots::{CPUS_MAX, Slots};
use super::trees::Trees;
use super::virtual_time::LockKind;
use super::words::Words;

/// The record of a swapped page, as CPUs use it.
pub trait SwapCache: Sync {
    /// A page leaves: it has a slot, is found there, and is counted once. None: there is no slot.
    fn store(&self, cpu: u16) -> Option<u32>;

    /// Its content is written, and its memory is given up.
    fn written(&self, cpu: u16, slot: u32);

    /// It is read back: its memory is found at the slot from now on.
    fn read_back(&self, cpu: u16, slot: u32);

    /// What is in the slot.
    fn lookup(&self, slot: u32) -> u64;

    /// One more refers to it.
    fn share(&self, slot: u32);

    /// One less refers to it; nobody does after that, or someone still does.
    fn put(&self, cpu: u16, slot: u32);

    /// As [`put`](Self::put), for slots that follow each other.
    fn put_run(&self, cpu: u16, first: u32, count: u32);

    /// Slots in use.
    fn used(&self) -> u64;

    /// Bytes for each page while `pages` are swapped.
    fn bytes_each(&self, pages: u64) -> f64;

    /// Where its locks are, and what they guard.
    fn locks(&self) -> Vec<(Range<usize>, LockKind)>;
}

/// An allocator, and trees.
pub struct WithTrees<S> {
    slots: S,
    trees: Trees,
    slot_count: u64,
}

/// What stands for a page; a set lowest bit is a note of one that left.
const PAGE: u64 = 2;
const NOTE: u64 = 1;
/// Slots whose references are dropped at once when memory is unmapped.
const RUN_MAX: u32 = 64;
/// Bytes a slot of an allocator that keeps one byte each, and a record of a cache line for 512.
const ALLOCATOR_BYTES: f64 = 1.0 + 64.0 / 512.0;

impl<S: Slots> WithTrees<S> {
    /// Of `slots`, which has so many clusters.
    pub fn new(slots: S, clusters: u32) -> WithTrees<S> {
        WithTrees { slots, trees: Trees::new(clusters), slot_count: u64::from(clusters * CLUSTER_SLOTS) }
    }

    /// The same, with [`Trees::holding`].
    #[must_use]
    pub fn holding(self, held_ns: u32) -> WithTrees<S> {
        WithTrees { trees: self.trees.holding(held_ns), ..self }
    }

    fn free(&self, cpu: u16, first: u32, count: u32) {
        self.trees.remove(first, count);
        self.slots.free(cpu, first, count);
    }
}

impl<S: Slots> SwapCache for WithTrees<S> {
    fn store(&self, cpu: u16) -> Option<u32> {
        let slot = self.slots.allocate(cpu, 0)?;
        self.trees.insert(slot, u64::from(slot) << 2 | PAGE);
        self.trees.change_count(slot, |count| count + 1);
        Some(slot)
    }

    fn written(&self, _cpu: u16, slot: u32) {
        self.trees.insert(slot, u64::from(slot) << 2 | NOTE);
    }

    fn read_back(&self, _cpu: u16, slot: u32) {
        self.trees.insert(slot, u64::from(slot) << 2 | PAGE);
    }

    fn lookup(&self, slot: u32) -> u64 {
        self.trees.lookup(slot)
    }

    fn share(&self, slot: u32) {
        self.trees.change_count(slot, |count| count + 1);
    }

    fn put(&self, cpu: u16, slot: u32) {
        if self.trees.change_count(slot, |count| count - 1) == 0 {
            self.free(cpu, slot, 1);
        }
    }

    fn put_run(&self, cpu: u16, first: u32, count: u32) {
        let (mut at, end) = (first, first + count);
        while at < end {
            let cluster_end = (at / CLUSTER_SLOTS + 1) * CLUSTER_SLOTS;
            let wanted = (end - at).min(RUN_MAX).min(cluster_end - at);
            let once = self.trees.put_run(at, wanted);
            if once > 0 {
                self.free(cpu, at, once);
            }
            if once < wanted {
                self.put(cpu, at + once);
            }
            at += (once + 1).min(wanted);
        }
    }

    fn used(&self) -> u64 {
        self.slots.used()
    }

    fn bytes_each(&self, pages: u64) -> f64 {
        (self.trees.node_bytes() as f64 + ALLOCATOR_BYTES * self.slot_count as f64) / pages as f64
    }

    fn locks(&self) -> Vec<(Range<usize>, LockKind)> {
        self.slots.locks().into_iter().chain(self.trees.locks()).collect()
    }
}

/// The memory of a [`Table`].
pub struct TableMemory {
    words: Words,
    clusters: u32,
}

impl TableMemory {
    /// Of a table of so many clusters.
    #[must_use]
    pub fn new(clusters: u32) -> TableMemory {
        let geometry = Geometry {
            mms: CPUS_MAX as u32,
            tables: 1,
            entries: clusters * CLUSTER_SLOTS,
            zspages: 1,
            slots: 8,
            readahead: 0,
        };
        let words = Words::new(geometry.layout().total_words());
        Segment::create(words.all(), geometry);
        TableMemory { words, clusters }
    }
}

/// Waits for a lock as the others here do: with more threads than processors the holder may not be running.
fn yielding(_: MmTable<'_>, _: MmId, _: u32) -> Holder {
    std::hint::spin_loop();
    std::thread::yield_now();
    Holder::Lives
}

/// Our swap table. A CPU is a process.
pub struct Table<'a> {
    /// As each CPU sees it: it is made once in a process, too.
    segments: Vec<Segment<'a>>,
    memory: &'a TableMemory,
}

impl<'a> Table<'a> {
    /// In `memory`, which no other table uses.
    #[must_use]
    pub fn new(memory: &'a TableMemory) -> Table<'a> {
        let segment = Segment::open(memory.words.all()).expect("it was made by `new`");
        let segment = segment.waiting_by(yielding);
        Table {
            segments: (0..CPUS_MAX as u16).map(|cpu| segment.acting_as(MmId::new(cpu))).collect(),
            memory,
        }
    }

    fn of(&self, cpu: u16) -> SwapTable<'a> {
        self.segments[usize::from(cpu)].swap_table()
    }

    /// As [`SwapCache::store`], for `1 << order` pages that leave together.
    pub fn store_run(&self, cpu: u16, order: u32) -> Option<u32> {
        let table = self.of(cpu);
        let first = table.reserve_run(order)?;
        let ids = first.number()..first.number() + (1 << order);
        table.publish_run(first, ids.map(|id| Content::Blob { blob: BlobId::new(id), length: 1024 }));
        Some(first.number())
    }
}

impl SwapCache for Table<'_> {
    fn store(&self, cpu: u16) -> Option<u32> {
        let table = self.of(cpu);
        let id = table.reserve()?;
        table.publish(id, Content::Blob { blob: BlobId::new(id.number()), length: 1024 });
        Some(id.number())
    }

    // The word names the content from the first to the last: there is nothing to put in and take out.
    fn written(&self, _cpu: u16, _slot: u32) {}

    fn read_back(&self, cpu: u16, slot: u32) {
        std::hint::black_box(self.of(cpu).load(SwapId::new(slot)));
    }

    fn lookup(&self, slot: u32) -> u64 {
        u64::from(self.of(0).load(SwapId::new(slot)).count())
    }

    fn share(&self, slot: u32) {
        self.of(0).share(SwapId::new(slot));
    }

    fn put(&self, cpu: u16, slot: u32) {
        match self.of(cpu).put(SwapId::new(slot)) {
            Put::StillShared | Put::Freed(_) => {}
            Put::Deferred => unreachable!("nothing is in write-back here"),
        }
    }

    fn put_run(&self, cpu: u16, first: u32, count: u32) {
        let slots = (first..first + count).map(SwapId::new);
        self.of(cpu).put_each(slots, |content| {
            std::hint::black_box(content);
        });
    }

    fn used(&self) -> u64 {
        self.of(0).used_count()
    }

    fn bytes_each(&self, pages: u64) -> f64 {
        // A word and two words of hash for each entry, and the state of the clusters.
        let entries = f64::from(self.memory.clusters * CLUSTER_SLOTS);
        let state = super::ours::Ours::new(self.memory.clusters).state_bytes();
        (entries * 24.0 + state as f64) / pages as f64
    }

    fn locks(&self) -> Vec<(Range<usize>, LockKind)> {
        vec![(self.memory.words.addresses(), LockKind::Cluster)]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use uswap_units::Prng;

    use super::*;
    use crate::swap_space::fragments::{Fragments, Prefer, Rules, Walk};

    /// Random operations against a map from slots to counts.
    fn agrees_with_a_map(cache: &dyn SwapCache) {
        let mut prng = Prng::new(5);
        let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
        for _ in 0..20_000 {
            let cpu = prng.below(4) as u16;
            let some = counts.range(prng.below(2000) as u32..).next().map(|(&slot, _)| slot);
            match (prng.below(4), some) {
                (0, _) | (_, None) => {
                    let Some(slot) = cache.store(cpu) else { continue };
                    assert_ne!(cache.lookup(slot), 0);
                    cache.written(cpu, slot);
                    assert_eq!(counts.insert(slot, 1), None, "{slot} has two owners");
                }
                (1, Some(slot)) if counts[&slot] < 3 => {
                    cache.share(slot);
                    *counts.get_mut(&slot).expect("it is there") += 1;
                }
                (2, Some(slot)) => {
                    let end = (slot..slot + 100).find(|slot| !counts.contains_key(slot));
                    let count = end.unwrap_or(slot + 100) - slot;
                    cache.put_run(cpu, slot, count);
                    (slot..slot + count).for_each(|slot| put(&mut counts, slot));
                }
                (_, Some(slot)) => {
                    cache.read_back(cpu, slot);
                    assert_ne!(cache.lookup(slot), 0);
                    cache.put(cpu, slot);
                    put(&mut counts, slot);
                }
            }
            assert_eq!(cache.used(), counts.len() as u64);
        }
        for (slot, count) in counts {
            (0..count).for_each(|_| cache.put(0, slot));
            assert_eq!(cache.lookup(slot), 0);
        }
        assert_eq!(cache.used(), 0);
    }

    fn put(counts: &mut BTreeMap<u32, u32>, slot: u32) {
        let count = counts.get_mut(&slot).expect("it is there");
        *count -= 1;
        if *count == 0 {
            counts.remove(&slot);
        }
    }

    #[test]
    fn random_operations_agree_with_the_model() {
        let rules = Rules { walk: Walk::One, prefer: Prefer::Nonfull };
        agrees_with_a_map(&WithTrees::new(Fragments::new(4, rules), 4));
        let memory = TableMemory::new(4);
        agrees_with_a_map(&Table::new(&memory));
    }

    #[test]
    fn a_page_of_a_full_device_has_its_bytes() {
        let rules = Rules { walk: Walk::One, prefer: Prefer::Nonfull };
        let trees = WithTrees::new(Fragments::new(32, rules), 32);
        while trees.store(0).is_some() {}
        let bytes = trees.bytes_each(trees.used());
        assert!((10.0..11.0).contains(&bytes), "{bytes}");
        let memory = TableMemory::new(32);
        let bytes = Table::new(&memory).bytes_each(32 * 512);
        assert!((24.0..25.0).contains(&bytes), "{bytes}");
    }
}
