//! What must be true of the shared tables: some of it at any moment, the rest when everything rests.

use crate::memory::MappedPage;
use crate::process::{Phase, Process};
use crate::processes::Processes;
use crate::world::World;
use std::collections::{BTreeMap, BTreeSet};
use uswap_core::counters::Counter;
use uswap_core::page_table::ALL_PAGES;
use uswap_core::page_word::{PageWord, Place};
use uswap_core::swap_word::Content;
use uswap_units::limits::READ_ATTEMPTS_MAX;
use uswap_units::{MmId, PageId, SlotId, SwapId};

/// What one killed process may leak of each kind: what one task had reserved, times its tasks.
const LEAKS_PER_END_MAX: u64 = 8;

/// What may have leaked after so many ends. Hardly any end leaks something: in a run of hours one in fifty may, or
/// nothing would be told.
fn leaks_max(processes: &Processes<'_>) -> u64 {
    let ends = processes.not_alive().len() as u64;
    match processes.world.options.soak {
        Some(_) => LEAKS_PER_END_MAX + ends / 50,
        None => LEAKS_PER_END_MAX * ends,
    }
}

/// The words of a process that are not 0.
fn words(world: &World<'_>, mm: MmId) -> Vec<(PageId, PageWord)> {
    let Some(root) = world.segment.mms().record(mm).root() else { return Vec::new() };
    let leaves = world.segment.page_table(mm, root).leaves(ALL_PAGES);
    leaves
        .flat_map(|leaf| {
            leaf.word_refs_in(ALL_PAGES).map(|(page, slot)| (page, slot.load())).collect::<Vec<_>>()
        })
        .filter(|(_, word)| word.raw() != 0)
        .collect()
}

/// What holds at any moment: an unlocked word tells the truth, and what the kernel would send to us has a word.
pub fn at_any_moment(processes: &Processes<'_>) {
    let world = &processes.world;
    for process in processes.alive() {
        let Some(mm) = process.mm.get() else { continue };
        if process.phase.get() != Phase::Active || !process.kernel.gate_is_free() {
            continue;
        }
        let words = words(world, mm);
        words_tell_the_truth(world, &process, &words);
        let managed: BTreeSet<PageId> =
            words.iter().filter(|(_, word)| word.is_managed()).map(|(page, _)| *page).collect();
        let memory = process.kernel.memory.borrow();
        let is_nobodys =
            |(page, mapped): &(PageId, &MappedPage)| mapped.registered && !managed.contains(page);
        if let Some((page, _)) = memory.in_range(ALL_PAGES).find(is_nobodys) {
            world.fail(format!("process {}, {page:?} is registered and has no word", process.number));
        }
    }
}

fn words_tell_the_truth(world: &World<'_>, process: &Process<'_>, words: &[(PageId, PageWord)]) {
    let memory = process.kernel.memory.borrow();
    for &(page, word) in words.iter().filter(|(_, word)| !word.is_locked()) {
        let wrong = match memory.pages.get(&page.number()) {
            None => Some("is not mapped"),
            Some(mapped) if !mapped.registered => Some("is not registered"),
            Some(mapped) => what_is_wrong(world, mapped, word),
        };
        if let Some(wrong) = wrong {
            world.fail(format!("process {}, {page:?}, {word:?}: the page {wrong}", process.number));
        }
    }
}

fn what_is_wrong(world: &World<'_>, mapped: &MappedPage, word: PageWord) -> Option<&'static str> {
    let table = world.segment.swap_table();
    if mapped.protected && !word.is_protected() {
        return Some("is protected, and nobody knows");
    }
    match (word.place(), &mapped.content) {
        (Place::Fresh, Some(_)) if word.is_hole() => Some("is there"),
        (Place::Present, None) => Some("is missing"),
        (Place::Present, Some(_))
            if !mapped.protected && (word.is_clean() || word.isolated_by().is_some()) =>
        {
            Some("may be written, and nobody will know")
        }
        (Place::Present, Some(_)) if word.is_zero_page() && !mapped.is_zero_page => {
            Some("is the program's own, and taken for the page of zeros")
        }
        (Place::Present, Some(content)) => {
            let copy = word.swap().filter(|_| word.is_clean())?;
            match table.load(copy).content() {
                Content::Free | Content::Reserved => Some("names a copy that is not there"),
                Content::Discarded | Content::Lost => None,
                Content::Same(value) => {
                    let is_same = uswap_codec::same_filled(content) == Some(value);
                    (!is_same).then_some("has another copy")
                }
                _ => {
                    let is_same = table.hash(copy) == uswap_codec::hash(content).0;
                    (!is_same).then_some("has another copy")
                }
            }
        }
        (Place::Swapped, Some(_)) => Some("is present too"),
        (Place::Swapped, None) => {
            let entry = table.load(word.swap().expect("a swapped page names its entry"));
            let lost = matches!(entry.content(), Content::Free | Content::Reserved | Content::Discarded);
            (lost || entry.count() == 0).then_some("names an entry without content")
        }
        _ => None,
    }
}

/// What holds when all tasks have ended.
pub fn at_rest(processes: &Processes<'_>) {
    let world = &processes.world;
    at_any_moment(processes);
    let leaks_max = leaks_max(processes);
    let mut references: BTreeMap<SwapId, u32> = BTreeMap::new();
    for record in world.segment.mms().in_use() {
        for (page, word) in words(world, record.id()) {
            if word.is_locked() || word.isolated_by().is_some() {
                world.fail(format!("{:?} {page:?} stays locked or isolated: {word:?}", record.id()));
            }
            if let Some(swap) = word.swap() {
                *references.entry(swap).or_default() += 1;
            }
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
    for id in (1..table.entry_count()).map(SwapId::new) {
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
                let slots = SlotId::each(offset.slots(u64::from(length)));
                slots.for_each(|slot| users[slot.number() as usize] += 1);
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
    for (slot, &users) in (0..).map(SlotId::new).zip(&users) {
        let count = u32::from(slots.count(slot));
        if count != users {
            world.fail(format!("{slot:?} counts {count} blobs and has {users}"));
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
pub fn at_the_end(processes: &Processes<'_>) {
    let world = &processes.world;
    let leaks_max = leaks_max(processes);
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
