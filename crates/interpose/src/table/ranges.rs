//! From a row and a call to the ranges of memory that the kernel will touch.
//!
//! Must hold: each range is visited before anything in it is read. None is empty, and none wraps around. Called by
//! [`crate::buffers`], and by `fuzz`.

use super::row::{Buffer, Length, Row};
use super::walk::{Access, BufferRange, Memory, Step, Stop, Walk, range};
use crate::Call;

/// How a walk ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Walked {
    /// Every range was visited, or what is left hangs on a bad pointer.
    Complete,
    /// This range was visited and could not be read: make it present and ask again.
    Evicted(BufferRange),
}

/// Visits every range of the program's memory that the kernel touches during `call`.
///
/// Ranges may overlap, and name memory that does not exist. None is empty, none wraps around.
#[inline]
pub fn for_each_range(
    row: &Row,
    call: &Call,
    memory: &impl Memory,
    visit: &mut impl FnMut(BufferRange),
) -> Walked {
    for buffer in row.buffers() {
        // Most calls have one buffer whose length stands in a register.
        if let Some(bytes) = buffer.plain_bytes(call) {
            if let Some(range) =
                range(call.arguments[usize::from(buffer.argument)] as u64, bytes, buffer.access)
            {
                visit(range);
            }
            continue;
        }
        match (Walk { call, memory, visit }).buffer(*buffer) {
            Ok(()) | Err(Stop::Bad) => {}
            Err(Stop::Evicted(range)) => return Walked::Evicted(range),
        }
    }
    if row.nested().is_none() {
        return Walked::Complete;
    }
    let mut walk = Walk { call, memory, visit };
    match row.nested().map(|nested| nested(&mut walk)) {
        None | Some(Ok(()) | Err(Stop::Bad)) => Walked::Complete,
        Some(Err(Stop::Evicted(range))) => Walked::Evicted(range),
    }
}

impl Buffer {
    /// Its length, if no memory must be read for that.
    #[inline]
    fn plain_bytes(self, call: &Call) -> Option<u64> {
        let arg = |argument: u8| call.arguments[usize::from(argument)] as u64;
        let arg32 = |argument: u8| u64::from(arg(argument) as u32);
        Some(match self.length {
            Length::Bytes(bytes) => u64::from(bytes),
            Length::Arg(argument) => arg(argument),
            Length::Arg32(argument) => arg32(argument),
            Length::Elements(argument, bytes) => arg32(argument) * u64::from(bytes),
            Length::Elements64(argument, bytes) => arg(argument).saturating_mul(u64::from(bytes)),
            Length::Bits(argument) => arg32(argument).div_ceil(64) * 8,
            Length::Text(_) | Length::At(_) => return None,
        })
    }
}

impl Walk<'_> {
    /// Reports a pointer argument whose length is in memory.
    fn buffer(&mut self, buffer: Buffer) -> Step {
        let start = self.arg(buffer.argument);
        match buffer.length {
            Length::Text(bytes_max) => return self.text(start, u64::from(bytes_max)),
            Length::At(argument) if start != 0 => {
                let bytes = self.load_u32(self.arg(argument), Access::ReadWrite)?;
                self.touch(start, u64::from(bytes), buffer.access);
            }
            _ => {}
        }
        Ok(())
    }
}
