//! Bits in front of bits: the most significant first, so that the codes of one length are neighbours in a decoding
//! table.
//!
//! Neither side has a branch that depends on content: a wrong guess of the processor costs more than coding a few
//! bytes.
//!
//! Must hold: nobody reads or writes outside of the bytes that were given. Past the end of what was written a reader
//! goes on with whatever lies there: the hash of the page tells. Called by [`super::literals`] and [`super::classes`]
//! for each code, and by [`crate::dense`].

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
///
/// One number says where it is: readers that go on at the same time fit into the registers of a processor.
#[derive(Clone, Copy)]
pub struct BitReader {
    at_bits: usize,
}

impl BitReader {
    pub fn new(at: usize) -> Self {
        Self { at_bits: at * 8 }
    }
    /// The next [`WINDOW_BITS`] or more. What is taken from them is to be [`passed`](Self::pass).
    #[inline(always)]
    pub fn window(&self, bytes: &Bytes) -> Window {
        let at = (self.at_bits / 8) & (ROOM - 1);
        let next = u64::from_be_bytes(*bytes[at..].first_chunk().expect("a word of room"));
        Window { bits: next << (self.at_bits % 8) }
    }
    #[inline(always)]
    pub fn pass(&mut self, count: u32) {
        self.at_bits += count as usize;
    }
    /// The byte behind the last one of which a bit was taken.
    pub fn end(&self) -> usize {
        self.at_bits.div_ceil(8)
    }
}

/// A window has as many bits for sure.
pub const WINDOW_BITS: u32 = 57;

/// Some bits that come next, the first one highest.
#[derive(Clone, Copy)]
pub struct Window {
    bits: u64,
}

impl Window {
    /// The next `count` bits, from 1 to 32.
    #[inline(always)]
    pub fn peek(&self, count: u32) -> usize {
        (self.bits >> (64 - count)) as usize
    }
    /// Goes on by as many bits as the six lowest bits of `count` say. The others may be anything: a shift of the
    /// processor does not look at them.
    #[inline(always)]
    pub fn skip(&mut self, count: u32) {
        self.bits <<= count & 63;
    }
    /// The last `last` of the next `count` bits, from 1 to 32; of both numbers the six lowest bits count.
    #[inline(always)]
    pub fn peek_last(&self, count: u32, last: u32) -> usize {
        (self.bits >> (count.wrapping_neg() & 63) & !(u64::MAX << (last & 63))) as usize
    }
}
