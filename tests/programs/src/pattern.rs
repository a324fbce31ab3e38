//! What the programs write into pages: content that follows from a key, of kinds that compress differently.
//!
//! What must hold: the same key always gives the same 4096 bytes; two keys give different bytes, except that
//! about one key in sixteen gives a page of zeros. Nothing here allocates. Used by `churn`, `touch` and `evil`.

use crate::PAGE_BYTES;
use crate::random::{Random, mix};

/// How the content of a page looks to a compressor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All bytes zero.
    Zero,
    /// One 64-bit value repeated.
    Same,
    /// Words of a small vocabulary.
    Text,
    /// Values that look like addresses near each other.
    Pointers,
    /// Mostly zeros with a few random words.
    Sparse,
    /// Random bits.
    Random,
}

/// What a page holds: names the writer and its count of writes, so that a wrong page can be identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Seed of the run.
    pub seed: u64,
    /// Who wrote.
    pub writer: u32,
    /// The writer's own number of this content, never used twice.
    pub number: u32,
}

/// One page of content.
pub type Page = [u8; PAGE_BYTES];

const TAG_MARK: u64 = 0x5AA5_0000_0000_0000;

const WORDS: [&[u8; 8]; 16] = [
    b"memory, ",
    b"program ",
    b"budget; ",
    b"is what ",
    b"remains ",
    b"when all",
    b" others ",
    b"have it:",
    b"{\"id\": 1",
    b",\"name\":",
    b"\"value\"}",
    b"\nreturn ",
    b"struct {",
    b"};\n     ",
    b"0.0,1.0,",
    b"        ",
];

impl Key {
    fn hash(&self) -> u64 {
        mix(self.seed ^ mix((u64::from(self.writer) << 32) | u64::from(self.number)))
    }

    /// The first word of a page that is neither zero nor same-filled: tells who wrote it.
    fn tag(&self) -> u64 {
        TAG_MARK | (u64::from(self.writer & 0xFFFF) << 32) | u64::from(self.number)
    }

    /// The kind that `fill` chooses for this key.
    pub fn kind(&self) -> Kind {
        match self.hash() & 15 {
            0 => Kind::Zero,
            1 | 2 => Kind::Same,
            3..=6 => Kind::Text,
            7..=9 => Kind::Pointers,
            10 | 11 => Kind::Sparse,
            _ => Kind::Random,
        }
    }

    /// A page of the content that belongs to the key.
    pub fn page(&self) -> Page {
        let mut page = [0; PAGE_BYTES];
        self.fill(&mut page);
        page
    }

    /// Fills `page` with content of the kind that belongs to the key.
    pub fn fill(&self, page: &mut Page) {
        self.fill_as(self.kind(), page);
    }

    /// Fills `page` with content of `kind`.
    pub fn fill_as(&self, kind: Kind, page: &mut Page) {
        let hash = self.hash();
        let mut random = Random::new(hash);
        let (words, _) = page.as_chunks_mut::<8>();
        match kind {
            Kind::Zero => return words.fill([0; 8]),
            Kind::Same => return words.fill((hash | 1).to_le_bytes()),
            Kind::Text => {
                for sixteen in words.chunks_mut(16) {
                    let mut choice = random.next_number();
                    for word in sixteen {
                        *word = *WORDS[(choice & 15) as usize];
                        choice >>= 4;
                    }
                }
            }
            Kind::Pointers => {
                let base = 0x7F00_0000_0000 | (hash & 0x3F_FFFF_0000);
                for four in words.chunks_mut(4) {
                    let choice = random.next_number();
                    for (position, word) in four.iter_mut().enumerate() {
                        *word = (base + ((choice >> (16 * position)) & 0xFFF0)).to_le_bytes();
                    }
                }
            }
            Kind::Sparse => {
                words.fill([0; 8]);
                for _ in 0..12 {
                    words[random.index(512)] = random.next_number().to_le_bytes();
                }
            }
            Kind::Random => {
                for word in words.iter_mut() {
                    *word = random.next_number().to_le_bytes();
                }
            }
        }
        words[0] = self.tag().to_le_bytes();
    }
}

/// What the first word of a found page says about who wrote it: `(writer, number)`.
pub fn writer_of(page: &Page) -> Option<(u32, u32)> {
    let (words, _) = page.as_chunks::<8>();
    let tag = u64::from_le_bytes(words[0]);
    (tag >> 48 == TAG_MARK >> 48).then_some((((tag >> 32) & 0xFFFF) as u32, tag as u32))
}

/// Offset of the first byte in which the pages differ.
pub fn first_difference(left: &Page, right: &Page) -> Option<usize> {
    if left == right {
        return None;
    }
    left.iter().zip(right).position(|(left, right)| left != right)
}

#[cfg(test)]
mod tests {
    use super::{Key, Kind, first_difference, writer_of};
    use crate::PAGE_BYTES;

    fn filled(number: u32) -> [u8; PAGE_BYTES] {
        let mut page = [0xEE; PAGE_BYTES];
        Key { seed: 9, writer: 3, number }.fill(&mut page);
        page
    }

    #[test]
    fn a_key_always_gives_the_same_page_and_another_key_another_page() {
        for number in 0..500 {
            assert_eq!(first_difference(&filled(number), &filled(number)), None);
            let both_zero = [number, number + 1]
                .iter()
                .all(|&number| Key { seed: 9, writer: 3, number }.kind() == Kind::Zero);
            assert!(
                both_zero || first_difference(&filled(number), &filled(number + 1)).is_some(),
                "{number}"
            );
        }
    }

    #[test]
    fn every_kind_occurs_and_names_its_writer() {
        let mut seen = Vec::new();
        for number in 0..200 {
            let kind = Key { seed: 9, writer: 3, number }.kind();
            if !seen.contains(&kind) {
                seen.push(kind);
            }
            let named = writer_of(&filled(number));
            match kind {
                Kind::Zero | Kind::Same => assert_ne!(named, Some((3, number))),
                _ => assert_eq!(named, Some((3, number))),
            }
        }
        assert_eq!(seen.len(), 6, "{seen:?}");
    }
}
