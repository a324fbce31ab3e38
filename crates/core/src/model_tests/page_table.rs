//! Page tables against sets of managed pages and of leaves.

use super::{SMALL, with_segment};
use crate::page_table::{OutOfTables, PAGES_MAX, PageTable};
use crate::page_word::{Afterwards, Remove};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::vec::Vec;
use uswap_units::{BLOCK_PAGES, MmId, PageId, PageRange};

#[derive(Clone, Copy, Debug)]
enum Op {
    Manage(u64),
    Drop(u64),
    FreeEmpty(u64, u64),
    NextLeaf(u64),
    Leaves(u64, u64),
    Run(u64, u64),
    Reap,
}

/// Pages near the borders of each level, far apart.
fn page() -> impl Strategy<Value = u64> {
    let base = prop_oneof![
        Just(0_u64),
        Just(1 << 9),
        Just(1 << 18),
        Just(1 << 27),
        Just(1 << 35),
        Just(PAGES_MAX - 2048)
    ];
    (base, 0..2048_u64, 0..4_u64).prop_map(|(base, offset, far)| (base + offset + (far << 18)) % PAGES_MAX)
}

fn operation() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => page().prop_map(Op::Manage),
        4 => page().prop_map(Op::Drop),
        2 => (page(), page()).prop_map(|(a, b)| Op::FreeEmpty(a.min(b), a.max(b))),
        2 => page().prop_map(Op::NextLeaf),
        2 => (page(), page()).prop_map(|(a, b)| Op::Leaves(a.min(b), a.max(b))),
        3 => (page(), 0..1500_u64).prop_map(|(start, pages)| Op::Run(start, start + pages)),
        1 => Just(Op::Reap),
    ]
}

fn block(page: u64) -> u64 {
    page & !(BLOCK_PAGES - 1)
}

fn range(start: u64, end: u64) -> PageRange {
    PageRange::new(PageId::new(start), PageId::new(end))
}

fn check(table: &PageTable<'_>, managed: &BTreeSet<u64>, leaves: &BTreeSet<u64>) {
    let found: Vec<u64> = table.leaves(range(0, PAGES_MAX)).map(|leaf| leaf.first_page().number()).collect();
    assert_eq!(found, leaves.iter().copied().collect::<Vec<_>>());
    let pages: BTreeSet<u64> = table
        .leaves(range(0, PAGES_MAX))
        .flat_map(|leaf| leaf.word_refs_in(range(0, PAGES_MAX)))
        .filter(|(_, slot)| slot.load().is_managed())
        .map(|(page, _)| page.number())
        .collect();
    assert_eq!(&pages, managed);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn leaves_are_those_of_the_model(ops in prop::collection::vec(operation(), 1..80)) {
        with_segment(SMALL, |segment| {
            let (mm, tables) = (MmId::new(3), segment.tables());
            // A neighbour must never be touched.
            let other = segment.page_table(MmId::new(4), tables.allocate(MmId::new(4)).expect("room"));
            assert!(other.leaf_or_allocate(PageId::new(77)).expect("room").word_ref(PageId::new(77)).adopt());
            let others = tables.used_count();
            let mut table = segment.page_table(mm, tables.allocate(mm).expect("room"));
            let (mut managed, mut leaves) = (BTreeSet::new(), BTreeSet::new());
            for op in ops {
                let has_room = table.has_room_for(1);
                match op {
                    Op::Manage(page) => match table.leaf_or_allocate(PageId::new(page)) {
                        Ok(leaf) => {
                            assert_eq!(leaf.first_page(), PageId::new(block(page)));
                            if leaves.insert(block(page)) {
                                assert_eq!(leaf.evictable().chunks(), 0, "a new leaf is zeroed");
                            }
                            leaf.evictable().set((page % 8) as u32);
                            assert_eq!(leaf.word_ref(PageId::new(page)).adopt(), managed.insert(page));
                        }
                        Err(OutOfTables) => {
                            assert!(!has_room, "there was said to be room");
                            assert!(!leaves.contains(&block(page)));
                            assert_eq!(tables.used_count(), SMALL.tables as usize - 1);
                        }
                    },
                    Op::Drop(page) => match table.word_ref(PageId::new(page)) {
                        Some(slot) => {
                            let dropped = slot.remove(Afterwards::Unmanaged) != Remove::Unmanaged;
                            assert_eq!(dropped, managed.remove(&page));
                        }
                        None => assert!(!leaves.contains(&block(page))),
                    },
                    Op::FreeEmpty(start, end) => {
                        table.free_empty_leaves(range(start, end));
                        leaves.retain(|&first| {
                            let inside = first + BLOCK_PAGES > start && first < end;
                            !inside || managed.range(first..first + BLOCK_PAGES).next().is_some()
                        });
                    }
                    Op::NextLeaf(page) => {
                        let found = table.next_leaf(PageId::new(page)).map(|leaf| leaf.first_page().number());
                        assert_eq!(found, leaves.range(block(page)..).next().copied());
                    }
                    Op::Leaves(start, end) => {
                        let found: Vec<u64> =
                            table.leaves(range(start, end)).map(|leaf| leaf.first_page().number()).collect();
                        let wanted = leaves.iter().copied().filter(|&first| first + BLOCK_PAGES > start && first < end);
                        assert_eq!(found, if start < end { wanted.collect() } else { Vec::new() });
                        let range_of_op = range(start, end);
                        let pages = table.leaves(range_of_op).flat_map(|leaf| leaf.word_refs_in(range_of_op));
                        assert!(pages.into_iter().all(|(page, _)| range(start, end).contains(page)));
                    }
                    Op::Run(start, end) => {
                        // Begins at pages with words, so that there is something to pass.
                        let end = end.min(PAGES_MAX);
                        let start = managed.range(start..end).next().copied().unwrap_or(start);
                        let first = managed.range(start..end).next();
                        let none = (start..end).find(|page| !managed.contains(page));
                        assert_eq!(table.first_managed(range(start, end)), first.copied().map(PageId::new));
                        assert_eq!(table.first_unmanaged(range(start, end)), none.map(PageId::new));
                    }
                    Op::Reap => {
                        tables.reap(mm);
                        assert_eq!(tables.used_count(), others);
                        (managed, leaves) = (BTreeSet::new(), BTreeSet::new());
                        table = segment.page_table(mm, tables.allocate(mm).expect("room"));
                    }
                }
                check(&table, &managed, &leaves);
                check(&other, &BTreeSet::from([77]), &BTreeSet::from([0]));
            }
            tables.reap(mm);
            tables.reap(MmId::new(4));
            assert_eq!(tables.used_count(), 0);
            assert!(tables.words.iter().all(|word| word.load(uswap_sync::Ordering::Relaxed) == 0));
        });
    }
}

#[test]
fn the_first_page_without_a_word_is_found_across_leaves() {
    with_segment(SMALL, |segment| {
        let table = segment.page_table(MmId::new(0), segment.tables().allocate(MmId::new(0)).expect("room"));
        for page in (510..515).map(PageId::new) {
            assert!(table.leaf_or_allocate(page).expect("room").word_ref(page).adopt());
        }
        for (start, end, first) in [
            (510, 600, Some(515)),
            (511, 515, None),
            (509, 600, Some(509)),
            (513, 513, None),
            (2000, 2001, Some(2000)),
        ] {
            assert_eq!(table.first_unmanaged(range(start, end)), first.map(PageId::new), "{start}..{end}");
        }
    });
}

#[test]
fn a_run_for_which_there_is_room_finds_it() {
    with_segment(SMALL, |segment| {
        let tables = segment.tables();
        let table = segment.page_table(MmId::new(0), tables.allocate(MmId::new(0)).expect("room"));
        let mut page = BLOCK_PAGES - 3;
        for pages in (1..).map(|step| step * 700) {
            if !table.has_room_for(pages) {
                break;
            }
            let run = page..page + pages;
            assert!(
                run.clone()
                    .step_by(100)
                    .chain([run.end - 1])
                    .all(|at| table.leaf_or_allocate(PageId::new(at)).is_ok())
            );
            // Where the next leaf needs tables above it, too.
            page += (pages + (1 << 18)) / BLOCK_PAGES * BLOCK_PAGES;
        }
        let left = SMALL.tables as u64 - 1 - tables.used_count() as u64;
        assert!(left > 0 && !table.has_room_for((left + 1) * BLOCK_PAGES));
    });
}

#[test]
fn pages_outside_of_the_address_space_have_no_leaf() {
    with_segment(SMALL, |segment| {
        let table = segment.page_table(MmId::new(0), segment.tables().allocate(MmId::new(0)).expect("room"));
        assert!(table.leaf_or_allocate(PageId::new(PAGES_MAX)).is_err());
        assert!(table.leaf_or_allocate(PageId::new(PAGES_MAX - 1)).is_ok());
        assert!(table.leaf(PageId::new(PAGES_MAX)).is_none());
        assert!(table.next_leaf(PageId::new(PAGES_MAX)).is_none());
        assert!(table.next_leaf(PageId::FIRST).is_some());
    });
}
