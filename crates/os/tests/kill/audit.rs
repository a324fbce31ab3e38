//! Compares the tables with what the pages, the mailbox and the owners say, while everybody stands still.
//!
//! Must hold: a reference, a cell or a slot of the file that is named is there, and counted. What is counted and not
//! named was leaked by somebody who was killed, at most so much as one process may have in hand (`worker`). Leaked
//! references and slots are given back here, so that the next look counts only what is new.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use uswap_core::clusters::lock::{Contended, SUPERVISOR};
use uswap_core::page_table::ALL_PAGES;
use uswap_core::swap_word::Content;
use uswap_engine::pool::release::put_entry;
use uswap_units::{FileSlot, PAGE_BYTES, SlotId, SwapId};

use super::stage::{GEOMETRY, RUNS, Stage};

/// The number of the supervisor as an owner of slots.
const SUPERVISORS_NUMBER: u64 = u64::MAX;

/// What is counted and not named.
#[derive(Clone, Copy, Default, Debug)]
pub struct Leaks {
    pub references: u64,
    pub slot_users: u64,
    /// Of the whole run: they are not given back.
    pub cells: u64,
}

/// References to each entry, of all pages and of the mailbox.
fn references(stage: &Stage) -> BTreeMap<u32, u32> {
    let mut references = BTreeMap::new();
    for record in stage.segment.mms().in_use() {
        let Some(root) = record.root() else { continue };
        for leaf in stage.segment.page_table(record.id(), root).leaves(ALL_PAGES) {
            for (page, slot) in leaf.word_refs_in(ALL_PAGES) {
                let word = slot.load();
                assert!(!word.is_locked(), "{page:?} of {:?} is locked while all stand still", record.id());
                if let Some(id) = word.swap() {
                    *references.entry(id.number()).or_insert(0) += 1;
                }
            }
        }
    }
    for letter in stage.mailbox {
        let id = letter.load(Ordering::Acquire) as u32;
        if id != 0 {
            *references.entry(id).or_insert(0) += 1;
        }
    }
    references
}

/// All entries against the references to them, and cells and slots against the entries.
pub fn check(stage: &Stage) -> Leaks {
    let (table, slots) = (stage.segment.swap_table(), stage.segment.slots());
    let references = references(stage);
    let (mut used, mut cells) = (0, 0);
    let mut slot_users = vec![0_u64; GEOMETRY.slots as usize];
    let mut leaked = Vec::new();
    for id in (1..table.entry_count()).map(SwapId::new) {
        let (word, named) = (table.load(id), references.get(&id.number()).copied().unwrap_or(0));
        let content = word.content();
        if content == Content::Free {
            assert_eq!(named, 0, "{id:?} is free, and somebody refers to it");
            continue;
        }
        used += 1;
        assert!(content != Content::Reserved, "{id:?} is reserved by a process that is dead: {word:?}");
        assert!(!word.is_writeback(), "{id:?} is written while all stand still: {word:?}");
        assert!(word.count() >= named, "{named} refer to {id:?}: {word:?}");
        leaked.extend((named..word.count()).map(|_| id));
        match content {
            Content::Blob { .. } => cells += 1,
            Content::Slot { offset, length } => {
                let slots = SlotId::each(offset.slots(u64::from(length)));
                slots.for_each(|slot| slot_users[slot.number() as usize] += 1);
            }
            _ => (),
        }
    }
    assert_eq!(table.used_count(), used, "the clusters count the words that are not 0");
    let mut leaks = Leaks { references: leaked.len() as u64, ..Leaks::default() };

    let used_cells = stage.segment.pool().used_cells();
    assert!(used_cells >= cells, "{cells} cells are named, {used_cells} are used");
    leaks.cells = used_cells - cells;

    let mut used_slots = 0;
    for (slot, named) in (0..).map(SlotId::new).zip(slot_users) {
        let users = u64::from(slots.count(slot));
        assert!(users >= named, "{slot:?} of the file has {named} blobs and counts {users}");
        leaks.slot_users += users - named;
        used_slots += u64::from(users > 0);
    }
    assert_eq!(slots.used(), used_slots, "the clusters count the slots of the file that are used");
    give_back(stage, &leaked);
    leaks
}

/// Puts leaked references, and with them slots of the file; then those that no blob names.
fn give_back(stage: &Stage, leaked: &[SwapId]) {
    leaked.iter().for_each(|&id| put_entry(stage.segment, stage, id));
    let (table, slots) = (stage.segment.swap_table(), stage.segment.slots());
    let mut named = vec![0_u64; GEOMETRY.slots as usize];
    for id in (1..table.entry_count()).map(SwapId::new) {
        if let Content::Slot { offset, length } = table.load(id).content() {
            let slots = SlotId::each(offset.slots(u64::from(length)));
            slots.for_each(|slot| named[slot.number() as usize] += 1);
        }
    }
    for (slot, named) in (0..).map(SlotId::new).zip(named) {
        (named..u64::from(slots.count(slot)))
            .for_each(|_| slots.remove_blob(slot.start(), PAGE_BYTES as u64));
    }
}

/// All that is free can be had, and not more: no cluster is lost to the lists. Returns how much is free in the space
/// that has least.
pub fn check_room(stage: &Stage, contended: Contended) -> u64 {
    let table = stage.segment.swap_table();
    let free_entries = u64::from(GEOMETRY.entries) - 1 - table.used_count();
    let ids: Vec<SwapId> = std::iter::from_fn(|| table.reserve()).collect();
    assert_eq!(ids.len() as u64, free_entries, "entries that are free are to be had");
    ids.into_iter().for_each(|id| table.cancel(id));

    let slots = stage.segment.slots();
    let free_slots = slots.capacity() - slots.used();
    let singles: Vec<_> = slots
        .files()
        .all()
        .flat_map(|file| std::iter::from_fn(move || slots.take_run(&file, 1, 1)))
        .collect();
    assert_eq!(singles.len() as u64, free_slots, "slots of the file that are free are to be had");
    singles.into_iter().for_each(|run| slots.end_run(run));

    let (runs, owners) =
        (stage.runs(SUPERVISOR, SUPERVISORS_NUMBER, contended), stage.owners(SUPERVISORS_NUMBER));
    assert_eq!(runs.used(), owners.used(), "the clusters count the slots that have an owner");
    let free_runs = u64::from(RUNS.count - RUNS.skipped) - owners.used();
    let singles: Vec<FileSlot> = std::iter::from_fn(|| runs.allocate(0)).collect();
    assert_eq!(singles.len() as u64, free_runs, "slots that are free are to be had");
    for slot in singles {
        owners.release(slot);
        runs.free(slot, 1);
    }
    free_entries.min(free_slots).min(free_runs)
}

/// A process with this number is dead, and its locks are broken: its runs are given back.
pub fn free_runs_of(stage: &Stage, number: u64, contended: Contended) {
    let owners = stage.owners(number);
    let slots = (RUNS.skipped..RUNS.count).map(FileSlot::new);
    slots.filter(|&slot| owners.of(slot) == number).for_each(|slot| owners.release(slot));
    let _others_free_some_just_now = stage.runs(SUPERVISOR, SUPERVISORS_NUMBER, contended).audit();
}
