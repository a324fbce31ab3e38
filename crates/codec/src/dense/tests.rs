//! What holds for every page and every blob, also for pages that the crate gives to another codec.

extern crate std;

use super::bits::{BitReader, BitWriter, ROOM};
use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::boxed::Box;
use std::vec::Vec;

fn scratch() -> Box<DenseScratch> {
    Box::new(DenseScratch::new())
}

fn blob_of(page: &Page, scratch: &mut DenseScratch) -> Vec<u8> {
    let mut out = [0xEE; ROOM];
    let length = compress(page, &mut out, scratch).expect("there is room for any page");
    out[..length].to_vec()
}

/// Pieces of memory: runs, patterns, words of a language, random bytes, and what stood at some distance before.
fn page() -> impl Strategy<Value = Page> {
    let piece = (0_u8..5, 1_usize..300, any::<u64>());
    vec(piece, 1..80).prop_map(|pieces| {
        let mut page = [0; PAGE_BYTES];
        let mut at = 0;
        let mut pieces = pieces.iter().cycle();
        while at < PAGE_BYTES {
            let &(kind, length, seed) = pieces.next().expect("it goes round");
            let mut state = seed | 1;
            for place in at..(at + length).min(PAGE_BYTES) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                page[place] = match kind {
                    0 => seed as u8,
                    1 => (seed >> (8 * (place % (1 + seed as usize % 8)))) as u8,
                    2 => b"etaoin shrdlu"[(state >> 33) as usize % (1 + seed as usize % 13)],
                    3 => (state >> 33) as u8,
                    _ => page[place.saturating_sub(1 + seed as usize % 900)],
                };
            }
            at += length;
        }
        page
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_page_comes_back(page in page(), before in page()) {
        let mut used = scratch();
        let _ = blob_of(&before, &mut used);
        let blob = blob_of(&page, &mut used);
        prop_assert_eq!(&blob, &blob_of(&page, &mut scratch()));
        let mut back = [0xAA; PAGE_BYTES];
        prop_assert_eq!(decompress(&blob, &mut back, &mut used), Ok(()));
        prop_assert!(back == page);
    }

    #[test]
    fn a_blob_is_exactly_as_long_as_it_is(page in page(), cut in 1_usize..100, more in vec(any::<u8>(), 1..20)) {
        let mut scratch = scratch();
        let blob = blob_of(&page, &mut scratch);
        let mut back = [0; PAGE_BYTES];
        let kept = blob.len().saturating_sub(cut);
        prop_assert_eq!(decompress(&blob[..kept], &mut back, &mut scratch), Err(Corrupt));
        let longer: Vec<u8> = blob.iter().copied().chain(more).collect();
        prop_assert_eq!(decompress(&longer, &mut back, &mut scratch), Err(Corrupt));
    }

    #[test]
    fn changed_blobs_never_panic(page in page(), changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let mut scratch = scratch();
        let mut blob = blob_of(&page, &mut scratch);
        for (place, change) in changes {
            *place.get_mut(&mut blob) ^= change;
        }
        let _ = decompress(&blob, &mut [0; PAGE_BYTES], &mut scratch);
    }

    #[test]
    fn random_blobs_never_panic(blob in vec(any::<u8>(), 0..6000)) {
        let _ = decompress(&blob, &mut [0; PAGE_BYTES], &mut scratch());
    }

    #[test]
    fn a_look_at_literals_asks_for_no_more_than_their_codes_take(
        kinds in 1_usize..=256,
        skew in 0_u32..4,
        seed: u64,
        count in 300_usize..=PAGE_BYTES,
    ) {
        let mut state = seed | 1;
        let literals: Vec<u8> = (0..count).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 33) as usize % kinds) as u8 >> ((state >> 60) as u32 % (skew + 1))
        }).collect();
        let least = literals::least_bytes(&literals);
        let mut out = Box::new([0; ROOM + 16]);
        let taken = literals::encode(&literals, &mut out, 0).unwrap_or(count);
        // A sample is never quite like the whole.
        prop_assert!(least <= taken + taken / 20, "{least} of {taken} bytes");
    }

    #[test]
    fn bits_come_back(fields in vec((any::<u64>(), 0_u32..=56), 1..400)) {
        let mut bytes = Box::new([0; ROOM + 16]);
        let mut writer = BitWriter::new(&mut bytes, 3);
        for &(value, count) in &fields {
            writer.put(value & ((1 << count) - 1), count);
        }
        let bits: u32 = fields.iter().map(|(_, count)| count).sum();
        let end = writer.end();
        prop_assert_eq!(end, 3 + bits.div_ceil(8) as usize);
        let mut reader = BitReader::new(3);
        for &(value, count) in &fields {
            let mut window = reader.window(&bytes);
            let mut seen = 0;
            for part in [count / 2, count - count / 2].into_iter().filter(|&part| part > 0) {
                let bits = window.peek(part);
                for last in 0..=part {
                    prop_assert_eq!(window.peek_last(part, last), bits & ((1 << last) - 1));
                }
                window.skip(part);
                seen = seen << part | bits as u64;
            }
            reader.pass(count);
            prop_assert_eq!(seen, value & ((1 << count) - 1));
        }
        prop_assert_eq!(reader.end(), end);
    }

    #[test]
    fn code_lengths_are_complete_and_short_and_good(
        counts in vec(prop_oneof![Just(0_u16), 1_u16..5, 1_u16..2000], 256),
    ) {
        let counts: [u16; 256] = counts.try_into().expect("256 were asked for");
        let used = counts.iter().filter(|&&count| count > 0).count();
        let mut lengths = [0; 256];
        for limit in [8, 10, 15] {
            let bits = huffman::lengths(&counts, limit, &mut lengths);
            prop_assert!(counts.iter().zip(&lengths).all(|(&count, &length)| (count > 0) == (length > 0)));
            prop_assert!(lengths.iter().all(|&length| u32::from(length) <= limit));
            let those_used = lengths.iter().filter(|&&length| length > 0);
            let filled: u32 = those_used.map(|&length| 1 << (limit - u32::from(length))).sum();
            prop_assert_eq!(filled, if used == 1 { 1 << (limit - 1) } else if used == 0 { 0 } else { 1 << limit });
            let least = huffman_bits(&counts);
            prop_assert!(bits >= least);
            // Longer codes than 15 bits need counts like Fibonacci's; with 10 a little is lost.
            let losses = [(8, u32::MAX), (10, least / 20), (15, least / 1000)];
            let loss = losses.into_iter().find(|(with, _)| *with == limit);
            prop_assert!(bits - least <= loss.expect("all limits are there").1, "{bits} {least}");
        }
    }
}

/// Bits of an optimal prefix code without a limit: the sum of the weights of all inner nodes.
fn huffman_bits(counts: &[u16]) -> u32 {
    let mut weights: Vec<u32> =
        counts.iter().filter(|&&count| count > 0).map(|&count| u32::from(count)).collect();
    if weights.len() == 1 {
        return weights[0];
    }
    let mut bits = 0;
    while weights.len() > 1 {
        weights.sort_unstable_by(|one, other| other.cmp(one));
        let together = weights.pop().unwrap_or(0) + weights.pop().unwrap_or(0);
        bits += together;
        weights.push(together);
    }
    bits
}

#[test]
fn a_table_is_made_of_complete_codes_only() {
    let fill = |codes: &[(u8, u8)]| {
        let mut table = [(0, 0); 8];
        huffman::fill_table::<_, 8>(&mut table, codes, |symbol, length| (symbol, length)).map(|()| table)
    };
    assert_eq!(fill(&[(7, 1)]), Ok([(7, 1); 8]));
    let expected = [(2, 1), (2, 1), (2, 1), (2, 1), (1, 2), (1, 2), (3, 3), (5, 3)];
    assert_eq!(fill(&[(1, 2), (2, 1), (3, 3), (5, 3)]), Ok(expected));
    for bad in [
        &[][..],
        &[(1, 2)],
        &[(1, 1), (2, 2)],
        &[(1, 1), (2, 1), (3, 1)],
        &[(1, 0), (2, 1)],
        &[(1, 1), (2, 2), (3, 3), (4, 4), (5, 4)],
        &[(1, 15), (2, 1)],
    ] {
        assert_eq!(fill(bad), Err(Corrupt), "{bad:?}");
    }
}

#[test]
fn edges_of_pages() {
    let mut scratch = scratch();
    let random: Page =
        core::array::from_fn(|at| (at as u32).wrapping_mul(2_654_435_761).rotate_left(9) as u8);
    let mut pages = std::vec![[0; PAGE_BYTES], [7; PAGE_BYTES], random];
    // A match that ends with the page, at each of the last places; and every distance below 20.
    for last in 0..20 {
        let mut page = random;
        let end = PAGE_BYTES - last;
        page.copy_within(100..150, end - 50);
        pages.push(page);
        pages.push(core::array::from_fn(|at| random[at % (last + 1)]));
        pages.push(core::array::from_fn(|at| if at < 2000 { random[at] } else { random[at % (last + 1)] }));
    }
    for page in pages {
        let mut back = [0xAA; PAGE_BYTES];
        let blob = blob_of(&page, &mut scratch);
        assert!(blob.len() <= PAGE_BYTES + 64, "{}", blob.len());
        decompress(&blob, &mut back, &mut scratch).expect("it was just compressed");
        assert!(back == page);
    }
}

#[test]
fn random_pages_are_told_by_a_look_and_others_are_not() {
    let mut state = 1_u64;
    let random: Page = core::array::from_fn(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    });
    let room = crate::COMPRESSED_BYTES_MAX - 1;
    assert!(literals::least_bytes(&random) > room);
    assert_eq!(compress(&random, &mut [0; PAGE_BYTES][..room], &mut scratch()), None);
    let digits = random.map(|byte| b'0' + byte % 10);
    assert!(literals::least_bytes(&digits) < PAGE_BYTES / 2);
    assert_eq!(literals::least_bytes(&[7; 1000]), 0);
    assert_eq!(literals::least_bytes(&core::array::from_fn::<_, 200, _>(|byte| byte as u8)), 200);
    assert_eq!(literals::least_bytes(&[]), 0);
}
