//! Maps of the memory of a process, against the machine that it is in.

use super::machine::{MAPPED, Machine, PAGES};
use super::tasks::{self, Mix, complete};
use super::with_space;
use crate::evict::Evictor;
use crate::memory_map::MapStep;
use crate::space::AddressSpace;
use std::boxed::Box;
use std::vec::Vec;
use uswap_core::map_table::MapRequest;
use uswap_core::memory_map::{Bucket, KINDS, PageKind, read};
use uswap_core::page_word::{Afterwards, PageWord, Place};
use uswap_core::swap_word::Content;
use uswap_units::{MmId, PageRange};

type Space<'a> = AddressSpace<'a, Machine>;

fn own(space: &Space<'_>) -> MmId {
    space.record().id()
}

/// Answers one request, if there is any.
pub async fn answer(space: &Space<'_>) {
    let Some(request) = space.map_request() else { return };
    let mut walk = space.begin_map(request);
    while let MapStep::GoesOn(rest) = space.step_map(walk).await {
        walk = rest;
    }
}

fn buckets(space: &Space<'_>, request: MapRequest) -> Vec<Bucket> {
    let table = space.segment().map_table();
    assert!(table.is_complete(request));
    read(table, request).collect()
}

pub(super) fn sums(buckets: &[Bucket]) -> [u64; KINDS] {
    core::array::from_fn(|kind| buckets.iter().map(|bucket| bucket.pages[kind]).sum())
}

/// What a map of a process at rest says: where the machine has a page, and where its word and its entry say it is.
fn expected(space: &Space<'_>) -> [u64; KINDS] {
    let mut sums = [0; KINDS];
    for index in 0..PAGES {
        let slot = space.page_table().word_ref(space.world().page(index)).map(|slot| slot.load());
        let Some(word) = slot.filter(|word| word.is_managed()) else { continue };
        let is_here = space.world().cell(index).content.is_some();
        assert_eq!(is_here, word.place() == Place::Present || is_here && word.place() == Place::Fresh);
        let is_warm = word.heat() + word.rest() > 0 || word.is_pinned() || !word.is_active();
        let kind = match (is_here, word.place()) {
            (true, _) if word.is_zero_page() => PageKind::Untouched,
            (true, _) if is_warm => PageKind::Warm,
            (true, _) => PageKind::Cold,
            (false, Place::Swapped) => stored(space, word),
            (false, _) => PageKind::Untouched,
        };
        sums[kind as usize] += 1;
    }
    sums
}

fn stored(space: &Space<'_>, word: PageWord) -> PageKind {
    match space.segment().swap_table().load(word.swap().expect("it is stored")).content() {
        Content::Same(_) => PageKind::SameFilled,
        Content::Blob { .. } => PageKind::Pool,
        other => panic!("{other:?}: there is no file"),
    }
}

pub(super) fn map(space: &Space<'_>) -> Vec<Bucket> {
    let request = space.segment().map_table().ask(own(space));
    complete(answer(space));
    buckets(space, request)
}

#[test]
fn a_map_says_where_each_page_is() {
    with_space(0, |space| {
        let machine = space.world();
        machine.in_lockstep.set(true);
        let filled = (0..MAPPED).filter(|&index| machine.cell(index).content.is_some()).count() as u64;
        let first = map(space);
        let (range, sum) = (machine.all(), sums(&first));
        assert_eq!((first[0].start, first[first.len() - 1].end), (range.start(), range.end()));
        assert_eq!(sum[PageKind::Cold as usize], filled, "what the program had before it was managed");
        assert_eq!(sum[PageKind::Untouched as usize], MAPPED as u64 - filled);
        assert_eq!(sum.iter().sum::<u64>(), space.record().managed_pages());

        let mut evictor = Box::new(Evictor::new(0));
        complete(async {
            for _ in 0..2 {
                let _however_many = space.evict(&mut evictor, 20).await;
            }
        });
        space.disown_zspages(&evictor);
        space.pin(PageRange::of_pages(machine.first(), 3));
        let evicted = map(space);
        assert_eq!(sums(&evicted), expected(space));
        assert!(sums(&evicted)[PageKind::Pool as usize] > 5, "{evicted:?}");
        let stored: u64 = sums(&evicted)[PageKind::Pool as usize..].iter().sum();
        let recent: u64 = evicted.iter().map(|bucket| bucket.recent).sum();
        assert!(recent <= stored);

        // A hole in the middle, whose words are gone.
        let gone = PageRange::of_pages(machine.page(40), 20);
        space.drop_words(gone, Afterwards::Unmanaged);
        for index in 40..60 {
            machine.change(index, |cell| *cell = Default::default());
        }
        let rest = map(space);
        assert_eq!(sums(&rest), expected(space));
        assert_eq!(sums(&rest).iter().sum::<u64>(), MAPPED as u64 - 20);
    });
}

#[test]
fn what_went_lately_is_told_from_what_went_long_ago() {
    with_space(0, |space| {
        space.world().in_lockstep.set(true);
        let mut evictor = Box::new(Evictor::new(0));
        complete(async { while space.evict(&mut evictor, 40).await.pages > 0 {} });
        space.disown_zspages(&evictor);
        let recent = |resident: u64| {
            space.record().set_resident_pages(resident);
            let map = map(space);
            (map.iter().map(|bucket| bucket.recent).sum::<u64>(), sums(&map)[3..].iter().sum::<u64>())
        };
        let (all, stored) = recent(1 << 20);
        assert!(all == stored && stored > 20, "{all} of {stored}");
        for _ in 0..1 << 16 {
            let _others_store = space.segment().reuse().note_stored();
        }
        assert_eq!(recent(1000), (0, stored));
    });
}

#[test]
fn nothing_is_counted_for_another_process_or_another_request() {
    with_space(0, |space| {
        let table = space.segment().map_table();
        let other = table.ask(MmId::new(own(space).number() + 1));
        complete(answer(space));
        assert!(!table.is_complete(other));
        let first = table.ask(own(space));
        let walk = space.begin_map(first);
        let second = table.ask(own(space));
        complete(async {
            assert!(matches!(space.step_map(walk).await, MapStep::Ended));
        });
        assert!(!table.is_complete(first) && !table.is_complete(second));
        space.answer_empty_map(second);
        assert_eq!(buckets(space, second), []);
    });
}

#[test]
fn maps_are_made_while_pages_and_mappings_come_and_go() {
    for seed in 0..60 {
        with_space(seed, |space| {
            let mix = Mix { threads: 2, mappers: 2, evictors: 1, shrinkers: 1, ..Mix::NOTHING };
            tasks::run_beside(space, mix, async {
                while space.world().tasks_left.get() > 0 {
                    let request = space.segment().map_table().ask(own(space));
                    answer(space).await;
                    let counted: u64 = sums(&buckets(space, request)).iter().sum();
                    assert!(counted <= PAGES as u64, "{counted} pages");
                }
            });
            assert_eq!(sums(&map(space)), expected(space), "seed {seed}");
        });
    }
}
