//! Bits in front of bits: the most significant first, so that the codes of one length are neighbours in a decoding table.
//!
//! Neither side has a branch that depends on content: a wrong guess of the processor costs more than coding a few bytes.

/// Room for what is written or read. Longer is no blob of a page.
pub const ROOM: usize = 8192;

/// Bytes, and room so that two words may be read or written at each.
pub type Bytes = [u8; ROOM + 16];

/// Writes bits. What is more than [`ROOM`] bytes falls on what was written before; the place in the end says so.
pub struct BitWriter<'a> {
    bytes: &'a mut Bytes,
    at: usize,
    /// Left-aligned; fewer than 8.
    bits: u64,
    count: u32,
}

impl<'a> BitWriter<'a> {
    pub fn new(bytes: &'a mut Bytes, at: usize) -> Self {
        Self { bytes, at, bits: 0, count: 0 }
    }
    /// Appends the `count` lowest bits of `value`, which has no others; from 0 to 56.
    #[inline(always)]
    pub fn put(&mut self, value: u64, count: u32) {
        let total = self.count + count;
        // In two steps: together they may be 64.
        self.bits |= value << (63 - total) << 1;
        let at = self.at & (ROOM - 1);
        *self.bytes[at..].first_chunk_mut().expect("a word of room") = self.bits.to_be_bytes();
        self.at += (total >> 3) as usize;
        self.bits <<= total & !7;
        self.count = total & 7;
    }
    /// The place behind the last byte. Its bits that are left are zeros.
    pub fn end(self) -> usize {
        self.at + usize::from(self.count > 0)
    }
}

/// Reads bits. Past the end it goes on with whatever lies there: that is no content, and the page's hash will tell.
#[derive(Clone, Copy)]
pub struct BitReader {
    bits: u64,
    count: u32,
    at: usize,
}

impl BitReader {
    pub fn new(at: usize) -> Self {
        Self { bits: 0, count: 0, at }
    }
    /// Makes 56 bits or more available.
    #[inline(always)]
    pub fn refill(&mut self, bytes: &Bytes) {
        let next = u64::from_be_bytes(*bytes[self.at & (ROOM - 1)..].first_chunk().expect("a word of room"));
        self.bits |= next >> self.count;
        self.at += (63 - self.count as usize) >> 3;
        self.count |= 56;
    }
    /// The next `count` bits, from 1 to 32.
    #[inline(always)]
    pub fn peek(&self, count: u32) -> usize {
        (self.bits >> (64 - count)) as usize
    }
    /// Goes on by `count` bits, of those that are available.
    #[inline(always)]
    pub fn skip(&mut self, count: u32) {
        self.bits <<= count;
        self.count -= count;
    }
    /// Skips `code` bits and takes the next `count`, from 0 to 16; together at most 32.
    #[inline(always)]
    pub fn take_behind(&mut self, code: u32, count: u32) -> usize {
        let value = ((self.bits << code) >> 32 >> (32 - count)) as usize;
        self.skip(code + count);
        value
    }
    /// The byte behind the last one of which a bit was taken.
    pub fn end(&self) -> usize {
        self.at - self.count as usize / 8
    }
}
