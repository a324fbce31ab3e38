//! Bytes that nothing before them repeats: in prefix codes, in four streams, so that a processor may decode four at once.

use super::bits::{BitReader, BitWriter, Bytes, ROOM};
use super::huffman;
use super::parse::LiteralBytes;
use crate::{Corrupt, PAGE_BYTES};

/// Longest code: one length takes half a byte, and four codes a word.
const CODE_BITS: u32 = 10;
const STREAMS: usize = 4;
/// The sizes of all streams but the last.
const SIZES_BYTES: usize = 2 * (STREAMS - 1);

/// Decodes bytes: the byte, and above it how many bits it took.
pub struct ByteTable {
    entries: [u16; 1 << CODE_BITS],
}

impl ByteTable {
    pub const fn new() -> Self {
        Self { entries: [0; 1 << CODE_BITS] }
    }

    #[inline(always)]
    fn next(&self, reader: &mut BitReader) -> u8 {
        let entry = self.entries[reader.peek(CODE_BITS) % (1 << CODE_BITS)];
        reader.skip(u32::from(entry >> 8));
        entry as u8
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
    // The last stream is the shortest: so far all go together, five codes of ten bits after each refill.
    let together = count.saturating_sub((STREAMS - 1) * each) / 5 * 5;
    for done in (0..together).step_by(5) {
        for reader in &mut readers {
            reader.refill(bytes);
        }
        for symbol in 0..5 {
            for (stream, reader) in readers.iter_mut().enumerate() {
                literals[(stream * each + done + symbol) % PAGE_BYTES] = table.next(reader);
            }
        }
    }
    for (stream, reader) in readers.iter_mut().enumerate() {
        for place in stream * each + together..((stream + 1) * each).min(count) {
            reader.refill(bytes);
            literals[place % PAGE_BYTES] = table.next(reader);
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
    reader.refill(bytes);
    let mut rows = (reader.take_behind(0, 16) as u16).reverse_bits();
    while rows != 0 {
        let first = rows.trailing_zeros() as u8 * 16;
        rows &= rows - 1;
        reader.refill(bytes);
        let mut row = (reader.take_behind(0, 16) as u16).reverse_bits();
        while row != 0 {
            codes[used % 256] = (first + row.trailing_zeros() as u8, 0);
            used += 1;
            row &= row - 1;
        }
    }
    for eight in codes[..used].chunks_mut(8) {
        reader.refill(bytes);
        for (_, length) in eight {
            *length = reader.take_behind(0, 4) as u8;
        }
    }
    huffman::fill_table::<_, 256>(&mut table.entries, &codes[..used], |byte, length| {
        u16::from(byte) | u16::from(length) << 8
    })
}
