//! Records of the swap file.

use std::sync::atomic::AtomicU64;

use uswap_codec::PAGE_BYTES;
use uswap_core::segment::{Geometry, Segment};
use uswap_engine::record::{Cipher, Owner, record_bytes};
use uswap_units::SwapId;

const GEOMETRY: Geometry = Geometry { mms: 1, tables: 1, entries: 512, zspages: 1, slots: 8, readahead: 0 };

const OWNER: Owner = Owner { id: SwapId::new(3), hash: 0x0123_4567_89ab_cdef };

/// Bytes before the content of a record: its mark and its tag.
const HEADER_BYTES: usize = 24;

/// Nobody can write a record without the key: any bytes are none. What was sealed opens, for its owner only, and not
/// after one bit has changed. The first two bytes say which.
pub fn record_open(bytes: &[u8]) {
    let words: Vec<AtomicU64> = (0..GEOMETRY.layout().total_words()).map(|_| AtomicU64::new(0)).collect();
    let segment = Segment::create(&words, GEOMETRY);
    segment.file_key().set([7; 32]);
    let cipher = Cipher::of(segment.file_key());
    let mut content = [0; PAGE_BYTES];
    let mut open = |owner: Owner, record: &[u8]| {
        let length = cipher.open(owner, record, &mut content)?;
        Some(content[..length].to_vec())
    };
    assert_eq!(open(OWNER, bytes), None, "nobody sealed it");

    let (choice, rest) = bytes.split_at(bytes.len().min(2));
    let sealed_content = &rest[..rest.len().min(PAGE_BYTES)];
    let mut record = vec![0xEE; record_bytes(sealed_content.len())];
    let write = |place: &mut [u8]| place.copy_from_slice(sealed_content);
    Cipher::of(segment.file_key()).seal(segment.file_key(), OWNER, sealed_content.len(), &mut record, write);
    assert_eq!(open(OWNER, &record).as_deref(), Some(sealed_content));
    for other in [Owner { id: SwapId::new(4), ..OWNER }, Owner { hash: OWNER.hash ^ 1, ..OWNER }] {
        assert_eq!(open(other, &record), None, "it belongs to another");
    }
    let number = choice.iter().fold(0, |number, byte| number << 8 | usize::from(*byte));
    let bit = number % (8 * (HEADER_BYTES + sealed_content.len()));
    record[bit / 8] ^= 1 << (bit % 8);
    assert_eq!(open(OWNER, &record), None, "bit {bit} was changed");
}
