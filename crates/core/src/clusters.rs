//! Slots in clusters of 512: who takes one, a run of them, and gives them back. For swap entries and for the slots of
//! the swap file.
//!
//! After Linux 6.18 (`free`, `nonfull`, `frag`, `full` and `discard` lists, a current cluster per caller and order),
//! with four differences: a map of 512 bits a cluster answers a search in a few instructions; a cluster that cannot
//! serve its own order is listed by what it can serve, so that a search finds the best fit at once or knows that there
//! is none; the lists are bitmaps, changed by single atomic operations, so that there is no lock that all share; and
//! nothing is ever taken off the lists while it is worked on, so that nothing is lost when a process dies.
//!
//! The only lock is that of a cluster. It names its holder (`lock`); whoever takes it over from the dead repairs the
//! cluster from the truth (the swap words, the slot counts) and its place on the lists from that.
//!
//! Must hold: a slot that the truth says is used has its bit set, while nobody holds the cluster's lock; a slot whose
//! bit is set and that the truth says is free is about to be freed, or its freer died and `audit` finds it; the list
//! that a cluster is on follows from its map and its order. Called by [`crate::swap_table`] for entries, by
//! [`crate::slots`] for the slots of the swap files, by [`crate::files`] for its sizes, and by `experiments`.

mod lists;
pub mod lock;
mod map;
mod record;

use crate::plant::{Plant, is_planted};
use lists::{CandidateKind, Choice};
use lock::{Got, Locker};
use map::Map;
use record::{LISTS, List, RECORD_WORDS, Record, State};
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::{ClusterId, FileSlot, MmId, SwapId};

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
const HOMES_MAX: u32 = 256;
/// Clusters that turn out to be taken before a search for a run gives up.
const ATTEMPTS_MAX: u32 = 64;

/// What a slot is here: a swap entry, or a slot of one file. Its number says in which cluster it is, and where.
pub trait ClusterSlot: Copy + sealed::Sealed {
    /// The one of this number.
    fn from_number(number: u32) -> Self;
    /// Its number.
    fn to_number(self) -> u32;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! slots {
    ($($name:ty, $new:path, $number:path;)*) => {
        $(
            impl sealed::Sealed for $name {}
            impl ClusterSlot for $name {
                #[inline]
                fn from_number(number: u32) -> Self {
                    $new(number)
                }
                #[inline]
                fn to_number(self) -> u32 {
                    $number(self)
                }
            }
        )*
    };
}

slots! {
    SwapId, SwapId::new, SwapId::number;
    FileSlot, FileSlot::new, FileSlot::number;
}

// For tests that know neither a file nor the swap table.
#[cfg(test)]
slots! {
    u32, core::convert::identity, core::convert::identity;
}

/// The cluster of a slot.
pub(crate) fn cluster_of(slot: impl ClusterSlot) -> ClusterId {
    ClusterId::new(slot.to_number() / CLUSTER_SLOTS)
}

/// Where in its cluster a slot is.
fn position_of(slot: impl ClusterSlot) -> u32 {
    slot.to_number() % CLUSTER_SLOTS
}

/// The slot at a position of a cluster.
pub(crate) fn slot_at<S: ClusterSlot>(cluster: ClusterId, position: u32) -> S {
    S::from_number(slots_before(cluster) + position)
}

/// Slots of the clusters in front of this one.
const fn slots_before(cluster: ClusterId) -> u32 {
    cluster.number() * CLUSTER_SLOTS
}

/// What decides whether a slot is used.
pub trait SlotUsage: Copy {
    /// Slots of what.
    type Slot: ClusterSlot;
    /// Whether it is, now.
    fn is_used(&self, slot: Self::Slot) -> bool;
    /// Makes a free one used, for process `by`. The cluster's lock is held.
    fn claim(&self, slot: Self::Slot, by: MmId);
}

/// Sizes of a space of slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// Slots at its beginning that may not be had.
    pub skipped: u32,
    /// Slots that there are, with those.
    pub count: u32,
    /// Whether empty clusters are trimmed before they count as free.
    pub is_trimmed: bool,
    /// Where the next cluster is looked for.
    pub search: Search,
}

/// Where a caller whose cluster serves no more looks for the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Search {
    /// Each at another place, so that those who search at once do not meet.
    Scattered,
    /// All behind the last slot that was taken, by whom and of whatever order: for a disk that turns.
    Onward,
}

impl Space {
    /// Clusters that it has, the last one perhaps in part.
    pub const fn clusters(self) -> u32 {
        self.count.div_ceil(CLUSTER_SLOTS)
    }
    /// Callers that have a current cluster of their own.
    pub const fn homes(self) -> u32 {
        if matches!(self.search, Search::Onward) {
            return 1;
        }
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
    /// No less than the words of state of so many spaces with so many clusters in all.
    pub(crate) const fn words_of_all(spaces: usize, clusters: usize) -> usize {
        let of_cluster =
            RECORD_WORDS + (CURRENT_WORDS as u32).div_ceil(CLUSTERS_PER_HOME) as usize + LISTS.div_ceil(64);
        spaces * (HEAD_WORDS + CURRENT_WORDS + LISTS) + clusters * of_cluster
    }
    /// The word that is the lock of a cluster, among those of the state.
    pub const fn lock_word(self, cluster: ClusterId) -> usize {
        self.records_start() + cluster.number() as usize * RECORD_WORDS
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

impl<'a, T: SlotUsage> Clusters<'a, T> {
    /// A view of `words`, as many as the space needs.
    pub fn new(words: &'a [AtomicU64], space: Space, truth: T, locker: Locker<'a>) -> Self {
        // A view is made for each operation: to reckon this anew would take a part of it that is seen.
        debug_assert!(words.len() >= space.words());
        Clusters { words, space, truth, locker }
    }

    /// Clusters that there are.
    pub fn count(&self) -> u32 {
        self.space.clusters()
    }
    /// Clusters below this number were used at some time. Acquire pairs with `touch_next`, and guards nothing: what is
    /// in a cluster is looked at under its lock.
    pub fn touched(&self) -> u32 {
        self.words[TOUCHED].load(Ordering::Acquire) as u32
    }
    /// The next cluster that was never used is the caller's. False: another took it. AcqRel: see `touched`.
    pub(crate) fn touch_next(&self, cluster: ClusterId) -> bool {
        let now = u64::from(cluster.number());
        self.words[TOUCHED].compare_exchange(now, now + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
    /// Used slots, summed over the clusters: not for what happens with each page.
    pub fn used(&self) -> u64 {
        ClusterId::each_below(self.touched()).map(|cluster| u64::from(self.used_in(cluster))).sum()
    }
    /// Used slots of one cluster.
    pub fn used_in(&self, cluster: ClusterId) -> u32 {
        self.record(cluster).state().count
    }

    pub(crate) fn record(&self, cluster: ClusterId) -> Record<'a> {
        let start = self.space.lock_word(cluster);
        Record { cluster, words: &self.words[start..start + RECORD_WORDS] }
    }
    fn current(&self, home: u32, order: u32) -> &'a AtomicU64 {
        let order = if self.space.search == Search::Onward { 0 } else { order };
        &self.words[HEAD_WORDS + home as usize * CURRENT_WORDS + order as usize]
    }

    /// The slots of a cluster that may not be had, in front of the first or behind the last.
    fn missing(&self, cluster: ClusterId) -> Map {
        self.with_missing(cluster, Map::EMPTY)
    }

    fn with_missing(&self, cluster: ClusterId, map: Map) -> Map {
        let before = slots_before(cluster);
        if before >= self.space.skipped && before + CLUSTER_SLOTS <= self.space.count {
            return map;
        }
        let front = self.space.skipped.saturating_sub(before).min(CLUSTER_SLOTS);
        let there = self.space.count.saturating_sub(before).min(CLUSTER_SLOTS);
        map.with(0, front).with(there, CLUSTER_SLOTS - there)
    }

    /// The map, with the slots that may not be had.
    fn map(&self, record: Record<'_>) -> Map {
        self.with_missing(record.cluster, Map::load(record.map()))
    }

    fn lock(&self, record: Record<'_>) {
        if self.locker.lock(record.lock()) == Got::FromTheDead {
            self.repair(record);
        }
    }

    /// Takes an aligned run of `1 << order` slots, in the name of whom the locker names: their first. None: there is
    /// none.
    pub fn allocate(&self, order: u32) -> Option<T::Slot> {
        assert!(order <= ORDER_MAX);
        let home = self.home();
        let current = self.current(home, order);
        // A hint: what it names is looked at under the cluster's lock.
        let hint = current.load(Ordering::Relaxed);
        let last = ((hint >> 32) as u32).checked_sub(1).map(ClusterId::new);
        if let Some(cluster) = last
            && let Some(at) =
                self.allocate_in(Choice::in_use(cluster), Want { order, home, from: hint as u32 })
        {
            // The next search starts behind it; the cluster is named already.
            current.store((hint >> 32 << 32) | u64::from(at), Ordering::Relaxed);
            return Some(slot_at(cluster, at));
        }
        let from = match self.space.search {
            // Callers search from different places, and meet less.
            Search::Scattered => scattered(last.unwrap_or(ClusterId::FIRST), home) % self.touched().max(1),
            Search::Onward => last.map_or(0, |last| (last.number() + 1) % self.count()),
        };
        let from = ClusterId::new(from);
        for _ in 0..ATTEMPTS_MAX + self.count() {
            let choice = self.choose(order, home, from)?;
            if let Some(at) = self.allocate_in(choice, Want { order, home, from: 0 }) {
                let hint = (u64::from(choice.cluster.number()) + 1) << 32 | u64::from(at);
                current.store(hint, Ordering::Relaxed);
                return Some(slot_at(choice.cluster, at));
            }
        }
        None
    }

    /// Which current clusters are the caller's.
    fn home(&self) -> u32 {
        u32::from(self.locker.me().number()) % self.space.homes()
    }

    /// Takes a run in a cluster: where it begins there.
    fn allocate_in(&self, choice: Choice, want: Want) -> Option<u32> {
        let record = self.record(choice.cluster);
        self.lock(record);
        let state = record.state();
        let may = match choice.kind {
            // Not from one that another has just begun: there are more.
            CandidateKind::Empty => state.count == 0 && state.serves(want.order),
            CandidateKind::InUse => state.serves(want.order),
            CandidateKind::LastResort => !state.list.is_closed(),
        };
        let found = if may { self.take(record, state, want) } else { None };
        let (before, is_mine) = (record.current(), found.is_some());
        if is_mine != (before == Some(want.home)) {
            record.set_current(is_mine.then_some(want.home));
        }
        self.locker.unlock(record.lock());
        found
    }

    fn take(&self, record: Record<'_>, state: State, want: Want) -> Option<u32> {
        let is_guest = state.count > 0 && want.order < state.order;
        // Not, if another was faster.
        let at = if is_guest {
            self.map(record).find_least(want.order)
        } else {
            self.find(record, want.order, want.from)
        }?;
        let size = 1 << want.order;
        (at..at + size).for_each(|at| self.truth.claim(slot_at(record.cluster, at), self.locker.me()));
        map::set(record.map(), at, size);
        let order = if state.count == 0 { want.order } else { state.order };
        let next = State { count: state.count + size, order, ..state };
        if next.list == List::usable(order) && self.find_near(record, order, at).is_some() {
            // Where one was there is another: most often, and then nothing else changes.
            record.set_state(next);
        } else {
            self.write_state(record, next);
        }
        Some(at)
    }

    /// A free run of `1 << order` slots in the word of the map in which `from` is.
    fn find_near(&self, record: Record<'_>, order: u32, from: u32) -> Option<u32> {
        let index = (from / 64) as usize;
        let before = slots_before(record.cluster) + index as u32 * 64;
        let is_whole = before >= self.space.skipped && before + 64 <= self.space.count;
        if !is_whole {
            None
        } else {
            map::first_run(record.map_word(index), order).map(|at| index as u32 * 64 + at)
        }
    }

    fn find(&self, record: Record<'_>, order: u32, from: u32) -> Option<u32> {
        self.find_near(record, order, from).or_else(|| self.map(record).find(order, from))
    }

    /// Frees slots of one cluster that the truth says are free. Others of the range are left alone.
    pub fn free(&self, first: T::Slot, count: u32) {
        let at = position_of(first);
        assert!(at + count <= CLUSTER_SLOTS);
        self.free_parts(cluster_of(first), map::parts(at, count));
    }

    /// Collects slots, to free those of a cluster under one hold of its lock.
    pub(crate) fn freed(&self) -> Freed<'_, 'a, T> {
        Freed { clusters: self, cluster: None, slots: Map::EMPTY }
    }

    /// Something is changed that the lock of a cluster guards: what the truth does not say and two must not change at
    /// once.
    pub(crate) fn while_locked<R>(&self, cluster: ClusterId, change: impl FnOnce() -> R) -> R {
        let record = self.record(cluster);
        self.lock(record);
        let result = change();
        self.locker.unlock(record.lock());
        result
    }

    /// The same for any slots of one cluster: words of its map, and the slots in each.
    fn free_parts(&self, cluster: ClusterId, parts: impl Iterator<Item = (usize, u64)>) {
        let record = self.record(cluster);
        self.lock(record);
        let freed: u32 = parts.map(|(index, slots)| self.free_in_word(record, index, slots)).sum();
        if freed > 0 {
            let state = record.state();
            let next = State { count: state.count - freed, ..state };
            if next.count > 0 && next.list == List::usable(next.order) {
                // It has more of what it is listed for.
                record.set_state(next);
            } else {
                self.write_state(record, next);
            }
        }
        self.locker.unlock(record.lock());
    }

    /// Clears the bits of `slots` that the truth says are free. Returns how many. The cluster's lock is held.
    fn free_in_word(&self, record: Record<'_>, index: usize, slots: u64) -> u32 {
        let word = &record.map()[index];
        let before = word.load(Ordering::Relaxed);
        let slot = |at| slot_at(record.cluster, index as u32 * 64 + at);
        let free = map::ones(before & slots)
            // It may have been found free by `audit`, and be someone else's by now.
            .filter(|&at| !self.truth.is_used(slot(at)) || is_planted(Plant::FreeWithoutLook))
            .fold(0, |free, at| free | 1 << at);
        word.store(before & !free, Ordering::Relaxed);
        free.count_ones()
    }

    /// Writes the state, and puts the cluster on the list that follows from it and from the map. The cluster's lock is
    /// held.
    fn write_state(&self, record: Record<'_>, state: State) {
        let order = if state.count == 0 { 0 } else { state.order };
        let list = self.list_for(state, self.map(record));
        self.move_to(record, State { order, list, ..state });
    }

    fn list_for(&self, state: State, map: Map) -> List {
        if state.count == 0 {
            return if self.space.is_trimmed { List::TRIM } else { List::FREE };
        }
        if map.find(state.order, 0).is_some() {
            return List::usable(state.order);
        }
        map.largest().map_or(List::FULL, |largest| List::fragments(state.order, largest))
    }

    /// A cluster from `take_to_trim` is free.
    pub fn trimmed(&self, cluster: ClusterId) {
        self.set_free(cluster);
    }

    fn set_free(&self, cluster: ClusterId) {
        let record = self.record(cluster);
        self.lock(record);
        self.move_to(record, State { list: List::FREE, ..record.state() });
        self.locker.unlock(record.lock());
    }

    /// Compares each cluster with the truth, and frees what a process that died had not freed to the end. Returns how
    /// many slots.
    pub fn audit(&self) -> u64 {
        ClusterId::each_below(self.touched())
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
        for cluster in ClusterId::each_below(self.touched()) {
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
        // It is the caller of `take_to_trim` who has it, and it is empty.
        if state.list == List::TRIMMING {
            return 0;
        }
        let before = Map::load(record.map());
        let there = CLUSTER_SLOTS.min(self.space.count - slots_before(record.cluster));
        for (index, word) in record.map().iter().enumerate() {
            let slots = (index as u32 * 64..there.min(index as u32 * 64 + 64)).enumerate();
            let used = slots.filter(|&(_, at)| self.truth.is_used(slot_at(record.cluster, at)));
            word.store(used.fold(0, |used, (bit, _)| used | 1 << bit), Ordering::Relaxed);
        }
        let now = Map::load(record.map());
        match (now.count(), state.list) {
            // It was touched, and not begun.
            (0, List::NONE) => self.move_to(record, State { list: List::FREE, ..state }),
            (0, List::FREE | List::TRIM) => (),
            (count, _) => self.write_state(record, State { count, ..state }),
        }
        self.relist(record);
        before.count().saturating_sub(now.count())
    }
}

/// Slots that the truth says are free, and that are given back together: a lock is taken for each cluster, not for each
/// slot.
///
/// Must hold: whoever collects has said `begin` to its locker, and gives all back before it says `end`; if it dies
/// before, `audit` finds them.
pub(crate) struct Freed<'c, 'a, T> {
    clusters: &'c Clusters<'a, T>,
    cluster: Option<ClusterId>,
    slots: Map,
}

impl<T: SlotUsage> Freed<'_, '_, T> {
    /// One more. Those before it are given back if they are of another cluster.
    pub(crate) fn add(&mut self, slot: T::Slot) {
        let cluster = cluster_of(slot);
        if self.cluster != Some(cluster) {
            self.give_back();
            self.cluster = Some(cluster);
        }
        let at = position_of(slot);
        self.slots.0[at as usize / 64] |= 1 << (at % 64);
    }

    /// Gives all back.
    pub(crate) fn give_back(&mut self) {
        if let Some(cluster) = self.cluster.take() {
            let slots = core::mem::replace(&mut self.slots, Map::EMPTY);
            let words = slots.0.into_iter().enumerate();
            self.clusters.free_parts(cluster, words.filter(|&(_, slots)| slots != 0));
        }
    }
}

/// What somebody looks for in a cluster.
#[derive(Clone, Copy)]
struct Want {
    order: u32,
    /// For the current clusters of whom.
    home: u32,
    /// The slot of the cluster from which it searches.
    from: u32,
}

/// Another place for each home, and after each place another one: whoever goes on to the next cluster meets nobody who
/// does the same.
fn scattered(last: ClusterId, home: u32) -> u32 {
    // Fibonacci hashing: consecutive keys go far apart.
    let mixed = (u64::from(last.number()) << 8 | u64::from(home)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 32) as u32
}

impl State {
    /// Whether a run of `order` may be taken: in an empty cluster, or in one of the same or a larger order. Small runs
    /// in clusters of small runs leave whole clusters whole.
    fn serves(self, order: u32) -> bool {
        !self.list.is_closed() && (self.count == 0 || order <= self.order)
    }
}
