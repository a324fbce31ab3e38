//! Clusters of slots against a list of owned runs, and the invariants of the lists after each step.

use crate::clusters::lock::{Holder, Locker, SUPERVISOR};
use crate::clusters::{CLUSTER_SLOTS, Clusters, ORDER_MAX, Search, SlotUsage, Space, cluster_of, slot_at};
use crate::mm::MmTable;
use core::ops::Range;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec::Vec;
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::{ClusterId, MmId};

/// One word a slot: the owner's number + 1.
#[derive(Clone, Copy)]
pub(super) struct Words<'a>(pub &'a [AtomicU64]);

impl SlotUsage for Words<'_> {
    type Slot = u32;

    fn is_used(&self, slot: u32) -> bool {
        self.0[slot as usize].load(Ordering::Acquire) != 0
    }
    fn claim(&self, slot: u32, by: MmId) {
        let before = self.0[slot as usize].swap(by.to_word(), Ordering::AcqRel);
        assert_eq!(before, 0, "slot {slot} is owned twice");
    }
}

fn zeros(count: usize) -> Vec<AtomicU64> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

/// Words of a space, of its truth, and of no processes.
struct Memory {
    state: Vec<AtomicU64>,
    slots: Vec<AtomicU64>,
    taken_total: AtomicU64,
    space: Space,
}

impl Memory {
    fn new(space: Space) -> Memory {
        let slots = zeros(space.count as usize);
        Memory { state: zeros(space.words()), slots, taken_total: AtomicU64::new(0), space }
    }
    fn view(&self) -> Clusters<'_, Words<'_>> {
        self.view_of(SUPERVISOR)
    }
    fn view_of(&self, me: MmId) -> Clusters<'_, Words<'_>> {
        let mms = MmTable { words: &[], taken_total: &self.taken_total };
        let contended = |_: MmTable<'_>, _: MmId, _: u32| -> Holder { panic!("nobody holds a lock here") };
        let locker = Locker { me, contended, mms };
        Clusters::new(&self.state, self.space, Words(&self.slots), locker)
    }
    fn release(&self, first: u32, count: u32) {
        (first..first + count).for_each(|slot| self.slots[slot as usize].store(0, Ordering::Release));
    }
}

const SPACE: Space =
    Space { skipped: 1, count: 5 * CLUSTER_SLOTS + 100, is_trimmed: true, search: Search::Scattered };

#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Allocate {
        order: u32,
        caller: u16,
        count: usize,
    },
    Free {
        pick: usize,
    },
    FreePart {
        pick: usize,
        keep: u32,
    },
    FreeMany {
        count: usize,
    },
    Trim,
    /// A process dies after it took the words of a run, and before it freed them to the end.
    DieFreeing {
        pick: usize,
    },
    /// A process dies with the lock of a cluster, in which some words are claimed already and the map is behind.
    DieAllocating {
        cluster: ClusterId,
        at: u32,
        count: u32,
    },
    /// A process dies with the lock of a cluster that is on other lists than its state says.
    DieRelisting {
        cluster: ClusterId,
    },
    /// A process dies when it has taken a cluster that was never used, and not begun it.
    DieTouching,
}

pub(super) fn operation() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..=ORDER_MAX, 0..4_u16, 1..8_usize)
            .prop_map(|(order, caller, count)| Op::Allocate { order, caller, count }),
        3 => (0..4_u16, 1..700_usize).prop_map(|(caller, count)| Op::Allocate { order: 0, caller, count }),
        5 => (0..4096_usize).prop_map(|pick| Op::Free { pick }),
        3 => (0..4096_usize, 0..9_u32).prop_map(|(pick, keep)| Op::FreePart { pick, keep }),
        2 => (1..400_usize).prop_map(|count| Op::FreeMany { count }),
        2 => Just(Op::Trim),
        1 => (0..4096_usize).prop_map(|pick| Op::DieFreeing { pick }),
        1 => (0..6_u32, 0..CLUSTER_SLOTS, 1..20_u32)
            .prop_map(|(cluster, at, count)| Op::DieAllocating { cluster: ClusterId::new(cluster), at, count }),
        1 => (0..6_u32).prop_map(|cluster| Op::DieRelisting { cluster: ClusterId::new(cluster) }),
        1 => Just(Op::DieTouching),
    ]
}

/// First slot -> slots of each run that someone owns.
type Runs = BTreeMap<u32, u32>;

fn slots_of(cluster: ClusterId) -> Range<u32> {
    slot_at(cluster, 0)..slot_at(cluster, CLUSTER_SLOTS)
}

struct Model<'a> {
    memory: &'a Memory,
    runs: Runs,
}

impl Model<'_> {
    fn pick(&self, pick: usize) -> Option<(u32, u32)> {
        let count = self.runs.len();
        (count > 0)
            .then(|| self.runs.iter().nth(pick % count).map(|(&first, &slots)| (first, slots)))
            .flatten()
    }

    fn is_free(&self, first: u32, count: u32) -> bool {
        first >= SPACE.skipped
            && first + count <= SPACE.count
            && (first..first + count)
                .all(|slot| self.memory.slots[slot as usize].load(Ordering::Relaxed) == 0)
    }

    /// Whether there is an aligned run of `size` free slots.
    fn has_room(&self, cluster: ClusterId, size: u32) -> bool {
        let mut starts = slots_of(cluster).step_by(size as usize);
        starts.any(|first| self.is_free(first, size))
    }

    fn used_in(&self, cluster: ClusterId) -> u32 {
        self.runs.range(slots_of(cluster)).map(|(_, count)| count).sum()
    }

    fn allocate(&mut self, order: u32, caller: u16) {
        let clusters = self.memory.view_of(MmId::new(caller));
        let size = 1 << order;
        let state = |cluster| clusters.record(cluster).state();
        let before: Vec<_> = ClusterId::each_below(clusters.count())
            .map(|cluster| (state(cluster), self.used_in(cluster)))
            .collect();
        match clusters.allocate(order) {
            Some(first) => {
                // Invariant 3.
                assert!(first.is_multiple_of(size));
                assert!(first >= SPACE.skipped && first + size <= SPACE.count);
                let (was, used) = before[cluster_of(first).number() as usize];
                // Invariant 4, except that small runs may go to clusters of larger ones; and to smaller ones goes what
                // nobody else can serve.
                let serves = |cluster: ClusterId| {
                    let (was, used) = before[cluster.number() as usize];
                    (used == 0 || order <= was.order) && self.has_room(cluster, size)
                };
                assert!(
                    used == 0 || order <= was.order || !ClusterId::each_below(clusters.count()).any(serves)
                );
                self.runs.insert(first, size);
            }
            None if order == 0 => {
                let free = (SPACE.skipped..SPACE.count).filter(|&slot| self.is_free(slot, 1)).count();
                assert_eq!(free, 0, "there is room for a single slot");
            }
            None => {
                let room =
                    ClusterId::each_below(clusters.count()).find(|&cluster| self.has_room(cluster, size));
                assert_eq!(room, None, "this cluster could serve order {order}");
            }
        }
    }

    fn apply(&mut self, op: Op) {
        let clusters = self.memory.view();
        match op {
            Op::Allocate { order, caller, count } => (0..count).for_each(|_| self.allocate(order, caller)),
            Op::Free { pick } => {
                if let Some((first, count)) = self.pick(pick) {
                    self.memory.release(first, count);
                    clusters.free(first, count);
                    self.runs.remove(&first);
                }
            }
            Op::FreePart { pick, keep } => {
                if let Some((first, count)) = self.pick(pick)
                    && count > 1
                {
                    let kept = 1 + keep % (count - 1);
                    self.memory.release(first + kept, count - kept);
                    // A range may name what stays in use.
                    clusters.free(first, count);
                    self.runs.insert(first, kept);
                }
            }
            Op::FreeMany { count } => (0..count).for_each(|pick| self.apply(Op::Free { pick: pick * 7 })),
            Op::Trim => {
                if let Some(cluster) = clusters.take_to_trim() {
                    assert_eq!(self.used_in(cluster), 0);
                    assert!(clusters.record(cluster).state().list.is_closed(), "nobody gets a part of it");
                    clusters.trimmed(cluster);
                }
            }
            Op::DieFreeing { pick } => {
                if let Some((first, count)) = self.pick(pick) {
                    self.memory.release(first, count);
                    self.runs.remove(&first);
                    assert_eq!(clusters.audit(), u64::from(count));
                }
            }
            Op::DieAllocating { cluster, at, count } => {
                let (first, count) = (slot_at::<u32>(cluster, at), count.min(CLUSTER_SLOTS - at));
                let record = clusters.record(cluster);
                let may = cluster.number() < clusters.touched()
                    && !record.state().list.is_closed()
                    && self.is_free(first, count);
                if may {
                    record.lock().store(3, Ordering::Relaxed);
                    (first..first + count)
                        .for_each(|slot| self.memory.slots[slot as usize].store(3, Ordering::Relaxed));
                    clusters.break_locks(MmId::new(2));
                    self.runs.insert(first, count);
                }
            }
            Op::DieRelisting { cluster } => {
                if cluster.number() < clusters.touched() && !clusters.is_being_trimmed(cluster) {
                    clusters.break_bits_for_test(cluster, MmId::new(2));
                    clusters.break_locks(MmId::new(2));
                }
            }
            Op::DieTouching => {
                let cluster = ClusterId::new(clusters.touched());
                if cluster.number() < clusters.count() && clusters.touch_next(cluster) {
                    assert_eq!(clusters.audit(), 0);
                }
            }
        }
    }

    fn check(&self) {
        let clusters = self.memory.view();
        // Invariant 2.
        assert_eq!(clusters.used(), self.runs.values().map(|&count| u64::from(count)).sum::<u64>());
        ClusterId::each_below(clusters.count())
            .for_each(|cluster| assert_eq!(clusters.used_in(cluster), self.used_in(cluster)));
        clusters.check_lists();
    }
}

/// Each step of a list against the model; then everything is freed.
pub(super) fn run(ops: Vec<Op>, search: Search) {
    let memory = Memory::new(Space { search, ..SPACE });
    let mut model = Model { memory: &memory, runs: Runs::new() };
    for op in ops {
        model.apply(op);
        model.check();
    }
    while let Some((first, count)) = model.pick(0) {
        memory.release(first, count);
        memory.view().free(first, count);
        model.runs.remove(&first);
    }
    model.check();
    let whole = core::iter::from_fn(|| memory.view().allocate(ORDER_MAX)).count();
    assert_eq!(whole, 4, "all but the first and the last cluster are whole again");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 192, ..ProptestConfig::default() })]
    #[test]
    fn slots_are_those_of_the_model(ops in prop::collection::vec(operation(), 1..60), onward: bool) {
        run(ops, if onward { Search::Onward } else { Search::Scattered });
    }
}

#[test]
fn single_slots_go_where_they_do_least_harm() {
    let memory = Memory::new(Space {
        skipped: 0,
        count: 4 * CLUSTER_SLOTS,
        is_trimmed: false,
        search: Search::Scattered,
    });
    let clusters = memory.view_of(MmId::new(0));
    // Three clusters of order 4, one of order 9.
    let runs: Vec<u32> = (0..96).map(|_| clusters.allocate(4).expect("room")).collect();
    let whole = clusters.allocate(9).expect("room");
    let free = |first, count| {
        memory.release(first, count);
        clusters.free(first, count);
    };
    // One cluster can serve order 4 again; one has a hole of 8 and one a hole of 2.
    free(runs[0], 16);
    free(runs[40], 8);
    free(runs[80], 2);
    assert_eq!(clusters.allocate(0), Some(runs[80]));
    assert_eq!(
        clusters.allocate(3),
        Some(runs[40]),
        "best fit, in a cluster that cannot serve its own order"
    );
    assert_eq!(clusters.allocate(0), Some(runs[80] + 1));
    assert_eq!(clusters.allocate(4), Some(runs[0]));
    assert_eq!(clusters.allocate(0), None);
    free(whole, 512);
    assert_eq!(clusters.allocate(9), Some(whole));
}

#[test]
fn a_run_that_nobody_else_has_is_found_among_single_slots() {
    let memory = Memory::new(Space {
        skipped: 0,
        count: 2 * CLUSTER_SLOTS,
        is_trimmed: false,
        search: Search::Scattered,
    });
    let clusters = memory.view_of(MmId::new(0));
    let single: Vec<u32> = (0..512).map(|_| clusters.allocate(0).expect("room")).collect();
    let runs: Vec<u32> = (0..32).map(|_| clusters.allocate(4).expect("room")).collect();
    let free = |first, count| {
        memory.release(first, count);
        clusters.free(first, count);
    };
    free(single[64], 32);
    free(runs[3], 16);
    // First from its own.
    assert_eq!(clusters.allocate(4), Some(runs[3]));
    assert_eq!(clusters.allocate(4), Some(single[64]));
    // A single slot still has its cluster first.
    assert_eq!(clusters.allocate(0), Some(single[80]));
    assert_eq!(clusters.allocate(4), None);
    clusters.check_lists();
}

#[test]
fn callers_have_clusters_of_their_own_while_there_are_enough() {
    let memory = Memory::new(Space {
        skipped: 0,
        count: 64 * CLUSTER_SLOTS,
        is_trimmed: false,
        search: Search::Scattered,
    });
    let used: Vec<ClusterId> = (0..40)
        .map(|step| cluster_of(memory.view_of(MmId::new(step % 4)).allocate(0).expect("room")))
        .collect();
    (0..4).for_each(|caller| {
        assert!(used.iter().skip(caller).step_by(4).all(|&cluster| cluster == used[caller]))
    });
    assert_eq!(used[..4].iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
}
