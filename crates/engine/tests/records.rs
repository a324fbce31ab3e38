//! Records of the swap file: what is sealed comes back, and whatever a disk or somebody with access to it makes of a
//! record is found.

use proptest::prelude::*;
use std::sync::atomic::AtomicU64;
use uswap_codec::PAGE_BYTES;
use uswap_core::segment::{Geometry, Segment};
use uswap_engine::record::{Cipher, Owner, record_bytes};
use uswap_units::SwapId;

const GEOMETRY: Geometry = Geometry { mms: 1, tables: 1, entries: 512, zspages: 1, slots: 8, readahead: 0 };

/// Calls `test` with a segment that has this key.
fn with_key(key: u8, test: impl FnOnce(Segment<'_>)) {
    let words: Vec<AtomicU64> = (0..GEOMETRY.layout().total_words()).map(|_| AtomicU64::new(0)).collect();
    let segment = Segment::create(&words, GEOMETRY);
    segment.file_key().set([key; 32]);
    test(segment);
}

fn seal(segment: Segment<'_>, owner: Owner, content: &[u8]) -> Vec<u8> {
    let mut record = vec![0xEE; record_bytes(content.len())];
    let write = |place: &mut [u8]| place.copy_from_slice(content);
    Cipher::of(segment.file_key()).seal(segment.file_key(), owner, content.len(), &mut record, write);
    record
}

fn open(segment: Segment<'_>, owner: Owner, record: &[u8]) -> Option<Vec<u8>> {
    let mut content = [0; PAGE_BYTES];
    let length = Cipher::of(segment.file_key()).open(owner, record, &mut content)?;
    Some(content[..length].to_vec())
}

fn owner(id: u32, hash: u128) -> Owner {
    Owner { id: SwapId::new(id), hash }
}

fn contents() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 1..200),
        prop::collection::vec(any::<u8>(), PAGE_BYTES - 100..=PAGE_BYTES),
    ]
}

/// The bytes of a record that mean something.
fn meaning_bytes(content: &[u8]) -> usize {
    24 + content.len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_was_sealed_comes_back(content in contents(), id: u32, hash: u128) {
        with_key(1, |segment| {
            let record = seal(segment, owner(id, hash), &content);
            assert_eq!(record.len() % 64, 0);
            assert_eq!(open(segment, owner(id, hash), &record), Some(content));
        });
    }

    #[test]
    fn any_flipped_bit_is_found(content in contents(), at: prop::sample::Index, bit in 0..8) {
        with_key(1, |segment| {
            let mut record = seal(segment, owner(1, 2), &content);
            record[at.index(meaning_bytes(&content))] ^= 1_u8 << bit;
            assert_eq!(open(segment, owner(1, 2), &record), None);
        });
    }

    #[test]
    fn a_write_that_was_done_in_part_is_found(old in contents(), new in contents(), at: prop::sample::Index) {
        with_key(1, |segment| {
            let (old, whole) = (seal(segment, owner(1, 1), &old), seal(segment, owner(1, 2), &new));
            let mut torn = old;
            torn.resize(whole.len(), 0);
            let done = at.index(meaning_bytes(&new));
            torn[..done].copy_from_slice(&whole[..done]);
            if torn[..meaning_bytes(&new)] == whole[..meaning_bytes(&new)] {
                // What is missing was there before, by chance.
                return;
            }
            assert_eq!(open(segment, owner(1, 2), &torn), None, "{done} of {}", whole.len());
        });
    }

    #[test]
    fn garbage_is_no_record(garbage in prop::collection::vec(any::<u8>(), 0..5000)) {
        with_key(1, |segment| assert_eq!(open(segment, owner(1, 2), &garbage), None));
    }
}

#[test]
fn a_record_opens_only_for_its_entry_its_content_and_its_run() {
    with_key(1, |segment| {
        let content = [7; 1000];
        let record = seal(segment, owner(1, 2), &content);
        assert_eq!(open(segment, owner(3, 2), &record), None, "records that changed places");
        assert_eq!(open(segment, owner(1, 9), &record), None, "an older record of the entry, put back");
        with_key(2, |other| assert_eq!(open(other, owner(1, 2), &record), None, "another key"));
        assert_eq!(open(segment, owner(1, 2), &record), Some(content.to_vec()));
    });
}

/// The key stream would be the same, and the difference of two contents in plain sight.
#[test]
fn the_same_is_never_sealed_the_same_way() {
    with_key(1, |segment| {
        let records: Vec<_> = (0..100).map(|_| seal(segment, owner(1, 2), &[0; 64])).collect();
        let mut parts: Vec<_> = records.iter().map(|record| &record[24..24 + 64]).collect();
        parts.sort();
        parts.dedup();
        assert_eq!(parts.len(), records.len());
    });
}

/// What one run has sealed does not open in another, which has another key.
#[test]
fn a_record_is_of_one_run() {
    let mut record = Vec::new();
    with_key(1, |segment| record = seal(segment, owner(1, 2), &[7; 500]));
    with_key(2, |segment| assert_eq!(open(segment, owner(1, 2), &record), None));
    with_key(1, |segment| assert_eq!(open(segment, owner(1, 2), &record), Some(vec![7; 500])));
}
