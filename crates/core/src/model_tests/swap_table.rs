//! The swap table against a map from entry to what it should hold.

use super::{SMALL, with_segment};
use crate::mm::RecordHolder;
use crate::segment::Segment;
use crate::swap_table::{LoadKind, Put, SwapTable, WritebackEnd};
use crate::swap_word::Content;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::vec;
use std::vec::Vec;
use uswap_sync::Ordering;
use uswap_units::{BlobId, ClusterId, MmId, SlotId, SwapId};

const MMS: usize = 3;

#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Reserve { mm: usize, count: usize },
    Store { order: u32, kind: u8 },
    ReserveAndCancel { order: u32 },
    Publish { pick: usize, kind: u8 },
    Cancel { pick: usize },
    Share { pick: usize, count: usize },
    Put { pick: usize },
    PutMany { count: usize },
    PutEach { pick: usize, count: usize },
    NoteLoaded { pick: usize },
    RelyOn { pick: usize },
    Discard { pick: usize },
    ClearReferenced { pick: usize },
    BeginWriteback { pick: usize },
    FinishWriteback { pick: usize },
    AbortWriteback { pick: usize },
    MoveSlot { pick: usize },
    Lose { pick: usize },
    Reap { mm: usize },
}

pub(super) fn operation() -> impl Strategy<Value = Op> {
    let pick = 0..4096_usize;
    prop_oneof![
        3 => (0..MMS, 1..8_usize).prop_map(|(mm, count)| Op::Reserve { mm, count }),
        1 => (0..MMS, 1..600_usize).prop_map(|(mm, count)| Op::Reserve { mm, count }),
        2 => (0..=7_u32, 0..4_u8).prop_map(|(order, kind)| Op::Store { order, kind }),
        1 => (0..=9_u32).prop_map(|order| Op::ReserveAndCancel { order }),
        8 => (pick.clone(), 0..4_u8).prop_map(|(pick, kind)| Op::Publish { pick, kind }),
        1 => pick.clone().prop_map(|pick| Op::Cancel { pick }),
        3 => pick.clone().prop_map(|pick| Op::Share { pick, count: 1 }),
        1 => (pick.clone(), 1..40_usize).prop_map(|(pick, count)| Op::Share { pick, count }),
        5 => pick.clone().prop_map(|pick| Op::Put { pick }),
        1 => (1..400_usize).prop_map(|count| Op::PutMany { count }),
        2 => (pick.clone(), 1..100_usize).prop_map(|(pick, count)| Op::PutEach { pick, count }),
        4 => pick.clone().prop_map(|pick| Op::NoteLoaded { pick }),
        2 => pick.clone().prop_map(|pick| Op::RelyOn { pick }),
        3 => pick.clone().prop_map(|pick| Op::Discard { pick }),
        1 => pick.clone().prop_map(|pick| Op::ClearReferenced { pick }),
        4 => pick.clone().prop_map(|pick| Op::BeginWriteback { pick }),
        3 => pick.clone().prop_map(|pick| Op::FinishWriteback { pick }),
        1 => pick.clone().prop_map(|pick| Op::AbortWriteback { pick }),
        2 => pick.clone().prop_map(|pick| Op::MoveSlot { pick }),
        1 => pick.prop_map(|pick| Op::Lose { pick }),
        1 => (0..MMS).prop_map(|mm| Op::Reap { mm }),
    ]
}

#[derive(Clone, Debug)]
struct Entry {
    content: Content,
    count: u32,
    writeback: bool,
    retained: bool,
    referenced: bool,
    hash: u128,
    /// Reserved by this process, which lives.
    reserver: Option<usize>,
}

struct Model<'a> {
    segment: Segment<'a>,
    table: SwapTable<'a>,
    entries: BTreeMap<u32, Entry>,
    /// Cells and slots that some entry names.
    held: BTreeSet<(bool, u64)>,
    next_name: u32,
}

fn key(content: Content) -> Option<(bool, u64)> {
    match content {
        Content::Blob { blob, .. } => Some((false, u64::from(blob.number()))),
        Content::Slot { offset, .. } => Some((true, offset.bytes())),
        _ => None,
    }
}

impl Model<'_> {
    fn pick(&self, pick: usize, fits: impl Fn(&Entry) -> bool) -> Option<SwapId> {
        let ids: Vec<u32> = self.entries.iter().filter(|(_, entry)| fits(entry)).map(|(&id, _)| id).collect();
        (!ids.is_empty()).then(|| SwapId::new(ids[pick % ids.len()]))
    }

    fn entry(&mut self, id: SwapId) -> &mut Entry {
        self.entries.get_mut(&id.number()).expect("picked from the model")
    }

    fn name(&mut self, slot: bool) -> Content {
        self.next_name += 1;
        let content = if slot {
            Content::Slot { offset: SlotId::new(u64::from(self.next_name)).start(), length: 1024 }
        } else {
            Content::Blob { blob: BlobId::new(self.next_name), length: 1 + self.next_name % 4096 }
        };
        self.held.insert(key(content).expect("named"));
        content
    }

    fn release(&mut self, content: Content) {
        if let Some(key) = key(content) {
            assert!(self.held.remove(&key), "released twice: {content:?}");
        }
    }

    fn reserve(&mut self, mm: usize) {
        match self.segment.acting_as(MmId::new(mm as u16)).swap_table().reserve() {
            Some(id) => {
                assert!(id.number() != 0);
                assert!(id.number() < self.table.entry_count());
                let fresh = Entry {
                    content: Content::Reserved,
                    count: 0,
                    writeback: false,
                    retained: false,
                    referenced: false,
                    hash: 0,
                    reserver: Some(mm),
                };
                assert!(self.entries.insert(id.number(), fresh).is_none(), "{id:?} is owned twice");
            }
            None => {
                let free = self.table.entry_count() as usize - 1 - self.entries.len();
                assert_eq!(free, 0, "there is room");
            }
        }
    }

    fn content(&mut self, kind: u8, pick: usize) -> Content {
        match kind {
            0 => Content::Same(pick as u32 ^ 0xDEAD_BEEF),
            1 => self.name(true),
            _ => self.name(false),
        }
    }

    /// A run, in one go.
    fn store(&mut self, order: u32, kind: u8) {
        let Some(first) = self.table.reserve_run(order) else {
            return assert!(order > 0 || self.entries.len() == self.table.entry_count() as usize - 1);
        };
        assert!(first.number().is_multiple_of(1 << order));
        let ids = first.number()..first.number() + (1 << order);
        let contents: Vec<Content> = ids.clone().map(|id| self.content(kind, id as usize)).collect();
        for (id, &content) in ids.zip(&contents) {
            let hash = u128::from(id) << 71;
            self.table.set_hash(SwapId::new(id), hash);
            let (writeback, retained, reserver) = (false, false, None);
            let entry = Entry { content, count: 1, writeback, retained, referenced: true, hash, reserver };
            assert!(self.entries.insert(id, entry).is_none(), "{id} is owned twice");
        }
        self.table.publish_run(first, contents);
    }

    /// Entries that are put together, each once.
    fn put_each(&mut self, pick: usize, count: usize) {
        let referred =
            self.entries.iter().filter(|(_, entry)| entry.count > 0).map(|(&id, _)| SwapId::new(id));
        let referred: Vec<SwapId> = referred.collect();
        let start = pick % referred.len().max(1);
        let ids = &referred[start..(start + count).min(referred.len())];
        let mut released = Vec::new();
        self.table.put_each(ids.iter().copied(), |content| released.push(content));
        let mut expected = Vec::new();
        for &id in ids {
            let entry = self.entry(id);
            entry.count -= 1;
            if entry.count == 0 && !entry.writeback {
                expected.push(entry.content);
                self.entries.remove(&id.number());
            }
        }
        assert_eq!(released, expected);
        released.into_iter().for_each(|content| self.release(content));
    }

    fn put(&mut self, id: SwapId) {
        let entry = self.entry(id).clone();
        match self.table.put(id) {
            Put::StillShared => {
                assert!(entry.count > 1);
                self.entry(id).count -= 1;
            }
            Put::Deferred => {
                assert!(entry.count == 1);
                assert!(entry.writeback);
                self.entry(id).count = 0;
            }
            Put::Freed(content) => {
                assert!(entry.count == 1);
                assert!(!entry.writeback);
                assert_eq!(content, entry.content);
                self.release(content);
                self.entries.remove(&id.number());
            }
        }
    }

    fn apply(&mut self, op: Op) {
        let referred = |entry: &Entry| entry.count > 0;
        let table = self.table;
        match op {
            Op::Reserve { mm, count } => (0..count).for_each(|_| self.reserve(mm)),
            Op::Store { order, kind } => self.store(order, kind),
            Op::ReserveAndCancel { order } => {
                if let Some(first) = table.reserve_run(order) {
                    table.cancel_run(first, 1 << order);
                }
            }
            Op::Publish { pick, kind } => {
                let Some(id) = self.pick(pick, |entry| entry.reserver.is_some()) else { return };
                let content = self.content(kind, pick);
                let hash = u128::from(id.number()) << 70 | pick as u128;
                table.set_hash(id, hash);
                table.publish(id, content);
                let entry = self.entry(id);
                (entry.content, entry.count, entry.referenced, entry.hash) = (content, 1, true, hash);
                entry.reserver = None;
            }
            Op::Cancel { pick } => {
                let Some(id) = self.pick(pick, |entry| entry.reserver.is_some()) else { return };
                table.cancel(id);
                self.entries.remove(&id.number());
            }
            Op::Share { pick, count } => {
                let Some(id) = self.pick(pick, referred) else { return };
                (0..count).for_each(|_| table.share(id));
                let entry = self.entry(id);
                (entry.count, entry.retained) = (entry.count + count as u32, false);
            }
            Op::Put { pick } => {
                let Some(id) = self.pick(pick, referred) else { return };
                self.put(id);
            }
            Op::PutMany { count } => {
                for pick in 0..count {
                    let Some(id) = self.pick(pick, referred) else { return };
                    self.put(id);
                }
            }
            Op::PutEach { pick, count } => self.put_each(pick, count),
            Op::NoteLoaded { pick } => {
                let Some(id) = self.pick(pick, referred) else { return };
                let came = if pick % 2 == 0 { LoadKind::Alone } else { LoadKind::InBatch };
                table.note_loaded(id, came);
                let entry = self.entry(id);
                let in_file = matches!(entry.content, Content::Slot { .. });
                (entry.referenced, entry.retained) = (came == LoadKind::Alone || !in_file, entry.count == 1);
            }
            Op::RelyOn { pick } => {
                let Some(id) = self.pick(pick, referred) else { return };
                let entry = self.entry(id);
                let there = !matches!(entry.content, Content::Discarded | Content::Lost);
                if there {
                    let in_file = matches!(entry.content, Content::Slot { .. });
                    (entry.referenced, entry.retained) = (entry.referenced || !in_file, false);
                }
                assert_eq!(table.rely_on(id), there);
            }
            Op::Discard { pick } => {
                // Any entry may be tried: the clock hand does not know what it will find.
                let Some(id) = self.pick(pick, |_| true) else { return };
                let entry = self.entry(id).clone();
                let may =
                    entry.retained && !entry.writeback && entry.count == 1 && key(entry.content).is_some();
                assert_eq!(table.discard_retained(id), may.then_some(entry.content));
                if may {
                    self.release(entry.content);
                    let entry = self.entry(id);
                    (entry.content, entry.retained, entry.referenced) = (Content::Discarded, false, false);
                }
            }
            Op::ClearReferenced { pick } => {
                let Some(id) = self.pick(pick, referred) else { return };
                let entry = self.entry(id);
                let was = core::mem::replace(&mut entry.referenced, false);
                assert_eq!(table.clear_referenced(id), was);
            }
            Op::BeginWriteback { pick } => {
                let blob = |entry: &Entry| matches!(entry.content, Content::Blob { .. }) && !entry.writeback;
                let Some(id) = self.pick(pick, |entry| blob(entry) && entry.count > 0) else { return };
                let seen = table.load(id);
                if pick % 5 == 0 && table.clear_referenced(id) {
                    self.entry(id).referenced = false;
                    assert!(!table.begin_writeback(id, seen), "the word has changed");
                } else {
                    assert!(table.begin_writeback(id, seen));
                    self.entry(id).writeback = true;
                }
            }
            Op::FinishWriteback { pick } => {
                let Some(id) = self.pick(pick, |entry| entry.writeback) else { return };
                let slot = self.name(true);
                let entry = self.entry(id).clone();
                let end = table.finish_writeback(id, slot);
                self.release(entry.content);
                if entry.count == 0 {
                    assert_eq!(end, WritebackEnd::Orphaned);
                    self.release(slot);
                    self.entries.remove(&id.number());
                } else {
                    assert_eq!(end, WritebackEnd::Moved);
                    let entry = self.entry(id);
                    (entry.content, entry.writeback) = (slot, false);
                }
            }
            Op::AbortWriteback { pick } => {
                let Some(id) = self.pick(pick, |entry| entry.writeback) else { return };
                let entry = self.entry(id).clone();
                let orphan = table.abort_writeback(id);
                assert_eq!(orphan, (entry.count == 0).then_some(entry.content));
                if entry.count == 0 {
                    self.release(entry.content);
                    self.entries.remove(&id.number());
                } else {
                    let entry = self.entry(id);
                    (entry.writeback, entry.referenced) = (false, true);
                }
            }
            Op::MoveSlot { pick } => {
                let slot = |entry: &Entry| matches!(entry.content, Content::Slot { .. });
                let Some(id) = self.pick(pick, slot) else { return };
                let (old, new) = (self.entry(id).content, self.name(true));
                assert!(!table.move_slot(id, new, old), "it does not name that place");
                assert!(table.move_slot(id, old, new));
                self.release(old);
                self.entry(id).content = new;
            }
            Op::Lose { pick } => {
                let slot = |entry: &Entry| matches!(entry.content, Content::Slot { .. });
                let Some(id) = self.pick(pick, |entry| slot(entry) && entry.count > 0) else { return };
                let entry = self.entry(id).clone();
                assert_eq!(table.lose(id, table.load(id)), Some(entry.content));
                self.release(entry.content);
                let entry = self.entry(id);
                (entry.content, entry.retained) = (Content::Lost, false);
            }
            Op::Reap { mm } => {
                table.break_locks(MmId::new(mm as u16));
                table.reap(MmId::new(mm as u16));
                self.entries.retain(|_, entry| entry.reserver != Some(mm));
            }
        }
    }

    fn check(&self) {
        assert_eq!(self.table.used_count(), self.entries.len() as u64);
        for id in 0..self.table.entry_count() {
            let word = self.table.load(SwapId::new(id));
            let Some(entry) = self.entries.get(&id) else {
                assert_eq!(word.0, 0, "{id} is free");
                continue;
            };
            let flags = (word.is_writeback(), word.is_retained(), word.is_referenced());
            assert_eq!(word.content(), entry.content);
            assert_eq!(flags, (entry.writeback, entry.retained, entry.referenced));
            assert_eq!(self.table.references(SwapId::new(id)), u64::from(entry.count));
            // Whoever is not alone is never taken for it.
            assert_eq!(word.is_alone(), entry.count == 1);
            if entry.count > 0 {
                assert_eq!(self.table.hash(SwapId::new(id)), entry.hash);
            }
        }
        let named = self.entries.values().filter_map(|entry| key(entry.content)).collect::<BTreeSet<_>>();
        assert_eq!(named, self.held, "each cell and slot is named by one entry");
    }
}

/// Each step of a list against the model.
pub(super) fn run(ops: Vec<Op>) {
    with_segment(SMALL, |segment| {
        let (table, entries, held) = (segment.swap_table(), BTreeMap::new(), BTreeSet::new());
        let mut model = Model { segment, table, entries, held, next_name: 0 };
        for op in ops {
            model.apply(op);
            model.check();
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 128, ..ProptestConfig::default() })]
    #[test]
    fn entries_hold_what_the_model_holds(ops in prop::collection::vec(operation(), 1..120)) {
        run(ops);
    }
}

#[test]
fn a_full_table_says_so_and_recovers() {
    with_segment(SMALL, |segment| {
        let table = segment.swap_table();
        let ids: BTreeSet<u32> = core::iter::from_fn(|| table.reserve()).map(|id| id.number()).collect();
        assert_eq!(ids, (1..SMALL.entries).collect());
        assert_eq!(segment.acting_as(MmId::new(2)).swap_table().reserve(), None);
        for id in [511, 512, 1] {
            table.cancel(SwapId::new(id));
            assert_eq!(table.reserve(), Some(SwapId::new(id)));
            assert_eq!(table.reserve(), None);
        }
    });
}

#[test]
fn reaping_spares_what_others_reserved_in_the_same_cluster() {
    with_segment(SMALL, |segment| {
        let table = segment.swap_table();
        let table_of_1 = segment.acting_as(MmId::new(1)).swap_table();
        let ids: Vec<SwapId> = (0..1023).map(|_| table_of_1.reserve().expect("room")).collect();
        assert_eq!(table.reserve(), None);
        let freed = ids[7];
        table.cancel(freed);
        assert_eq!(segment.acting_as(MmId::new(2)).swap_table().reserve(), Some(freed));
        table.reap(MmId::new(2));
        assert_eq!(table.load(freed).content(), Content::Free);
        assert_eq!(table.used_count(), 1022);
        assert!(
            ids.iter().filter(|&&id| id != freed).all(|&id| table.load(id).content() == Content::Reserved)
        );
    });
}

/// Whoever died when it had counted in one word and not yet in the other: what it left there is not counted for the
/// next owner of the entry.
#[test]
fn references_that_somebody_left_in_the_other_word_are_not_counted() {
    with_segment(SMALL, |segment| {
        let table = segment.swap_table();
        let id = table.reserve().expect("room");
        table.publish(id, Content::Same(7));
        table.more[id.index()].store(1000, Ordering::Relaxed);
        (0..50).for_each(|_| table.share(id));
        assert_eq!(table.references(id), 51);
        (0..50).for_each(|_| assert_eq!(table.put(id), Put::StillShared));
        assert_eq!(table.put(id), Put::Freed(Content::Same(7)));
    });
}

#[test]
fn the_record_of_a_process_says_what_it_has_not_ended() {
    with_segment(SMALL, |segment| {
        let record = segment.mms().take(RecordHolder::Run).expect("room");
        let table = segment.acting_as(record.id()).swap_table();
        let id = table.reserve().expect("room");
        assert!(record.is_in_the_middle());
        table.publish(id, Content::Same(7));
        assert!(!record.is_in_the_middle());
        assert_eq!(table.put(id), Put::Freed(Content::Same(7)));
        assert!(!record.is_in_the_middle());
        let id = table.reserve().expect("room");
        table.cancel(id);
        assert!(!record.is_in_the_middle());
    });
}

#[test]
fn memory_of_an_empty_cluster_is_given_back_once() {
    with_segment(SMALL, |segment| {
        let table = segment.swap_table();
        let ids: Vec<SwapId> = (0..600).map(|_| table.reserve().expect("room")).collect();
        assert_eq!(table.take_to_trim(), None);
        ids.iter().filter(|id| id.number() < 512).for_each(|&id| table.cancel(id));
        assert_eq!(table.take_to_trim(), Some(ClusterId::FIRST));
        assert_eq!(table.take_to_trim(), None);
        // Nobody gets an entry of it meanwhile.
        assert!((0..1024 - 601).all(|_| table.reserve().is_none_or(|id| id.number() >= 512)));
        table.trimmed(ClusterId::FIRST);
        assert_eq!(table.reserve(), Some(SwapId::new(1)));
    });
}
