//! Calls whose ranges are large beside the budget, made in parts as if they were one.
//!
//! A part that comes back short ends the call, and so does an error: the answer is what was done until then, or the
//! error if nothing was. What is read from a stream is cut to the first part instead, because a second read would
//! wait where one read does not; a short answer is always allowed there. Everything else goes whole.
//!
//! Must hold: each byte is moved once, and the answer counts all that were moved, as that of one call would. Called by
//! [`crate::buffers::boundary`], for each call whose ranges are too large to be held at once.

use super::file_kind::FileKind;
use super::holder::Holder;
use super::residency::{Make, Residency};
use crate::Call;
use crate::table::{Parts, Row, VECTORS_MAX};
use linux_raw_sys::general::{
    __NR_preadv2, __NR_pwrite64, __NR_pwritev, __NR_pwritev2, __NR_recvfrom, __NR_sendmsg, __NR_sendto,
    __NR_write, __NR_writev,
};
use linux_raw_sys::net::{MSG_DONTWAIT, MSG_MORE, MSG_NOSIGNAL};

/// How a large transfer is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Manner {
    /// As one call, with all its pages present at once.
    Whole,
    /// Only the first part.
    Cut,
    /// Part after part.
    Parts,
}

/// Structures `iovec` of one part. They lie on the stack of the thread: 512 bytes.
const VECTORS_A_PART: usize = 32;

/// What the flags and the file allow.
#[allow(non_upper_case_globals, reason = "numbers of calls are named as in the kernel's headers")]
pub(super) fn manner(call: &Call, make: &mut Make<'_>) -> Manner {
    let number = call.number as u32;
    let is_send = matches!(number, __NR_sendto | __NR_sendmsg);
    let is_write =
        is_send || matches!(number, __NR_write | __NR_writev | __NR_pwrite64 | __NR_pwritev | __NR_pwritev2);
    let flags = match number {
        __NR_sendto | __NR_recvfrom => call.arguments[3] as u32,
        __NR_sendmsg => call.arguments[2] as u32,
        // Those that concern the whole call, not each of its bytes.
        __NR_preadv2 | __NR_pwritev2 if call.arguments[5] as u32 & !ORDINARY != 0 => return Manner::Whole,
        _ => 0,
    };
    if flags & !(MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE) != 0 {
        return Manner::Whole;
    }
    match (FileKind::of(call.arguments[0], make), is_write) {
        (FileKind::Plain, _) | (FileKind::Appending, false) => Manner::Parts,
        (FileKind::Pipe | FileKind::Stream, true) => Manner::Parts,
        (FileKind::Pipe | FileKind::Stream, false) => Manner::Cut,
        (FileKind::Appending, true) | (FileKind::Direct | FileKind::Other, _) => Manner::Whole,
    }
}

/// RWF_HIPRI, RWF_DSYNC, RWF_SYNC, RWF_NOWAIT.
const ORDINARY: u32 = 0xf;

/// Most bytes that one call moves: 2 GiB less a page.
const CALL_BYTES_MAX: u64 = 0x7fff_f000;

/// Where programs' addresses end with four levels of page tables. Beyond it the kernel decides.
const FOUR_LEVELS_END: u64 = (1 << 47) - 4096;

/// The kernel looks at no byte of a buffer that it would refuse as a whole.
fn is_taken(start: u64, bytes: u64) -> bool {
    bytes <= isize::MAX as u64 && start.checked_add(bytes).is_some_and(|end| end <= FOUR_LEVELS_END)
}

/// One part of a call.
pub(super) struct Part {
    pub(super) call: Call,
    /// How much it transfers if all goes well.
    pub(super) bytes: u64,
    /// Nothing of the call is behind it.
    pub(super) is_last: bool,
    vectors: [[u64; 2]; VECTORS_A_PART],
    vector_count: usize,
    /// A `msghdr`, if the call has one.
    message: [u64; 7],
}

impl Part {
    /// The part that begins `done` bytes into the call, of at most `limit` bytes. None: the call as a whole is not one
    /// that the kernel takes.
    pub(super) fn new<R: Residency>(
        parts: Parts,
        call: &Call,
        done: u64,
        limit: u64,
        holder: &Holder<'_, R>,
    ) -> Option<Part> {
        let mut part = Part {
            call: *call,
            bytes: 0,
            is_last: true,
            vectors: [[0; 2]; VECTORS_A_PART],
            vector_count: 0,
            message: [0; 7],
        };
        let limit = limit.min(CALL_BYTES_MAX - done);
        match parts {
            Parts::Whole => {}
            Parts::Bytes { address, bytes, position } => {
                let (start, all) = (call.arguments[usize::from(address)], call.arguments[usize::from(bytes)]);
                if !is_taken(start as u64, all as u64) {
                    return None;
                }
                let left = (all as u64).min(CALL_BYTES_MAX) - done;
                part.bytes = left.min(limit);
                part.is_last = part.bytes == left;
                part.call.arguments[usize::from(address)] += done as usize;
                part.call.arguments[usize::from(bytes)] = part.bytes as usize;
                part.advance(position, done);
            }
            Parts::Vectors { address, count, position } => {
                let (from, count) =
                    (call.arguments[usize::from(address)], call.arguments[usize::from(count)]);
                part.take_vectors(from as u64, count as u64, done, limit, holder)?;
                part.advance(position, done);
            }
            Parts::Message(argument) => {
                let header = call.arguments[usize::from(argument)] as u64;
                for (index, word) in part.message.iter_mut().enumerate() {
                    *word = holder.word(header + index as u64 * 8)?;
                }
                let [_, _, vectors, count, ..] = part.message;
                part.take_vectors(vectors, count, done, limit, holder)?;
                if done > 0 {
                    // Descriptors and credentials went with the first byte.
                    part.message[4] = 0;
                    part.message[5] = 0;
                }
            }
        }
        Some(part)
    }

    /// Copies the structures from `done` bytes on, until the part is full. All are looked at, as the kernel does.
    fn take_vectors<R: Residency>(
        &mut self,
        array: u64,
        count: u64,
        done: u64,
        limit: u64,
        holder: &Holder<'_, R>,
    ) -> Option<()> {
        if count > VECTORS_MAX {
            return None;
        }
        let mut skip = done;
        for index in 0..count {
            let at = array + index * 16;
            let (start, bytes) = (holder.word(at)?, holder.word(at + 8)?);
            if !is_taken(start, bytes) {
                return None;
            }
            let skipped = skip.min(bytes);
            skip -= skipped;
            let left = bytes - skipped;
            if left == 0 {
                continue;
            }
            let room = if self.vector_count == VECTORS_A_PART { 0 } else { limit - self.bytes };
            let taken = left.min(room);
            self.is_last &= taken == left;
            if taken > 0 {
                self.vectors[self.vector_count] = [start + skipped, taken];
                self.vector_count += 1;
                self.bytes += taken;
            }
        }
        self.is_last |= done + self.bytes == CALL_BYTES_MAX;
        Some(())
    }

    /// A position that is minus one is the file's own, and moves by itself.
    fn advance(&mut self, position: Option<u8>, done: u64) {
        if let Some(argument) = position {
            let place = &mut self.call.arguments[usize::from(argument)];
            if *place as isize != -1 {
                *place += done as usize;
            }
        }
    }

    /// Makes the part, whose ranges are held.
    pub(super) fn make_held(mut self, row: &Row, make: &mut Make<'_>) -> isize {
        self.set_up(row);
        make(&self.call)
    }

    /// The call points to the structures that are here, and stay.
    pub(super) fn set_up(&mut self, row: &Row) {
        match row.parts() {
            Parts::Vectors { address, count, .. } => {
                self.call.arguments[usize::from(address)] = self.vectors.as_ptr() as usize;
                self.call.arguments[usize::from(count)] = self.vector_count;
            }
            Parts::Message(argument) => {
                self.message[2] = self.vectors.as_ptr() as u64;
                self.message[3] = self.vector_count as u64;
                self.call.arguments[usize::from(argument)] = self.message.as_ptr() as usize;
            }
            Parts::Whole | Parts::Bytes { .. } => {}
        }
    }
}
