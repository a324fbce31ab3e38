//! Maps of pages at random, against a list of all pages.

use super::{SMALL, with_segment};
use crate::map_table::{HEAD_WORDS, MapTable, Withdrawn};
use crate::memory_map::{BUCKETS_MAX, Bucket, KINDS, MapWriter, PageKind, Stored, read};
use std::vec::Vec;
use uswap_sync::AtomicU64;
use uswap_units::{MmId, PageId, Prng};

const ALL: [PageKind; KINDS] = [
    PageKind::Untouched,
    PageKind::Warm,
    PageKind::Cold,
    PageKind::Pool,
    PageKind::File,
    PageKind::SameFilled,
];

type Page = (PageId, PageKind, Stored);

/// Pages in order, with gaps now and then.
fn pages(count: usize, prng: &mut Prng) -> Vec<Page> {
    let mut at = PageId::new(prng.below(1 << 20));
    let mut next = || {
        at = at.plus(if prng.below(50) == 0 { 1 + prng.below(1 << 20) } else { 1 });
        let kind = ALL[prng.below(KINDS as u64) as usize];
        (at, kind, if prng.below(3) == 0 { Stored::Lately } else { Stored::NotLately })
    };
    (0..count).map(|_| next()).collect()
}

/// What a bucket is of these pages.
fn bucket_of(pages: &[Page]) -> Bucket {
    let of_kind = |kind: PageKind| pages.iter().filter(|page| page.1 == kind).count() as u64;
    Bucket {
        start: pages[0].0,
        end: pages[pages.len() - 1].0.plus(1),
        pages: ALL.map(of_kind),
        recent: pages.iter().filter(|page| page.2 == Stored::Lately).count() as u64,
    }
}

fn write(table: MapTable<'_>, pages: &[Page]) -> Vec<Bucket> {
    let request = table.ask(MmId::new(3));
    let mut writer = MapWriter::new(table, request);
    for &(page, kind, stored) in pages {
        writer.add(page, kind, stored).expect("it is waited for");
    }
    writer.finish().expect("it is waited for");
    assert!(table.is_complete(request));
    read(table, request).collect()
}

#[test]
fn buckets_are_of_one_size_and_have_each_page_once() {
    let mut prng = Prng::new(5);
    for room in [2, 3, 8] {
        let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let (head, words) = (zeros(HEAD_WORDS), zeros(1 + room * (KINDS + 3)));
        let table = MapTable { head: &head, words: &words };
        for count in (0..400).chain([5000, 4096]) {
            let pages = pages(count, &mut prng);
            let buckets = write(table, &pages);
            assert!(buckets.len() <= room, "{} buckets", buckets.len());
            let Some(first) = buckets.first() else {
                assert_eq!(count, 0);
                continue;
            };
            let expected: Vec<Bucket> = pages.chunks(first.len() as usize).map(bucket_of).collect();
            assert_eq!(buckets, expected, "{count} pages");
            assert!(count < 16 * room || buckets.len() * 2 >= room, "{} buckets are few", buckets.len());
        }
    }
}

#[test]
fn the_table_of_a_run_has_room_for_all_buckets() {
    with_segment(SMALL, |segment| {
        let pages = pages(BUCKETS_MAX * 16, &mut Prng::new(1));
        assert_eq!(write(segment.map_table(), &pages).len(), BUCKETS_MAX);
    });
}

#[test]
fn a_map_that_nobody_waits_for_is_given_up() {
    with_segment(SMALL, |segment| {
        let table = segment.map_table();
        let mut writer = MapWriter::new(table, table.ask(MmId::new(1)));
        let second = table.ask(MmId::new(2));
        let pages = pages(100, &mut Prng::new(1));
        let given_up = pages.iter().map(|&(page, kind, stored)| writer.add(page, kind, stored));
        assert_eq!(given_up.collect::<Result<Vec<()>, _>>(), Err(Withdrawn));
        assert_eq!(writer.finish(), Err(Withdrawn));
        assert!(!table.is_complete(second));
    });
}
