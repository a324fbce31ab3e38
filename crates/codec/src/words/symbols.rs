//! The symbols: what one word of a page can be said to be.
//!
//! Each symbol is a base word (zero, or the word some distance back in the page) and a literal that is laid over it:
//! ```text
//! word = base ^ (literal << shift)
//! ```
//! A symbol fixes how many bytes it takes from the literal stream and how they split into distance and literal, so the
//! decoder looks all of it up in one table and has no branch.
//!
//! Must hold: [`INFO`] and the tables of the encoder in this file name the same symbols. Called by [`crate::words`],
//! and by [`super::codes`], [`super::lengths`], [`super::vector_tables`] and [`super::vectors`].

use uswap_vector::words::{DISTANCE_MAX, DISTANCE_NEAR_MAX};

/// Number of symbols. The tables of the decoder have room for 64.
pub(super) const SYMBOL_COUNT: usize = SPECS.len();

/// Contexts: the code of a symbol depends on the group of the symbol before it.
pub(super) const CONTEXT_COUNT: usize = 8;

/// Where the base word of a symbol comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    /// No base: the literal alone.
    Zero,
    /// The distance that was used last.
    Again,
    /// A distance that the symbol itself names, 1 or more.
    Fixed(u8),
    /// Distance 1 to 16, in the low four bits of the literal.
    Near,
    /// Distance 1 to 256, in the low byte of the literal.
    Far,
    /// No base; the literal is a number of hundredths (or what the page says) that is turned into a float.
    Decimal,
}

/// One symbol, as a human reads it.
pub(super) struct Spec {
    pub base: Base,
    /// Bits of the literal, without the distance.
    pub bits: u8,
    pub shift: u8,
    pub context: u8,
}

const _: () = assert!(DISTANCE_MAX == 256 && DISTANCE_NEAR_MAX == 16, "as `Base` has it");

const fn spec(base: Base, bits: u8, shift: u8, context: u8) -> Spec {
    Spec { base, bits, shift, context }
}

pub(super) const SPECS: [Spec; 46] = [
    // Zero, small integers, raw.
    spec(Base::Zero, 0, 0, 0),
    spec(Base::Zero, 8, 0, 1),
    spec(Base::Zero, 16, 0, 2),
    spec(Base::Zero, 24, 0, 2),
    spec(Base::Zero, 32, 0, 2),
    spec(Base::Zero, 48, 0, 3),
    spec(Base::Zero, 64, 0, 3),
    // High bytes: floats with few digits, two 32-bit numbers with a small high one.
    spec(Base::Zero, 8, 32, 1),
    spec(Base::Zero, 16, 48, 2),
    spec(Base::Zero, 24, 40, 2),
    spec(Base::Zero, 32, 32, 2),
    spec(Base::Zero, 48, 16, 3),
    // Again.
    spec(Base::Again, 0, 0, 4),
    spec(Base::Again, 8, 0, 5),
    spec(Base::Again, 8, 3, 5),
    spec(Base::Again, 8, 4, 5),
    spec(Base::Again, 16, 0, 5),
    spec(Base::Again, 16, 3, 5),
    spec(Base::Again, 16, 4, 5),
    spec(Base::Again, 24, 0, 5),
    spec(Base::Again, 24, 3, 5),
    spec(Base::Again, 32, 0, 5),
    spec(Base::Again, 48, 0, 3),
    // Exact copies from nearby.
    spec(Base::Fixed(1), 0, 0, 6),
    spec(Base::Fixed(2), 0, 0, 6),
    spec(Base::Fixed(3), 0, 0, 6),
    spec(Base::Fixed(4), 0, 0, 6),
    spec(Base::Fixed(5), 0, 0, 6),
    spec(Base::Fixed(6), 0, 0, 6),
    spec(Base::Fixed(8), 0, 0, 6),
    // Like a word nearby.
    spec(Base::Near, 4, 0, 7),
    spec(Base::Near, 4, 4, 7),
    spec(Base::Near, 12, 0, 7),
    spec(Base::Near, 12, 3, 7),
    spec(Base::Near, 12, 4, 7),
    spec(Base::Near, 20, 0, 7),
    spec(Base::Near, 28, 0, 7),
    spec(Base::Near, 28, 3, 7),
    // A word further back.
    spec(Base::Far, 0, 0, 6),
    spec(Base::Far, 8, 0, 7),
    spec(Base::Far, 8, 4, 7),
    spec(Base::Far, 16, 3, 7),
    spec(Base::Far, 24, 3, 7),
    // Decimal fractions.
    spec(Base::Decimal, 16, 0, 2),
    spec(Base::Decimal, 24, 0, 2),
    spec(Base::Decimal, 32, 0, 2),
];

/// A word of zeros.
pub(super) const SYMBOL_ZERO: usize = 0;
const _: () = assert!(same_base(SPECS[SYMBOL_ZERO].base, Base::Zero) && SPECS[SYMBOL_ZERO].bits == 0);

/// The word at the last distance once more.
pub(super) const SYMBOL_AGAIN: usize = 12;
const _: () = assert!(same_base(SPECS[SYMBOL_AGAIN].base, Base::Again) && SPECS[SYMBOL_AGAIN].bits == 0);

/// First symbol of [`Base::Decimal`]: the larger the literal, the later the symbol.
pub(super) const DECIMAL_16: u8 = SYMBOL_COUNT as u8 - 3;

/// One symbol, as the decoder needs it.
#[derive(Clone, Copy)]
pub(super) struct Info {
    /// Which bits of the base count: all or none.
    pub base_mask: u64,
    /// Which bits of the word the literal may change.
    pub literal_mask: u64,
    /// Which low bits of the literal are the distance.
    pub distance_mask: u8,
    /// Added to these bits. Mask and sum are 0 where the last distance stays.
    pub distance_add: u8,
    /// How far to the left the literal has to be turned to get from its place above the distance to its place in the
    /// word.
    pub rotate: u8,
    /// Bytes taken from the literal stream.
    pub bytes: u8,
    pub context: u8,
    pub decimal: bool,
    /// The distance is not remembered.
    pub keeps_distance: bool,
}

const fn info(spec: &Spec) -> Info {
    let (base_mask, distance_bits, distance_add) = match spec.base {
        Base::Zero | Base::Decimal => (0, 0, 0),
        Base::Again => (u64::MAX, 0, 0),
        Base::Fixed(distance) => (u64::MAX, 0, distance),
        Base::Near => (u64::MAX, 4, 1),
        Base::Far => (u64::MAX, 8, 1),
    };
    let bits = distance_bits + spec.bits;
    assert!(bits.is_multiple_of(8), "the literal stream is made of whole bytes");
    Info {
        base_mask,
        literal_mask: low_bits(spec.bits) << spec.shift,
        distance_mask: low_bits(distance_bits) as u8,
        distance_add,
        rotate: (64 + spec.shift - distance_bits) % 64,
        bytes: bits / 8,
        context: spec.context,
        decimal: matches!(spec.base, Base::Decimal),
        keeps_distance: !is_copy(spec),
    }
}

const fn low_bits(count: u8) -> u64 {
    if count == 64 { u64::MAX } else { (1 << count) - 1 }
}

/// What the decoder does for each symbol. Numbers above the last symbol never come out of the code tables; they are
/// there so that any byte is an index.
pub(super) static INFO: [Info; 256] = {
    let mut table = [info(&SPECS[0]); 256];
    let mut symbol = 0;
    while symbol < SYMBOL_COUNT {
        table[symbol] = info(&SPECS[symbol]);
        symbol += 1;
    }
    table
};

/// The cheapest symbol of one family, by the lowest and the highest bit of the literal.
///
/// Each place is `cost << 8 | symbol`, the cost in bits, or [`NEVER`]. The row is the number of low zero bits, in units
/// of `UNIT` and at most seven; the column is the number of the highest bit that is set. A literal of zero has its
/// place in the last row and the first column, where no other literal can be.
pub(super) struct Choices<const UNIT: usize>(pub [[u16; 64]; 8]);

/// No symbol of the family can hold the literal. Costs more than any symbol.
pub(super) const NEVER: u16 = 0xff00;

impl<const UNIT: usize> Choices<UNIT> {
    const fn new(base: Base) -> Self {
        let mut table = [[NEVER; 64]; 8];
        let mut symbol = 0;
        while symbol < SYMBOL_COUNT {
            let spec = &SPECS[symbol];
            let choice = cost(spec) << 8 | symbol as u16;
            let mut place = 0;
            while place < 8 * 64 && same_base(spec.base, base) && !is_copy(spec) {
                let (zeros, highest) = (place / 64, place % 64);
                let is_zero = zeros == 7 && highest == 0;
                // No bit below the shift, none from shift + bits on.
                let fits_low = zeros * UNIT >= spec.shift as usize;
                let fits_high = highest < spec.shift as usize + spec.bits as usize;
                if (is_zero || fits_low && fits_high) && choice < table[zeros][highest] {
                    table[zeros][highest] = choice;
                }
                place += 1;
            }
            symbol += 1;
        }
        Self(table)
    }

    /// `cost << 8 | symbol` of the cheapest symbol of this family for `literal`, or [`NEVER`].
    #[inline(always)]
    pub(super) fn choose(&self, literal: u64) -> u16 {
        let highest = (literal | 1).ilog2() as usize;
        // The bit that is set bounds the zeros: seven units at most.
        let zeros = (literal | 1 << (8 * UNIT - 1)).trailing_zeros() as usize / UNIT;
        self.0[zeros & 7][highest & 63]
    }
}

/// Exact copies are found another way, and their distance is remembered.
const fn is_copy(spec: &Spec) -> bool {
    spec.bits == 0 && matches!(spec.base, Base::Fixed(_) | Base::Far)
}

const fn same_base(left: Base, right: Base) -> bool {
    match (left, right) {
        (Base::Zero, Base::Zero) | (Base::Again, Base::Again) => true,
        (Base::Near, Base::Near) | (Base::Far, Base::Far) => true,
        (Base::Fixed(left), Base::Fixed(right)) => left == right,
        _ => false,
    }
}

/// What a symbol costs, in bits: its bytes, and its code about as long as it usually is.
pub(super) const fn cost(spec: &Spec) -> u16 {
    let code = match spec.base {
        Base::Zero | Base::Again if spec.bits == 0 => 1,
        Base::Again => 4,
        Base::Zero => 4,
        _ => 5,
    };
    info(spec).bytes as u16 * 8 + code
}

pub(super) static ZERO: Choices<8> = Choices::new(Base::Zero);
pub(super) static AGAIN: Choices<1> = Choices::new(Base::Again);

/// For a word that is like another: at most [`DISTANCE_NEAR_MAX`] back, at most [`DISTANCE_MAX`] back, further back.
pub(super) static ALIKE: [Choices<1>; 3] =
    [Choices::new(Base::Near), Choices::new(Base::Far), Choices([[NEVER; 64]; 8])];

/// The symbol of an exact copy, by distance: a fixed one, or [`Base::Far`]. Index 0 is not used.
pub(super) static COPY: [u16; 512] = {
    let mut table = [NEVER; 512];
    let mut distance = 1;
    while distance <= 256 {
        let mut symbol = 0;
        while symbol < SYMBOL_COUNT {
            let spec = &SPECS[symbol];
            let fits = match spec.base {
                Base::Fixed(fixed) => fixed as usize == distance,
                Base::Far => spec.bits == 0,
                _ => false,
            };
            let cost = cost(spec) << 8 | symbol as u16;
            if fits && cost < table[distance] {
                table[distance] = cost;
            }
            symbol += 1;
        }
        distance += 1;
    }
    table
};

/// What a decimal fraction of so many bytes costs.
pub(super) const fn decimal_cost(bytes: u16) -> u16 {
    bytes * 8 + 4
}
