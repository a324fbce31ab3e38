//! What the workloads of our own put into memory: pages that look like those of real programs, made from a seed.
//!
//! What must hold: the words of a page follow from the seed, the page's number and (for machine code) the executable
//! file, and from nothing else; two pages differ, except that about one in thirty holds only zeros; the quick codecs
//! compress the mix as they do real programs (2.2 to 5.4 : 1, LZ4 2.2); making a page costs little more than writing
//! it.
//!
//! A bank of template pages is made once. A page is one of them, its words rotated by a number of its own and a few of
//! them changed: both keep what a compressor finds in it. Machine code is that of the running executable, so checksums
//! are compared within one build only.

mod templates;

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::Context as _;
use uswap_units::{PAGE_BYTES, Prng};

/// Words of 8 bytes in a page.
pub const PAGE_WORDS: usize = PAGE_BYTES / 8;
/// One word in so many is a counter: zero at first, and the only word that pmbench writes.
pub const COUNTER_EVERY: usize = 64;
/// Template pages of each kind: 5 kinds of 150 pages are 2.9 MiB.
const TEMPLATES: usize = 150;

/// Words of one page.
pub type PageWords = [u64; PAGE_WORDS];

/// What a page looks like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Nothing but zeros.
    Zero,
    /// English-like text.
    Text,
    /// Records of JSON.
    Json,
    /// Objects of a heap: pointers, lengths, small integers, short strings.
    Heap,
    /// Columns of prices and measurements as 64-bit floats, with times beside them.
    Floats,
    /// Machine code of the running executable.
    Code,
}

/// How many of 100 pages are of each kind.
pub const MIX: [(Kind, u64); 6] = [
    (Kind::Zero, 3),
    (Kind::Text, 15),
    (Kind::Json, 20),
    (Kind::Heap, 37),
    (Kind::Floats, 15),
    (Kind::Code, 10),
];

/// Makes the pages of one seed.
pub struct Content {
    seed: u64,
    /// [`TEMPLATES`] pages for each kind of [`MIX`] but the zeros, in that order.
    bank: Vec<PageWords>,
}

impl Content {
    /// Makes the bank of templates; reads machine code from `/proc/self/exe`.
    pub fn new(seed: u64) -> anyhow::Result<Content> {
        let code = templates::Code::of_executable().context(
            "no machine code for the pages of the workload: /proc/self/exe cannot be read as an ELF file; is \
                /proc mounted?",
        )?;
        let mut bank = Vec::with_capacity(TEMPLATES * (MIX.len() - 1));
        for (kind, _) in &MIX[1..] {
            for number in 0..TEMPLATES as u64 {
                let mut random = Prng::new(hash(seed ^ hash(number ^ ((*kind as u64) << 32))));
                let bytes = templates::page(*kind, &mut random, &code)?;
                bank.push(std::array::from_fn(|word| {
                    u64::from_le_bytes(bytes[word * 8..][..8].try_into().expect("8 bytes were taken"))
                }));
            }
        }
        Ok(Content { seed, bank })
    }

    /// The content of page `number`.
    pub fn page(&self, number: u64) -> Page<'_> {
        let variation = hash(self.seed ^ hash(number));
        let mut share = variation % 100;
        let mut kinds = MIX.iter().enumerate();
        let (place, kind) = loop {
            let (place, (kind, percent)) = kinds.next().expect("the shares of the mix are 100 together");
            if share < *percent {
                break (place, *kind);
            }
            share -= percent;
        };
        let template = (variation >> 8) as usize % TEMPLATES;
        let words = place.checked_sub(1).map(|place| &self.bank[place * TEMPLATES + template]);
        Page { kind, words, rotation: (variation >> 32) as usize % PAGE_WORDS, variation }
    }

    /// Writes page `number` into `words`, a page of memory.
    pub fn fill(&self, number: u64, words: &[AtomicU64]) {
        self.page(number).for_each(|index, word| words[index].store(word, Relaxed));
    }
}

/// The content of one page.
pub struct Page<'c> {
    /// What it looks like.
    pub kind: Kind,
    words: Option<&'c PageWords>,
    rotation: usize,
    variation: u64,
}

impl Page<'_> {
    /// Calls `visit` with the index and the value of each word, in order. Counters are zero.
    #[inline]
    pub fn for_each(&self, mut visit: impl FnMut(usize, u64)) {
        let Some(template) = self.words else {
            (0..PAGE_WORDS).for_each(|index| visit(index, 0));
            return;
        };
        // Bits that may change and leave a word of its kind: lower bits of letters, the place of an object, a few
        // digits of a number.
        let mask = match self.kind {
            Kind::Zero => 0,
            Kind::Text | Kind::Json => 0x0303_0303_0303_0303,
            Kind::Heap => 0x0000_0000_00FF_FFF0,
            Kind::Floats => 0x0000_FFFF_0000_0000,
            Kind::Code => 0x0000_FFFF_FF00_0000,
        };
        let mut stamp = self.variation;
        let mut source = self.rotation;
        for block in 0..PAGE_WORDS / COUNTER_EVERY {
            let first = block * COUNTER_EVERY;
            // A word that is changed, the words in the middle as they are, and the counter.
            visit(first, template[source] ^ (stamp & mask));
            stamp = hash(stamp);
            for index in first + 1..first + COUNTER_EVERY - 1 {
                source = (source + 1) % PAGE_WORDS;
                visit(index, template[source]);
            }
            source = (source + 2) % PAGE_WORDS;
            visit(first + COUNTER_EVERY - 1, 0);
        }
    }

    /// The page as an array.
    pub fn to_words(&self) -> PageWords {
        let mut words = [0; PAGE_WORDS];
        self.for_each(|index, word| words[index] = word);
        words
    }
}

/// Whether the word at `index` is a counter.
pub const fn is_counter(index: usize) -> bool {
    index % COUNTER_EVERY == COUNTER_EVERY - 1
}

/// Mixes all bits of a number.
pub fn hash(value: u64) -> u64 {
    Prng::new(value).next_u64()
}

/// Adds up words so that a changed or moved word changes the sum. Four lanes, so that the processor need not wait for
/// each addition.
#[derive(Clone, Copy, Default)]
pub struct Sum([u64; 4]);

impl Sum {
    /// Adds the word at `index`; indices go up by one.
    #[inline]
    pub fn add(&mut self, index: usize, word: u64) {
        let lane = &mut self.0[index % 4];
        *lane = lane.rotate_left(7).wrapping_add(word);
    }

    /// The sum of the page `number`; those of all pages may be added in any order.
    pub fn of_page(self, number: u64) -> u64 {
        self.0.iter().fold(hash(number), |sum, lane| hash(sum ^ lane))
    }

    /// The sum of the words of page `number`.
    #[inline]
    pub fn of_words(number: u64, words: &[AtomicU64]) -> u64 {
        let mut sum = Sum::default();
        for (index, word) in words.iter().enumerate() {
            sum.add(index, word.load(Relaxed));
        }
        sum.of_page(number)
    }
}

#[cfg(test)]
mod tests;
