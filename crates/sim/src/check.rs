//! What must be true of the shared tables: some of it at any moment, the rest when everything rests.

use crate::process::Process;
use crate::world::World;
use std::collections::{BTreeMap, BTreeSet};
use uswap_core::counters::Counter;
use uswap_core::jobs::JobState;
use uswap_core::page_table::PAGES_MAX;
use uswap_core::page_word::{PageWord, Place};
use uswap_core::swap_word::Content;
use uswap_units::limits::READ_ATTEMPTS_MAX;
use uswap_units::{MmId, PAGE_BYTES, PageId, PageRange, SwapId};

const EVERYTHING: PageRange = PageRange { start: PageId(0), end: PageId(PAGES_MAX) };
/// What one killed process may leak of each kind: what one task had reserved, times its tasks.
const LEAKS_PER_END_MAX: u64 = 8;

/// What may have leaked after so many ends. Hardly any end leaks something: in a run of hours one in fifty may, or
/// nothing would be told.
fn leaks_max(world: &World<'_>, ends: u64) -> u64 {
    match world.options.soak {
        Some(_) => LEAKS_PER_END_MAX + ends / 50,
        None => LEAKS_PER_END_MAX * ends,
    }
}

/// The words of a process that are not 0.
fn words(world: &World<'_>, mm: MmId) -> Vec<(PageId, PageWord)> {
    let Some(root) = world.segment.mms().record(mm).root() else { return Vec::new() };
    let leaves = world.segment.page_table(mm, root).leaves(EVERYTHING);
    leaves
        .flat_map(|leaf| {
            leaf.slots_in(EVERYTHING).map(|(page, slot)| (page, slot.load())).collect::<Vec<_>>()
        })
        .filter(|(_, word)| word.raw() != 0)
        .collect()
}

/// What holds at any moment: an unlocked word tells the truth.
pub fn at_any_moment(world: &World<'_>) {
    for process in world.alive() {
        let engine = process.engine.borrow().clone();
        let is_settled = engine.is_some_and(|engine| !engine.is_in_the_middle_of_an_event());
        if is_settled && process.gate_is_free() {
            words_tell_the_truth(world, &process);
        }
    }
}

fn words_tell_the_truth(world: &World<'_>, process: &Process<'_>) {
    let Some(mm) = process.mm.get() else { return };
    let memory = process.memory.borrow();
    let mut frames = BTreeSet::new();
    for (page, word) in words(world, mm).into_iter().filter(|(_, word)| !word.is_locked()) {
        let wrong = match word.place() {
            Place::Fresh | Place::Present => None,
            Place::Staged(frame) if !frames.insert(frame) => Some("two words name one frame"),
            Place::Staged(frame) if memory.frames[frame.0 as usize].content.is_none() => {
                Some("its frame is empty")
            }
            Place::Staged(_) => None,
            Place::Swapped => {
                let entry =
                    world.segment.swap_table().load(word.swap().expect("a swapped page names its entry"));
                let lost = matches!(entry.content(), Content::Free | Content::Reserved | Content::Discarded);
                (lost || entry.count() == 0).then_some("its swap entry has no content")
            }
        };
        if let Some(wrong) = wrong {
            world.fail(format!("process {}, {page:?}, {word:?}: {wrong}", process.number));
        }
        let away = matches!(word.place(), Place::Staged(_) | Place::Swapped) || word.is_hole();
        let mapped = memory.pages.get(&page.0);
        if away
            && memory.changing == 0
            && mapped.is_none_or(|mapped| mapped.content.is_some() || !mapped.registered)
        {
            let what = match mapped {
                None => "is not mapped",
                Some(mapped) if mapped.content.is_some() => "is present too",
                Some(_) => "is not registered",
            };
            world.fail(format!("process {}, {page:?}, {word:?}: the page {what}", process.number));
        }
    }
}

/// What holds when all engine tasks have ended.
pub fn at_rest(world: &World<'_>) {
    at_any_moment(world);
    let ends = world.processes.borrow().iter().filter(|process| !process.alive.get()).count() as u64;
    let leaks_max = leaks_max(world, ends);
    let mut references: BTreeMap<SwapId, u32> = BTreeMap::new();
    for record in world.segment.mms().in_use() {
        for (page, word) in words(world, record.id()) {
            if word.is_locked() {
                world.fail(format!("{:?} {page:?} stays locked: {word:?}", record.id()));
            }
            if let Some(swap) = word.swap() {
                *references.entry(swap).or_default() += 1;
            }
        }
    }
    for job in world.segment.store_jobs().all().filter(|job| job.word().state() == JobState::Done) {
        for stored in (0..job.head().frames).filter_map(|index| job.frame(index).stored) {
            *references.entry(stored).or_default() += 1;
        }
    }
    let leaks = check_entries(world, &references, leaks_max);
    world.count("entries leaked by killed processes", leaks);
    check_lost(world);
}

fn check_entries(world: &World<'_>, references: &BTreeMap<SwapId, u32>, leaks_max: u64) -> u64 {
    let (table, slots) = (world.segment.swap_table(), world.segment.slots());
    let (mut used, mut blobs, mut leaks) = (0, BTreeSet::new(), 0);
    let mut users = vec![0_u32; world.options.geometry.slots as usize];
    for id in (1..table.entry_count()).map(SwapId) {
        let word = table.load(id);
        let named = references.get(&id).copied().unwrap_or(0);
        if word.content() != Content::Free {
            used += 1;
        }
        if named > word.count() || word.is_writeback() {
            world.fail(format!("{id:?} {word:?} is named by {named} pages"));
        }
        leaks += u64::from(word.count() - named.min(word.count()))
            + u64::from(word.content() == Content::Reserved);
        match word.content() {
            Content::Blob { blob, .. } if !blobs.insert(blob) => {
                world.fail(format!("{blob:?} is named twice"))
            }
            Content::Slot { offset, length } => {
                let page = PAGE_BYTES as u64;
                (offset / page..(offset + u64::from(length)).div_ceil(page))
                    .for_each(|slot| users[slot as usize] += 1);
            }
            _ => (),
        }
    }
    if leaks > leaks_max {
        world.fail(format!("{leaks} references to swap entries leaked; {leaks_max} allowed"));
    }
    let exact = |what: &str, is: u64, should: u64| {
        if is < should || is - should > leaks_max {
            world.fail(format!("{what}: {is} in use, {should} named, {leaks_max} leaks allowed"));
        }
    };
    exact("swap entries", table.used_count(), used);
    exact("cells of the pool", world.segment.pool().used_cells(), blobs.len() as u64);
    for (slot, &users) in users.iter().enumerate() {
        if u32::from(slots.count(slot as u64)) != users {
            world.fail(format!("slot {slot} counts {} blobs and has {users}", slots.count(slot as u64)));
        }
    }
    leaks
}

/// A page may be lost only after the disk gave something wrong as often as a read is tried.
fn check_lost(world: &World<'_>) {
    let lost = world.segment.counters().get(Counter::LostPages);
    let bad_reads: u64 = world.disks.borrow().iter().map(|disk| disk.bad_reads).sum();
    if lost * u64::from(READ_ATTEMPTS_MAX) > bad_reads {
        world.fail(format!("DATA LOSS: {lost} pages were given up after {bad_reads} bad reads"));
    }
}

/// After every record was dropped nothing may be in use, but for what killed processes leaked.
pub fn at_the_end(world: &World<'_>) {
    let ends = world
        .processes
        .borrow()
        .iter()
        .filter(|process| process.threads_running.get() == 0 && !process.alive.get())
        .count() as u64;
    let leaks_max = leaks_max(world, ends);
    let segment = world.segment;
    let checks = [
        ("swap entries", segment.swap_table().used_count()),
        ("cells of the pool", segment.pool().used_cells()),
        ("slots of the file", segment.slots().used()),
        ("pages of page tables", segment.tables().used_count() as u64),
    ];
    let records = segment.mms().in_use().count();
    if records > 0 {
        world.fail(format!("{records} records in use after the last process"));
    }
    for (what, used) in checks {
        if used > leaks_max {
            world.fail(format!("{used} {what} in use after the last process; {leaks_max} leaks allowed"));
        }
    }
}
