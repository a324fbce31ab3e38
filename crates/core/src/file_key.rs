//! The key that the swap file is sealed with, and how many records were sealed with it: five words of the segment's
//! header.
//!
//! Must hold: the key is random, set once before anything is written, and kept in memory only; no number is handed out
//! twice, so that no two records share a nonce, whoever seals them. Whoever may map the segment may read its pool too:
//! the key gives away nothing that is not there. Called by the supervisor and `sim`, which set the key, and by
//! `engine`, which seals and opens with it.

use uswap_sync::{AtomicU64, Ordering};

/// Bytes of a key: AES-256.
pub const FILE_KEY_BYTES: usize = 32;

const KEY_WORDS: usize = FILE_KEY_BYTES / 8;

/// Words that it takes.
pub(crate) const FILE_KEY_WORDS: usize = KEY_WORDS + 1;

/// Records that are sealed with one key: a million a second for 71 years.
pub const RECORD_NUMBER_BITS: u32 = 51;

/// View of the key in the segment.
#[derive(Clone, Copy)]
pub struct FileKey<'a> {
    pub(crate) words: &'a [AtomicU64],
}

impl FileKey<'_> {
    /// Sets the key of the run.
    pub fn set(&self, key: [u8; FILE_KEY_BYTES]) {
        let sealed = self.words[KEY_WORDS].load(Ordering::Relaxed);
        assert!(sealed == 0, "a key is set before the first record");
        let (parts, _) = key.as_chunks();
        for (word, part) in self.words.iter().zip(parts) {
            word.store(u64::from_le_bytes(*part), Ordering::Relaxed);
        }
    }

    /// The key. Processes join after it was set.
    pub fn bytes(&self) -> [u8; FILE_KEY_BYTES] {
        let mut key = [0; FILE_KEY_BYTES];
        let (parts, _) = key.as_chunks_mut();
        for (word, part) in self.words.iter().zip(parts) {
            *part = word.load(Ordering::Relaxed).to_le_bytes();
        }
        key
    }

    /// A number that no other record has.
    pub fn next_number(&self) -> u64 {
        // Relaxed: only that it is another one each time counts.
        let number = self.words[KEY_WORDS].fetch_add(1, Ordering::Relaxed);
        assert!(number < 1 << RECORD_NUMBER_BITS, "a run ends before its numbers do");
        number
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_what_was_set_and_numbers_are_never_the_same() {
        let words: [AtomicU64; FILE_KEY_WORDS] = core::array::from_fn(|_| AtomicU64::new(0));
        let key = FileKey { words: &words };
        let bytes = core::array::from_fn(|index| index as u8 * 7);
        key.set(bytes);
        assert_eq!(key.bytes(), bytes);
        assert_eq!([key.next_number(), key.next_number(), key.next_number()], [0, 1, 2]);
    }
}
