//! Threads, kernel calls, mapping calls and evictors over simulated memory, in every order that a seed finds, against
//! an oracle.

mod asked;
mod behind;
mod copies;
mod held;
mod machine;
mod memory_map;
mod refused;
mod tasks;
mod turns;
mod zeros;

use core::cell::Cell;
use machine::{MAPPED, Machine, PAGES};
use std::boxed::Box;
use std::vec::Vec;
use tasks::Mix;
use uswap_core::page_word::Afterwards;
use uswap_core::segment::{Geometry, Segment};
use uswap_sync::AtomicU64;
use uswap_units::{Bytes, PageRange};

use crate::evict::Evictor;
use crate::space::AddressSpace;
use crate::world::Touch;

const GEOMETRY: Geometry =
    Geometry { mms: 4, tables: 64, entries: 2048, zspages: 64, slots: 8, readahead: 0 };

/// Calls `act` with the memory of a new process, all of it managed.
fn with_space(seed: u64, act: impl FnOnce(&AddressSpace<'_, Machine>)) {
    let words: Vec<AtomicU64> = (0..GEOMETRY.layout().total_words()).map(|_| AtomicU64::new(0)).collect();
    let segment = Segment::create(&words, GEOMETRY);
    segment.budget().set_ram(Bytes::new(1 << 30));
    // With a small pool, copies are given up.
    segment.pool().set_limit_bytes(if seed.is_multiple_of(2) { 1 << 30 } else { 224 << 10 });
    let record = segment.mms().take(uswap_core::mm::RecordHolder::Run).expect("there is room");
    let root = segment.tables().allocate(record.id()).expect("there is room");
    record.set_root(root);
    let machine = Machine::new(seed);
    let space = AddressSpace::new(segment.acting_as(record.id()), record.id(), root, machine);
    space.adopt(space.world().all()).expect("there is room");
    act(&space);
    space.world().check_all(&space);
    space.drop_words(PageRange::of_pages(space.world().first(), PAGES as u64), Afterwards::Unmanaged);
    assert_eq!(segment.swap_table().used_count(), 0, "an entry is left that no page names");
}

/// Runs one mix of tasks by a seed, and looks at all that is left.
fn run(seed: u64, mix: Mix) {
    with_space(seed, |space| {
        tasks::run(space, mix);
        assert!(space.world().faults() > 0, "nothing came back");
    });
}

#[test]
fn threads_read_what_they_wrote_while_pages_are_evicted() {
    (0..100).for_each(|seed| run(seed, Mix { threads: 3, evictors: 1, ..Mix::NOTHING }));
}

#[test]
fn several_evictors_do_not_disturb_each_other() {
    (0..100).for_each(|seed| run(seed, Mix { threads: 2, evictors: 3, ..Mix::NOTHING }));
}

#[test]
fn the_kernel_finds_the_pages_that_a_hazard_names() {
    (0..150).for_each(|seed| run(seed, Mix { threads: 1, kernel_calls: 3, evictors: 2, ..Mix::NOTHING }));
}

#[test]
fn copies_may_be_discarded_at_any_time() {
    let mix = Mix { threads: 2, kernel_calls: 1, evictors: 2, shrinkers: 1, ..Mix::NOTHING };
    (0..100).for_each(|seed| run(seed, mix));
}

#[test]
fn mappings_change_while_pages_come_and_go() {
    let mix = Mix { threads: 2, kernel_calls: 1, mappers: 2, evictors: 2, shrinkers: 1 };
    (0..200).for_each(|seed| run(seed, mix));
}

/// A process may be killed at any point of a batch. What it has stored goes with its words then, but for a page that it
/// has in hand.
#[test]
fn what_a_batch_has_stored_is_named_by_the_words_of_its_pages() {
    with_space(0, |space| {
        let mut evictor = Box::new(Evictor::new(0));
        let most_unnamed = Cell::new(0);
        let stored = tasks::evict_written(space, &mut evictor, || {
            let words =
                || (0..PAGES).filter_map(|index| space.page_table().word_ref(space.world().page(index)));
            let named = words().filter(|slot| slot.load().swap().is_some()).count() as u64;
            let unnamed = space.segment().swap_table().used_count() - named;
            most_unnamed.set(most_unnamed.get().max(unnamed));
        });
        assert!(stored > 20, "only {stored} pages were stored");
        assert_eq!(most_unnamed.get(), 1);
    });
}

/// Memory that cannot be read (PROT_NONE) or is locked is moved, and registered again.
#[test]
fn what_must_not_be_evicted_stays_so_where_mremap_puts_it() {
    with_space(0, |space| {
        let machine = space.world();
        let (from, to) = (PageRange::of_pages(machine.page(4), 8), machine.page(MAPPED + 4));
        space.deactivate(from);
        space.carry(from, to).expect("there is room");
        space.adopt(PageRange::of_pages(to, 12)).expect("there is room");
        let is_active = |index| {
            let slot = space.page_table().word_ref(machine.page(index)).expect("it has a word");
            slot.load().is_active()
        };
        let moved: Vec<bool> = (MAPPED + 4..MAPPED + 16).map(is_active).collect();
        assert_eq!(moved, [[false; 8].as_slice(), &[true; 4]].concat(), "and what it grew by may be evicted");
        for index in 4..12 {
            machine.change(index, |cell| *cell = Default::default());
        }
        space.drop_words(PageRange::of_pages(to, 12), Afterwards::Unmanaged);
    });
}

/// One call protects a batch, and what is missing between its pages: such a page may come back, and be written, at any
/// point of that.
#[test]
fn a_page_may_come_back_and_be_written_while_its_neighbours_are_protected() {
    for first in [Touch::Read, Touch::Write] {
        let mut points = 0;
        for touch_at in 0.. {
            let mut was_touched = false;
            for write_at in touch_at.. {
                let mut was_written = false;
                with_space(0, |space| {
                    (was_touched, was_written) = tasks::evict_around(space, first, touch_at, write_at);
                });
                points += u32::from(was_written);
                if !was_written {
                    break;
                }
            }
            if !was_touched {
                break;
            }
        }
        assert!(points > 100, "few points were tried: {points}");
    }
}
