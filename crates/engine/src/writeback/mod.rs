//! Moves old blobs from the pool to the swap files. One task of the supervisor does it, so there is one clock hand and
//! one writer.
//!
//! A batch: pick old blobs (second chance), mark them, seal them into a buffer ([`crate::record`]), write the buffer
//! with one large write, and only then let the swap words name the slots and free the cells. When the write fails the
//! blobs stay.
//!
//! Must hold: a cell is freed after the word names the slot, and the word names it after the write has ended well.
//! Called by the supervisor and `sim`, which write; their loop is [`task`], which step is next says [`schedule`], the
//! walk is in docs/internals/writeback.md.

pub mod aged;
pub mod drain;
mod rotation;
pub mod schedule;
pub mod task;

use crate::plant::{Plant, is_planted};
use crate::pool::compact::Compactor;
use crate::pool::release::release_content;
use crate::record::{Cipher, Owner, record_bytes};
use crate::world::{Backing, FileError};
use crate::writeback::rotation::Rotation;
use alloc::vec::Vec;
use core::future::Future;
use uswap_core::budget::{Fullness, Shrinking, Signal};
use uswap_core::counters::Counter;
use uswap_core::segment::Segment;
use uswap_core::slots::TakenRun;
use uswap_core::swap_table::{CLUSTER_ENTRIES, WritebackEnd};
use uswap_core::swap_word::{Content, SwapWord};
use uswap_units::limits::{WRITEBACK_BATCH_BLOBS_MAX, WRITEBACK_BATCH_BYTES};
use uswap_units::{BlobId, FileId, PAGE_BYTES, SwapId, SwapOffset};

/// The swap files as the writer sees them.
pub trait SwapWriter {
    /// What lies behind the swap entries.
    type Backing: Backing;
    /// It.
    fn backing(&self) -> &Self::Backing;
    /// Whether so many bytes may be written to this file now; if not, it counts as full.
    fn may_write(&self, file: FileId, bytes: u64) -> bool;
    /// Writes `buffer` (whole slots) at `offset` among the slots of all files; all of it, or an error.
    fn write_file(&self, offset: SwapOffset, buffer: &[u8]) -> impl Future<Output = Result<(), FileError>>;
}

/// The outcome of one batch.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Batch {
    /// Nothing was written: holes of the pool lay scattered, and so many bytes of it are free now that they lie
    /// together.
    Compacted {
        /// Bytes of zspages that were given back.
        bytes: u64,
    },
    /// This many blobs are in the file, and this many bytes of the pool are free.
    Written {
        /// Blobs that moved.
        blobs: u32,
        /// Clean copies that were given up on the way.
        discarded: u32,
    },
    /// A whole round over the table found nothing that may be written.
    NothingToWrite,
    /// No file has room, or nothing may be written.
    FilesFull,
    /// The write failed, and no other file takes what could not be written.
    Failed {
        /// The file.
        file: FileId,
        /// Why.
        error: FileError,
    },
    /// The write failed; the next batches go to other files.
    LeftToOthers {
        /// The file that rests.
        file: FileId,
        /// Why.
        error: FileError,
    },
}

/// What a round over the table found beside the blobs that it picked.
#[derive(Clone, Copy)]
pub(crate) struct Round {
    /// Clean copies that were given up.
    pub discarded: u32,
    /// Blobs for which there was no room.
    pub too_large: u32,
}

impl Round {
    /// The outcome if no blob was picked.
    pub(crate) fn without_blobs(self) -> Batch {
        match self {
            Round { discarded: 0, too_large: 0 } => Batch::NothingToWrite,
            Round { discarded: 0, .. } => Batch::FilesFull,
            Round { discarded, .. } => Batch::Written { blobs: 0, discarded },
        }
    }
}

/// What a batch is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pick {
    /// What was not asked for lately.
    Old,
    /// Pages that do not compress.
    Uncompressed,
}

/// A blob of the batch that is being made.
#[derive(Clone, Copy)]
struct Picked {
    id: SwapId,
    content: Content,
    offset: u32,
    bytes: u32,
}

/// The outcome of adding a blob to a batch.
pub(crate) enum Added {
    /// It is in write-back, and the batch takes so many bytes now.
    Yes(usize),
    /// Somebody else has changed its word.
    Changed,
    /// There is less room in all than it takes.
    TooLarge,
    /// The batch is full.
    NoRoom,
}

/// The clock hand over the swap table, and the batch it fills.
pub struct Shrinker {
    hand: SwapId,
    picked: Vec<Picked>,
    compactor: Compactor,
    /// Made when the first record is.
    cipher: Option<Cipher>,
    pub(crate) rotation: Rotation,
}

impl Shrinker {
    /// Starts at the beginning of the table. Allocates; nothing later does.
    pub fn new() -> Shrinker {
        Shrinker {
            hand: SwapId::FIRST,
            picked: Vec::with_capacity(WRITEBACK_BATCH_BLOBS_MAX),
            compactor: Compactor::new(),
            cipher: None,
            rotation: Rotation::new(),
        }
    }

    /// Writes one batch of old blobs, as much as `buffer` takes: at most `WRITEBACK_BATCH_BYTES`, in whole slots,
    /// aligned as the file wants it. While the pool is nearly full, it is compacted instead if that brings room. Faults
    /// wait for a file that takes its time ([`is_room_coming`]), but not for one that fails.
    ///
    /// [`is_room_coming`]: uswap_core::budget::Budget::is_room_coming
    pub async fn write_batch(
        &mut self,
        segment: Segment<'_>,
        writer: &impl SwapWriter,
        buffer: &mut [u8],
    ) -> Batch {
        let batch = self.compact_or_write(segment, writer, buffer, Pick::Old).await;
        tell_waiters(segment, writer.backing(), batch);
        batch
    }

    /// The same with nothing but pages that do not compress, to which the pool is of no use. While it has room, any
    /// other would come back from the file for nothing.
    pub async fn write_uncompressed(
        &mut self,
        segment: Segment<'_>,
        writer: &impl SwapWriter,
        buffer: &mut [u8],
    ) -> Batch {
        let batch = self.compact_or_write(segment, writer, buffer, Pick::Uncompressed).await;
        if batch != Batch::NothingToWrite {
            tell_waiters(segment, writer.backing(), batch);
        }
        batch
    }

    /// Puts holes of the pool together while it has room, if that is worth it: what it frees is for pages of the
    /// program. How many bytes that are.
    pub async fn compact(&mut self, segment: Segment<'_>, backing: &impl Backing) -> u64 {
        let freed = self.compactor.compact(segment, backing).await;
        if freed > 0 {
            segment.counters().add(Counter::CompactedBytes, freed);
            backing.raise(Signal::Room);
        }
        freed
    }

    async fn compact_or_write(
        &mut self,
        segment: Segment<'_>,
        writer: &impl SwapWriter,
        buffer: &mut [u8],
        pick: Pick,
    ) -> Batch {
        if excess_bytes(segment) > 0 {
            let bytes = self.compact(segment, writer.backing()).await;
            if bytes > 0 {
                return Batch::Compacted { bytes };
            }
        }
        let Some(run) = self.take_run(segment, writer, buffer.len()) else {
            let round = self.pick(segment, writer.backing(), &mut [], pick).await;
            return round.without_blobs();
        };
        let buffer = &mut buffer[..run.bytes() as usize];
        let round = self.pick(segment, writer.backing(), buffer, pick).await;
        self.write_picked(segment, writer, run, buffer, round).await
    }

    /// Slots for a batch; None if no file has any, or none may be written.
    pub(crate) fn take_run(
        &mut self,
        segment: Segment<'_>,
        writer: &impl SwapWriter,
        buffer_bytes: usize,
    ) -> Option<TakenRun> {
        let wanted = (buffer_bytes.min(WRITEBACK_BATCH_BYTES) / PAGE_BYTES) as u64;
        let may_write = |file| writer.may_write(file, wanted * PAGE_BYTES as u64);
        self.rotation.take_run(segment.slots(), wanted, writer.backing().now_ns(), may_write)
    }

    /// Writes what a round has picked into `buffer`.
    pub(crate) async fn write_picked(
        &mut self,
        segment: Segment<'_>,
        writer: &impl SwapWriter,
        run: TakenRun,
        buffer: &mut [u8],
        round: Round,
    ) -> Batch {
        let (slots, backing) = (segment.slots(), writer.backing());
        let used = self.picked.last().map_or(0, |last| (last.offset + last.bytes) as usize);
        if used == 0 {
            slots.end_run(run);
            return round.without_blobs();
        }
        let bytes = used.next_multiple_of(PAGE_BYTES);
        buffer[used..bytes].fill(0);
        // The slots count the blobs before the words name them.
        for picked in &self.picked {
            slots.add_blob(run.start().plus(u64::from(picked.offset)), u64::from(picked.bytes));
        }
        if is_planted(Plant::EarlyFree) {
            self.picked.iter().for_each(|picked| release_content(segment, backing, picked.content));
        }
        // Not if it was full: this write is a trial.
        if !segment.budget().is_full() {
            segment.budget().set_shrinking(Shrinking::Writes { since_ns: backing.now_ns() });
        }
        let written = writer.write_file(run.start(), &buffer[..bytes]).await;
        backing.step().await;
        self.finish(segment, writer, run, written, round.discarded, bytes)
    }

    fn finish(
        &mut self,
        segment: Segment<'_>,
        writer: &impl SwapWriter,
        run: TakenRun,
        written: Result<(), FileError>,
        discarded: u32,
        bytes: usize,
    ) -> Batch {
        let (table, slots, counters) = (segment.swap_table(), segment.slots(), segment.counters());
        let (start, backing) = (run.start(), writer.backing());
        for picked in &self.picked {
            let (offset, length) = (start.plus(u64::from(picked.offset)), u64::from(picked.bytes));
            if written.is_err() {
                slots.remove_blob(offset, length);
                if let Some(content) = table.abort_writeback(picked.id) {
                    release_content(segment, backing, content);
                }
                continue;
            }
            let slot = Content::Slot { offset, length: picked.bytes };
            if table.finish_writeback(picked.id, slot) == WritebackEnd::Orphaned {
                slots.remove_blob(offset, length);
            }
            if !is_planted(Plant::EarlyFree) {
                release_content(segment, backing, picked.content);
            }
        }
        let file = run.file();
        slots.end_run(run);
        let blobs = self.picked.len() as u32;
        self.picked.clear();
        match written {
            Ok(()) => {
                self.rotation.note_written(file);
                slots.files().note_written(file, bytes as u64);
                counters.add(Counter::WrittenPages, u64::from(blobs));
                counters.add(Counter::WrittenBytes, bytes as u64);
                backing.raise(Signal::Room);
                segment.budget().set_full(Fullness::Room);
                Batch::Written { blobs, discarded }
            }
            Err(error) => {
                counters.add(Counter::WriteErrors, 1);
                self.rotation.note_failed(file, backing.now_ns());
                let may_write = |file| writer.may_write(file, PAGE_BYTES as u64);
                if self.rotation.one_takes_more(slots, backing.now_ns(), may_write) {
                    Batch::LeftToOthers { file, error }
                } else {
                    Batch::Failed { file, error }
                }
            }
        }
    }

    /// Goes round the table: gives up clean copies, takes second chances away, and packs old blobs into `buffer`.
    /// Uncompressed pages are taken at once.
    async fn pick(
        &mut self,
        segment: Segment<'_>,
        backing: &impl Backing,
        buffer: &mut [u8],
        pick: Pick,
    ) -> Round {
        let table = segment.swap_table();
        let (mut used, mut discarded, mut too_large) = (0, 0, 0);
        let rounds = match pick {
            // The first pass may only clear the referenced bits.
            Pick::Old => 2,
            Pick::Uncompressed => 1,
        };
        let end = table.touched_entries();
        for step in 0..u64::from(end) * rounds {
            if self.hand.number() >= end {
                self.hand = SwapId::FIRST;
            }
            let id = self.hand;
            if id.number().is_multiple_of(CLUSTER_ENTRIES) && table.is_empty_near(id) {
                self.hand = id.plus(CLUSTER_ENTRIES);
                continue;
            }
            self.hand = id.next();
            if step % 4096 == 4095 {
                backing.step().await;
            }
            let word = table.load(id);
            let Content::Blob { length, .. } = word.content() else { continue };
            let raw = length as usize == PAGE_BYTES;
            if pick == Pick::Uncompressed && !raw {
                continue;
            }
            if word.count() == 0 || word.is_writeback() || (table.clear_referenced(id) && !raw) {
                continue;
            }
            if let Some(content) = table.discard_retained(id) {
                release_content(segment, backing, content);
                segment.counters().add(Counter::Discarded, 1);
                discarded += 1;
                if discarded as usize == WRITEBACK_BATCH_BLOBS_MAX {
                    backing.raise(Signal::Room);
                    break;
                }
                continue;
            }
            match self.add(segment, id, word, buffer, used) {
                Added::Yes(bytes) => used = bytes,
                Added::Changed => (),
                // What has less room than one blob takes may take a smaller one.
                Added::TooLarge => too_large += 1,
                Added::NoRoom => {
                    // The hand comes back to it with the next batch.
                    self.hand = id;
                    break;
                }
            }
        }
        Round { discarded, too_large }
    }

    /// Adds the blob that `word` names to the batch, which takes `used` bytes of `buffer`.
    pub(crate) fn add(
        &mut self,
        segment: Segment<'_>,
        id: SwapId,
        word: SwapWord,
        buffer: &mut [u8],
        used: usize,
    ) -> Added {
        let Content::Blob { blob, length } = word.content() else { return Added::Changed };
        let bytes = record_bytes(length as usize);
        let end = used + bytes;
        if bytes > buffer.len() {
            return Added::TooLarge;
        }
        if end > buffer.len() || self.picked.len() == WRITEBACK_BATCH_BLOBS_MAX {
            return Added::NoRoom;
        }
        let (table, seen) = (segment.swap_table(), segment.swap_table().load(id));
        if seen.content() != word.content() || seen.count() == 0 || !table.begin_writeback(id, seen) {
            return Added::Changed;
        }
        self.pack(segment, id, blob, length as usize, &mut buffer[used..end]);
        self.picked.push(Picked { id, content: word.content(), offset: used as u32, bytes: bytes as u32 });
        Added::Yes(end)
    }

    pub(crate) fn cipher(&mut self, segment: Segment<'_>) -> &Cipher {
        self.cipher.get_or_insert_with(|| Cipher::of(segment.file_key()))
    }

    /// Seals a blob, whose entry and cell stay as they are while it is in write-back.
    fn pack(&mut self, segment: Segment<'_>, id: SwapId, blob: BlobId, length: usize, record: &mut [u8]) {
        let owner = Owner { id, hash: segment.swap_table().hash(id) };
        self.cipher(segment).seal(segment.file_key(), owner, length, record, |content| {
            let read = segment.pool().read(blob, length, content);
            assert!(read, "a blob in write-back keeps its cell");
        });
    }
}

impl Default for Shrinker {
    fn default() -> Self {
        Self::new()
    }
}

/// Says what faults that wait for room may expect after a batch.
pub(crate) fn tell_waiters(segment: Segment<'_>, backing: &impl Backing, batch: Batch) {
    segment.budget().set_shrinking(match batch {
        Batch::Written { .. } | Batch::Compacted { .. } => Shrinking::BroughtRoom { at_ns: backing.now_ns() },
        // The next batch brings room.
        Batch::LeftToOthers { .. } => Shrinking::Writes { since_ns: backing.now_ns() },
        Batch::FilesFull | Batch::NothingToWrite | Batch::Failed { .. } => Shrinking::Cannot,
    });
}

/// Bytes that the shrinker should free now: what the pool holds above 19 of 20 parts of its limit.
pub fn excess_bytes(segment: Segment<'_>) -> u64 {
    let pool = segment.pool();
    pool.resident_bytes().saturating_sub(pool.limit_bytes() / 20 * 19)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_on;
    use crate::pool::compact::tests::Between;
    use alloc::vec;
    use core::cell::Cell;
    use uswap_core::files::{FileAccess, FileKind, FileSpec};
    use uswap_core::pool::ZspageOwner;
    use uswap_core::segment::Geometry;
    use uswap_sync::AtomicU64;
    use uswap_units::{MmId, SlotId};

    const GEOMETRY: Geometry =
        Geometry { mms: 4, tables: 1, entries: 512, zspages: 8, slots: 8, readahead: 0 };

    /// A segment with an empty file of eight slots.
    pub(crate) fn with_file(act: impl FnOnce(Segment<'_>)) {
        let words: Vec<AtomicU64> = (0..GEOMETRY.layout().total_words()).map(|_| AtomicU64::new(0)).collect();
        let segment = Segment::create(&words, GEOMETRY);
        let (kind, access) = (FileKind::SolidState, FileAccess::Buffered);
        let spec = FileSpec { slots: 8, priority: -1, kind, descriptor: 3, access };
        segment.slots().add_file(spec).expect("the first one");
        act(segment);
    }

    pub(crate) fn store(segment: Segment<'_>, zspages: &mut ZspageOwner, length: usize) {
        let id = segment.swap_table().reserve().expect("room");
        let cell = segment.pool().reserve(MmId::new(1), zspages, length).expect("room");
        segment.pool().write(&cell, id, &vec![7; length]);
        segment.swap_table().publish(id, Content::Blob { blob: cell.blob(), length: length as u32 });
    }

    /// Every other slot of the file is free, so that no page which does not compress finds room. Small ones do.
    #[test]
    fn a_file_with_single_slots_only_is_full_for_large_blobs() {
        with_file(|segment| {
            let file = segment.slots().files().in_use().next().expect("it was just added");
            let all = segment.slots().take_run(&file, 8, 8).expect("all are free");
            (0..8).step_by(2).for_each(|slot| segment.slots().add_blob(SlotId::new(slot).start(), 4096));
            segment.slots().end_run(all);

            let mut zspages = ZspageOwner::new();
            let writer = Between { released: Cell::new(0), step: || () };
            let (mut shrinker, mut buffer) = (Shrinker::new(), vec![0; WRITEBACK_BATCH_BYTES]);
            let mut batch = || block_on(shrinker.write_batch(segment, &writer, &mut buffer));
            assert_eq!(batch(), Batch::NothingToWrite);
            store(segment, &mut zspages, PAGE_BYTES);
            assert_eq!(batch(), Batch::FilesFull);
            store(segment, &mut zspages, 1000);
            assert_eq!(batch(), Batch::Written { blobs: 1, discarded: 0 });
            assert_eq!(batch(), Batch::FilesFull);
        });
    }

    #[test]
    fn what_compresses_is_not_written_while_the_pool_has_room() {
        with_file(|segment| {
            segment.pool().set_limit_bytes(1 << 30);
            let mut zspages = ZspageOwner::new();
            [1000, PAGE_BYTES, 1000].into_iter().for_each(|length| store(segment, &mut zspages, length));
            let writer = Between { released: Cell::new(0), step: || () };
            let (mut shrinker, mut buffer) = (Shrinker::new(), vec![0; WRITEBACK_BATCH_BYTES]);
            let mut batch = || block_on(shrinker.write_uncompressed(segment, &writer, &mut buffer));
            assert_eq!(batch(), Batch::Written { blobs: 1, discarded: 0 });
            assert_eq!(batch(), Batch::NothingToWrite);
            let batch = block_on(shrinker.write_batch(segment, &writer, &mut buffer));
            assert_eq!(batch, Batch::Written { blobs: 2, discarded: 0 });
        });
    }
}
