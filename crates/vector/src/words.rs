//! What the kernels take and give: pages of 64-bit words that are written as symbols, a base word and a literal laid
//! over it.
//!
//! Must hold: arrays have the size of a page or of a table, so that no kernel looks whether an index is inside; numbers
//! that the portable code needs too stand here once. Called by `codec`, which fills the tables, and by the kernels
//! ([`crate::avx512`]).

/// Words of a page.
pub const WORD_COUNT: usize = 512;

/// A page as words, lowest byte first.
pub type Words = [[u8; 8]; WORD_COUNT];

/// Symbols that there can be.
pub const SYMBOLS_MAX: usize = 64;

/// What the decoder does for each symbol. A word is `base ^ literal`; of the literal, `bytes` are stored: first the
/// distance, above it the bits.
pub struct Shapes {
    /// Bytes stored.
    pub bytes: [u8; SYMBOLS_MAX],
    /// How far to the left what is stored has to be turned.
    pub rotate: [u8; SYMBOLS_MAX],
    /// 64 less the bits of the literal.
    pub bits_unused: [u8; SYMBOLS_MAX],
    /// Where its lowest bit is in the word.
    pub shift: [u8; SYMBOLS_MAX],
    /// Which bits of the first byte are the distance.
    pub distance_mask: [u8; SYMBOLS_MAX],
    /// The distance less 1, without these bits.
    pub distance_less_one: [u8; SYMBOLS_MAX],
    /// Some of the `IS_` constants.
    pub kind: [u8; SYMBOLS_MAX],
}

/// Its distance is remembered.
pub const IS_COPY: u8 = 1;
/// Its distance is the one that was remembered last.
pub const IS_AGAIN: u8 = 2;
/// It has a base.
pub const IS_BASED: u8 = 4;
/// Its literal is a number that, divided by the scale of the page, gives the word.
pub const IS_DECIMAL: u8 = 8;

/// Where the base of each word is.
pub struct Bases {
    /// One bit for each word: it has a base.
    pub based: [u64; WORD_COUNT / 64],
    /// Where, for those that have one.
    pub at: [u16; WORD_COUNT],
}

impl Bases {
    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Self { based: [0; WORD_COUNT / 64], at: [0; WORD_COUNT] }
    }
}

impl Default for Bases {
    fn default() -> Self {
        Self::new()
    }
}

/// Where literals are, and what they are to be.
pub struct Stored<'a> {
    /// Of each word. The first one is to have neither literal nor base.
    pub symbols: &'a [u8; WORD_COUNT],
    /// The literals, and at least 64 bytes behind the last one.
    pub blob: &'a [u8],
    /// Where they begin.
    pub literals_at: usize,
    /// Of decimal literals; 0: there are none.
    pub scale: f64,
}

/// Words before the page, all zero: a distance may reach so far from its first word.
pub const WORDS_BEFORE: usize = DISTANCE_MAX;

/// A page as numbers, and [`WORDS_BEFORE`] it.
pub type Numbers = [u64; WORDS_BEFORE + WORD_COUNT];

/// Largest distance that can be written.
pub const DISTANCE_MAX: usize = 256;

/// Largest distance that takes half a byte.
pub const DISTANCE_NEAR_MAX: usize = 16;

/// Words up to this are not written as copies: as small numbers they cost no more.
pub const COPY_ABOVE: u64 = 0xff;

/// Places in each of the two tables of recent words.
pub const RECENT_BITS: u32 = 9;

/// Bits of a word that do not count in the second table: words that differ only there are near each other.
pub const REGION_BITS: u32 = 20;

/// Room of each table: as many places and more, of which the vector kernels use one. A power of two.
pub const RECENT_PLACES: usize = 2 << RECENT_BITS;

/// Where each word was last seen, by its hash. 0: the first word, or none.
pub type Recent = [u16; RECENT_PLACES];

/// What spreads words over the places. 2^64 divided by the golden ratio.
pub const RECENT_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Place of a word in a table of recent words.
#[inline(always)]
#[must_use]
pub const fn recent_place(word: u64) -> usize {
    (word.wrapping_mul(RECENT_FACTOR) >> (64 - RECENT_BITS)) as usize
}

/// 1.5 * 2^52: a float next to it has no bits for fractions.
pub const ROUNDS_TO_INTEGER: f64 = 6_755_399_441_055_744.0;

/// Sets of codes.
pub const CLASS_COUNT: usize = 4;

/// Symbols that can come after each of eight contexts: `context << 6 | symbol` is the place of a code.
pub const CODE_PLACES: usize = 8 * SYMBOLS_MAX;

/// A page with more than so many bytes of literals in its first words is not one for this codec: text, random bytes,
/// code.
pub const GIVE_UP: [GiveUp; 3] = [
    GiveUp { words: 32, literal_bytes: 227 },
    GiveUp { words: 64, literal_bytes: 410 },
    GiveUp { words: 128, literal_bytes: 766 },
];

/// See [`GIVE_UP`].
pub struct GiveUp {
    /// So many words were looked at, the first one too.
    pub words: usize,
    /// More is too much.
    pub literal_bytes: usize,
}

/// Which symbol is the cheapest of its family for a literal.
pub struct Choices {
    /// No base, by the number of its low zero bytes times 8, and the number of its highest byte.
    pub zero: [u8; SYMBOLS_MAX],
    /// At the distance that was remembered last: by low zero bits (fewer than three, three, more), then by the highest
    /// bit.
    pub again: [[u8; SYMBOLS_MAX]; 3],
    /// The same at a distance up to [`DISTANCE_NEAR_MAX`].
    pub near: [[u8; SYMBOLS_MAX]; 3],
    /// The same at a distance up to [`DISTANCE_MAX`].
    pub far: [[u8; SYMBOLS_MAX]; 3],
    /// The same word once more, by its distance less 1, or 63.
    pub copy: [u8; SYMBOLS_MAX],
    /// A decimal number, by its bytes.
    pub decimal: [u8; SYMBOLS_MAX],
    /// What a symbol costs in bits. That of [`NO_SYMBOL`] is more than any other.
    pub cost: [u8; SYMBOLS_MAX],
    /// The context that a symbol makes for the next one.
    pub context: [u8; SYMBOLS_MAX],
    /// A word of zeros.
    pub symbol_zero: u8,
    /// The word at the distance remembered last.
    pub symbol_again: u8,
    /// For each set of codes, how long each is.
    pub lengths: [[u8; CODE_PLACES]; CLASS_COUNT],
    /// And the codes.
    pub codes: [[u8; CODE_PLACES]; CLASS_COUNT],
}

/// None of the family will do.
pub const NO_SYMBOL: u8 = 63;

/// What [`describe`](crate::kernels::describe) found out about a page.
pub struct Described {
    /// Of each word. That of the first one means nothing.
    pub symbols: [u8; WORD_COUNT],
    /// That of the word before, 0 for words where a stream begins.
    pub contexts: [u8; WORD_COUNT],
    /// Bits of all codes, for each set of codes.
    pub bits: [u32; CLASS_COUNT],
    /// Where the literals end.
    pub literals_end: usize,
}

impl Described {
    /// Nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { symbols: [0; WORD_COUNT], contexts: [0; WORD_COUNT], bits: [0; CLASS_COUNT], literals_end: 0 }
    }
}

impl Default for Described {
    fn default() -> Self {
        Self::new()
    }
}

/// A page that is to be described.
pub struct Question<'a> {
    /// It.
    pub numbers: &'a Numbers,
    /// Of decimal literals; 0: there are none.
    pub scale: f64,
    /// Words at which a stream of codes begins.
    pub stream_starts: [usize; 4],
    /// Where the literals are to begin.
    pub literals_at: usize,
}

/// Codes of eight words each, one behind the other: the first one lowest, and how many bits.
pub struct Packed {
    /// 64 is all that eight codes may take.
    pub bits: [u64; WORD_COUNT / 8 + 8],
    /// How many of them count.
    pub counts: [u64; WORD_COUNT / 8 + 8],
}

impl Packed {
    /// Nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { bits: [0; WORD_COUNT / 8 + 8], counts: [0; WORD_COUNT / 8 + 8] }
    }
}

impl Default for Packed {
    fn default() -> Self {
        Self::new()
    }
}
