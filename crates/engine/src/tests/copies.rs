//! What becomes of the copy of a page that is only read.

use super::machine::{MAPPED, Machine, is_noise, is_text};
use super::tasks::{complete, read, write};
use super::with_space;
use crate::evict::Evictor;
use crate::evict::copies::Purpose;
use crate::pool::release::{put_entry, release_content};
use crate::space::AddressSpace;
use crate::workspace::Workspace;
use crate::world::Touch;
use std::boxed::Box;
use std::vec::Vec;
use uswap_codec::{Codec, Effort};
use uswap_core::counters::Counter;
use uswap_core::files::{FileAccess, FileKind, FileSpec};
use uswap_core::page_word::{PageWord, Place};
use uswap_core::pool::{ZSPAGE_BYTES, ZspageOwner};
use uswap_core::swap_table::{LoadKind, WritebackEnd};
use uswap_core::swap_word::Content;
use uswap_units::{MmId, PAGE_BYTES, SwapId};

type Space<'a> = AddressSpace<'a, Machine>;

/// Bytes of a record in the file.
const RECORD_BYTES: u32 = 128;

fn word(space: &Space<'_>) -> PageWord {
    space.page_table().word_ref(space.world().page(0)).expect("it is managed").load()
}

fn content(space: &Space<'_>, copy: SwapId) -> Content {
    space.segment().swap_table().load(copy).content()
}

fn evict_all(space: &Space<'_>, evictor: &mut Evictor) {
    while (0..MAPPED).any(|index| space.world().cell(index).content.is_some()) {
        complete(async { while space.evict(evictor, 40).await.pages > 0 {} });
    }
}

/// Page 0 alone is mapped, and has a clean copy, to which it came back by itself.
fn with_a_clean_page(act: impl FnOnce(&Space<'_>, &mut Evictor, SwapId)) {
    // Not one of the values that stand for a page of one word.
    with_a_clean_page_of(|value| !value.is_multiple_of(4), act);
}

/// The same with a value that is like this.
fn with_a_clean_page_of(is_wanted: fn(u64) -> bool, act: impl FnOnce(&Space<'_>, &mut Evictor, SwapId)) {
    with_space(0, |space| {
        space.world().in_lockstep.set(true);
        let (mut evictor, mut workspace) = (Box::new(Evictor::new(0)), Box::new(Workspace::new()));
        assert!(space.is_trial(), "the first one");
        while !is_wanted(space.world().cell(0).oracle) {
            complete(write(space, 0, &mut workspace));
        }
        evict_all(space, &mut evictor);
        complete(read(space, 0, &mut workspace));
        assert!(word(space).is_clean());
        act(space, &mut evictor, word(space).swap().expect("it is clean"));
        space.disown_zspages(&evictor);
    });
}

/// The shrinker writes the copy to the only slot of a file.
fn write_back(space: &Space<'_>, copy: SwapId) {
    let segment = space.segment();
    let (kind, access) = (FileKind::SolidState, FileAccess::Buffered);
    let spec = FileSpec { slots: 8, priority: -1, kind, descriptor: 3, access };
    let file = segment.slots().add_file(spec).expect("the first one");
    let file = segment.slots().files().get(file).expect("it was just added");
    let run = segment.slots().take_run(&file, 1, 1).expect("all are free");
    let slot = Content::Slot { offset: run.start(), length: RECORD_BYTES };
    segment.slots().add_blob(run.start(), u64::from(RECORD_BYTES));
    segment.slots().end_run(run);
    let seen = segment.swap_table().load(copy);
    assert!(segment.swap_table().begin_writeback(copy, seen));
    assert_eq!(segment.swap_table().finish_writeback(copy, slot), WritebackEnd::Moved);
    release_content(segment, space.world(), seen.content());
}

/// Somebody else takes room in the pool, while it holds less than that.
fn take_room(space: &Space<'_>, bytes: u64) {
    let (pool, other, mut owner) = (space.segment().pool(), MmId::new(3), ZspageOwner::new());
    for length in (1..=PAGE_BYTES).rev() {
        while pool.resident_bytes() < bytes {
            if pool.reserve(other, &mut owner, length).is_none() {
                break;
            }
        }
    }
}

#[test]
fn copies_make_room_before_more_work_is_spent() {
    with_a_clean_page(|space, _, copy| {
        let decides = |touch, kind| space.gives_copies_up(1, word(space), Purpose::For(touch), kind);
        assert!(decides(Touch::Write, LoadKind::Alone), "it is of no use");
        assert!(!decides(Touch::Read, LoadKind::Alone));
        assert_eq!(space.effort(), Effort::Quick);
        let pool = space.segment().pool();
        take_room(space, 14 * ZSPAGE_BYTES as u64);
        pool.set_limit_bytes(15 * ZSPAGE_BYTES as u64);
        assert!(decides(Touch::Read, LoadKind::Alone));
        assert!(!decides(Touch::Read, LoadKind::InBatch), "it is gone past once");
        assert_eq!(space.effort(), Effort::Quick);
        pool.set_limit_bytes(14 * ZSPAGE_BYTES as u64);
        assert_eq!(space.effort(), Effort::Dense);
        write_back(space, copy);
        assert!(!decides(Touch::Read, LoadKind::Alone), "in the file it takes no room");
    });
}

#[test]
fn what_came_from_the_file_goes_to_the_pool() {
    with_a_clean_page(|space, evictor, copy| {
        write_back(space, copy);
        evict_all(space, evictor);
        let promoted = word(space).swap().expect("it is stored");
        assert_ne!(promoted, copy);
        assert!(matches!(content(space, promoted), Content::Blob { .. }));
        assert_eq!(space.segment().counters().get(Counter::Promoted), 1);
    });
}

#[test]
fn what_came_from_the_file_goes_back_there_if_the_pool_has_no_room() {
    with_a_clean_page(|space, evictor, copy| {
        write_back(space, copy);
        space.segment().pool().set_limit_bytes(0);
        space.disown_zspages(evictor);
        take_room(space, u64::MAX);
        assert!(space.should_promote(copy), "one in four");
        assert!((0..3).all(|_| !space.should_promote(copy)), "three in four");
        complete(async {
            let evicted = space.evict(evictor, 40).await;
            assert_eq!((evicted.pages, evicted.no_room), (1, false));
        });
        assert_eq!(word(space).place(), Place::Swapped);
        assert_eq!(word(space).swap(), Some(copy));
        assert_eq!(space.segment().counters().get(Counter::Promoted), 0);
    });
}

fn codec_of(space: &Space<'_>, copy: SwapId) -> Option<Codec> {
    let Content::Blob { blob, length } = content(space, copy) else { return None };
    let mut bytes = [0; PAGE_BYTES];
    assert!(space.segment().pool().read(blob, length as usize, &mut bytes));
    Codec::of(&bytes)
}

#[test]
fn text_is_compressed_again_if_the_room_is_worth_it() {
    with_a_clean_page_of(is_text, |space, evictor, quick| {
        let tried = |counter| space.counters().get(counter);
        assert_eq!(codec_of(space, quick), Some(Codec::Lz4));
        evict_all(space, evictor);
        assert_eq!(word(space).swap(), Some(quick), "it goes for nothing");
        let mut workspace = Box::new(Workspace::new());
        complete(read(space, 0, &mut workspace));
        space.segment().pool().set_compresses_densely(true);
        evict_all(space, evictor);
        let dense = word(space).swap().expect("it is stored");
        assert_eq!((codec_of(space, dense), tried(Counter::Recompressed)), (Some(Codec::Dense), 1));
        complete(read(space, 0, &mut workspace));
        evict_all(space, evictor);
        assert_eq!((word(space).swap(), tried(Counter::Recompressed)), (Some(dense), 1), "once");
        space.segment().pool().set_compresses_densely(false);
        complete(read(space, 0, &mut workspace));
        evict_all(space, evictor);
        assert_eq!((word(space).swap(), tried(Counter::Recompressed)), (Some(dense), 1), "and never back");
    });
}

#[test]
fn text_is_not_compressed_again_while_another_page_depends_on_its_copy() {
    with_a_clean_page_of(is_text, |space, evictor, quick| {
        let segment = space.segment();
        segment.pool().set_compresses_densely(true);
        assert!(space.should_recompress(quick));
        // As a forked child does.
        segment.swap_table().share(quick);
        assert!(!space.should_recompress(quick));
        evict_all(space, evictor);
        assert_eq!(word(space).swap(), Some(quick));
        assert_eq!(space.counters().get(Counter::Recompressed), 0);
        put_entry(segment, space.world(), quick);
        assert!(space.should_recompress(quick));
    });
}

#[test]
fn what_does_not_compress_is_tried_in_both_ways_no_more_often() {
    with_space(0, |space| {
        let trials = (0..640).filter(|_| space.is_trial()).count();
        assert_eq!(trials, 10, "however many of them were compressed: none");
    });
}

#[test]
fn text_that_is_tried_in_both_ways_is_counted_and_kept_densely() {
    with_space(0, |space| {
        space.world().in_lockstep.set(true);
        let (mut evictor, mut workspace) = (Box::new(Evictor::new(0)), Box::new(Workspace::new()));
        while !is_text(space.world().cell(0).oracle) {
            complete(write(space, 0, &mut workspace));
        }
        evict_all(space, &mut evictor);
        let copy = word(space).swap().expect("it is stored");
        let tried = |counter| space.counters().get(counter);
        let (quick, dense) = (tried(Counter::TrialQuickBytes), tried(Counter::TrialDenseBytes));
        let Content::Blob { length, .. } = content(space, copy) else { panic!("it is in the pool") };
        assert!(dense < quick, "{dense} and {quick}");
        assert_eq!((codec_of(space, copy), u64::from(length)), (Some(Codec::Dense), dense));
        space.disown_zspages(&evictor);
    });
}

#[test]
fn a_page_that_is_written_each_time_comes_back_writable_as_long_as_such_pages_are_written() {
    with_space(0, |space| {
        space.world().in_lockstep.set(true);
        let (mut evictor, mut workspace) = (Box::new(Evictor::new(0)), Box::new(Workspace::new()));
        for index in 0..MAPPED {
            complete(write(space, index, &mut workspace));
        }
        let expected = || space.counters().get(Counter::CopyExpected);
        let mut round = |writes: bool| {
            evict_all(space, &mut evictor);
            let (before, mut writable) = (expected(), 0);
            // In an order that nothing is brought along for.
            for index in (0..MAPPED).map(|number| number * 37 % MAPPED) {
                complete(read(space, index, &mut workspace));
                writable += u64::from(!space.world().cell(index).protected);
                if writes {
                    complete(write(space, index, &mut workspace));
                }
            }
            assert_eq!(expected() - before, writable);
            writable
        };
        assert_eq!(round(true), 0, "nothing was written after it came back");
        let most = MAPPED as u64 * 9 / 10;
        assert!((1..most).contains(&round(true)), "what that says is learned from the first of them");
        let third = round(true);
        assert!((most..MAPPED as u64).contains(&third), "some are counted: {third}");
        // Nobody writes any more. What came writable cannot tell, so that it takes a while.
        let last = (0..100).map(|_| round(false)).last();
        assert_eq!(last, Some(0));
        space.disown_zspages(&evictor);
    });
}

/// Evicts what goes of pages of which the first ones are noise; how many have stayed.
fn noise_that_stays(noisy: usize) -> usize {
    let mut stayed = 0;
    with_space(0, |space| {
        space.world().in_lockstep.set(true);
        let (mut evictor, mut workspace) = (Box::new(Evictor::new(0)), Box::new(Workspace::new()));
        for index in 0..MAPPED {
            while is_noise(space.world().cell(index).oracle) != (index < noisy) {
                complete(write(space, index, &mut workspace));
            }
        }
        for _ in 0..8 {
            complete(async { _ = space.evict(&mut evictor, 40).await });
        }
        let present: Vec<usize> =
            (0..MAPPED).filter(|&index| space.world().cell(index).content.is_some()).collect();
        assert!(present.iter().all(|&index| index < noisy), "{present:?}");
        for &index in &present {
            assert!(!space.world().cell(index).protected, "nothing depends on it");
            space.world().check_protection(space, index);
        }
        stayed = present.len();
        // When there is nothing else, it goes.
        evict_all(space, &mut evictor);
        space.disown_zspages(&evictor);
    });
    stayed
}

#[test]
fn pages_that_do_not_compress_stay_while_they_are_few() {
    assert_eq!(noise_that_stays(12), 12);
    assert!(noise_that_stays(MAPPED) < MAPPED / 2, "some are tried until that is known");
}

/// All pages were written, and are gone.
fn with_all_gone(act: impl FnOnce(&Space<'_>, &mut Workspace)) {
    with_space(0, |space| {
        space.world().in_lockstep.set(true);
        let (mut evictor, mut workspace) = (Box::new(Evictor::new(0)), Box::new(Workspace::new()));
        for index in 0..MAPPED {
            complete(write(space, index, &mut workspace));
        }
        evict_all(space, &mut evictor);
        act(space, &mut workspace);
        space.disown_zspages(&evictor);
    });
}

/// Faults, and pages that came along, of a program that goes through all of its memory when all of it is gone.
fn walk(indices: impl Iterator<Item = usize>, touch: Touch) -> (u64, u64) {
    let mut seen = (0, 0);
    with_all_gone(|space, workspace| {
        let counts = || (space.world().faults(), space.segment().counters().get(Counter::ReadAhead));
        let before = counts();
        for index in indices {
            match touch {
                Touch::Read => complete(read(space, index, workspace)),
                Touch::Write => complete(write(space, index, workspace)),
            }
        }
        seen = (counts().0 - before.0, counts().1 - before.1);
    });
    seen
}

#[test]
fn pages_come_along_in_both_directions_and_ready_to_be_written() {
    let pages = MAPPED as u64;
    // 1, 2, 4, 8 and 16 pages, 32 and 1 up to the end of the block, 32, and the rest.
    assert_eq!(walk(0..MAPPED, Touch::Read), (9, pages - 9));
    // 1, 2, 4, 8, 16, 32 and 1, 32 and the rest.
    assert_eq!(walk((0..MAPPED).rev(), Touch::Read), (9, pages - 9));
    // What comes along with the second fault is written for the first time: one fault more. What comes later is not.
    assert_eq!(walk(0..MAPPED, Touch::Write), (10, pages - 9));
    assert_eq!(walk((0..MAPPED).rev(), Touch::Write), (10, pages - 9));
    assert_eq!(walk((0..MAPPED).map(|index| index * 37 % MAPPED), Touch::Read), (pages, 0));
}

#[test]
fn first_writes_in_order_take_the_protection_of_what_comes_next_away() {
    let indices: [Vec<usize>; 2] = [(0..MAPPED).collect(), (0..MAPPED).rev().collect()];
    for order in indices {
        with_all_gone(|space, workspace| {
            for index in 0..MAPPED {
                complete(read(space, index, workspace));
            }
            let before = space.world().faults();
            for &index in &order {
                complete(write(space, index, workspace));
                space.world().check_protection(space, index);
            }
            assert_eq!(space.world().faults() - before, 9, "as many as to bring them in");
            assert_eq!(space.segment().swap_table().used_count(), 0, "no copy is left");
        });
    }
}
