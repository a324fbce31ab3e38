//! A dense codec for single pages: matches as in LZ77, and prefix codes for everything.
//!
//! ```text
//! blob     = literals u16, sequences u16 | literals
//!          | sizes of three streams u16 | code lengths of four alphabets
//!          | of each sequence how many literals | how long | words of its distance | bytes of its distance
//! distance = words of 8 bytes + 1 and bytes modulo 8; or 0 words, no bytes: as before
//! ```
//! Each stream has one kind of number: a number can be decoded only when the one before it in its stream is, so four
//! streams take a quarter of the time of one.
//!
//! Memory differs from files: 4 KiB are few to learn from, so tables are small and quick to build; and much of it is
//! aligned to words, so what a distance is modulo 8 has a code of its own.
//!
//! Must hold: what is compressed comes back, and decompressing ends on any input and writes nothing outside of the
//! page. Nothing allocates. Called by [`crate`], whose `compress` and `decompress` choose among three.

mod bits;
mod classes;
mod huffman;
mod literals;
mod parse;
#[cfg(test)]
mod tests;

use core::hint::select_unpredictable;

use crate::{Corrupt, PAGE_BYTES, Page};
use bits::{BitReader, BitWriter, Bytes, ROOM, WINDOW_BITS, Window};
use classes::{BYTES, COUNTS, Coder, Decoder, NUMBER_BITS, WORDS};
use literals::ByteTable;
use parse::{LiteralBytes, MATCH_MIN, Parsed, SEQUENCES_MAX, Sequence};

/// The literals are as they are.
const RAW: u16 = 1 << 15;
const HEAD_BYTES: usize = 4;
/// Kinds of numbers of a sequence.
const STREAMS: usize = 4;
/// The sizes of their streams but the last.
const SIZES_BYTES: usize = 2 * (STREAMS - 1);

/// Working area of both directions.
pub struct DenseScratch {
    parsed: Parsed,
    bytes: Bytes,
    page: Bytes,
    byte_table: ByteTable,
    decoders: [Decoder; STREAMS],
}

impl DenseScratch {
    pub const fn new() -> Self {
        Self {
            parsed: Parsed::new(),
            bytes: [0; ROOM + 16],
            page: [0; ROOM + 16],
            byte_table: ByteTable::new(),
            decoders: [const { Decoder::new() }; STREAMS],
        }
    }
}

/// Writes the page to the start of `out`. Its length; None: it does not fit, or a look at its literals says so. Then
/// nothing was written.
pub fn compress(page: &Page, out: &mut [u8], scratch: &mut DenseScratch) -> Option<usize> {
    let DenseScratch { parsed, bytes, .. } = scratch;
    parsed.parse(page);
    let literals = &parsed.literals[..parsed.literal_count];
    let sequences = &parsed.sequences[..parsed.sequence_count];
    if literals.len() > out.len() && literals::least_bytes(literals) > out.len() {
        return None;
    }
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
    for_each_distance(sequences, |sequence, distance| {
        literals.count(sequence.literals, 1);
        lengths.count(sequence.length - MATCH_MIN as u16, 1);
        words.count(distance.words, 1);
        low.count(distance.low, u16::from(distance.words > 0));
    });
    let mut writer = BitWriter::new(out, at + SIZES_BYTES);
    for coder in &mut coders {
        coder.make(&mut writer);
    }
    let [literals, lengths, words, low] = &coders;
    let mut ends = [writer.end(); STREAMS];
    let mut writer = BitWriter::new(out, ends[0]);
    for sequence in sequences {
        let (code, bits) = literals.code(sequence.literals);
        writer.put(code, bits);
    }
    ends[1] = writer.end();
    let mut writer = BitWriter::new(out, ends[1]);
    for sequence in sequences {
        let (code, bits) = lengths.code(sequence.length - MATCH_MIN as u16);
        writer.put(code, bits);
    }
    ends[2] = writer.end();
    let mut writer = BitWriter::new(out, ends[2]);
    for_each_distance(sequences, |_, distance| {
        let (code, bits) = words.code(distance.words);
        writer.put(code, bits);
    });
    ends[3] = writer.end();
    for (size, stream) in out[at..at + SIZES_BYTES].chunks_exact_mut(2).zip(ends.windows(2)) {
        size.copy_from_slice(&((stream[1] - stream[0]) as u16).to_le_bytes());
    }
    let mut writer = BitWriter::new(out, ends[3]);
    for_each_distance(sequences, |_, distance| {
        let (code, bits) = low.code(distance.low);
        let wanted = distance.words > 0;
        writer.put(code * u64::from(wanted), bits * u32::from(wanted));
    });
    writer.end()
}

/// A distance as it is written.
struct Distance {
    /// 0: as before.
    words: u16,
    low: u16,
}

#[inline(always)]
fn for_each_distance(sequences: &[Sequence], mut work: impl FnMut(&Sequence, Distance)) {
    let mut before = 0;
    for sequence in sequences {
        let words = if sequence.offset == before { 0 } else { sequence.offset / 8 + 1 };
        before = sequence.offset;
        work(sequence, Distance { words, low: before % 8 });
    }
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
    decoders: &mut [Decoder; STREAMS],
) -> Result<usize, Corrupt> {
    let sizes: [u8; SIZES_BYTES] = *bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or(Corrupt)?;
    let mut reader = BitReader::new(at + SIZES_BYTES);
    for (decoder, alphabet) in decoders.iter_mut().zip([&COUNTS, &COUNTS, &WORDS, &BYTES]) {
        decoder.read(alphabet, &mut reader, bytes)?;
    }
    let mut readers = [BitReader::new(reader.end()); STREAMS];
    let mut start = reader.end();
    for (reader, size) in readers[1..].iter_mut().zip(sizes.chunks_exact(2)) {
        start += usize::from(u16::from_le_bytes([size[0], size[1]]));
        *reader = BitReader::new(start);
    }
    let mut offset = 0;
    // So many numbers are in one window.
    const _: () = assert!(3 * NUMBER_BITS <= WINDOW_BITS);
    let (threes, rest) = sequences.as_chunks_mut::<3>();
    for [first, second, third] in threes {
        let mut windows = readers.map(|reader| reader.window(bytes));
        *first = next_sequence(&mut readers, &mut windows, decoders, &mut offset);
        *second = next_sequence(&mut readers, &mut windows, decoders, &mut offset);
        *third = next_sequence(&mut readers, &mut windows, decoders, &mut offset);
    }
    for sequence in rest {
        let mut windows = readers.map(|reader| reader.window(bytes));
        *sequence = next_sequence(&mut readers, &mut windows, decoders, &mut offset);
    }
    Ok(readers[STREAMS - 1].end())
}

/// The next sequence. `offset` is that of the one before, then its own.
#[inline(always)]
fn next_sequence(
    readers: &mut [BitReader; STREAMS],
    windows: &mut [Window; STREAMS],
    decoders: &[Decoder; STREAMS],
    offset: &mut usize,
) -> Sequence {
    let (literals, literals_bits) = decoders[0].number(&mut windows[0]);
    let (length, length_bits) = decoders[1].number(&mut windows[1]);
    let (words, words_bits) = decoders[2].number(&mut windows[2]);
    let (low, low_bits) = decoders[3].number_if(words > 0, &mut windows[3]);
    let other = words.wrapping_sub(1).wrapping_mul(8).wrapping_add(low);
    *offset = select_unpredictable(words > 0, other, *offset);
    for (reader, bits) in readers.iter_mut().zip([literals_bits, length_bits, words_bits, low_bits]) {
        reader.pass(bits);
    }
    Sequence { literals: literals as u16, length: (MATCH_MIN + length) as u16, offset: *offset as u16 }
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
    if offset >= 16 {
        // Most are.
        loop {
            let bytes: [u8; 16] =
                *page[(to + done - offset) % ROOM..].first_chunk().expect("room behind the page");
            *page[(to + done) % ROOM..].first_chunk_mut().expect("room behind the page") = bytes;
            done += 16;
            if done >= count {
                return;
            }
        }
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
