//! What is found for programs that are made up.

use super::*;

const MIB: u64 = 1 << 20;
/// Of 64 MiB, 28 are mapped and 32 the pool's.
const NOW: Division = Division {
    ram: 64 * MIB,
    resident: 28 * MIB,
    pool: 32 * MIB,
    pool_ns: 20_000,
    file_ns: 100_000,
    write_ns: 30_000,
    stored_bytes: 1300,
    copies: 0,
    quick: 0,
    dense: 0,
};
const NONE: Faults = Faults { from_file: 0, stored: 0, unchanged: 0, written: 0, moved: 0, tried: (0, 0) };
const BOUNDS: RangeInclusive<u64> = 6 * MIB..=51 * MIB;

/// A program that comes for the pages of some places by turns: place `depth` MiB down in the order of its last
/// uses, so many times at each look. Where the pool's limit ends that begins at a half; the pool holds three times
/// its size.
fn ends(depths: &[(u64, u64)]) -> u64 {
    let (mut share, mut limit) = (Share::default(), 32 * MIB);
    for _ in 0..200 {
        let now = Division { resident: 60 * MIB - limit, pool: limit, ..NOW };
        let resident = now.resident / MIB;
        let seen = depths.iter().filter(|(depth, _)| *depth > resident);
        let holds = resident + 3 * limit / MIB;
        let from_file = seen.clone().filter(|(depth, _)| *depth > holds).map(|(_, count)| count).sum();
        // Much more is stored than comes back: distances are depths.
        let faults = Faults { from_file, stored: 1_000_000, unchanged: 0, ..NONE };
        let at = |parts: u64| {
            seen.clone().filter(|(depth, _)| (depth - resident) * 4 == parts).map(|(_, count)| count).sum()
        };
        share.note(
            now,
            faults,
            (0..BUCKETS as u64).map(|parts| Returns {
                distances: parts..=parts,
                faults: at(parts),
                along: 0,
            }),
        );
        limit = share.limit(now, limit, BOUNDS).unwrap_or(limit);
    }
    limit / MIB
}

#[test]
fn a_working_set_that_nearly_fits_gets_the_room() {
    // Most faults come from just behind what is mapped, few from far away: 40 MiB must be mapped.
    let limit = ends(&[(40, 5000), (90, 20), (100, 20)]);
    assert!((6..=20).contains(&limit), "{limit}");
}

#[test]
fn what_would_not_pay_does_not_move_it() {
    assert_eq!(ends(&[]), 32, "nothing was seen");
    assert_eq!(ends(&[(100, 1)]), 32, "and one fault from far away is nothing");
}

/// Pages of a program that uses all its memory alike come back from exponential distances. It is only so deep as
/// there are pages.
#[test]
fn what_is_used_alike_lies_no_deeper_than_there_are_pages() {
    let (mut share, faults_a_look) = (Share::default(), 100_000.0);
    // 128 MiB in 64, of which 28 are mapped and 90 in the pool: 10 are in the file.
    let out_parts = 400.0;
    let (mut before, buckets) = (1.0, BUCKETS as u64);
    let returns: std::vec::Vec<Returns> = (0..buckets)
        .map(|bucket| {
            let (from, to) = (bucket * 8, bucket * 8 + 7);
            let left = exp(-((to + 1) as f64) / out_parts);
            let faults = ((before - left) * faults_a_look) as u64;
            before = left;
            Returns { distances: from..=to, faults, along: 0 }
        })
        .collect();
    let from_file = (faults_a_look / 10.0) as u64;
    let faults = Faults { from_file, stored: faults_a_look as u64, unchanged: 0, ..NONE };
    for _ in 0..100 {
        share.note(NOW, faults, returns.iter().cloned());
    }
    let prices = share.prices(NOW).expect("enough was seen");
    let bottom = depth_of(&prices.below, 0.0);
    assert!((126.0..=130.0).contains(&bottom), "{bottom}");
    let pool_ends = depth_of(&prices.below, share.from_file);
    assert!((116.0..=120.0).contains(&pool_ends), "{pool_ends}");
    // 10 % of faults are from the file, five times as dear: a ninth more of the pool has them all. What mapped pages
    // would be missed is only guessed from what lies behind them, so a little more than a ninth seems best.
    let (_, cheapest) = prices.cheapest(6..=51).expect("there are sizes");
    assert!((35..=40).contains(&cheapest), "{cheapest}");
}

/// While memory is filled, little comes back, and all of that from near by.
#[test]
fn a_pool_that_is_not_full_yet_becomes_smaller_only_if_that_pays_and_in_steps() {
    let now = Division { resident: 40 * MIB, pool: 10 * MIB, ..NOW };
    let after = |looks: u32, faults_a_look: u64| {
        let mut share = Share::default();
        let returns = |parts| Returns {
            distances: parts..=parts,
            faults: if parts == 8 { faults_a_look } else { 0 },
            along: 0,
        };
        let faults = Faults { from_file: 0, stored: 1_000_000, unchanged: 0, ..NONE };
        for _ in 0..looks {
            share.note(now, faults, (0..BUCKETS as u64).map(returns));
        }
        share.limit(now, 50 * MIB, BOUNDS)
    };
    assert_eq!(after(1, 500), Some(50 * MIB), "writing costs more than these faults");
    assert_eq!(after(1, 50_000), Some(48 * MIB), "it is being filled");
    assert_eq!(after(2, 50_000), Some(8 * MIB), "it has been");
}

#[test]
fn copies_and_what_the_dense_codec_saves_are_given_before_anything_goes_to_the_file() {
    let prices = |copies, dense_saves, unchanged| {
        let mut share = Share::default();
        // All that comes back lies at the end of the pool, which holds 40 MiB.
        let returns = |parts| Returns {
            distances: parts..=parts,
            faults: if parts == 156 { 10_000 } else { 0 },
            along: 0,
        };
        let faults = Faults { from_file: 0, stored: 1_000_000, unchanged, ..NONE };
        share.note(NOW, faults, (0..BUCKETS as u64).map(returns));
        share.prices(Division { copies, quick: 4 * dense_saves, ..NOW }).expect("enough was seen")
    };
    let now = prices(0, 0, 0).cost(32);
    assert!(prices(0, 0, 0).cost(24) > 2.0 * now, "what comes back would be in the file");
    assert_eq!(prices(8 * MIB, 0, 0).cost(24), now, "copies of pages that are written are of no use");
    let again = prices(8 * MIB, 0, 100_000).cost(24);
    assert_eq!(again, now + 100_000.0 * COMPRESS_NS, "the others are compressed again");
    assert_eq!(prices(8 * MIB, 0, 100_000).cost(28), now + 50_000.0 * COMPRESS_NS);
    let dense = prices(0, 8 * MIB, 1_000_000).cost(24);
    assert_eq!(dense, now + 10_000.0 * DENSE_LOAD_NS, "what is loaded costs more");
    assert!(prices(4 * MIB, 4 * MIB, 0).cost(23) > 2.0 * now, "more than both is written");
}

/// Pages that come back from so many parts of the budget, as many at each look, after some looks.
fn seen(now: Division, parts: RangeInclusive<u64>, faults: Faults) -> Share {
    let mut share = Share::default();
    let each = 10_000 / parts.clone().count() as u64;
    for _ in 0..40 {
        let returns =
            |at| Returns { distances: at..=at, faults: if parts.contains(&at) { each } else { 0 }, along: 0 };
        share.note(now, faults, (0..BUCKETS as u64).map(returns));
    }
    share
}

#[test]
fn all_is_compressed_densely_where_that_spares_more_than_it_costs() {
    // All of the pool is text, of which the dense codec makes two thirds.
    let faults = Faults { stored: 10_000, written: 5_000, tried: (60_000, 40_000), ..NONE };
    let quick = Division { pool_ns: 9_000, quick: 32 * MIB, ..NOW };
    let dense = Division { pool_ns: 12_000, pool: 21 * MIB, dense: 21 * MIB, resident: 39 * MIB, ..NOW };
    let limit = 34 * MIB;
    let decides = |now, parts, faults, is| seen(now, parts, faults).compresses_densely(now, limit, limit, is);
    // What comes back would still be there with a few MiB more.
    assert!(decides(quick, 0..=20, faults, false));
    assert!(decides(dense, 0..=20, faults, true));
    // With a few MiB more nothing would be there that is not.
    assert!(!decides(quick, 200..=220, faults, false));
    assert!(!decides(dense, 200..=220, faults, true));
    // What it makes of it is no smaller, or not known.
    assert!(!decides(quick, 0..=20, Faults { tried: (60_000, 58_000), ..faults }, false));
    assert!(!decides(quick, 0..=20, Faults { tried: (0, 0), ..faults }, false));
    assert!(decides(quick, 0..=20, Faults { tried: (0, 0), ..faults }, true), "it stays as it is");
    // Heaps are made of words, whatever is chosen.
    assert!(!decides(Division { quick: MIB / 2, ..quick }, 0..=20, faults, false));
}

#[test]
fn a_difference_that_is_small_changes_nothing() {
    let faults = Faults { stored: 10_000, written: 5_000, tried: (60_000, 40_000), ..NONE };
    let limit = 34 * MIB;
    let changes = (0..400_u64).map(|parts| {
        let now = Division { pool_ns: 6_000, quick: 16 * MIB, dense: 11 * MIB, pool: 28 * MIB, ..NOW };
        let share = seen(now, 0..=parts, faults);
        [false, true].map(|is| share.compresses_densely(now, limit, limit, is))
    });
    let changes: std::vec::Vec<_> = changes.collect();
    assert!(changes.contains(&[false, true]), "there is a range in which it stays as it is");
    assert!(changes.contains(&[true, true]));
    assert!(changes.contains(&[false, false]));
    assert!(!changes.contains(&[true, false]), "it never goes to and fro");
}

/// e^x for x <= 0: the crate has no mathematics.
fn exp(x: f64) -> f64 {
    let small = x / 1024.0;
    (0..10).fold(1.0 + small + small * small / 2.0, |value, _| value * value)
}

/// The pool is at its limit, so that all that comes back loses its copy.
#[test]
fn the_limit_leaves_room_for_copies_where_most_pages_go_unchanged() {
    let limit = 34 * MIB;
    let without = Division { pool_ns: 10_000, pool: 31 * MIB, resident: 29 * MIB, ..NOW };
    let within = |now, written, bounds| {
        let faults = Faults { stored: 10_000, written, moved: 10_000 - written, ..NONE };
        seen(now, 100..=220, faults).limit(now, limit, bounds)
    };
    let ends = |now, written| within(now, written, BOUNDS);
    assert_eq!(ends(without, 2_000), Some(36 * MIB), "two steps a look");
    assert_eq!(ends(without, 10_000), Some(limit), "copies of what is written are of no use");
    let with = Division { pool: 26 * MIB, copies: 6 * MIB, ..without };
    assert_eq!(ends(with, 2_000), Some(limit), "they are kept already");
    assert_eq!(within(without, 2_000, 6 * MIB..=40 * MIB), Some(limit), "there is no room for so many");
}
