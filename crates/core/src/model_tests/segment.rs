//! The segment: its tables lie apart, and what is no segment is refused.

use super::{SMALL, words_for};
use crate::segment::{Geometry, NotASegment, Segment};
use std::vec::Vec;
use uswap_sync::{AtomicU64, Ordering};

/// Every slice and word that the views hand out, as ranges of addresses.
fn parts(segment: &Segment<'_>) -> Vec<(usize, usize)> {
    let (table, pool, slots, tables) =
        (segment.swap_table(), segment.pool(), segment.slots(), segment.tables());
    let (mms, counters, budget) = (segment.mms(), segment.counters(), segment.budget());
    let slices: [&[AtomicU64]; 17] = [
        table.words,
        table.hashes,
        table.clusters,
        pool.states,
        pool.maps,
        pool.offers,
        pool.data,
        slots.counts,
        slots.clusters,
        slots.files.words,
        tables.owners,
        tables.evictable,
        tables.words,
        mms.words,
        counters.words,
        counters.histograms,
        budget.words,
    ];
    let single = [pool.resident, pool.fresh, pool.limit, tables.hint, mms.taken_total];
    let of = |slice: &[AtomicU64]| (slice.as_ptr() as usize, slice.as_ptr() as usize + size_of_val(slice));
    let mut parts: Vec<(usize, usize)> = slices.into_iter().map(of).collect();
    parts.extend(single.into_iter().map(|word| of(core::slice::from_ref(word))));
    parts
}

#[test]
fn tables_do_not_overlap_and_both_sides_see_the_same() {
    for geometry in [
        SMALL,
        Geometry { mms: 65, tables: 513, entries: 512 * 9, zspages: 130, slots: 8 * 77, readahead: 0 },
    ] {
        let words = words_for(geometry);
        let created = Segment::create(&words, geometry);
        let opened = Segment::open(&words).expect("just made");
        assert_eq!(parts(&created), parts(&opened));
        let mut parts = parts(&created);
        // The header's own words: magic and geometry.
        parts.push((words.as_ptr() as usize, words.as_ptr() as usize + 6 * 8));
        parts.sort_unstable();
        assert!(parts.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{parts:x?}");
        assert!(parts.last().expect("some").1 <= words.as_ptr_range().end as usize);
        let data = created.pool().data.as_ptr() as u64 - words.as_ptr() as u64;
        assert_eq!(data, created.layout().pool_offset_bytes());
        assert!(data.is_multiple_of(4096));
        assert_eq!(Segment::geometry_of(&words), Ok(geometry));
        let spec = super::slots::spec(geometry.slots, crate::files::FileKind::SolidState);
        assert_eq!((opened.slots().capacity(), created.slots().add_file(spec).is_ok()), (0, true));
        assert_eq!(opened.slots().capacity(), geometry.slots);
        assert_eq!(opened.pool().limit_bytes(), u64::from(geometry.zspages) * 32768);
    }
}

#[test]
fn what_is_no_segment_is_refused() {
    let words = words_for(SMALL);
    let refused = |words: &[AtomicU64], why| assert_eq!(Segment::open(words).err(), Some(why));
    refused(&words, NotASegment::Header);
    Segment::create(&words, SMALL);
    refused(&words[..100], NotASegment::Header);
    refused(&words[..words.len() - 1], NotASegment::TooShort);
    for (index, wrong) in [(0, 1), (1, 1 << 40), (3, 511), (5, 7), (5, 1 << 60)] {
        let right = words[index].swap(wrong, Ordering::Relaxed);
        refused(&words, NotASegment::Header);
        words[index].store(right, Ordering::Relaxed);
    }
    words[4].fetch_add(1, Ordering::Relaxed);
    refused(&words, NotASegment::TooShort);
}
