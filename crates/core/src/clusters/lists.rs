//! The lists of clusters, all under one lock: each cluster is on at most one.
//!
//! ```text
//! free | discard | full | usable[order] | fragments[order][largest]     links of a cluster: 63..32 previous+1   31..0 next+1
//! head word of a list: 63..32 last+1   31..0 first+1
//! ```
//! `usable[o]` has clusters of order o that can serve o; `fragments[o][l]` those that can serve no more than l < o.
//! Lists are queues: put at the tail, taken from the head.
//!
//! Must hold: the list that a cluster's state names is the list it is on, while nobody holds the lists' lock. Links can be made anew from the states
//! alone, which is what happens when a process dies with the lock.

use super::lock::Got;
use super::record::{Record, State};
use super::{Clusters, ORDER_MAX, ORDERS, Truth};
use uswap_sync::{AtomicU64, Ordering};

/// Which list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct List(pub u8);

impl List {
    /// On none: never used, or being discarded.
    pub(crate) const NONE: List = List(0);
    pub(crate) const FREE: List = List(1);
    pub(crate) const DISCARD: List = List(2);
    pub(crate) const FULL: List = List(3);
    const USABLE: u8 = 4;
    const FRAGMENTS: u8 = 4 + ORDERS as u8;

    pub(crate) const fn usable(order: u32) -> List {
        List(List::USABLE + order as u8)
    }
    pub(crate) const fn fragments(order: u32, largest: u32) -> List {
        List(List::FRAGMENTS + (order * (order - 1) / 2 + largest) as u8)
    }
    /// Nobody may allocate from what is on it: empty, full, or being discarded.
    pub(crate) const fn is_idle(self) -> bool {
        self.0 < List::USABLE
    }
}

/// Lists that there are, with the one that is none.
pub(crate) const LISTS: usize = 4 + ORDERS + (ORDERS - 1) * ORDERS / 2;
const _: () = assert!(LISTS <= 64);

fn low(word: u64) -> Option<u32> {
    (word as u32).checked_sub(1)
}
fn high(word: u64) -> Option<u32> {
    ((word >> 32) as u32).checked_sub(1)
}
fn both(high: Option<u32>, low: Option<u32>) -> u64 {
    let raw = |index: Option<u32>| index.map_or(0, |index| u64::from(index) + 1);
    (raw(high) << 32) | raw(low)
}

impl<T: Truth> Clusters<'_, T> {
    pub(super) fn lock_lists(&self) {
        if self.locker.lock(self.lists_lock()) == Got::FromTheDead {
            self.relink();
        }
    }
    pub(super) fn unlock_lists(&self) {
        self.locker.unlock(self.lists_lock());
    }

    fn head(&self, list: List) -> &AtomicU64 {
        &self.heads()[list.0 as usize]
    }

    /// Lists with a cluster on them, a bit each.
    fn filled(&self) -> u64 {
        self.heads()[0].load(Ordering::Relaxed)
    }
    fn set_filled(&self, list: List, on: bool) {
        let bit = 1 << list.0;
        let before = self.filled();
        self.heads()[0].store(if on { before | bit } else { before & !bit }, Ordering::Relaxed);
    }

    fn unlink(&self, cluster: u32, list: List) {
        let links = self.record(cluster).links().load(Ordering::Relaxed);
        let (previous, next) = (high(links), low(links));
        let head = self.head(list);
        let ends = head.load(Ordering::Relaxed);
        let (mut last, mut first) = (high(ends), low(ends));
        match previous {
            Some(previous) => {
                let word = self.record(previous).links();
                word.store(both(high(word.load(Ordering::Relaxed)), next), Ordering::Relaxed);
            }
            None => first = next,
        }
        match next {
            Some(next) => {
                let word = self.record(next).links();
                word.store(both(previous, low(word.load(Ordering::Relaxed))), Ordering::Relaxed);
            }
            None => last = previous,
        }
        head.store(both(last, first), Ordering::Relaxed);
        self.set_filled(list, first.is_some());
    }

    fn push(&self, cluster: u32, list: List) {
        let head = self.head(list);
        let ends = head.load(Ordering::Relaxed);
        let (last, first) = (high(ends), low(ends));
        self.record(cluster).links().store(both(last, None), Ordering::Relaxed);
        if let Some(last) = last {
            let word = self.record(last).links();
            word.store(both(high(word.load(Ordering::Relaxed)), Some(cluster)), Ordering::Relaxed);
        }
        head.store(both(Some(cluster), first.or(Some(cluster))), Ordering::Relaxed);
        self.set_filled(list, true);
    }

    /// Moves a cluster to the tail of `to`. The caller holds the lists' lock, and the cluster's if anyone may allocate from it.
    fn relist_locked(&self, record: Record<'_>, to: List) {
        self.change_locked(record, |state| State { list: to, ..state });
    }

    /// The same, with more of the state. One store: from then on who holds the cluster's lock may change the state.
    fn change_locked(&self, record: Record<'_>, change: impl Fn(State) -> State) {
        let state = record.state();
        if state.list != List::NONE {
            self.unlink(record.index, state.list);
        }
        let now = change(state);
        record.set_state(now);
        if now.list != List::NONE {
            self.push(record.index, now.list);
        }
    }

    /// Moves a cluster, whose lock the caller holds, to the tail of `to`.
    pub(super) fn relist(&self, record: Record<'_>, to: List) {
        self.lock_lists();
        self.relist_locked(record, to);
        self.unlock_lists();
    }

    /// The first of `list` that no other home works with; it goes to the tail. The lists' lock is held.
    fn choose_own(&self, list: List, home: u32) -> Option<u32> {
        const LOOK_AT_MOST: usize = 4;
        let next = |cluster: &u32| low(self.record(*cluster).links().load(Ordering::Relaxed));
        let own = core::iter::successors(low(self.head(list).load(Ordering::Relaxed)), next)
            .take(LOOK_AT_MOST)
            .find(|&cluster| self.record(cluster).current().is_none_or(|other| other == home))?;
        Some(self.rotate(own, list))
    }

    /// One of `list`, that of another home only if there seems to be no other.
    fn choose_from(&self, list: List, home: u32) -> Option<u32> {
        let first = || low(self.head(list).load(Ordering::Relaxed));
        self.choose_own(list, home).or_else(|| Some(self.rotate(first()?, list)))
    }

    fn rotate(&self, cluster: u32, list: List) -> u32 {
        self.unlink(cluster, list);
        self.push(cluster, list);
        cluster
    }

    /// A cluster that most likely can serve `order`. None: no cluster can.
    pub(super) fn choose(&self, order: u32, home: u32) -> Option<u32> {
        self.lock_lists();
        let choice = self.choose_locked(order, home);
        self.unlock_lists();
        choice
    }

    fn choose_locked(&self, order: u32, home: u32) -> Option<u32> {
        if let Some(cluster) = self.choose_own(List::usable(order), home) {
            return Some(cluster);
        }
        // What waits to be discarded has its memory still: better than one that must be filled anew.
        if let Some(cluster) =
            self.first_that_fits(List::DISCARD, order).or_else(|| self.first_that_fits(List::FREE, order))
        {
            self.begin(cluster, order);
            return Some(cluster);
        }
        for cluster in self.touched()..self.count() {
            // Who died here before may have got as far as its state.
            self.record(cluster).set_state(State { count: 0, order: 0, list: List::NONE });
            let fits = self.fits(cluster, order);
            if fits {
                self.begin(cluster, order);
            } else {
                self.relist_locked(self.record(cluster), List::FREE);
            }
            self.set_touched(cluster + 1);
            if fits {
                return Some(cluster);
            }
        }
        self.choose_from(List::usable(order), home).or_else(|| self.choose_fragment(order, home))
    }

    /// Whether an empty cluster serves `order`: the first and the last may be too short.
    fn fits(&self, cluster: u32, order: u32) -> bool {
        self.missing(cluster).find(order, 0).is_some()
    }

    fn first_that_fits(&self, list: List, order: u32) -> Option<u32> {
        const TOO_SHORT_AT_MOST: usize = 2;
        let next = |cluster: &u32| low(self.record(*cluster).links().load(Ordering::Relaxed));
        core::iter::successors(low(self.head(list).load(Ordering::Relaxed)), next)
            .take(TOO_SHORT_AT_MOST + 1)
            .find(|&cluster| self.fits(cluster, order))
    }

    /// An empty cluster is listed for `order`, with no slot taken yet: if the caller dies now, others find it.
    fn begin(&self, cluster: u32, order: u32) {
        self.change_locked(self.record(cluster), |state| State { list: List::usable(order), order, ..state });
    }

    /// Best fit: the cluster that can serve `order` and as little more as possible; so single slots go where there is no room for anything else, and of those to the
    /// one of the largest order, which is farthest from serving its own.
    fn choose_fragment(&self, order: u32, home: u32) -> Option<u32> {
        let filled = self.filled();
        for largest in order..ORDER_MAX {
            for of in (largest + 1..=ORDER_MAX).rev() {
                let list = List::fragments(of, largest);
                if filled & (1 << list.0) != 0 {
                    return self.choose_from(list, home);
                }
            }
        }
        // At last from clusters that still serve their own order: better than parts of it here and there. The smallest order loses least.
        (order + 1..=ORDER_MAX).find_map(|of| self.choose_from(List::usable(of), home))
    }

    /// The largest order that is to be had now, as far as is known. None: not one slot.
    pub fn largest(&self) -> Option<u32> {
        self.lock_lists();
        let filled = self.filled();
        let empty = (0..=ORDER_MAX).rev().find(|&order| {
            (self.touched()..self.count()).any(|cluster| self.fits(cluster, order))
                || self.first_that_fits(List::DISCARD, order).is_some()
                || self.first_that_fits(List::FREE, order).is_some()
        });
        self.unlock_lists();
        let has = |list: List| filled & (1 << list.0) != 0;
        if let Some(empty) = empty {
            return Some(empty);
        }
        (0..=ORDER_MAX).rev().find(|&order| {
            has(List::usable(order)) || (order + 1..=ORDER_MAX).any(|of| has(List::fragments(of, order)))
        })
    }

    /// Takes the first cluster that waits to be discarded off its list: nobody gets it until `discarded` is called.
    pub fn take_discard(&self) -> Option<u32> {
        self.lock_lists();
        let cluster = low(self.head(List::DISCARD).load(Ordering::Relaxed));
        if let Some(cluster) = cluster {
            self.relist_locked(self.record(cluster), List::NONE);
        }
        self.unlock_lists();
        cluster
    }

    /// Makes all links anew, from the states. The holder of the lists' lock died in the middle of a change.
    pub(super) fn relink(&self) {
        self.heads().iter().for_each(|head| head.store(0, Ordering::Relaxed));
        for cluster in 0..self.touched() {
            let list = self.record(cluster).state().list;
            if list != List::NONE {
                self.push(cluster, list);
            }
        }
    }
}

/// What tests look at.
#[cfg(test)]
impl<T: Truth> Clusters<'_, T> {
    fn listed(&self, list: List) -> std::vec::Vec<u32> {
        let next = |cluster: &u32| low(self.record(*cluster).links().load(Ordering::Relaxed));
        core::iter::successors(low(self.head(list).load(Ordering::Relaxed)), next).collect()
    }

    /// Each cluster is on the list that follows from its slots, and only there; the map says what the truth says.
    pub(crate) fn check_lists(&self) {
        let mut on = std::vec![List::NONE; self.count() as usize];
        for list in (1..LISTS).map(|list| List(list as u8)) {
            let listed = self.listed(list);
            assert_eq!(self.filled() & (1 << list.0) != 0, !listed.is_empty(), "{list:?}");
            assert_eq!(high(self.head(list).load(Ordering::Relaxed)), listed.last().copied(), "{list:?}");
            for cluster in listed {
                assert_eq!(
                    core::mem::replace(&mut on[cluster as usize], list),
                    List::NONE,
                    "{cluster} is on two lists"
                );
            }
        }
        for cluster in 0..self.count() {
            let (record, list) = (self.record(cluster), on[cluster as usize]);
            let state = record.state();
            assert_eq!(state.list, list, "cluster {cluster}");
            let map = super::map::Map::load(record.map());
            for at in 0..super::CLUSTER_SLOTS.min(self.space.end - cluster * super::CLUSTER_SLOTS) {
                let is_set = map.0[at as usize / 64] & (1 << (at % 64)) != 0;
                assert_eq!(is_set, self.truth.is_used(cluster * super::CLUSTER_SLOTS + at));
            }
            if state.count > 0 {
                assert_eq!(list, self.list_for(state, self.map(record)), "cluster {cluster}");
            } else if list != List::NONE {
                let is_empty = matches!(list, List::FREE | List::DISCARD);
                assert!(is_empty && state.order == 0, "cluster {cluster}");
            }
        }
    }

    /// As if a process had died in the middle of a change of the lists.
    pub(crate) fn break_lists_lock_for_test(&self, dead: uswap_units::MmId) {
        self.lists_lock().store(self.locker.name_of(dead), Ordering::Relaxed);
        for cluster in 0..self.touched() {
            self.record(cluster).links().store(both(Some(0), Some(0)), Ordering::Relaxed);
        }
        self.heads().iter().for_each(|head| head.store(both(Some(1), Some(1)), Ordering::Relaxed));
    }
}
