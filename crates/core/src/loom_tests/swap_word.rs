//! One swap entry between processes, the clock hand and the write-back.

use crate::clusters::lock::{Locker, SUPERVISOR};
use crate::counters::Counters;
use crate::mm::MmTable;
use crate::swap_table::{LoadKind, Put, SwapTable, WritebackEnd, entry_space};
use crate::swap_word::{COUNT_MAX, Content};
use loom::sync::Arc;
use loom::thread;
use std::vec::Vec;
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::{BlobId, SwapId, SwapOffset};

const BLOB: Content = Content::Blob { blob: BlobId::new(5), length: 100 };
const SLOT: Content = Content::Slot { offset: SwapOffset::new(4096), length: 128 };
const ID: SwapId = SwapId::new(1);

pub(super) struct Table {
    words: Vec<AtomicU64>,
    hashes: Vec<AtomicU64>,
    more: Vec<AtomicU64>,
    clusters: Vec<AtomicU64>,
    taken_total: AtomicU64,
    blob_released: AtomicU64,
    slot_released: AtomicU64,
}

impl Table {
    pub(super) fn view(&self) -> SwapTable<'_> {
        let counters = Counters { words: &[], histograms: &[] };
        SwapTable {
            words: &self.words,
            hashes: &self.hashes,
            more: &self.more,
            clusters: &self.clusters,
            counters,
            locker: Locker::new(SUPERVISOR, MmTable { words: &[], taken_total: &self.taken_total }),
        }
    }
    /// Entry 1 with this content and one reference.
    pub(super) fn published(content: Content) -> Arc<Table> {
        let table = Table::reserved();
        table.view().publish(ID, content);
        table
    }
    /// Entry 1 belongs to whoever will publish it.
    fn reserved() -> Arc<Table> {
        let words = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
        let zero = || AtomicU64::new(0);
        let (taken_total, blob_released, slot_released) = (zero(), zero(), zero());
        let (words, hashes, more, clusters) = (words(2), words(4), words(2), words(entry_space(2).words()));
        let table = Table { words, hashes, more, clusters, taken_total, blob_released, slot_released };
        assert_eq!(table.view().reserve(), Some(ID));
        Arc::new(table)
    }
    fn release(&self, content: Content) {
        let count =
            if matches!(content, Content::Blob { .. }) { &self.blob_released } else { &self.slot_released };
        assert_eq!(count.fetch_add(1, Ordering::Relaxed), 0, "released once");
    }
    fn put(&self) {
        if let Put::Freed(content) = self.view().put(ID) {
            self.release(content);
        }
    }
    fn check_all_is_given_back(&self, slot: u64) {
        assert_eq!(self.view().used_count(), 0);
        assert_eq!(self.view().load(ID).content(), Content::Free);
        assert_eq!(self.blob_released.load(Ordering::Relaxed), 1);
        assert_eq!(self.slot_released.load(Ordering::Relaxed), slot);
    }
}

fn beside<T: Send + Sync + 'static>(
    shared: &Arc<T>,
    task: impl FnOnce(&T) + Send + 'static,
) -> thread::JoinHandle<()> {
    let shared = Arc::clone(shared);
    thread::spawn(move || task(&shared))
}

#[test]
fn loom_an_entry_is_read_while_it_is_published() {
    an_entry_is_read_while_it_is_published();
}

pub(super) fn an_entry_is_read_while_it_is_published() {
    loom::model(|| {
        let hash = 7 << 64 | 8;
        let table = Table::reserved();
        let reader = beside(&table, move |table| {
            if table.view().load(ID).content() == BLOB {
                assert_eq!(table.view().hash(ID), hash, "who sees an entry sees its hash");
            }
        });
        table.view().set_hash(ID, hash);
        table.view().publish(ID, BLOB);
        reader.join().unwrap();
    });
}

#[test]
fn loom_put_races_with_write_back() {
    loom::model(|| {
        let table = Table::published(BLOB);
        let slot_was_taken = Arc::new(AtomicU64::new(0));
        let taken = Arc::clone(&slot_was_taken);
        let supervisor = beside(&table, move |table| {
            let seen = table.view().load(ID);
            if seen.content() != BLOB || !table.view().begin_writeback(ID, seen) {
                return;
            }
            taken.store(1, Ordering::Relaxed);
            let end = table.view().finish_writeback(ID, SLOT);
            table.release(BLOB);
            if end == WritebackEnd::Orphaned {
                table.release(SLOT);
            }
        });
        table.put();
        supervisor.join().unwrap();
        table.check_all_is_given_back(slot_was_taken.load(Ordering::Relaxed));
    });
}

/// The file is drained while the last page that needs the content goes, and another one loads it: each place is given
/// back once, and none that the word names.
#[test]
fn loom_a_slot_is_moved_while_it_is_put_and_loaded() {
    const NEW: Content = Content::Slot { offset: SwapOffset::new(8192), length: 128 };
    loom::model(|| {
        let table = Table::published(SLOT);
        let new_released = Arc::new(AtomicU64::new(0));
        let released = Arc::clone(&new_released);
        let supervisor = beside(&table, move |table| {
            if table.view().load(ID).content() != SLOT {
                return;
            }
            if table.view().move_slot(ID, SLOT, NEW) {
                table.release(SLOT);
            } else {
                released.fetch_add(1, Ordering::Relaxed);
            }
        });
        table.view().note_loaded(ID, LoadKind::InBatch);
        let last = table.view().put(ID);
        supervisor.join().unwrap();
        match last {
            Put::Freed(SLOT) => table.release(SLOT),
            Put::Freed(NEW) => assert_eq!(new_released.fetch_add(1, Ordering::Relaxed), 0),
            other => panic!("{other:?}"),
        }
        assert_eq!(table.slot_released.load(Ordering::Relaxed), 1);
        assert!(new_released.load(Ordering::Relaxed) <= 1);
        assert_eq!(table.view().load(ID).content(), Content::Free);
    });
}

#[test]
fn loom_put_races_with_a_failed_write() {
    loom::model(|| {
        let table = Table::published(BLOB);
        let supervisor = beside(&table, |table| {
            let seen = table.view().load(ID);
            if seen.content() == BLOB && table.view().begin_writeback(ID, seen) {
                if let Some(content) = table.view().abort_writeback(ID) {
                    table.release(content);
                }
            }
        });
        table.put();
        supervisor.join().unwrap();
        table.check_all_is_given_back(0);
    });
}

#[test]
fn loom_put_races_with_share() {
    loom::model(|| {
        let table = Table::published(BLOB);
        table.view().share(ID);
        let other = beside(&table, Table::put);
        table.view().share(ID);
        other.join().unwrap();
        assert_eq!(table.view().load(ID).count(), 2);
        table.put();
        assert_eq!(table.blob_released.load(Ordering::Relaxed), 0);
        table.put();
        table.check_all_is_given_back(0);
    });
}

#[test]
fn loom_last_references_are_put_by_two() {
    loom::model(|| {
        let table = Table::published(BLOB);
        table.view().share(ID);
        let other = beside(&table, Table::put);
        table.put();
        other.join().unwrap();
        table.check_all_is_given_back(0);
    });
}

/// The count of the word is full: one thread's reference moves part of it elsewhere while another puts one.
#[test]
fn loom_more_references_than_the_word_counts_race_with_put() {
    loom::model(|| {
        let table = Table::published(BLOB);
        (1..COUNT_MAX).for_each(|_| table.view().share(ID));
        let other = beside(&table, Table::put);
        table.view().share(ID);
        other.join().unwrap();
        assert_eq!(table.view().references(ID), u64::from(COUNT_MAX));
        (0..COUNT_MAX).for_each(|_| table.put());
        table.check_all_is_given_back(0);
    });
}

/// One reference is left in the word, and one elsewhere when it is to come back: two threads put, and a third looks
/// whether the entry is anybody's alone.
#[test]
fn loom_references_come_back_while_two_are_put() {
    loom::model(|| {
        let table = Table::published(BLOB);
        (0..COUNT_MAX).for_each(|_| table.view().share(ID));
        while table.view().load(ID).count() > 1 {
            table.put();
        }
        let left = table.view().references(ID);
        assert!(left > 2);
        let other = beside(&table, Table::put);
        table.view().note_loaded(ID, LoadKind::Alone);
        table.put();
        assert_eq!(table.view().discard_retained(ID), None, "others refer to it");
        other.join().unwrap();
        assert_eq!(table.view().references(ID), left - 2);
        (2..left).for_each(|_| table.put());
        table.check_all_is_given_back(0);
    });
}

/// Two entries are put together by each of two threads: whoever is the last gives both back, or one each.
#[test]
fn loom_entries_that_are_put_together_are_given_back_once() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let table = Table::published(BLOB);
        table.view().share(ID);
        let put = |table: &Table| table.view().put_each([ID], |content| table.release(content));
        let other = beside(&table, put);
        put(&table);
        other.join().unwrap();
        table.check_all_is_given_back(0);
        assert_eq!(table.view().reserve(), Some(ID), "it is to be had again");
    });
}

#[test]
fn loom_a_copy_is_relied_on_or_discarded() {
    loom::model(|| {
        let table = Table::published(BLOB);
        table.view().note_loaded(ID, LoadKind::Alone);
        let hand = beside(&table, |table| {
            if let Some(content) = table.view().discard_retained(ID) {
                table.release(content);
            }
        });
        let relied = table.view().rely_on(ID);
        hand.join().unwrap();
        let discarded = table.blob_released.load(Ordering::Relaxed) == 1;
        assert!(relied != discarded, "never both");
        assert_eq!(table.view().load(ID).content(), if relied { BLOB } else { Content::Discarded });
    });
}

#[test]
fn loom_a_discarded_copy_is_put_without_content() {
    loom::model(|| {
        let table = Table::published(BLOB);
        table.view().note_loaded(ID, LoadKind::Alone);
        let hand = beside(&table, |table| {
            if let Some(content) = table.view().discard_retained(ID) {
                table.release(content);
            }
        });
        if let Put::Freed(content @ Content::Blob { .. }) = table.view().put(ID) {
            table.release(content);
        }
        hand.join().unwrap();
        table.check_all_is_given_back(0);
    });
}

/// One of two sharers loads while the other goes: the copy may be given up only if the one that loaded is alone.
#[test]
fn loom_note_loaded_races_with_the_other_sharer() {
    loom::model(|| {
        let table = Table::published(BLOB);
        table.view().share(ID);
        let other = beside(&table, Table::put);
        table.view().note_loaded(ID, LoadKind::Alone);
        if table.view().discard_retained(ID).is_some() {
            assert_eq!(table.view().load(ID).count(), 1);
        }
        other.join().unwrap();
        assert_eq!(table.view().load(ID).count(), 1);
    });
}

#[test]
fn loom_a_shared_copy_is_never_retained() {
    loom::model(|| {
        let table = Table::published(BLOB);
        let fork = beside(&table, |table| table.view().share(ID));
        table.view().note_loaded(ID, LoadKind::Alone);
        fork.join().unwrap();
        assert!(!table.view().load(ID).is_retained());
        assert_eq!(table.view().discard_retained(ID), None);
    });
}
