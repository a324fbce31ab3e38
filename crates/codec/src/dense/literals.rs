//! Bytes that nothing before them repeats: in prefix codes, in four streams, so that a processor may decode four at
//! once.
//!
//! Must hold: the literals that went in come back; lengths that make no code, and streams that begin outside of a blob,
//! are refused. Called by [`crate::dense`].

use super::bits::{BitReader, BitWriter, Bytes, ROOM, WINDOW_BITS, Window};
use super::huffman;
use super::parse::LiteralBytes;
use crate::{Corrupt, PAGE_BYTES};

/// Longest code: one length takes half a byte, and four codes a word.
const CODE_BITS: u32 = 10;
const STREAMS: usize = 4;
/// Codes that one window is enough for.
const TOGETHER: usize = 5;
const _: () = assert!(TOGETHER as u32 * CODE_BITS <= WINDOW_BITS);
/// The sizes of all streams but the last.
const SIZES_BYTES: usize = 2 * (STREAMS - 1);

/// Decodes bytes: how many bits it takes, and above them, from bit 8, the byte.
pub struct ByteTable {
    entries: [u16; 1 << CODE_BITS],
}

impl ByteTable {
    pub const fn new() -> Self {
        Self { entries: [0; 1 << CODE_BITS] }
    }

    /// The next byte in bits 8 to 15; how many bits it took is added to the lowest byte of `sum`.
    #[inline(always)]
    fn next(&self, window: &mut Window, sum: &mut u32) -> u8 {
        let entry = u32::from(self.entries[window.peek(CODE_BITS) % (1 << CODE_BITS)]);
        window.skip(entry);
        *sum += entry;
        (entry >> 8) as u8
    }
}

fn count(literals: &[u8]) -> [u16; 256] {
    // Four counts in turn: one that was just written is slow to read.
    let mut counts = [[0u16; 256]; 4];
    let mut quads = literals.chunks_exact(4);
    for quad in &mut quads {
        for (counts, &byte) in counts.iter_mut().zip(quad) {
            counts[usize::from(byte)] += 1;
        }
    }
    for &byte in quads.remainder() {
        counts[0][usize::from(byte)] += 1;
    }
    let [a, b, c, d] = &counts;
    core::array::from_fn(|byte| a[byte] + b[byte] + c[byte] + d[byte])
}

/// Literals that are looked at to tell how much they need, in pieces from everywhere.
const SAMPLE_PIECE: usize = 64;
const SAMPLE_PIECES: usize = 16;

/// Codes of literals take no less, as far as a sample can tell. Costs a tenth of making the codes; pages of random
/// bytes are seen at it.
///
/// From how often two of the sample are the same: if that is one in `2^n`, a literal takes `n` bits or more (Rényi's
/// entropy, never more than Shannon's).
pub fn least_bytes(literals: &[u8]) -> usize {
    let step = (literals.len() / SAMPLE_PIECES).max(SAMPLE_PIECE);
    let (mut counts, mut sample) = ([0_u32; 256], 0_u32);
    for piece in literals.chunks(step) {
        for &byte in &piece[..piece.len().min(SAMPLE_PIECE)] {
            counts[usize::from(byte)] += 1;
            sample += 1;
        }
    }
    // Ordered pairs of two different places, and those of them that are the same. As many as 2^21, and never more than
    // all.
    let pairs = sample * sample.saturating_sub(1);
    let same: u32 = counts.iter().map(|&count| count * count.saturating_sub(1)).sum();
    if same == 0 {
        return literals.len();
    }
    literals.len() * log2_sixteenths(u64::from(pairs) << 8, u64::from(same)) / 128
}

/// The logarithm of `over / under / 256` to base 2, in sixteenths, and never too large. `over / under` is 256 or more.
fn log2_sixteenths(over: u64, under: u64) -> usize {
    let ratio = over / under;
    let whole = ratio.ilog2();
    // Between two powers of two the logarithm is above the line.
    let part = (ratio << 4 >> whole) as usize - 16;
    (whole as usize - 8) * 16 + part
}

/// Writes literals from `at` on. The place behind them; None: as they are they take less.
pub fn encode(literals: &[u8], out: &mut Bytes, at: usize) -> Option<usize> {
    let mut lengths = [0; 256];
    let bits = huffman::lengths(&count(literals), CODE_BITS, &mut lengths);
    let codes = huffman::codes(&lengths);
    let start = at;
    let mut writer = BitWriter::new(out, at);
    write_lengths(&lengths, &mut writer);
    let sizes = writer.end();
    if sizes - start + SIZES_BYTES + bits as usize / 8 >= literals.len() {
        return None;
    }
    // Fewer than ten would make fewer streams than sizes; those take less as they are.
    assert!(literals.len() >= 10);
    let mut at = sizes + SIZES_BYTES;
    for (number, part) in literals.chunks(stream_bytes(literals.len())).enumerate() {
        let start = at;
        let mut writer = BitWriter::new(out, at);
        let mut quads = part.chunks_exact(4);
        for quad in &mut quads {
            let (mut together, mut count) = (0, 0);
            for &byte in quad {
                let code = codes[usize::from(byte)];
                together = together << (code >> 16) | u64::from(code & 0xFFFF);
                count += code >> 16;
            }
            writer.put(together, count);
        }
        for &byte in quads.remainder() {
            let code = codes[usize::from(byte)];
            writer.put(u64::from(code & 0xFFFF), code >> 16);
        }
        at = writer.end();
        if number < STREAMS - 1 {
            out[sizes + 2 * number..][..2].copy_from_slice(&((at - start) as u16).to_le_bytes());
        }
    }
    Some(at)
}

/// Reads `count` literals from `at` on. The place behind them.
///
/// # Errors
/// The code is none, or streams are larger than a blob.
pub fn decode(
    bytes: &Bytes,
    at: usize,
    count: usize,
    literals: &mut LiteralBytes,
    table: &mut ByteTable,
) -> Result<usize, Corrupt> {
    let mut reader = BitReader::new(at);
    read_lengths(table, &mut reader, bytes)?;
    let at = reader.end();
    let sizes: &[u8; SIZES_BYTES] = bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or(Corrupt)?;
    let mut start = at + SIZES_BYTES;
    let mut readers = [BitReader::new(start); STREAMS];
    for (reader, size) in readers[1..].iter_mut().zip(sizes.chunks_exact(2)) {
        start += usize::from(u16::from_le_bytes([size[0], size[1]]));
        *reader = BitReader::new(start);
    }
    if start > ROOM {
        return Err(Corrupt);
    }
    let each = stream_bytes(count);
    // The last stream is the shortest: so far all go together.
    let together = count.saturating_sub((STREAMS - 1) * each) / TOGETHER * TOGETHER;
    for done in (0..together).step_by(TOGETHER) {
        let mut windows = readers.map(|reader| reader.window(bytes));
        let mut sums = [0; STREAMS];
        let mut decoded = [[0; TOGETHER]; STREAMS];
        for byte in 0..TOGETHER {
            for ((decoded, window), sum) in decoded.iter_mut().zip(&mut windows).zip(&mut sums) {
                decoded[byte] = table.next(window, sum);
            }
        }
        for stream in 0..STREAMS {
            readers[stream].pass(sums[stream] & 0xFF);
            let place = (stream * each + done) % PAGE_BYTES;
            *literals[place..].first_chunk_mut().expect("room behind the literals") = decoded[stream];
        }
    }
    for (stream, reader) in readers.iter_mut().enumerate() {
        for place in stream * each + together..((stream + 1) * each).min(count) {
            let mut bits = 0;
            literals[place % PAGE_BYTES] = table.next(&mut reader.window(bytes), &mut bits);
            reader.pass(bits & 0xFF);
        }
    }
    Ok(readers[STREAMS - 1].end())
}

fn stream_bytes(literals: usize) -> usize {
    literals.div_ceil(STREAMS).max(1)
}

/// Which bytes occur, by 16 times 16, then their lengths: half a byte each.
fn write_lengths(lengths: &[u8; 256], writer: &mut BitWriter<'_>) {
    let mut rows = [0u16; 16];
    for (row, lengths) in rows.iter_mut().zip(lengths.chunks_exact(16)) {
        *row = lengths.iter().fold(0, |row, &length| row << 1 | u16::from(length > 0));
    }
    writer.put(rows.iter().fold(0, |used, &row| used << 1 | u64::from(row > 0)), 16);
    for row in rows.into_iter().filter(|&row| row > 0) {
        writer.put(u64::from(row), 16);
    }
    for &length in lengths.iter().filter(|&&length| length > 0) {
        writer.put(u64::from(length), 4);
    }
}

fn read_lengths(table: &mut ByteTable, reader: &mut BitReader, bytes: &Bytes) -> Result<(), Corrupt> {
    let mut codes = [(0, 0); 256];
    let mut used = 0;
    let mut rows = take_row(reader, bytes);
    while rows != 0 {
        let first = rows.trailing_zeros() as u8 * 16;
        rows &= rows - 1;
        let mut row = take_row(reader, bytes);
        while row != 0 {
            codes[used % 256] = (first + row.trailing_zeros() as u8, 0);
            used += 1;
            row &= row - 1;
        }
    }
    for eight in codes[..used].chunks_mut(8) {
        let mut window = reader.window(bytes);
        for (_, length) in eight {
            *length = window.peek(4) as u8;
            window.skip(4);
            reader.pass(4);
        }
    }
    huffman::fill_table::<_, 256>(&mut table.entries, &codes[..used], |byte, length| {
        u16::from(length) | u16::from(byte) << 8
    })
}

/// 16 marks, the first one lowest.
fn take_row(reader: &mut BitReader, bytes: &Bytes) -> u16 {
    let row = reader.window(bytes).peek(16) as u16;
    reader.pass(16);
    row.reverse_bits()
}
