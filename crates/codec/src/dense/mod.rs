//! A dense codec for single pages: matches as in LZ77, and prefix codes for everything.
//!
//! ```text
//! blob     = literals u16, sequences u16 | literals
//!          | size of the first stream u16 | code lengths of four alphabets, then of each sequence how many literals and how long | the distance of each
//! distance = words of 8 bytes + 1 and bytes modulo 8; or 0 words: as before
//! ```
//! Memory differs from files: 4 KiB are few to learn from, so tables are small and quick to build; and much of it is aligned to words, so what a distance is modulo 8 has a
//! code of its own.

mod bits;
mod classes;
mod huffman;
mod literals;
mod parse;
#[cfg(test)]
mod tests;

use crate::{Corrupt, PAGE_BYTES, Page};
use bits::{BitReader, BitWriter, Bytes, ROOM};
use classes::{BYTES, COUNTS, Coder, Decoder, WORDS};
use literals::ByteTable;
use parse::{LiteralBytes, MATCH_MIN, Parsed, SEQUENCES_MAX, Sequence};

/// The literals are as they are.
const RAW: u16 = 1 << 15;
const HEAD_BYTES: usize = 4;

/// Working area of both directions.
pub struct DenseScratch {
    parsed: Parsed,
    bytes: Bytes,
    page: Bytes,
    byte_table: ByteTable,
    decoders: [Decoder; 4],
}

impl DenseScratch {
    pub const fn new() -> Self {
        Self {
            parsed: Parsed::new(),
            bytes: [0; ROOM + 16],
            page: [0; ROOM + 16],
            byte_table: ByteTable::new(),
            decoders: [const { Decoder::new() }; 4],
        }
    }
}

/// Writes the page to the start of `out`. Its length; None: it does not fit.
pub fn compress(page: &Page, out: &mut [u8], scratch: &mut DenseScratch) -> Option<usize> {
    let DenseScratch { parsed, bytes, .. } = scratch;
    parsed.parse(page);
    let literals = &parsed.literals[..parsed.literal_count];
    let sequences = &parsed.sequences[..parsed.sequence_count];
    let (raw, at) = match literals::encode(literals, bytes, HEAD_BYTES) {
        Some(end) => (0, end),
        None => {
            bytes[HEAD_BYTES..][..literals.len()].copy_from_slice(literals);
            (RAW, HEAD_BYTES + literals.len())
        }
    };
    bytes[..2].copy_from_slice(&(literals.len() as u16 | raw).to_le_bytes());
    bytes[2..4].copy_from_slice(&(sequences.len() as u16).to_le_bytes());
    let end = encode_sequences(sequences, bytes, at);
    let blob = bytes[..ROOM].get(..end)?;
    out.get_mut(..end)?.copy_from_slice(blob);
    Some(end)
}

fn encode_sequences(sequences: &[Sequence], out: &mut Bytes, at: usize) -> usize {
    let mut coders = [&COUNTS, &COUNTS, &WORDS, &BYTES].map(Coder::new);
    let [literals, lengths, words, low] = &mut coders;
    let mut before = 0;
    for sequence in sequences {
        let again = sequence.offset == before;
        before = sequence.offset;
        literals.count(sequence.literals, 1);
        lengths.count(sequence.length - MATCH_MIN as u16, 1);
        words.count(if again { 0 } else { before / 8 + 1 }, 1);
        low.count(before % 8, u16::from(!again));
    }
    let start = at + 2;
    let mut writer = BitWriter::new(out, start);
    for coder in &mut coders {
        coder.make(&mut writer);
    }
    let [literals, lengths, words, low] = &coders;
    for sequence in sequences {
        let (literals, literal_bits) = literals.code(sequence.literals);
        let (length, length_bits) = lengths.code(sequence.length - MATCH_MIN as u16);
        writer.put(literals << length_bits | length, literal_bits + length_bits);
    }
    let end = writer.end();
    out[at..at + 2].copy_from_slice(&((end - start) as u16).to_le_bytes());
    let mut writer = BitWriter::new(out, end);
    let mut before = 0;
    for sequence in sequences {
        let again = sequence.offset == before;
        before = sequence.offset;
        let (words, word_bits) = words.code(if again { 0 } else { before / 8 + 1 });
        let (low, low_bits) = if again { (0, 0) } else { low.code(before % 8) };
        writer.put(words << low_bits | low, word_bits + low_bits);
    }
    writer.end()
}

/// Turns a blob back into the page.
///
/// # Errors
/// [`Corrupt`]: the bytes do not follow the format, or do not make a page.
pub fn decompress(blob: &[u8], page: &mut Page, scratch: &mut DenseScratch) -> Result<(), Corrupt> {
    let DenseScratch { parsed, bytes, page: made, byte_table, decoders } = scratch;
    bytes[..ROOM].get_mut(..blob.len()).ok_or(Corrupt)?.copy_from_slice(blob);
    let [a, b, c, d] = *blob.first_chunk().ok_or(Corrupt)?;
    let head = u16::from_le_bytes([a, b]);
    let (literals, sequences) = (usize::from(head & !RAW), usize::from(u16::from_le_bytes([c, d])));
    if literals > PAGE_BYTES || sequences > SEQUENCES_MAX {
        return Err(Corrupt);
    }
    let at = if head & RAW != 0 {
        parsed.literals[..literals].copy_from_slice(&bytes[HEAD_BYTES..][..literals]);
        HEAD_BYTES + literals
    } else {
        literals::decode(bytes, HEAD_BYTES, literals, &mut parsed.literals, byte_table)?
    };
    let sequences = &mut parsed.sequences[..sequences];
    if decode_sequences(bytes, at, sequences, decoders)? != blob.len() {
        return Err(Corrupt);
    }
    put_together(sequences, &parsed.literals, literals, made)?;
    page.copy_from_slice(&made[..PAGE_BYTES]);
    Ok(())
}

/// Reads the sequences. The place behind them.
fn decode_sequences(
    bytes: &Bytes,
    at: usize,
    sequences: &mut [Sequence],
    decoders: &mut [Decoder; 4],
) -> Result<usize, Corrupt> {
    let [low, high] = *bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or(Corrupt)?;
    let mut reader = BitReader::new(at + 2);
    let mut distances = BitReader::new(at + 2 + usize::from(u16::from_le_bytes([low, high])));
    for (decoder, alphabet) in decoders.iter_mut().zip([&COUNTS, &COUNTS, &WORDS, &BYTES]) {
        decoder.read(alphabet, &mut reader, bytes)?;
    }
    let [literals, lengths, words, low] = decoders;
    let mut offset = 0;
    for sequence in sequences {
        reader.refill(bytes);
        sequence.literals = literals.number(&mut reader) as u16;
        sequence.length = (MATCH_MIN + lengths.number(&mut reader)) as u16;
        distances.refill(bytes);
        let words = words.number(&mut distances);
        let low = low.number_if(words > 0, &mut distances);
        let other = words.wrapping_sub(1).wrapping_mul(8).wrapping_add(low);
        offset = if words > 0 { other } else { offset };
        sequence.offset = offset as u16;
    }
    Ok(distances.end())
}

/// Copies literals and matches to their places.
fn put_together(
    sequences: &[Sequence],
    literals: &LiteralBytes,
    literal_count: usize,
    page: &mut Bytes,
) -> Result<(), Corrupt> {
    let (mut at, mut literal) = (0, 0);
    for sequence in sequences {
        let (run, length, offset) =
            (usize::from(sequence.literals), usize::from(sequence.length), usize::from(sequence.offset));
        let start = at + run;
        if literal + run > literal_count || start + length > PAGE_BYTES || offset > start || offset == 0 {
            return Err(Corrupt);
        }
        copy_literals(literals, literal, page, at, run);
        literal += run;
        copy_match(page, start, offset, length);
        at = start + length;
    }
    let rest = &literals[literal..literal_count];
    let place = page.get_mut(at..at + rest.len()).ok_or(Corrupt)?;
    if at + rest.len() != PAGE_BYTES {
        return Err(Corrupt);
    }
    place.copy_from_slice(rest);
    Ok(())
}

/// 16 bytes at once, and seldom more; what is too much is overwritten by what comes next.
#[inline(always)]
fn copy_literals(literals: &LiteralBytes, from: usize, page: &mut Bytes, to: usize, count: usize) {
    let mut done = 0;
    loop {
        let bytes: [u8; 16] =
            *literals[(from + done) % PAGE_BYTES..].first_chunk().expect("room behind the literals");
        *page[(to + done) % ROOM..].first_chunk_mut().expect("room behind the page") = bytes;
        done += 16;
        if done >= count {
            return;
        }
    }
}

#[inline(always)]
fn copy_match(page: &mut Bytes, to: usize, offset: usize, count: usize) {
    let (mut done, mut offset) = (0, offset);
    if offset < 8 {
        // A pattern that is shorter than what is copied at once: it is written so often that it is not.
        while done < 8 {
            page[to + done] = page[to + done - offset];
            done += 1;
        }
        offset *= REPEATS[offset];
    }
    loop {
        for _ in 0..2 {
            let bytes: [u8; 8] =
                *page[(to + done - offset) % ROOM..].first_chunk().expect("room behind the page");
            *page[(to + done) % ROOM..].first_chunk_mut().expect("room behind the page") = bytes;
            done += 8;
        }
        if done >= count {
            return;
        }
    }
}

/// So often a pattern of this length is 8 bytes or longer.
const REPEATS: [usize; 8] = [0, 8, 4, 3, 2, 2, 2, 2];
