//! The lists of clusters: a bit for each cluster in each, so that a cluster changes its list without a lock that all
//! share.
//!
//! ```text
//! free | trim | usable[order] | fragments[order][largest]     word of list l, clusters 64w..64w+63: l * words + w
//! ```
//! `usable[o]` has clusters of order o that can serve o; `fragments[o][l]` those that can serve no more than l < o. A
//! cluster is on none while it is full, while it is trimmed, and before it is used for the first time.
//!
//! Must hold: the bits of a cluster say what its state says, while nobody holds its lock. Whoever holds it may have
//! come as far as two bits, or none: whoever searches takes a bit for a hint, and looks again under the cluster's lock.
//! `filled` says which lists may have a cluster: a bit there is set after one in the list, and cleared before the list
//! is looked through once more. Called by [`crate::clusters`], which chooses a cluster here and moves it from list to
//! list.
//!
//! Memory order: `put_on` sets the bit in `filled` behind that in the list, by an exchange in any case. So whoever sees
//! it there (Acquire: `has`, `choose`), or clears it (`first_of`), sees the bit in the list, if it has not been taken
//! off. `take_off` comes behind `put_on` (Release): whoever looks through a list (Acquire: `listed`) and misses a
//! cluster that was taken off sees it where it was put. `relist` does the same once more for the dead; what it finds by
//! `is_on` is seen because it has the cluster's lock. What a bit says of the cluster itself needs no order: it is a
//! hint.

use super::record::{LISTS, List, Record, State};
use super::{Clusters, ORDER_MAX, Search, SlotUsage};
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::ClusterId;

/// Where slots may be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Choice {
    pub(super) cluster: ClusterId,
    pub(super) kind: CandidateKind,
}

/// What a cluster is chosen as. Another may have been faster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CandidateKind {
    /// It is empty.
    Empty,
    /// It is in use, for runs of this size or larger ones.
    InUse,
    /// It is in use for smaller runs, and has a larger one by chance.
    LastResort,
}

/// The bit of a cluster in its word of each list.
const fn bit_of(cluster: ClusterId) -> u64 {
    1 << (cluster.number() % 64)
}

impl Choice {
    pub(super) const fn in_use(cluster: ClusterId) -> Choice {
        Choice { cluster, kind: CandidateKind::InUse }
    }
}

/// Looks at clusters of others before one is taken from them.
const LOOK_AT_MOST: usize = 4;
/// Clusters of each smaller order whose maps are looked at for a run that nobody else has: 64 cache lines, some 10 us.
const LOOK_AT_SMALL_MAX: usize = 64;

impl<'a, T: SlotUsage> Clusters<'a, T> {
    fn filled(&self) -> &'a AtomicU64 {
        &self.words[super::FILLED]
    }
    fn has(&self, list: List) -> bool {
        self.filled().load(Ordering::Acquire) & (1 << list.0) != 0
    }

    /// The word of a list that has the cluster's bit.
    fn bits_near(&self, list: List, cluster: ClusterId) -> &'a AtomicU64 {
        self.bits(list, cluster.number() / 64)
    }
    fn is_on(&self, list: List, cluster: ClusterId) -> bool {
        self.bits_near(list, cluster).load(Ordering::Acquire) & bit_of(cluster) != 0
    }

    fn bits(&self, list: List, word: u32) -> &'a AtomicU64 {
        let start = self.space.lists_start() + list.0 as usize * self.space.list_words();
        &self.words[start + word as usize]
    }

    fn put_on(&self, cluster: ClusterId, list: List) {
        let before = self.bits_near(list, cluster).fetch_or(bit_of(cluster), Ordering::AcqRel);
        if before == 0 {
            // An exchange in any case: whoever has just cleared it sees our bit, or we come after.
            self.filled().fetch_or(1 << list.0, Ordering::AcqRel);
        }
    }

    fn take_off(&self, cluster: ClusterId, list: List) {
        self.bits_near(list, cluster).fetch_and(!bit_of(cluster), Ordering::AcqRel);
    }

    /// Moves a cluster, whose lock the caller holds, to `state`, and from the list that it was on to the one that the
    /// state names.
    pub(super) fn move_to(&self, record: Record<'_>, state: State) {
        let from = record.state().list;
        if from != state.list && state.list.has_bits() {
            self.put_on(record.cluster, state.list);
        }
        record.set_state(state);
        if from != state.list && from.has_bits() {
            self.take_off(record.cluster, from);
        }
    }

    /// Makes the bits of a cluster follow from its state: whoever held its lock died in the middle of a change.
    pub(super) fn relist(&self, record: Record<'_>) {
        let own = record.state().list;
        for list in (0..LISTS as u8).map(List).filter(|list| list.has_bits()) {
            match (list == own, self.is_on(list, record.cluster)) {
                // Again, if the last one had not come as far as `filled`.
                (true, true) => drop(self.filled().fetch_or(1 << list.0, Ordering::AcqRel)),
                (true, false) => self.put_on(record.cluster, list),
                (false, true) => self.take_off(record.cluster, list),
                (false, false) => (),
            }
        }
    }

    /// Clusters of a list, from the word of `from` on and then from the start.
    fn listed(&self, list: List, from: ClusterId) -> impl Iterator<Item = ClusterId> {
        let (words, first) = (self.touched().div_ceil(64), from.number() / 64);
        let first = if first < words { first } else { 0 };
        (first..words).chain(0..first).flat_map(move |word| {
            let bits = self.bits(list, word).load(Ordering::Acquire);
            // Those behind `from` first.
            let skipped = if word == first { from.number() % 64 } else { 0 };
            let rotated = bits.rotate_right(skipped);
            let next = |left: &u64| Some(left & (left - 1)).filter(|left| *left != 0);
            core::iter::successors(Some(rotated).filter(|bits| *bits != 0), next)
                .map(move |left| ClusterId::new(word * 64 + (left.trailing_zeros() + skipped) % 64))
        })
    }

    /// The first of a list that `fits`. If there is none at all, that is noted.
    fn first_of(&self, list: List, from: ClusterId, fits: impl Fn(ClusterId) -> bool) -> Option<ClusterId> {
        let mut is_empty = true;
        let found = self.listed(list, from).inspect(|_| is_empty = false).find(|&cluster| fits(cluster));
        if is_empty && self.has(list) {
            self.filled().fetch_and(!(1 << list.0), Ordering::AcqRel);
            // Whoever put one there meanwhile may have seen the bit still set.
            let again = self.listed(list, from).next();
            if again.is_some() {
                self.filled().fetch_or(1 << list.0, Ordering::AcqRel);
            }
            return again.filter(|&cluster| fits(cluster));
        }
        found
    }

    /// The first of `list` that no other home works with.
    fn choose_own(&self, list: List, home: u32, from: ClusterId) -> Option<ClusterId> {
        self.listed(list, from)
            .take(LOOK_AT_MOST)
            .find(|&cluster| self.record(cluster).current().is_none_or(|other| other == home))
    }

    /// One of `list`, that of another home only if there seems to be no other.
    fn choose_from(&self, list: List, home: u32, from: ClusterId) -> Option<ClusterId> {
        self.choose_own(list, home, from).or_else(|| self.first_of(list, from, |_| true))
    }

    /// A cluster that most likely can serve `order`; `from` is where the caller was last. None: no cluster can.
    pub(super) fn choose(&self, order: u32, home: u32, from: ClusterId) -> Option<Choice> {
        // What was put on a list by whoever was interrupted then is found in the second round.
        let filled = self.filled().load(Ordering::Acquire);
        [filled, !0].into_iter().find_map(|filled| self.choose_among(filled, order, home, from))
    }

    /// Of lists that may have a cluster, a bit each.
    fn choose_among(&self, filled: u64, order: u32, home: u32, from: ClusterId) -> Option<Choice> {
        let has = |list: &List| filled & (1 << list.0) != 0;
        if self.space.search == Search::Onward {
            return self
                .choose_onward(filled, order, from)
                .or_else(|| self.choose_fragment(filled, order, home, from).map(Choice::in_use))
                .or_else(|| self.choose_last(filled, order, from));
        }
        let usable = List::usable(order);
        if has(&usable)
            && let Some(cluster) = self.choose_own(usable, home, from)
        {
            return Some(Choice::in_use(cluster));
        }
        // The last empty ones are for runs that nobody else can serve.
        if self.empty_is_scarce(filled)
            && let Some(cluster) = self.first_of(usable, from, |_| true)
        {
            return Some(Choice::in_use(cluster));
        }
        // What waits to be trimmed has its memory still: better than one that must be filled anew.
        let empty = [List::TRIM, List::FREE]
            .into_iter()
            .filter(has)
            .find_map(|list| self.first_of(list, ClusterId::FIRST, |cluster| self.fits(cluster, order)))
            .or_else(|| self.touch(order));
        if let Some(cluster) = empty {
            return Some(Choice { cluster, kind: CandidateKind::Empty });
        }
        self.first_of(usable, from, |_| true)
            .or_else(|| self.choose_fragment(filled, order, home, from))
            .map(Choice::in_use)
            .or_else(|| self.choose_last(filled, order, from))
    }

    /// The nearest cluster from `from` on with room of its own for `order`; at the end again from the start.
    fn choose_onward(&self, filled: u64, order: u32, from: ClusterId) -> Option<Choice> {
        let usable = List::usable(order);
        let fits = |list: List, cluster: ClusterId| list == usable || self.fits(cluster, order);
        let nearest_of = |list: List| {
            let mut ahead = self.listed(list, from).filter(|&cluster| cluster >= from);
            let ahead = ahead.find(|&cluster| fits(list, cluster));
            ahead.or_else(|| self.first_of(list, ClusterId::FIRST, |cluster| fits(list, cluster)))
        };
        let choice = |list: List| {
            let kind = if list == usable { CandidateKind::InUse } else { CandidateKind::Empty };
            nearest_of(list).map(|cluster| Choice { cluster, kind })
        };
        let lists = [usable, List::TRIM, List::FREE].into_iter().filter(|list| filled & (1 << list.0) != 0);
        let nearest = lists.filter_map(choice).min_by_key(|choice| (choice.cluster < from, choice.cluster));
        if let Some(ahead) = nearest.filter(|choice| choice.cluster >= from) {
            return Some(ahead);
        }
        // What was never used lies ahead of all that was.
        self.touch(order).map(|cluster| Choice { cluster, kind: CandidateKind::Empty }).or(nearest)
    }

    /// Whether there are fewer empty clusters than homes.
    fn empty_is_scarce(&self, filled: u64) -> bool {
        let homes = self.space.homes();
        let lists = [List::TRIM, List::FREE].into_iter().filter(|list| filled & (1 << list.0) != 0);
        let untouched = self.count() - self.touched();
        let mut empty = lists.flat_map(|list| self.listed(list, ClusterId::FIRST));
        untouched < homes && empty.nth((homes - untouched) as usize - 1).is_none()
    }

    /// A cluster that was never used. Those before it that are too short are free from now on.
    fn touch(&self, order: u32) -> Option<ClusterId> {
        loop {
            let cluster = ClusterId::new(self.touched());
            if cluster.number() >= self.count() {
                return None;
            }
            if !self.touch_next(cluster) {
                continue;
            }
            if self.fits(cluster, order) {
                return Some(cluster);
            }
            self.set_free(cluster);
        }
    }

    /// Whether an empty cluster serves `order`: the first and the last may be too short.
    fn fits(&self, cluster: ClusterId, order: u32) -> bool {
        self.missing(cluster).find(order, 0).is_some()
    }

    /// Best fit: the cluster that can serve `order` and as little more as possible; so single slots go where there is
    /// no room for anything else, and of those to the one of the largest order, which is farthest from serving its own.
    fn choose_fragment(&self, filled: u64, order: u32, home: u32, from: ClusterId) -> Option<ClusterId> {
        let has = |list: &List| filled & (1 << list.0) != 0;
        let best_first = (order..ORDER_MAX)
            .flat_map(|largest| (largest + 1..=ORDER_MAX).rev().map(move |of| List::fragments(of, largest)));
        // At last from clusters that still serve their own order: better than parts of it here and there. The smallest
        // order loses least.
        let usable = (order + 1..=ORDER_MAX).map(List::usable);
        best_first.chain(usable).filter(has).find_map(|list| self.choose_from(list, home, from))
    }

    /// One of a smaller order in which such a run has become free: it breaks nothing up, and there is no other. Maps
    /// are looked at without the lock, and some of them only.
    fn choose_last(&self, filled: u64, order: u32, from: ClusterId) -> Option<Choice> {
        let has_run = |&cluster: &ClusterId| self.map(self.record(cluster)).find(order, 0).is_some();
        let lists = (0..order).rev().map(List::usable).filter(|list| filled & (1 << list.0) != 0);
        let mut found =
            lists.filter_map(|list| self.listed(list, from).take(LOOK_AT_SMALL_MAX).find(has_run));
        found.next().map(|cluster| Choice { cluster, kind: CandidateKind::LastResort })
    }

    /// Takes the first cluster that waits to be trimmed: nobody gets it until `trimmed` is called.
    pub fn take_to_trim(&self) -> Option<ClusterId> {
        loop {
            let record = self.record(self.first_of(List::TRIM, ClusterId::FIRST, |_| true)?);
            self.lock(record);
            let state = record.state();
            let waits = state.list == List::TRIM;
            if waits {
                self.move_to(record, State { list: List::TRIMMING, ..state });
            }
            self.locker.unlock(record.lock());
            if waits {
                return Some(record.cluster);
            }
        }
    }
}

/// What tests look at.
#[cfg(test)]
impl<T: SlotUsage> Clusters<'_, T> {
    /// Each cluster is on the list that follows from its slots, and only there; the map says what the truth says.
    pub(crate) fn check_lists(&self) {
        for cluster in ClusterId::each_below(self.count()) {
            let record = self.record(cluster);
            let state = record.state();
            for list in (0..LISTS as u8).map(List) {
                let is_on = self.is_on(list, cluster);
                assert_eq!(is_on, list.has_bits() && list == state.list, "{cluster:?}, {list:?}");
                assert!(!is_on || self.has(list), "{list:?} seems to have nothing");
            }
            let map = super::map::Map::load(record.map());
            let there = self.space.count - super::slots_before(cluster);
            for at in 0..super::CLUSTER_SLOTS.min(there) {
                let is_set = map.0[at as usize / 64] & (1 << (at % 64)) != 0;
                assert_eq!(is_set, self.truth.is_used(super::slot_at(cluster, at)));
            }
            if state.count > 0 {
                assert_eq!(state.list, self.list_for(state, self.map(record)), "{cluster:?}");
            } else {
                assert!(state.list.is_empty() || state.list == List::TRIMMING, "{cluster:?}");
                assert_eq!((state.list == List::NONE, state.order), (cluster.number() >= self.touched(), 0));
            }
        }
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn is_being_trimmed(&self, cluster: ClusterId) -> bool {
        self.record(cluster).state().list == List::TRIMMING
    }

    /// As if a process had died in the middle of a change of a cluster's list.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn break_bits_for_test(&self, cluster: ClusterId, dead: uswap_units::MmId) {
        let record = self.record(cluster);
        record.lock().store(self.locker.name_of(dead), Ordering::Relaxed);
        let state = record.state();
        if state.list.has_bits() {
            self.take_off(cluster, state.list);
        }
        self.put_on(cluster, List::usable(3));
        self.put_on(cluster, List::FREE);
    }
}
