//! Symbols and codes once more, in tables as the vector kernels want them.
//!
//! Must hold: they say the same as the tables of the portable code, from which they are made at compile time. Called by
//! [`super::vectors`].

use super::codes::CODES;
use super::lengths::CLASS_COUNT;
use super::symbols::{
    AGAIN, ALIKE, Base, COPY, Choices as Family, DECIMAL_16, INFO, NEVER, SPECS, SYMBOL_AGAIN, SYMBOL_COUNT,
    SYMBOL_ZERO, ZERO, cost, decimal_cost,
};
use uswap_vector::words::{
    CODE_PLACES, Choices, DISTANCE_MAX, IS_AGAIN, IS_BASED, IS_COPY, IS_DECIMAL, NO_SYMBOL, SYMBOLS_MAX,
    Shapes,
};

/// What the decoder does for each symbol, by property.
pub(super) static SHAPES: Shapes = {
    let mut shapes = Shapes {
        bytes: [0; SYMBOLS_MAX],
        rotate: [0; SYMBOLS_MAX],
        bits_unused: [64; SYMBOLS_MAX],
        shift: [0; SYMBOLS_MAX],
        distance_mask: [0; SYMBOLS_MAX],
        distance_less_one: [0; SYMBOLS_MAX],
        kind: [0; SYMBOLS_MAX],
    };
    let mut symbol = 0;
    while symbol < SYMBOL_COUNT {
        let (spec, info) = (&SPECS[symbol], &INFO[symbol]);
        let is_based = info.base_mask != 0;
        shapes.bytes[symbol] = info.bytes;
        shapes.rotate[symbol] = info.rotate;
        shapes.bits_unused[symbol] = 64 - spec.bits;
        shapes.shift[symbol] = spec.shift;
        shapes.distance_mask[symbol] = info.distance_mask;
        shapes.distance_less_one[symbol] = info.distance_add.saturating_sub(1);
        shapes.kind[symbol] = if !info.keeps_distance { IS_COPY } else { 0 }
            | if matches!(spec.base, Base::Again) { IS_AGAIN } else { 0 }
            | if is_based { IS_BASED } else { 0 }
            | if info.decimal { IS_DECIMAL } else { 0 };
        symbol += 1;
    }
    shapes
};

/// The cheapest symbols, in tables of 64 places.
pub(super) static CHOICES: Choices = {
    let mut cost_of = [u8::MAX; SYMBOLS_MAX];
    let mut context = [0; SYMBOLS_MAX];
    let mut symbol = 0;
    while symbol < SYMBOL_COUNT {
        let spec = &SPECS[symbol];
        cost_of[symbol] = if INFO[symbol].decimal {
            decimal_cost(INFO[symbol].bytes as u16) as u8
        } else {
            cost(spec) as u8
        };
        context[symbol] = spec.context;
        symbol += 1;
    }
    let mut zero = [NO_SYMBOL; SYMBOLS_MAX];
    let mut copy = [NO_SYMBOL; SYMBOLS_MAX];
    let mut place = 0;
    while place < SYMBOLS_MAX {
        // Bits are stored by whole bytes: the lowest one of a byte stands for all of it.
        zero[place] = symbol_of(ZERO.0[place / 8][place % 8 * 8]);
        copy[place] = symbol_of(COPY[if place == 63 { DISTANCE_MAX } else { place + 1 }]);
        place += 1;
    }
    let mut decimal = [NO_SYMBOL; SYMBOLS_MAX];
    decimal[2] = DECIMAL_16;
    decimal[3] = DECIMAL_16 + 1;
    decimal[4] = DECIMAL_16 + 2;
    let mut lengths = [[0; CODE_PLACES]; CLASS_COUNT];
    let mut codes = [[0; CODE_PLACES]; CLASS_COUNT];
    let mut class = 0;
    while class < CLASS_COUNT {
        let mut place = 0;
        while place < CODE_PLACES {
            lengths[class][place] = (CODES[class][place] & 0xff) as u8;
            codes[class][place] = (CODES[class][place] >> 8) as u8;
            place += 1;
        }
        class += 1;
    }
    Choices {
        zero,
        again: by_three(&AGAIN),
        near: by_three(&ALIKE[0]),
        far: by_three(&ALIKE[1]),
        copy,
        decimal,
        cost: cost_of,
        context,
        symbol_zero: SYMBOL_ZERO as u8,
        symbol_again: SYMBOL_AGAIN as u8,
        lengths,
        codes,
    }
};
const _: () = assert!(SYMBOL_COUNT <= NO_SYMBOL as usize);

const fn symbol_of(choice: u16) -> u8 {
    if choice == NEVER { NO_SYMBOL } else { choice as u8 }
}

/// The rows that differ: shifts are 0, 3 or 4.
const fn by_three(family: &Family<1>) -> [[u8; SYMBOLS_MAX]; 3] {
    let mut rows = [[NO_SYMBOL; SYMBOLS_MAX]; 3];
    let mut highest = 0;
    while highest < SYMBOLS_MAX {
        rows[0][highest] = symbol_of(family.0[0][highest]);
        rows[1][highest] = symbol_of(family.0[3][highest]);
        rows[2][highest] = symbol_of(family.0[7][highest]);
        let mut zeros = 1;
        while zeros < 7 {
            let row = if zeros < 3 {
                0
            } else if zeros == 3 {
                1
            } else {
                2
            };
            // No literal but zero itself has the highest place of all seven.
            let is_same = symbol_of(family.0[zeros][highest]) == rows[row][highest];
            assert!(is_same || (row == 2 && highest == 0), "three rows are enough");
            zeros += 1;
        }
        highest += 1;
    }
    rows
}
