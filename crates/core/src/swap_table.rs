//! The swap table: one word and one content hash a swap entry.
//!
//! Entries are reserved by a process only from clusters of 512 that it owns, and freed by anyone: so a reserved entry of a dead process is found by
//! looking through the clusters it owned. The words are lock-free; transitions are methods named after the change.
//!
//! Callers: `engine` (store, fault, fork, write-back). Leaves to them: releasing the cell or slots that a transition hands back.

use crate::counters::{Counter, Counters};
use crate::swap_word::{Content, SwapWord};
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::{MmId, SwapId};

/// Entries of one cluster.
pub const CLUSTER_ENTRIES: u32 = 512;

/// Views of the tables in the segment.
#[derive(Clone, Copy)]
pub struct SwapTable<'a> {
    pub(crate) words: &'a [AtomicU64],
    pub(crate) hashes: &'a [AtomicU64],
    /// Owner + 1 of each cluster in the low 32 bits, used entries above.
    pub(crate) clusters: &'a [AtomicU64],
    /// Where the search for a cluster starts.
    pub(crate) hint: &'a AtomicU64,
    /// Clusters from here on were never claimed: looking at them would only cost memory.
    pub(crate) touched: &'a AtomicU64,
    pub(crate) counters: Counters<'a>,
}

/// The cluster a process reserves entries from. Private to the process; behind its lock.
#[derive(Debug, Default)]
pub struct ClusterOwner {
    cluster: Option<u32>,
    next: u32,
}

impl ClusterOwner {
    /// Owns nothing yet.
    pub const fn new() -> ClusterOwner {
        ClusterOwner { cluster: None, next: 0 }
    }
}

/// What came of `put`.
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
pub enum Came {
    /// By a fault of its own.
    Alone,
    /// In order, with others.
    InRun,
}

/// What came of `finish_writeback`.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum WritebackEnd {
    /// The entry names the copy now: release the cell.
    Moved,
    /// Nobody refers to the entry any more: release the cell and the copy.
    Orphaned,
}

const OWNER_MASK: u64 = 0xFFFF_FFFF;
const USED_ONE: u64 = 1 << 32;

impl<'a> SwapTable<'a> {
    /// Number of entries; ids are `1..entry_count`.
    pub fn entry_count(&self) -> u32 {
        self.words.len() as u32
    }

    /// The word now. `Acquire` pairs with the `Release` of `publish` and `finish_writeback`.
    pub fn load(&self, id: SwapId) -> SwapWord {
        SwapWord(self.words[id.0 as usize].load(Ordering::Acquire))
    }

    /// Changes the word by `change` until it sticks; None from `change` means "leave it".
    fn update(&self, id: SwapId, mut change: impl FnMut(SwapWord) -> Option<SwapWord>) -> (SwapWord, bool) {
        let word = &self.words[id.0 as usize];
        // Acquire: who frees a cell must see all uses of it; Release: who reads a new place sees its content.
        let mut seen = word.load(Ordering::Acquire);
        loop {
            let Some(next) = change(SwapWord(seen)) else { return (SwapWord(seen), false) };
            match word.compare_exchange_weak(seen, next.0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return (SwapWord(seen), true),
                Err(now) => seen = now,
            }
        }
    }

    /// Takes a free entry from a cluster that `mm` owns, or claims another cluster. None: the table is full.
    pub fn reserve(&self, mm: MmId, owner: &mut ClusterOwner) -> Option<SwapId> {
        loop {
            if let Some(cluster) = owner.cluster {
                while owner.next < CLUSTER_ENTRIES {
                    let id = SwapId(cluster * CLUSTER_ENTRIES + owner.next);
                    owner.next += 1;
                    let word = &self.words[id.0 as usize];
                    // Only the owner of the cluster turns Free into Reserved; Acquire pairs with the freeing.
                    if id.0 != 0 && word.load(Ordering::Acquire) == 0 {
                        // Counted first: who is killed in between leaves the count too high, never too low.
                        self.clusters[cluster as usize].fetch_add(USED_ONE, Ordering::AcqRel);
                        word.store(SwapWord::reserved_by(mm).0, Ordering::Relaxed);
                        return Some(id);
                    }
                }
                self.release_cluster(cluster);
                owner.cluster = None;
            }
            owner.cluster = Some(self.claim_cluster(mm)?);
            owner.next = 0;
        }
    }

    fn claim_cluster(&self, mm: MmId) -> Option<u32> {
        let count = self.clusters.len() as u64;
        let start = self.hint.load(Ordering::Relaxed) % count;
        // A cluster with little room is not worth a scan of its words, unless there is no other.
        for used_max in [u64::from(CLUSTER_ENTRIES) / 2, u64::from(CLUSTER_ENTRIES) - 1] {
            for step in 0..count {
                let index = (start + step) % count;
                let word = &self.clusters[index as usize];
                let seen = word.load(Ordering::Relaxed);
                // Entry 0 is never handed out, and not counted.
                let used = (seen >> 32) + u64::from(index == 0);
                if seen & OWNER_MASK != 0 || used > used_max {
                    continue;
                }
                let next = seen | (u64::from(mm.0) + 1);
                if word.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    self.hint.store(index, Ordering::Relaxed);
                    self.touched.fetch_max(index + 1, Ordering::AcqRel);
                    return Some(index as u32);
                }
            }
        }
        None
    }

    fn release_cluster(&self, cluster: u32) {
        self.clusters[cluster as usize].fetch_and(!OWNER_MASK, Ordering::AcqRel);
    }

    fn note_freed(&self, id: SwapId) {
        let cluster = id.0 / CLUSTER_ENTRIES;
        let before = self.clusters[cluster as usize].fetch_sub(USED_ONE, Ordering::AcqRel);
        assert!(before >= USED_ONE);
        if before >> 32 == u64::from(CLUSTER_ENTRIES) / 2 {
            self.hint.fetch_min(u64::from(cluster), Ordering::Relaxed);
        }
    }

    /// Writes the content hash of an entry that the caller has reserved; call before `publish`.
    pub fn set_hash(&self, id: SwapId, hash: u128) {
        self.hashes[id.0 as usize * 2].store(hash as u64, Ordering::Relaxed);
        self.hashes[id.0 as usize * 2 + 1].store((hash >> 64) as u64, Ordering::Relaxed);
    }

    /// The content hash of an entry that the caller refers to.
    pub fn hash(&self, id: SwapId) -> u128 {
        let low = self.hashes[id.0 as usize * 2].load(Ordering::Relaxed);
        let high = self.hashes[id.0 as usize * 2 + 1].load(Ordering::Relaxed);
        (u128::from(high) << 64) | u128::from(low)
    }

    /// Reserved -> content with one reference: that of the page word which the caller has locked and commits next.
    pub fn publish(&self, id: SwapId, content: Content) {
        debug_assert_eq!(self.load(id).content(), Content::Reserved);
        let word = SwapWord::new(content).with_referenced(true).with_count_plus_one();
        // Release pairs with `load`: the content is in its cell before the word names it.
        self.words[id.0 as usize].store(word.0, Ordering::Release);
    }

    /// Reserved -> free, because nothing will be stored.
    pub fn cancel(&self, id: SwapId) {
        debug_assert_eq!(self.load(id).content(), Content::Reserved);
        self.words[id.0 as usize].store(0, Ordering::Release);
        self.note_freed(id);
    }

    /// One more page refers to the entry. A shared entry is not retained: someone may depend on it.
    pub fn share(&self, id: SwapId) {
        self.update(id, |word| Some(word.with_retained(false).with_count_plus_one()));
    }

    /// One page less refers to the entry.
    pub fn put(&self, id: SwapId) -> Put {
        let (before, _) = self.update(id, |word| {
            assert!(word.count() > 0, "an entry that a page refers to is counted");
            if word.count() > 1 || word.is_writeback() {
                return Some(word.with_count_minus_one());
            }
            Some(SwapWord::new(Content::Free))
        });
        if before.count() > 1 {
            return Put::StillShared;
        }
        if before.is_writeback() {
            return Put::Deferred;
        }
        self.note_freed(id);
        Put::Freed(before.content())
    }

    /// The content was loaded: give it a second chance, and if no other page refers to it keep it only as a clean copy.
    ///
    /// In the file that chance says that the page was asked for by itself: what comes in order with others is better read in order again than kept in the pool.
    pub fn note_loaded(&self, id: SwapId, came: Came) {
        self.update(id, |word| {
            let chance = came == Came::Alone || !matches!(word.content(), Content::Slot { .. });
            let next = word.with_referenced(chance).with_retained(word.count() == 1);
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
            let free = word.is_retained() && !word.is_writeback() && word.count() == 1 && stored;
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
        self.words[id.0 as usize]
            .compare_exchange(seen.0, next.0, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
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
            self.note_freed(id);
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
            self.note_freed(id);
            return Some(before.content());
        }
        None
    }

    /// The only copy could not be read: the entry keeps its references and has no content. Some: release what this names.
    #[must_use]
    pub fn lose(&self, id: SwapId, seen: SwapWord) -> Option<Content> {
        let (before, changed) = self.update(id, |word| {
            let same = word.content() == seen.content();
            (same && !word.is_writeback()).then(|| word.with_content(Content::Lost).with_retained(false))
        });
        changed.then(|| before.content())
    }

    /// Frees what a dead process had reserved and not published, and gives its clusters to the others.
    pub fn reap(&self, mm: MmId) {
        for (index, word) in self.touched_clusters().iter().enumerate() {
            if word.load(Ordering::Acquire) & OWNER_MASK != u64::from(mm.0) + 1 {
                continue;
            }
            let first = index as u32 * CLUSTER_ENTRIES;
            for id in (first..first + CLUSTER_ENTRIES).map(SwapId) {
                // Not what a living process reserved here before it gave the cluster up.
                if self.load(id) == SwapWord::reserved_by(mm) {
                    self.cancel(id);
                    self.counters.add(Counter::ReapedEntries, 1);
                }
            }
            self.release_cluster(index as u32);
        }
    }

    /// Used entries, summed over the clusters.
    pub fn used_count(&self) -> u64 {
        self.touched_clusters().iter().map(|word| word.load(Ordering::Relaxed) >> 32).sum()
    }

    fn touched_clusters(&self) -> &'a [AtomicU64] {
        &self.clusters[..self.touched.load(Ordering::Acquire) as usize]
    }

    /// Entries behind the last that was ever reserved.
    pub fn touched_entries(&self) -> u32 {
        self.touched.load(Ordering::Acquire) as u32 * CLUSTER_ENTRIES
    }

    /// Used entries of the cluster that holds `id`.
    pub fn used_near(&self, id: SwapId) -> u32 {
        (self.clusters[(id.0 / CLUSTER_ENTRIES) as usize].load(Ordering::Relaxed) >> 32) as u32
    }
}
