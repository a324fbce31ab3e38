//! Slots in clusters of 512: who takes one, a run of them, and gives them back. For swap entries and for the slots of the swap file.
//!
//! After Linux 6.18 (`free`, `nonfull`, `frag`, `full` and `discard` lists, a current cluster per caller and order), with four differences: a map of 512 bits a cluster
//! answers a search in a few instructions; a cluster that cannot serve its own order is listed by what it can serve, so that a search finds the best fit at once or knows that there is none; the lists
//! are bitmaps, changed by single atomic operations, so that there is no lock that all share; and nothing is ever taken off the lists while it is worked on, so that nothing is lost when a process dies.
//!
//! The only lock is that of a cluster. It names its holder (`lock`); who takes it over from the dead repairs the cluster from the truth (the swap words, the slot counts) and its place on
//! the lists from that.
//!
//! Must hold: a slot that the truth says is used has its bit set, while nobody holds the cluster's lock; a slot whose bit is set and that the truth says is free is about to be freed,
//! or its freer died and `audit` finds it; the list that a cluster is on follows from its map and its order.

mod lists;
pub mod lock;
mod map;
mod record;

use crate::plant::{Plant, is_planted};
use lists::{Choice, LISTS, List};
use lock::{Got, Locker};
use map::Map;
use record::{RECORD_WORDS, Record, State};
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::MmId;

/// Slots of a cluster.
pub const CLUSTER_SLOTS: u32 = 512;
/// Orders that are served: runs of 1 to 512 slots.
pub const ORDERS: usize = 10;
/// The largest of them: a whole cluster.
pub const ORDER_MAX: u32 = ORDERS as u32 - 1;

/// Lists that may have a cluster, a bit each.
const FILLED: usize = 0;
const TOUCHED: usize = 8;
const HEAD_WORDS: usize = 16;
const CURRENT_WORDS: usize = 16;
/// Clusters for each home: fewer, and the homes would have most clusters half used.
const CLUSTERS_PER_HOME: u32 = 16;
const HOMES_MAX: u32 = 64;
/// Clusters that turn out to be taken before a search for a run gives up.
const ATTEMPTS_MAX: u32 = 64;

/// What decides whether a slot is used.
pub trait Truth: Copy {
    /// Whether it is, now.
    fn is_used(&self, slot: u32) -> bool;
    /// Makes a free one used, for process `by`. The cluster's lock is held.
    fn claim(&self, slot: u32, by: MmId);
}

/// Sizes of a space of slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// The first slot that may be had.
    pub first: u32,
    /// Slots from here on may not be had.
    pub end: u32,
    /// Whether empty clusters are to be discarded before they count as free.
    pub is_discarding: bool,
}

impl Space {
    /// Clusters that it has, the last one perhaps in part.
    pub const fn clusters(self) -> u32 {
        self.end.div_ceil(CLUSTER_SLOTS)
    }
    /// Callers that have a current cluster of their own.
    pub const fn homes(self) -> u32 {
        let homes = self.clusters() / CLUSTERS_PER_HOME;
        if homes == 0 {
            1
        } else if homes > HOMES_MAX {
            HOMES_MAX
        } else {
            homes
        }
    }
    const fn records_start(self) -> usize {
        HEAD_WORDS + self.homes() as usize * CURRENT_WORDS
    }
    const fn lists_start(self) -> usize {
        self.records_start() + self.clusters() as usize * RECORD_WORDS
    }
    const fn list_words(self) -> usize {
        self.clusters().div_ceil(64) as usize
    }
    /// Words of state: heads, current clusters, records, lists.
    pub const fn words(self) -> usize {
        self.lists_start() + LISTS * self.list_words()
    }
    /// The word that is the lock of a cluster, among those of the state.
    pub const fn lock_word(self, cluster: u32) -> usize {
        self.records_start() + cluster as usize * RECORD_WORDS
    }
}

/// View of a space of slots. The words start zeroed.
#[derive(Clone, Copy)]
pub struct Clusters<'a, T> {
    words: &'a [AtomicU64],
    space: Space,
    truth: T,
    locker: Locker<'a>,
}

impl<'a, T: Truth> Clusters<'a, T> {
    /// A view of `words`, as many as the space needs.
    pub fn new(words: &'a [AtomicU64], space: Space, truth: T, locker: Locker<'a>) -> Self {
        assert!(words.len() >= space.words());
        Clusters { words, space, truth, locker }
    }

    /// Clusters that there are.
    pub fn count(&self) -> u32 {
        self.space.clusters()
    }
    /// Clusters below this number were used at some time.
    pub fn touched(&self) -> u32 {
        self.words[TOUCHED].load(Ordering::Acquire) as u32
    }
    /// The next cluster that was never used is the caller's. False: another took it.
    pub(crate) fn touch_next(&self, cluster: u32) -> bool {
        let (now, next) = (u64::from(cluster), u64::from(cluster) + 1);
        self.words[TOUCHED].compare_exchange(now, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
    /// Used slots, summed over the clusters: not for what happens with each page.
    pub fn used(&self) -> u64 {
        (0..self.touched()).map(|cluster| u64::from(self.used_in(cluster))).sum()
    }
    /// Used slots of one cluster.
    pub fn used_in(&self, cluster: u32) -> u32 {
        self.record(cluster).state().count
    }

    pub(crate) fn record(&self, cluster: u32) -> Record<'a> {
        let start = self.space.lock_word(cluster);
        Record { index: cluster, words: &self.words[start..start + RECORD_WORDS] }
    }
    fn current(&self, home: u32, order: u32) -> &'a AtomicU64 {
        &self.words[HEAD_WORDS + home as usize * CURRENT_WORDS + order as usize]
    }

    /// The slots of a cluster that may not be had, in front of the first or behind the last.
    fn missing(&self, cluster: u32) -> Map {
        self.with_missing(cluster, Map([0; map::MAP_WORDS]))
    }

    fn with_missing(&self, cluster: u32, map: Map) -> Map {
        let start = cluster * CLUSTER_SLOTS;
        let front = self.space.first.saturating_sub(start).min(CLUSTER_SLOTS);
        let there = self.space.end.saturating_sub(start).min(CLUSTER_SLOTS);
        map.with(0, front).with(there, CLUSTER_SLOTS - there)
    }

    /// The map, with the slots that may not be had.
    fn map(&self, record: Record<'_>) -> Map {
        self.with_missing(record.index, Map::load(record.map()))
    }

    fn lock(&self, record: Record<'_>) {
        if self.locker.lock(record.lock()) == Got::FromTheDead {
            self.repair(record);
        }
    }

    /// Takes an aligned run of `1 << order` slots, in the name of whom the locker names: their first. None: there is none.
    pub fn allocate(&self, order: u32) -> Option<u32> {
        assert!(order <= ORDER_MAX);
        let home = self.home();
        let current = self.current(home, order);
        // A hint: what it names is looked at under the cluster's lock.
        let hint = current.load(Ordering::Relaxed);
        let last = ((hint >> 32) as u32).checked_sub(1);
        if let Some(cluster) = last
            && let Some(slot) = self.allocate_in(Choice { cluster, is_empty: false }, order, hint as u32)
        {
            // The next search starts behind it; the cluster is named already.
            current.store((hint >> 32 << 32) | u64::from(slot % CLUSTER_SLOTS), Ordering::Relaxed);
            return Some(slot);
        }
        // Callers search from different places, and meet less.
        let from = scattered(last.unwrap_or(0), home) % self.touched().max(1);
        for _ in 0..ATTEMPTS_MAX + self.count() {
            let choice = self.choose(order, home, from)?;
            if let Some(slot) = self.allocate_in(choice, order, 0) {
                let hint = (u64::from(choice.cluster) + 1) << 32 | u64::from(slot % CLUSTER_SLOTS);
                current.store(hint, Ordering::Relaxed);
                return Some(slot);
            }
        }
        None
    }

    /// Which current clusters are the caller's.
    fn home(&self) -> u32 {
        u32::from(self.locker.me().0) % self.space.homes()
    }

    fn allocate_in(&self, choice: Choice, order: u32, from: u32) -> Option<u32> {
        let record = self.record(choice.cluster);
        self.lock(record);
        let home = self.home();
        // Not from one that another has just begun: there are more.
        let is_taken = choice.is_empty && record.state().count > 0;
        let found = if is_taken { None } else { self.take(record, order, from) };
        if found.is_some() {
            record.set_current(Some(home));
        } else if record.current() == Some(home) {
            record.set_current(None);
        }
        self.locker.unlock(record.lock());
        found
    }

    fn take(&self, record: Record<'_>, order: u32, from: u32) -> Option<u32> {
        let state = record.state();
        if !state.serves(order) {
            return None;
        }
        let (map, size) = (self.map(record), 1 << order);
        // Not, if another was faster.
        let at = map.find(order, from)?;
        let first = record.index * CLUSTER_SLOTS + at;
        (first..first + size).for_each(|slot| self.truth.claim(slot, self.locker.me()));
        map::set(record.map(), at, size, true);
        let order = if state.count == 0 { order } else { state.order };
        self.settle(record, State { count: state.count + size, order, ..state }, map.with(at, size));
        Some(first)
    }

    /// Frees slots of one cluster that the truth says are free. Others of the range are left alone.
    pub fn free(&self, first: u32, count: u32) {
        assert!(first / CLUSTER_SLOTS == (first + count - 1) / CLUSTER_SLOTS);
        let record = self.record(first / CLUSTER_SLOTS);
        self.lock(record);
        let before = Map::load(record.map());
        for slot in first..first + count {
            // It may have been found free by `audit`, and be someone else's by now.
            if !self.truth.is_used(slot) || is_planted(Plant::FreeWithoutLook) {
                map::set(record.map(), slot % CLUSTER_SLOTS, 1, false);
            }
        }
        self.note_freed(record, before);
        self.locker.unlock(record.lock());
    }

    /// The map has changed from `before` by slots that became free.
    fn note_freed(&self, record: Record<'_>, before: Map) {
        let (now, state) = (Map::load(record.map()), record.state());
        let freed = before.count() - now.count();
        if freed > 0 {
            self.settle(record, State { count: now.count(), ..state }, self.map(record));
        }
    }

    /// Writes the state, and puts the cluster on the list that follows from it. The cluster's lock is held.
    fn settle(&self, record: Record<'_>, state: State, map: Map) {
        let order = if state.count == 0 { 0 } else { state.order };
        self.move_to(record, State { order, list: self.list_for(state, map), ..state });
    }

    fn list_for(&self, state: State, map: Map) -> List {
        if state.count == 0 {
            return if self.space.is_discarding { List::DISCARD } else { List::FREE };
        }
        if map.find(state.order, 0).is_some() {
            return List::usable(state.order);
        }
        map.largest().map_or(List::FULL, |largest| List::fragments(state.order, largest))
    }

    /// A cluster from `take_discard` is free.
    pub fn discarded(&self, cluster: u32) {
        self.set_free(cluster);
    }

    fn set_free(&self, cluster: u32) {
        let record = self.record(cluster);
        self.lock(record);
        self.move_to(record, State { list: List::FREE, ..record.state() });
        self.locker.unlock(record.lock());
    }

    /// Compares each cluster with the truth, and frees what a process that died had not freed to the end. Returns how many slots.
    pub fn audit(&self) -> u64 {
        (0..self.touched())
            .map(|cluster| {
                let record = self.record(cluster);
                self.lock(record);
                let freed = self.repair(record);
                self.locker.unlock(record.lock());
                u64::from(freed)
            })
            .sum()
    }

    /// Gives up the locks that a dead process holds, and repairs what they guard.
    pub fn break_locks(&self, dead: MmId) {
        for cluster in 0..self.touched() {
            let record = self.record(cluster);
            if self.locker.take_over(record.lock(), dead) {
                self.repair(record);
                self.locker.unlock(record.lock());
            }
        }
    }

    /// Makes map, state and list follow from the truth. The cluster's lock is held. Returns slots that are free now.
    fn repair(&self, record: Record<'_>) -> u32 {
        let state = record.state();
        // It is the caller of `take_discard` who has it, and it is empty.
        if state.list == List::DISCARDING {
            return 0;
        }
        let before = Map::load(record.map());
        let start = record.index * CLUSTER_SLOTS;
        for at in 0..CLUSTER_SLOTS.min(self.space.end - start) {
            map::set(record.map(), at, 1, self.truth.is_used(start + at));
        }
        let now = Map::load(record.map());
        match (now.count(), state.list) {
            // It was touched, and not begun.
            (0, List::NONE) => self.move_to(record, State { list: List::FREE, ..state }),
            (0, List::FREE | List::DISCARD) => (),
            (count, _) => self.settle(record, State { count, ..state }, self.map(record)),
        }
        self.relist(record);
        before.count().saturating_sub(now.count())
    }
}

/// Another place for each home, and after each place another one: who goes on to the next cluster meets nobody who does the same.
fn scattered(last: u32, home: u32) -> u32 {
    // Fibonacci hashing: consecutive keys go far apart.
    let mixed = (u64::from(last) << 8 | u64::from(home)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 32) as u32
}

impl State {
    /// Whether a run of `order` may be taken: in an empty cluster, or in one of the same or a larger order. Small runs in clusters of small runs leave whole clusters whole.
    fn serves(self, order: u32) -> bool {
        !self.list.is_closed() && (self.count == 0 || order <= self.order)
    }
}
