//! A walk over the structures of a call, to the ranges of memory that the kernel will touch.
//!
//! A structure is reported before it is read, so a visitor that makes each range present as it comes finds the next
//! ones. What is read may be changed by the program at any time: nothing here trusts it twice. A pointer that leads
//! nowhere ends the walk of what it points to; the kernel finds it too, and answers EFAULT.
//!
//! Must hold: a structure is reported before it is read, and nothing that was read is believed twice. Called by
//! [`crate::table::ranges`] and the nested functions of rows, by [`crate::buffers`], and by `host` and `fuzz`.

use crate::Call;
use uswap_units::PAGE_BYTES;

/// What the kernel does with a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// It reads.
    Read,
    /// It writes, and does not care what was there.
    Write,
    /// It reads and writes, or one of them, and the table cannot know which.
    ReadWrite,
}

impl Access {
    /// The kernel writes there, so the page must be writable.
    #[must_use]
    pub const fn writes(self) -> bool {
        !matches!(self, Access::Read)
    }
}

/// A range of the program's memory that the kernel touches during a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferRange {
    /// Its first address.
    pub start: u64,
    /// How many bytes, at least one.
    pub bytes: u64,
    /// What the kernel does there.
    pub access: Access,
}

impl BufferRange {
    /// The first address behind it.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.start + self.bytes
    }
}

/// The program's memory, for the structures that name further memory.
pub trait Memory {
    /// Copies the bytes at `start`; never faults.
    fn read(&self, start: u64, into: &mut [u8]) -> Result<(), Unreadable>;
}

/// Why bytes of the program could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreadable {
    /// A page of them is evicted.
    Evicted,
    /// There is no such memory, or the program may not read it.
    Bad,
}

/// Why a walk went no further.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// This range must be made present first; then the walk is begun anew.
    Evicted(BufferRange),
    /// A pointer leads nowhere: the kernel will say so.
    Bad,
}

/// A range, unless it is null, nothing, or behind the end of all addresses.
#[inline]
pub(super) fn range(start: u64, bytes: u64, access: Access) -> Option<BufferRange> {
    let bytes = bytes.min(ADDRESS_END.saturating_sub(start));
    (start != 0 && bytes != 0).then_some(BufferRange { start, bytes, access })
}

/// A walk under way: what nested functions work with.
pub struct Walk<'a> {
    pub(super) call: &'a Call,
    pub(super) memory: &'a dyn Memory,
    pub(super) visit: &'a mut dyn FnMut(BufferRange),
}

/// Goes on, or stops the walk.
pub(super) type Step = Result<(), Stop>;

impl Walk<'_> {
    /// An argument of the call.
    pub(super) fn arg(&self, argument: u8) -> u64 {
        self.call.arguments[usize::from(argument)] as u64
    }

    /// An argument of the call that the kernel takes as 32 bits.
    pub(super) fn arg32(&self, argument: u8) -> u32 {
        self.arg(argument) as u32
    }

    /// Reports a range. Null, nothing and what lies behind the end of all addresses are left out.
    pub(super) fn touch(&mut self, start: u64, bytes: u64, access: Access) {
        if let Some(range) = range(start, bytes, access) {
            (self.visit)(range);
        }
    }

    pub(super) fn reads(&mut self, start: u64, bytes: u64) {
        self.touch(start, bytes, Access::Read);
    }

    pub(super) fn writes(&mut self, start: u64, bytes: u64) {
        self.touch(start, bytes, Access::Write);
    }

    pub(super) fn updates(&mut self, start: u64, bytes: u64) {
        self.touch(start, bytes, Access::ReadWrite);
    }

    /// Reports a structure that the kernel reads, and reads it.
    pub(super) fn load<const N: usize>(&mut self, start: u64) -> Result<[u8; N], Stop> {
        self.load_as(start, Access::Read)
    }

    /// Reports a structure, and reads it.
    pub(super) fn load_as<const N: usize>(&mut self, start: u64, access: Access) -> Result<[u8; N], Stop> {
        let mut bytes = [0; N];
        self.fill_as(start, &mut bytes, access)?;
        Ok(bytes)
    }

    fn fill(&mut self, start: u64, bytes: &mut [u8]) -> Step {
        self.fill_as(start, bytes, Access::Read)
    }

    fn fill_as(&mut self, start: u64, bytes: &mut [u8], access: Access) -> Step {
        if start == 0 || start >= ADDRESS_END - bytes.len() as u64 {
            return Err(Stop::Bad);
        }
        let range = BufferRange { start, bytes: bytes.len() as u64, access };
        (self.visit)(range);
        self.memory.read(start, bytes).map_err(|why| stop(why, range))
    }

    /// Reads 32 bits of memory that is reported already, or reported by this.
    pub(super) fn load_u32(&mut self, start: u64, access: Access) -> Result<u32, Stop> {
        self.load_as::<4>(start, access).map(u32::from_ne_bytes)
    }

    pub(super) fn load_u64(&mut self, start: u64, access: Access) -> Result<u64, Stop> {
        self.load_as::<8>(start, access).map(u64::from_ne_bytes)
    }

    /// Reports a string up to the end of the page that holds its zero.
    pub(super) fn text(&mut self, start: u64, bytes_max: u64) -> Step {
        self.text_bytes(start, bytes_max).map(drop)
    }

    /// As [`text`](Self::text). The string has at least so many bytes.
    fn text_bytes(&mut self, start: u64, bytes_max: u64) -> Result<u64, Stop> {
        if start == 0 {
            return Ok(0);
        }
        let end = start.saturating_add(bytes_max).min(ADDRESS_END);
        let mut at = start;
        while at < end {
            let page_end = (at | (PAGE_BYTES as u64 - 1)) + 1;
            let range = BufferRange { start: at, bytes: page_end.min(end) - at, access: Access::Read };
            (self.visit)(range);
            if self.has_zero(range)? {
                return Ok(at - start);
            }
            at = page_end;
        }
        Ok(end.saturating_sub(start))
    }

    /// Is there a zero in these bytes of one page?
    fn has_zero(&self, range: BufferRange) -> Result<bool, Stop> {
        let mut at = range.start;
        while at < range.end() {
            let mut bytes = [0_u8; 64];
            let count = (range.end() - at).min(bytes.len() as u64) as usize;
            let piece = &mut bytes[..count];
            self.memory.read(at, piece).map_err(|why| stop(why, range))?;
            if piece.contains(&0) {
                return Ok(true);
            }
            at += count as u64;
        }
        Ok(false)
    }

    /// Reports the strings of an array that a null ends, as for `execve`.
    pub(super) fn texts(&mut self, array: u64, bytes_max: u64) -> Step {
        if array == 0 {
            return Ok(());
        }
        let (mut pointer, mut bytes) = (array, 0);
        while bytes < TEXTS_BYTES_MAX {
            let text = self.load_u64(pointer, Access::Read)?;
            if text == 0 {
                break;
            }
            // Its pointer and its zero count too.
            bytes += 9 + self.text_bytes(text, bytes_max)?;
            pointer = pointer.wrapping_add(8);
        }
        Ok(())
    }

    /// Reports an array of `iovec` and what it names. Several are read at once: a read may be a system call.
    pub(super) fn vectors(&mut self, array: u64, count: u64, access: Access) -> Step {
        const BYTES: usize = 16;
        const AT_ONCE: usize = 8;
        let mut left = count.min(VECTORS_MAX) as usize;
        let mut start = array;
        while left > 0 {
            let mut bytes = [0; AT_ONCE * BYTES];
            let taken = &mut bytes[..left.min(AT_ONCE) * BYTES];
            self.fill(start, taken)?;
            for vector in taken.chunks_exact(BYTES) {
                self.touch(field(vector, 0), field(vector, 8), access);
            }
            left -= taken.len() / BYTES;
            start = start.wrapping_add(taken.len() as u64);
        }
        Ok(())
    }
}

/// The 64 bits at this offset of a structure.
pub(super) fn field(bytes: &[u8], offset: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_ne_bytes(word)
}

/// The 32 bits at this offset of a structure.
pub(super) fn field32(bytes: &[u8], offset: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_ne_bytes(word)
}

/// Where the addresses of a program end: with five levels of page tables, 57 bits of which the kernel has half.
pub const ADDRESS_END: u64 = (1 << 56) - PAGE_BYTES as u64;

/// Most structures `iovec` that a call takes: more is EINVAL.
pub const VECTORS_MAX: u64 = 1024;

/// Most bytes of the strings of one array that are looked at, with their pointers: the kernel gives a program so many
/// for all of them, and refuses more (E2BIG).
const TEXTS_BYTES_MAX: u64 = 6 << 20;

fn stop(why: Unreadable, range: BufferRange) -> Stop {
    match why {
        Unreadable::Evicted => Stop::Evicted(range),
        Unreadable::Bad => Stop::Bad,
    }
}
