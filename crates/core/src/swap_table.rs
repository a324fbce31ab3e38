//! The swap table: one word and one content hash a swap entry.
//!
//! Entries are handed out by `clusters`, 512 of which share a lock; a word that is not 0 is a used entry. The words are
//! lock-free; transitions are methods named after the change. A process counts in its record what it has begun and not
//! ended: if it dies with a count above 0, `reap` looks for what it had reserved, and for locks that it held.
//!
//! Must hold: an entry counts at least as many references as page words name it. So `share` comes before the word that
//! it is for, and `put` after the word has lost the name; a process killed in between leaves one too many. Called by
//! `engine`, by the supervisor and `sim`, which look through it, and by `experiments`. Leaves to them: releasing the
//! cell or slots that a transition hands back.

use crate::clusters::lock::Locker;
use crate::clusters::{CLUSTER_SLOTS, Clusters, Search, SlotUsage, Space, cluster_of};
use crate::counters::{Counter, Counters};
use crate::plant::{Plant, is_planted};
use crate::swap_word::{COUNT_MAX, Content, SwapWord};
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::{ClusterId, MmId, SwapId};

/// Entries of one cluster: their words are one page of memory.
pub const CLUSTER_ENTRIES: u32 = CLUSTER_SLOTS;

/// Views of the tables in the segment.
#[derive(Clone, Copy)]
pub struct SwapTable<'a> {
    pub(crate) words: &'a [AtomicU64],
    pub(crate) hashes: &'a [AtomicU64],
    /// References that the words do not count; not looked at, and not in memory, where there are none.
    pub(crate) more: &'a [AtomicU64],
    /// State of the clusters.
    pub(crate) clusters: &'a [AtomicU64],
    pub(crate) counters: Counters<'a>,
    pub(crate) locker: Locker<'a>,
}

/// What says that an entry is used: its word.
#[derive(Clone, Copy)]
struct Entries<'a> {
    words: &'a [AtomicU64],
}

impl SlotUsage for Entries<'_> {
    type Slot = SwapId;

    fn is_used(&self, entry: SwapId) -> bool {
        // Acquire pairs with the exchange that freed it: its last user is done with it.
        self.words[entry.index()].load(Ordering::Acquire) != 0
    }
    fn claim(&self, entry: SwapId, by: MmId) {
        self.words[entry.index()].store(SwapWord::reserved_by(by).0, Ordering::Relaxed);
    }
}

/// The clusters of a table of so many entries. Entry 0 is never handed out: a page word with 0 has none.
pub(crate) const fn entry_space(entries: u32) -> Space {
    Space { skipped: 1, count: entries, is_trimmed: true, search: Search::Scattered }
}

/// The outcome of `put`.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Put {
    /// Other pages still refer to it.
    StillShared,
    /// It was the last reference: release what this names.
    Freed(Content),
    /// It was the last reference, but the supervisor writes the blob just now and will free it.
    Deferred,
}

/// How a page came back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadKind {
    /// By a fault of its own.
    Alone,
    /// In order, with others.
    InBatch,
}

/// The outcome of `finish_writeback`.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum WritebackEnd {
    /// The entry names the copy now: release the cell.
    Moved,
    /// Nobody refers to the entry any more: release the cell and the copy.
    Orphaned,
}

/// References that move at once between a word and the other that counts with it.
const COUNT_MOVED: u32 = COUNT_MAX / 2;

/// With one reference more, if the word has room for it.
fn shared(word: SwapWord) -> Option<SwapWord> {
    assert!(word.count() > 0, "an entry that is shared is one that a page refers to");
    (word.count() < COUNT_MAX).then(|| word.with_retained(false).with_count_plus_one())
}

impl<'a> SwapTable<'a> {
    /// Number of entries; ids are `1..entry_count`.
    pub fn entry_count(&self) -> u32 {
        self.words.len() as u32
    }

    /// The word now. `Acquire` pairs with the `Release` of `publish` and `finish_writeback`.
    pub fn load(&self, id: SwapId) -> SwapWord {
        SwapWord(self.words[id.index()].load(Ordering::Acquire))
    }

    /// Changes the word by `change` until it sticks; None from `change` means "leave it".
    fn update(&self, id: SwapId, mut change: impl FnMut(SwapWord) -> Option<SwapWord>) -> (SwapWord, bool) {
        let word = &self.words[id.index()];
        // Acquire: whoever frees a cell must see all uses of it; Release: whoever reads a new place sees its content.
        let mut seen = word.load(Ordering::Acquire);
        loop {
            let Some(next) = change(SwapWord(seen)) else { return (SwapWord(seen), false) };
            match word.compare_exchange_weak(seen, next.0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return (SwapWord(seen), true),
                Err(now) => seen = now,
            }
        }
    }

    fn clusters(&self) -> Clusters<'a, impl SlotUsage<Slot = SwapId> + use<'a>> {
        let space = entry_space(self.entry_count());
        Clusters::new(self.clusters, space, Entries { words: self.words }, self.locker)
    }

    /// Takes a free entry for the caller, who publishes or cancels it. None: the table is full.
    pub fn reserve(&self) -> Option<SwapId> {
        self.reserve_run(0)
    }

    /// Takes `1 << order` free entries that follow each other, as [`reserve`](Self::reserve). None: there are not so
    /// many together.
    pub fn reserve_run(&self, order: u32) -> Option<SwapId> {
        self.locker.begin();
        let first = self.clusters().allocate(order);
        if first.is_none() {
            self.locker.end();
        }
        first
    }

    /// The word of the entry is 0: others may have it.
    fn free(&self, id: SwapId) {
        self.clusters().free(id, 1);
    }

    /// Writes the content hash of an entry that the caller has reserved; call before `publish`.
    pub fn set_hash(&self, id: SwapId, hash: u128) {
        self.hashes[id.index() * 2].store(hash as u64, Ordering::Relaxed);
        self.hashes[id.index() * 2 + 1].store((hash >> 64) as u64, Ordering::Relaxed);
    }

    /// The content hash of an entry that the caller refers to.
    pub fn hash(&self, id: SwapId) -> u128 {
        let low = self.hashes[id.index() * 2].load(Ordering::Relaxed);
        let high = self.hashes[id.index() * 2 + 1].load(Ordering::Relaxed);
        (u128::from(high) << 64) | u128::from(low)
    }

    /// Reserved -> content with one reference: that of the page word which the caller has locked and commits next.
    pub fn publish(&self, id: SwapId, content: Content) {
        self.publish_run(id, [content]);
    }

    /// The same for all entries of a run that was reserved together.
    pub fn publish_run(&self, first: SwapId, contents: impl IntoIterator<Item = Content>) {
        for (count, content) in (0..).zip(contents) {
            let id = first.plus(count);
            debug_assert_eq!(self.load(id).content(), Content::Reserved);
            let word = SwapWord::new(content).with_referenced(true).with_count(1);
            // Release pairs with `load`: the content is in its cell before the word names it.
            let release =
                if is_planted(Plant::PublishRelaxed) { Ordering::Relaxed } else { Ordering::Release };
            self.words[id.index()].store(word.0, release);
        }
        self.locker.end();
    }

    /// Reserved -> free, because nothing will be stored.
    pub fn cancel(&self, id: SwapId) {
        self.cancel_run(id, 1);
    }

    /// The same for all entries of a run that was reserved together.
    pub fn cancel_run(&self, first: SwapId, count: u32) {
        self.cancel_for_the_dead(first, count);
        self.locker.end();
    }

    fn cancel_for_the_dead(&self, first: SwapId, count: u32) {
        for id in first.run(count) {
            debug_assert_eq!(self.load(id).content(), Content::Reserved);
            // Release pairs with `is_used` of `Entries`: whoever had reserved it is done with it.
            self.words[id.index()].store(0, Ordering::Release);
        }
        self.clusters().free(first, count);
    }

    /// One more page refers to the entry. A shared entry is not retained: someone may depend on it.
    pub fn share(&self, id: SwapId) {
        let (_, is_counted) = self.update(id, shared);
        if !is_counted {
            self.share_beyond(id);
        }
    }

    /// The count of the word is full: half of it moves to the other word.
    ///
    /// The other word counts first: whoever dies in between leaves an entry that is never freed, not one that is freed
    /// too early.
    #[cold]
    fn share_beyond(&self, id: SwapId) {
        self.locker.begin();
        self.clusters().while_locked(cluster_of(id), || {
            let other = &self.more[id.index()];
            while let (seen, false) = self.update(id, shared) {
                let more = self.more_of(id, seen);
                other.store(more + u64::from(COUNT_MOVED), Ordering::Relaxed);
                let next = seen.with_more(true).with_count(seen.count() - COUNT_MOVED);
                if !self.change(id, seen, next) {
                    other.store(more, Ordering::Relaxed);
                }
            }
        });
        self.locker.end();
    }

    /// One reference is left in the word, and more elsewhere: some of them come back, or all.
    #[cold]
    fn bring_back_references(&self, id: SwapId) {
        self.locker.begin();
        self.clusters().while_locked(cluster_of(id), || {
            let seen = self.load(id);
            let more = self.more_of(id, seen);
            let moved = more.min(u64::from(COUNT_MOVED));
            let next = seen.with_count(seen.count() + moved as u32).with_more(more > moved);
            // Whoever is faster leaves it to us or to the next. As in `share_beyond`: counted twice for a moment, and
            // never not at all.
            if seen.has_more() && seen.count() == 1 && self.change(id, seen, next) {
                self.more[id.index()].store(more - moved, Ordering::Relaxed);
            }
        });
        self.locker.end();
    }

    /// All references to the entry.
    #[cfg(test)]
    pub(crate) fn references(&self, id: SwapId) -> u64 {
        let word = self.load(id);
        u64::from(word.count()) + self.more_of(id, word)
    }

    /// References beside those in the word. What is there without the flag was left by somebody who died.
    fn more_of(&self, id: SwapId, seen: SwapWord) -> u64 {
        if seen.has_more() { self.more[id.index()].load(Ordering::Relaxed) } else { 0 }
    }

    fn change(&self, id: SwapId, seen: SwapWord, next: SwapWord) -> bool {
        let word = &self.words[id.index()];
        word.compare_exchange(seen.0, next.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// One page less refers to the entry.
    pub fn put(&self, id: SwapId) -> Put {
        if let Some(put) = self.put_one_of_some(id) {
            return put;
        }
        self.locker.begin();
        let put = self.put_begun(id);
        if matches!(put, Put::Freed(_)) {
            self.free(id);
        }
        self.locker.end();
        put
    }

    /// One page less refers to each of these entries. `release` is told what those named whose last reference it was.
    ///
    /// Entries that follow each other in a cluster are given back under one hold of its lock, at the end. Each is put
    /// before the next one is asked for: so that whoever takes the names out of page words meanwhile, and is killed,
    /// has one reference in hand and no more.
    pub fn put_each(&self, ids: impl IntoIterator<Item = SwapId>, mut release: impl FnMut(Content)) {
        self.locker.begin();
        let clusters = self.clusters();
        let mut freed = clusters.freed();
        for id in ids {
            if let Put::Freed(content) = self.put_begun(id) {
                freed.add(id);
                release(content);
            }
        }
        freed.give_back();
        self.locker.end();
    }

    /// Puts a reference that is not the last. None: it is, most likely, and nothing has changed.
    fn put_one_of_some(&self, id: SwapId) -> Option<Put> {
        loop {
            let (before, is_put) = self.update(id, |word| {
                assert!(word.count() > 0, "an entry that a page refers to is counted");
                let may = word.count() > 1 || (word.is_writeback() && !word.has_more());
                may.then(|| word.with_count_minus_one())
            });
            match (is_put, before.has_more()) {
                (true, _) if before.count() > 1 => return Some(Put::StillShared),
                (true, _) => return Some(Put::Deferred),
                (false, true) => self.bring_back_references(id),
                (false, false) => return None,
            }
        }
    }

    /// As `put`, but a word that became 0 is still to be given back to its cluster.
    fn put_begun(&self, id: SwapId) -> Put {
        loop {
            let (before, is_last) = self.update(id, |word| {
                let is_last = word.is_alone() && !word.is_writeback();
                is_last.then(|| SwapWord::new(Content::Free))
            });
            if is_last {
                return Put::Freed(before.content());
            }
            if let Some(put) = self.put_one_of_some(id) {
                return put;
            }
        }
    }

    /// The content was loaded: give it a second chance, and if no other page refers to it keep it only as a clean copy.
    ///
    /// In the file that chance says that the page was asked for by itself: what comes in order with others is better
    /// read in order again than kept in the pool.
    pub fn note_loaded(&self, id: SwapId, kind: LoadKind) {
        self.update(id, |word| {
            assert!(word.count() > 0, "an entry that a page came from is counted");
            let chance = kind == LoadKind::Alone || !matches!(word.content(), Content::Slot { .. });
            let next = word.with_referenced(chance).with_retained(word.is_alone());
            (next != word).then_some(next)
        });
    }

    /// The page that refers to the entry is not mapped any more and has the same content: the entry must stay.
    /// False if the copy was given up: the caller must store the content anew.
    #[must_use]
    pub fn rely_on(&self, id: SwapId) -> bool {
        let (_, changed) = self.update(id, |word| match word.content() {
            Content::Same(_) | Content::Blob { .. } => Some(word.with_retained(false).with_referenced(true)),
            // How it was loaded is known until it is loaded again.
            Content::Slot { .. } => Some(word.with_retained(false)),
            _ => None,
        });
        changed
    }

    /// The clock hand passes: takes the second chance away. True if there was one.
    pub fn clear_referenced(&self, id: SwapId) -> bool {
        self.update(id, |word| word.is_referenced().then(|| word.with_referenced(false))).1
    }

    /// Retained -> discarded, if it is still a clean copy that nobody depends on. Some: release what this names.
    #[must_use]
    pub fn discard_retained(&self, id: SwapId) -> Option<Content> {
        let (before, changed) = self.update(id, |word| {
            let stored = matches!(word.content(), Content::Blob { .. } | Content::Slot { .. });
            let free = word.is_retained() && !word.is_writeback() && word.is_alone() && stored;
            free.then(|| word.with_content(Content::Discarded).with_retained(false).with_referenced(false))
        });
        changed.then(|| before.content())
    }

    /// Blob -> blob in write-back, if the word is still `seen`.
    #[must_use]
    pub fn begin_writeback(&self, id: SwapId, seen: SwapWord) -> bool {
        assert!(matches!(seen.content(), Content::Blob { .. }));
        assert!(!seen.is_writeback());
        assert!(seen.count() > 0);
        let next = seen.with_writeback(true);
        // Acquire pairs with `publish`: the supervisor reads the cell.
        self.words[id.index()].compare_exchange(seen.0, next.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The copy is complete: blob -> slot, or another blob.
    pub fn finish_writeback(&self, id: SwapId, copy: Content) -> WritebackEnd {
        assert!(matches!(copy, Content::Slot { .. } | Content::Blob { .. }));
        let (before, _) = self.update(id, |word| {
            assert!(word.is_writeback());
            if word.count() == 0 {
                return Some(SwapWord::new(Content::Free));
            }
            Some(word.with_content(copy).with_writeback(false))
        });
        if before.count() == 0 {
            self.free(id);
            return WritebackEnd::Orphaned;
        }
        WritebackEnd::Moved
    }

    /// The write failed: the blob stays. Some: nobody refers to it any more, release the cell.
    #[must_use]
    pub fn abort_writeback(&self, id: SwapId) -> Option<Content> {
        let (before, _) = self.update(id, |word| {
            assert!(word.is_writeback());
            if word.count() == 0 {
                return Some(SwapWord::new(Content::Free));
            }
            Some(word.with_writeback(false).with_referenced(true))
        });
        if before.count() == 0 {
            self.free(id);
            return Some(before.content());
        }
        None
    }

    /// The content lies in another file too: slot -> that one. False: the entry does not name the old one any more, and
    /// the copy is the caller's to release.
    ///
    /// No place in a file that is drained is written again: as long as the word names the old one, it means the content
    /// that was copied.
    #[must_use]
    pub fn move_slot(&self, id: SwapId, old: Content, new: Content) -> bool {
        assert!(matches!((old, new), (Content::Slot { .. }, Content::Slot { .. })));
        self.update(id, |word| (word.content() == old).then(|| word.with_content(new))).1
    }

    /// The only copy could not be read: the entry keeps its references and has no content. Some: release what this
    /// names.
    #[must_use]
    pub fn lose(&self, id: SwapId, seen: SwapWord) -> Option<Content> {
        let (before, changed) = self.update(id, |word| {
            let same = word.content() == seen.content();
            (same && !word.is_writeback()).then(|| word.with_content(Content::Lost).with_retained(false))
        });
        changed.then(|| before.content())
    }

    /// Frees what a dead process had reserved and not published, or not freed to the end. Its locks are broken.
    pub fn reap(&self, mm: MmId) {
        for id in (1..self.touched_entries().min(self.entry_count())).map(SwapId::new) {
            if self.load(id) == SwapWord::reserved_by(mm) {
                self.cancel_for_the_dead(id, 1);
                self.counters.add(Counter::ReapedEntries, 1);
            }
        }
        self.counters.add(Counter::ReapedEntries, self.clusters().audit());
    }

    /// Gives up the locks that a dead process holds.
    pub fn break_locks(&self, dead: MmId) {
        self.clusters().break_locks(dead);
    }

    /// Used entries, summed over the clusters.
    pub fn used_count(&self) -> u64 {
        self.clusters().used()
    }

    /// A cluster of which no entry is used any more, and whose words and hashes may be given back to the system. Then
    /// call `trimmed`.
    pub fn take_to_trim(&self) -> Option<ClusterId> {
        self.clusters().take_to_trim()
    }

    /// The memory of a cluster from `take_to_trim` is given back; it reads as zeros, which is what it held.
    pub fn trimmed(&self, cluster: ClusterId) {
        self.clusters().trimmed(cluster);
    }

    /// How many entries, from the first on, may ever have been reserved. Those behind them never were.
    pub fn touched_entries(&self) -> u32 {
        self.clusters().touched() * CLUSTER_ENTRIES
    }

    /// Whether no entry of the cluster that holds `id` is used: its words need not be looked at, and may not be in
    /// memory.
    pub fn is_empty_near(&self, id: SwapId) -> bool {
        self.clusters().used_in(cluster_of(id)) == 0
    }
}
