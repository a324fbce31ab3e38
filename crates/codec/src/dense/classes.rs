//! Numbers as a class, which gets a prefix code, and the bits below it.
//!
//! Must hold: a number that was written is read again, in as many bits. Code lengths that make no code are refused.
//! Called by [`crate::dense`], which has one coder and one decoder for each kind of number.

use super::bits::{BitReader, BitWriter, Bytes, WINDOW_BITS, Window};
use super::huffman;
use crate::{Corrupt, PAGE_BYTES};

/// Classes of an alphabet.
pub const CLASSES: usize = 16;
/// Longest code of a class.
const CODE_BITS: u32 = 7;
/// What the length of a code takes.
const LENGTH_BITS: u32 = 3;
/// Most bits of a number: its code, and what is below its class.
pub const NUMBER_BITS: u32 = CODE_BITS + 12;

/// An alphabet: small numbers each have a class of their own, then come ranges of `1 << bits`.
pub struct Alphabet {
    base: [u16; CLASSES],
    bits: [u8; CLASSES],
    class_of: [u8; PAGE_BYTES + 1],
}

impl Alphabet {
    const fn new(bits: [u8; CLASSES]) -> Self {
        let (mut base, mut class_of) = ([0; CLASSES], [0; PAGE_BYTES + 1]);
        let (mut class, mut next) = (0, 0);
        while class < CLASSES {
            base[class] = next as u16;
            let end = next + (1 << bits[class]);
            while next < end {
                if next <= PAGE_BYTES {
                    class_of[next] = class as u8;
                }
                next += 1;
            }
            class += 1;
        }
        Self { base, bits, class_of }
    }
}

/// How many literals before a match, and how much longer it is than the shortest.
pub static COUNTS: Alphabet = Alphabet::new([0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 6, 8, 12]);
/// Distances in words of 8 bytes, plus 1. 0: the distance of the match before.
pub static WORDS: Alphabet = Alphabet::new([0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 12]);
/// Distances modulo 8.
pub static BYTES: Alphabet = Alphabet::new([0; CLASSES]);

/// Counts numbers, then codes them.
pub struct Coder<'a> {
    alphabet: &'a Alphabet,
    counts: [u16; CLASSES],
    codes: [u32; CLASSES],
}

impl<'a> Coder<'a> {
    pub fn new(alphabet: &'a Alphabet) -> Self {
        Self { alphabet, counts: [0; CLASSES], codes: [0; CLASSES] }
    }
    /// Adds a number so many times.
    #[inline(always)]
    pub fn count(&mut self, number: u16, times: u16) {
        let class = self.alphabet.class_of[usize::from(number) & (PAGE_BYTES - 1)];
        self.counts[usize::from(class) % CLASSES] += times;
    }
    /// All are counted: makes the codes, and writes their lengths.
    pub fn make(&mut self, writer: &mut BitWriter<'_>) {
        let mut lengths = [0; CLASSES];
        huffman::lengths(&self.counts, CODE_BITS, &mut lengths);
        self.codes = huffman::codes(&lengths);
        for half in lengths.chunks_exact(CLASSES / 2) {
            let together = half.iter().fold(0, |bits, &length| bits << LENGTH_BITS | u64::from(length));
            writer.put(together, LENGTH_BITS * CLASSES as u32 / 2);
        }
    }
    /// The code of a number and how long it is: at most [`NUMBER_BITS`].
    #[inline(always)]
    pub fn code(&self, number: u16) -> (u64, u32) {
        let class = usize::from(self.alphabet.class_of[usize::from(number) & (PAGE_BYTES - 1)]) % CLASSES;
        let code = self.codes[class];
        let bits = u32::from(self.alphabet.bits[class]);
        let rest = u64::from(number - self.alphabet.base[class]);
        (u64::from(code & 0xFFFF) << bits | rest, (code >> 16) + bits)
    }
}

/// Decodes the numbers of an alphabet.
pub struct Decoder {
    /// How many bits the number takes; from bit 8, how many of those are below its class; from bit 16, the smallest
    /// number of the class. What the next number waits for lies lowest: a shift looks at the lowest six bits only.
    entries: [u32; 1 << CODE_BITS],
}

impl Decoder {
    pub const fn new() -> Self {
        Self { entries: [0; 1 << CODE_BITS] }
    }

    /// Reads the lengths of the codes.
    ///
    /// # Errors
    /// They are not those of a complete code.
    pub fn read(
        &mut self,
        alphabet: &Alphabet,
        reader: &mut BitReader,
        bytes: &Bytes,
    ) -> Result<(), Corrupt> {
        let mut codes = [(0, 0); CLASSES];
        let mut used = 0;
        let mut window = reader.window(bytes);
        const _: () = assert!(LENGTH_BITS * CLASSES as u32 <= WINDOW_BITS);
        for class in 0..CLASSES {
            let length = window.peek(LENGTH_BITS) as u8;
            window.skip(LENGTH_BITS);
            codes[used] = (class as u8, length);
            used += usize::from(length > 0);
        }
        reader.pass(LENGTH_BITS * CLASSES as u32);
        if used == 0 {
            // Nothing of it occurs; what is read then is no content.
            self.entries.fill(1);
            return Ok(());
        }
        huffman::fill_table::<_, CLASSES>(&mut self.entries, &codes[..used], |class, length| {
            let class = usize::from(class) % CLASSES;
            let below = u32::from(alphabet.bits[class]);
            (u32::from(length) + below) | below << 8 | u32::from(alphabet.base[class]) << 16
        })
    }

    /// The next number, and how many bits it takes: at most [`NUMBER_BITS`].
    #[inline(always)]
    pub fn number(&self, window: &mut Window) -> (usize, u32) {
        let entry = self.entries[window.peek(CODE_BITS) % (1 << CODE_BITS)];
        let number = (entry >> 16) as usize + window.peek_last(entry, entry >> 8);
        window.skip(entry);
        (number, entry & 63)
    }

    /// As [`Decoder::number`] for numbers without bits below the class; takes nothing unless `wanted`.
    #[inline(always)]
    pub fn number_if(&self, wanted: bool, window: &mut Window) -> (usize, u32) {
        let entry = self.entries[window.peek(CODE_BITS) % (1 << CODE_BITS)];
        let bits = (entry & 63) * u32::from(wanted);
        window.skip(bits);
        ((entry >> 16) as usize, bits)
    }
}
