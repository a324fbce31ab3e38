//! A blob as it lies in the swap file: sealed with AES-256-GCM, so that whoever has the disk learns nothing, and can
//! change nothing unseen.
//!
//! ```text
//! byte 0      8       24               24 + length     a multiple of 64
//!      | mark | tag   | sealed content | zeros, without meaning |
//! mark: number of the record (51 bits) | length of the content (13 bits)
//! ```
//! The nonce (96 bits) is the swap id and the mark. Numbers never repeat in a run ([`uswap_core::file_key`]), and a key
//! lives as long as a run: no nonce is used twice, however often a slot is written. The hash of the page is bound to
//! the tag (as associated data), and it comes from the segment, not from the disk. So a record opens only for the entry
//! and the very content it was made for: not one of another entry, not an older one of the same entry at the same
//! place, not half of two.
//!
//! Must hold: nothing of a record is used before its tag was found right. Called by [`crate::writeback`];
//! by [`crate::fault::load`], which compares the hash of the page as well, since a record may have been made of content
//! that was damaged in the pool; by [`crate::space`], which makes the cipher of a process; and by `fuzz`.

use aes_gcm::aead::AeadInOut;
use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::{Aes256Gcm, KeyInit};
use core::ops::Range;
use uswap_codec::PAGE_BYTES;
use uswap_core::file_key::{FileKey, RECORD_NUMBER_BITS};
use uswap_core::swap_word::FILE_GRANULE_BYTES;
use uswap_units::SwapId;

const MARK: Range<usize> = 0..8;
const TAG: Range<usize> = 8..24;
const CONTENT_START: usize = TAG.end;
const LENGTH_BITS: u32 = 13;
const NONCE_BYTES: usize = 12;

const _: () = assert!(LENGTH_BITS + RECORD_NUMBER_BITS == u64::BITS);
const _: () = assert!(PAGE_BYTES < 1 << LENGTH_BITS);

/// Bytes that a blob takes in the file.
pub const fn record_bytes(length: usize) -> usize {
    (CONTENT_START + length).next_multiple_of(FILE_GRANULE_BYTES as usize)
}

/// What a record belongs to: it opens for nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The entry.
    pub id: SwapId,
    /// Hash of the page that the blob unpacks to.
    pub hash: u128,
}

impl Owner {
    fn nonce(self, mark: u64) -> [u8; NONCE_BYTES] {
        let mut nonce = [0; NONCE_BYTES];
        nonce[..4].copy_from_slice(&self.id.number().to_le_bytes());
        nonce[4..].copy_from_slice(&mark.to_le_bytes());
        nonce
    }
}

/// Seals and opens the records of a run. It never changes: threads share it, and a fork in any moment copies it whole.
pub struct Cipher(Aes256Gcm);

impl Cipher {
    /// With the key of a run, which was set before.
    pub fn of(key: FileKey<'_>) -> Cipher {
        Cipher(Aes256Gcm::new(&key.bytes().into()))
    }

    /// Makes the record of a blob of `length` bytes, numbered by the key of the same run, which `write_content` puts
    /// where it will be sealed. `record` is as long as [`record_bytes`] says.
    pub fn seal(
        &self,
        key: FileKey<'_>,
        owner: Owner,
        length: usize,
        record: &mut [u8],
        write_content: impl FnOnce(&mut [u8]),
    ) {
        assert!(length <= PAGE_BYTES);
        assert!(record.len() == record_bytes(length));
        let mark = (key.next_number() << LENGTH_BITS) | length as u64;
        let (header, rest) = record.split_at_mut(CONTENT_START);
        let (content, padding) = rest.split_at_mut(length);
        write_content(content);
        padding.fill(0);
        let tag = self
            .0
            .encrypt_inout_detached(&owner.nonce(mark).into(), &owner.hash.to_le_bytes(), content.into())
            .expect("a page is shorter than the cipher allows");
        header[MARK].copy_from_slice(&mark.to_le_bytes());
        header[TAG].copy_from_slice(&tag);
    }

    /// The blob in a record of `owner`, put into the front of `content`; its length. None, and nothing is known of what
    /// is in `content`: this is no record, or that of another.
    #[must_use]
    pub fn open(&self, owner: Owner, record: &[u8], content: &mut [u8; PAGE_BYTES]) -> Option<usize> {
        let mark = u64::from_le_bytes(record.get(MARK)?.try_into().ok()?);
        let tag: [u8; TAG.end - TAG.start] = record.get(TAG)?.try_into().ok()?;
        let length = (mark & ((1 << LENGTH_BITS) - 1)) as usize;
        let sealed = record.get(CONTENT_START..CONTENT_START + length)?;
        let opened = InOutBuf::new(sealed, content.get_mut(..length)?).ok()?;
        self.0
            .decrypt_inout_detached(&owner.nonce(mark).into(), &owner.hash.to_le_bytes(), opened, &tag.into())
            .ok()?;
        Some(length)
    }
}
