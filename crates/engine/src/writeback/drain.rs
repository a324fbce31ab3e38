//! Empties a swap file while the run goes on: what is in it is read, verified, sealed anew and written to the other
//! files.
//!
//! Must hold: a word is changed in one step, from the old place to the new one, and only if it still names the old one.
//! Nothing is written to a file that is drained, so as long as a word names a place there, it means the content that
//! was copied; whoever loads from the old place meanwhile either gets that, or finds that the word has changed and
//! looks again. No word comes to name a place in the file any more, so one way over the table is enough; a second one
//! makes sure.
//!
//! Called by the supervisor and `sim`, whose shrinker alone writes, a batch at a time. Leaves to the caller: the state
//! of the file.

use crate::pool::release::release_content;
use crate::record::{Owner, record_bytes};
use crate::world::{Backing, FileBuffer, FileError};
use crate::writeback::{Shrinker, SwapWriter};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use uswap_core::counters::Counter;
use uswap_core::segment::Segment;
use uswap_core::slots::TakenRun;
use uswap_core::swap_table::CLUSTER_ENTRIES;
use uswap_core::swap_word::Content;
use uswap_units::limits::{
    FILE_BUFFER_BYTES, READ_ATTEMPTS_MAX, WRITEBACK_BATCH_BLOBS_MAX, WRITEBACK_BATCH_BYTES,
};
use uswap_units::{FileId, PAGE_BYTES, SlotId, SwapId, SwapOffset};

/// A file that is being emptied, and how far that is.
pub struct Drain {
    file: FileId,
    /// All entries below it name no place in the file.
    next: SwapId,
    /// Since the last place in the file that was found, so many ways over the table have ended.
    ways: u32,
    /// Pages that were moved to other files.
    pub moved: u64,
    copied: Vec<Copied>,
    /// What was read last, and where it lies among the slots of all files.
    buffer: Box<FileBuffer>,
    held: Range<SwapOffset>,
}

/// The outcome of one batch.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drained {
    /// There is more to do.
    Some,
    /// No swap word names a place in the file, and none ever will.
    All,
    /// No other file has room, or none may be written.
    NoRoom,
    /// Another file could not be written; what was read stays where it is.
    WriteFailed {
        /// The file that was written.
        file: FileId,
        /// Why.
        error: FileError,
    },
    /// A page cannot be read from the file, or is not what was written. It stays where it is.
    Unreadable,
}

/// The outcome of reading one record.
enum Taken {
    Copied,
    /// Somebody else has changed the word.
    Changed,
    Unreadable,
}

impl Drain {
    /// Of a file that is in the state `Draining`, to which nobody writes any more.
    pub fn of(file: FileId) -> Drain {
        Drain {
            file,
            next: SwapId::FIRST,
            ways: 0,
            moved: 0,
            copied: Vec::with_capacity(WRITEBACK_BATCH_BLOBS_MAX),
            buffer: Box::new(FileBuffer([0; FILE_BUFFER_BYTES])),
            held: SwapOffset::NOTHING,
        }
    }

    /// The file.
    pub fn file(&self) -> FileId {
        self.file
    }
}

/// A record of the batch that is being made.
#[derive(Clone, Copy)]
struct Copied {
    id: SwapId,
    old: Content,
    offset: u32,
    bytes: u32,
}

impl Shrinker {
    /// Moves a batch of what is in the file to others, as much as `buffer` takes.
    pub async fn drain_batch(
        &mut self,
        segment: Segment<'_>,
        writer: &impl SwapWriter,
        buffer: &mut [u8],
        drain: &mut Drain,
    ) -> Drained {
        let Some(slots) = segment.slots().files().get(drain.file).map(|file| file.slots()) else {
            return Drained::All;
        };
        let backing = writer.backing();
        if self.next_in(segment, backing, &slots, drain).await.is_none() {
            // The second way must find nothing. That costs little, beside what a mistake here would cost.
            drain.ways += 1;
            drain.next = SwapId::FIRST;
            return if drain.ways == 2 { Drained::All } else { Drained::Some };
        }
        drain.ways = 0;
        let wanted = (buffer.len().min(WRITEBACK_BATCH_BYTES) / PAGE_BYTES) as u64;
        let Some(run) = self.take_run(segment, writer, wanted as usize * PAGE_BYTES) else {
            return Drained::NoRoom;
        };
        let buffer = &mut buffer[..run.bytes() as usize];
        let (start, mut used, mut stop) = (drain.next, 0, None);
        let mut copied = core::mem::take(&mut drain.copied);
        while copied.len() < WRITEBACK_BATCH_BLOBS_MAX
            && let Some((id, old)) = self.next_in(segment, backing, &slots, drain).await
        {
            let Content::Slot { length, .. } = old else { unreachable!("it names a place in the file") };
            // A record is sealed for its entry, and is as long in its new place.
            let end = used + length as usize;
            if end > buffer.len() {
                if used == 0 {
                    stop = Some(Drained::NoRoom);
                }
                break;
            }
            match self.copy(segment, backing, drain, (id, old), &mut buffer[used..end]).await {
                Taken::Copied => {
                    copied.push(Copied { id, old, offset: used as u32, bytes: length });
                    used = end;
                }
                Taken::Changed => (),
                Taken::Unreadable => {
                    stop = Some(Drained::Unreadable);
                    break;
                }
            }
            drain.next = id.next();
        }
        let written = self.write_copied(segment, writer, run, buffer, &copied).await;
        copied.clear();
        drain.copied = copied;
        match (written, stop) {
            (Ok(moved), stop) => {
                drain.moved += moved;
                stop.unwrap_or(Drained::Some)
            }
            (Err(failed), _) => {
                // All of the batch is where it was.
                drain.next = start;
                failed
            }
        }
    }

    /// The first entry that names a place in the file and is needed; `drain.next` is moved to it. Clean copies are
    /// given up on the way.
    async fn next_in(
        &self,
        segment: Segment<'_>,
        backing: &impl Backing,
        slots: &Range<SlotId>,
        drain: &mut Drain,
    ) -> Option<(SwapId, Content)> {
        let table = segment.swap_table();
        while drain.next.number() < table.touched_entries().min(table.entry_count()) {
            let id = drain.next;
            if id.number().is_multiple_of(CLUSTER_ENTRIES) && table.is_empty_near(id) {
                drain.next = id.plus(CLUSTER_ENTRIES);
                continue;
            }
            if id.number() % 4096 == 4095 {
                backing.step().await;
            }
            let content = table.load(id).content();
            if let Content::Slot { offset, .. } = content
                && slots.contains(&offset.slot())
            {
                match table.discard_retained(id) {
                    Some(content) => release_content(segment, backing, content),
                    None => return Some((id, content)),
                }
                continue;
            }
            drain.next = id.next();
        }
        None
    }

    /// Reads the record of an entry, verifies it, and seals its content into `record`.
    async fn copy(
        &mut self,
        segment: Segment<'_>,
        backing: &impl Backing,
        drain: &mut Drain,
        (id, old): (SwapId, Content),
        record: &mut [u8],
    ) -> Taken {
        let Content::Slot { offset, length } = old else { return Taken::Changed };
        let table = segment.swap_table();
        let file = segment.slots().files().get(drain.file);
        let end_of_file = file.map_or(SwapOffset::ZERO, |file| file.slots().end.start());
        let wanted = offset..offset.plus(u64::from(length));
        for attempt in 0..READ_ATTEMPTS_MAX {
            let hash = table.hash(id);
            if attempt > 0 {
                drain.held = SwapOffset::NOTHING;
            }
            let read = drain.read(segment, backing, &wanted, end_of_file).await;
            if table.load(id).content() != old {
                return Taken::Changed;
            }
            let owner = Owner { id, hash };
            let mut content = [0; PAGE_BYTES];
            let cipher = self.cipher(segment);
            let opened = read.and_then(|sealed| cipher.open(owner, sealed, &mut content));
            if let Some(content_bytes) = opened {
                if record_bytes(content_bytes) != record.len() {
                    return Taken::Unreadable;
                }
                let fill = |place: &mut [u8]| place.copy_from_slice(&content[..content_bytes]);
                cipher.seal(segment.file_key(), owner, content_bytes, record, fill);
                return Taken::Copied;
            }
            segment.counters().add(Counter::ReadErrors, 1);
            backing.pause().await;
        }
        if table.load(id).content() == old { Taken::Unreadable } else { Taken::Changed }
    }

    /// Writes what was copied into `buffer`, and lets the words name it. How many pages were moved.
    async fn write_copied(
        &mut self,
        segment: Segment<'_>,
        writer: &impl SwapWriter,
        run: TakenRun,
        buffer: &mut [u8],
        copied: &[Copied],
    ) -> Result<u64, Drained> {
        let (table, slots, backing) = (segment.swap_table(), segment.slots(), writer.backing());
        let Some(used) = copied.last().map(|last| (last.offset + last.bytes) as usize) else {
            slots.end_run(run);
            return Ok(0);
        };
        let (bytes, start) = (used.next_multiple_of(PAGE_BYTES), run.start());
        buffer[used..bytes].fill(0);
        // The slots count the blobs before the words name them.
        for copy in copied {
            slots.add_blob(start.plus(u64::from(copy.offset)), u64::from(copy.bytes));
        }
        let written = writer.write_file(start, &buffer[..bytes]).await;
        backing.step().await;
        let mut moved = 0;
        for copy in copied {
            let (offset, length) = (start.plus(u64::from(copy.offset)), copy.bytes);
            let new = Content::Slot { offset, length };
            let is_moved = written.is_ok() && table.move_slot(copy.id, copy.old, new);
            moved += u64::from(is_moved);
            release_content(segment, backing, if is_moved { copy.old } else { new });
        }
        let file = run.file();
        slots.end_run(run);
        match written {
            Ok(()) => {
                self.rotation.note_written(file);
                slots.files().note_written(file, bytes as u64);
                segment.counters().add(Counter::WrittenBytes, bytes as u64);
                Ok(moved)
            }
            Err(error) => {
                segment.counters().add(Counter::WriteErrors, 1);
                self.rotation.note_failed(file, backing.now_ns());
                let may_write = |file| writer.may_write(file, PAGE_BYTES as u64);
                let others = self.rotation.one_takes_more(slots, backing.now_ns(), may_write);
                Err(if others { Drained::Some } else { Drained::WriteFailed { file, error } })
            }
        }
    }
}

impl Drain {
    /// The bytes at `wanted` of the file, which is read with what lies behind them. None: it cannot be read.
    async fn read(
        &mut self,
        segment: Segment<'_>,
        backing: &impl Backing,
        wanted: &Range<SwapOffset>,
        end_of_file: SwapOffset,
    ) -> Option<&[u8]> {
        if wanted.start < self.held.start || self.held.end < wanted.end {
            let start = wanted.start.slot().start();
            let far = end_of_file.min(start.plus(FILE_BUFFER_BYTES as u64));
            let near = wanted.end.next_slot_start();
            self.held = SwapOffset::NOTHING;
            // What lies behind is likely to be wanted next. The file need not be as long as it may get.
            for end in [far, near] {
                let bytes = end.since(start) as usize;
                if backing.read_file(start, bytes, &mut self.buffer).await.is_ok() {
                    segment.counters().add(Counter::ReadBytes, bytes as u64);
                    self.held = start..end;
                    break;
                }
            }
            if self.held.is_empty() {
                return None;
            }
        }
        let from = wanted.start.since(self.held.start) as usize;
        Some(&self.buffer.0[from..from + wanted.end.since(wanted.start) as usize])
    }
}

#[cfg(test)]
#[path = "drain_tests.rs"]
mod tests;
