//! The content hash: tells whether what was read back is what was stored.
//!
//! Must hold: equal pages have equal hashes, in every process of a run. Called by `engine` when a page is stored, and
//! after each load; and by `sim`, whose check compares them too.
//!
//! xxh3 with 128 bits is not made against an attacker. A program that builds two pages with one hash on purpose damages
//! only itself: hashes are compared for one swap entry, never to share pages between entries.

use core::fmt;

use xxhash_rust::xxh3::xxh3_128;

use crate::Page;

/// 128-bit hash of the content of one page.
///
/// Two pages with the same hash hold the same bytes, except by an accident of about 1 in 2^128.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentHash(pub u128);

impl fmt::Debug for ContentHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "H{:032x}", self.0)
    }
}

/// Hash of the whole page.
#[must_use]
pub fn hash(page: &Page) -> ContentHash {
    ContentHash(xxh3_128(page))
}
