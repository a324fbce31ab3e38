//! Write-back by age, on request: what nobody touches for a while goes to the file, although the pool has room.
//!
//! No time is kept for a blob. Whoever asks has the blobs marked and their `REFERENCED` bits taken away, waits, and
//! then has those written that are marked and still not referenced: whoever touched one has set its bit, or taken the
//! blob away. A blob that was made in the place of a marked one is referenced too; only if the clock hand passed it
//! meanwhile it may be younger than was asked for.
//!
//! Must hold: what is marked is passed over for good only if it was written, or if its word has changed; what found no
//! room, or was left by a write that failed, is looked at again. Called by the supervisor, whose commands mark and
//! whose shrinker writes, and by `sim`.

use crate::writeback::{Added, Batch, Round, Shrinker, SwapWriter, tell_waiters};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use uswap_core::segment::Segment;
use uswap_core::swap_table::CLUSTER_ENTRIES;
use uswap_core::swap_word::{Content, SwapWord};
use uswap_units::SwapId;

/// The entries that were in the pool in a moment (a bit for each entry of the table, allocated by the supervisor on
/// request), and referred to by pages that were not in RAM.
pub struct Marked {
    bits: Vec<u64>,
    /// All below it were looked at, and are written if they had to be.
    next: SwapId,
}

fn is_asleep(word: SwapWord) -> bool {
    let is_blob = matches!(word.content(), Content::Blob { .. });
    is_blob && word.count() > 0 && !word.is_writeback() && !word.is_retained()
}

impl Marked {
    /// Marks what is in the pool now. From here on it is watched whether somebody touches it.
    pub fn now(segment: Segment<'_>) -> Marked {
        let table = segment.swap_table();
        let end = table.touched_entries();
        let mut bits = vec![0; end.div_ceil(u64::BITS) as usize];
        for first in (0..end).step_by(CLUSTER_ENTRIES as usize) {
            if table.is_empty_near(SwapId::new(first)) {
                continue;
            }
            for id in first.max(1)..first + CLUSTER_ENTRIES {
                if is_asleep(table.load(SwapId::new(id))) {
                    table.clear_referenced(SwapId::new(id));
                    bits[(id / u64::BITS) as usize] |= 1 << (id % u64::BITS);
                }
            }
        }
        Marked { bits, next: SwapId::FIRST }
    }

    /// The first that is marked, from `id` on.
    fn first_from(&self, id: SwapId) -> Option<SwapId> {
        let bits_in = |word: usize| self.bits.get(word).copied();
        let mut word = (id.number() / u64::BITS) as usize;
        let mut bits = bits_in(word)? & (u64::MAX << (id.number() % u64::BITS));
        while bits == 0 {
            word += 1;
            bits = bits_in(word)?;
        }
        Some(SwapId::new(word as u32 * u64::BITS + bits.trailing_zeros()))
    }

    fn in_range(&self, range: Range<SwapId>) -> impl Iterator<Item = SwapId> {
        let first = self.first_from(range.start);
        core::iter::successors(first, |id| self.first_from(id.next())).take_while(move |&id| id < range.end)
    }

    fn remove(&mut self, id: SwapId) {
        self.bits[(id.number() / u64::BITS) as usize] &= !(1 << (id.number() % u64::BITS));
    }
}

impl Shrinker {
    /// Writes a batch of what is marked and was not touched since; `NothingToWrite` when nothing of that is left.
    pub async fn write_marked(
        &mut self,
        segment: Segment<'_>,
        writer: &impl SwapWriter,
        buffer: &mut [u8],
        marked: &mut Marked,
    ) -> Batch {
        let Some(run) = self.take_run(segment, writer, buffer.len()) else {
            return self.pick_marked(segment, &mut [], marked).0.without_blobs();
        };
        let buffer = &mut buffer[..run.bytes() as usize];
        let (round, next) = self.pick_marked(segment, buffer, marked);
        let batch = self.write_picked(segment, writer, run, buffer, round).await;
        match batch {
            Batch::NothingToWrite => return batch,
            Batch::Written { .. } => marked.next = next,
            // A write that failed leaves its blobs referenced, as if they had been touched: they are tried again.
            _ => marked.in_range(marked.next..next).for_each(|id| {
                segment.swap_table().clear_referenced(id);
            }),
        }
        tell_waiters(segment, writer.backing(), batch);
        batch
    }

    /// Packs a batch; what was touched is marked no more. Beside what it found: from where on to go on when the batch
    /// is written.
    fn pick_marked(
        &mut self,
        segment: Segment<'_>,
        buffer: &mut [u8],
        marked: &mut Marked,
    ) -> (Round, SwapId) {
        let (table, mut used, mut too_large) = (segment.swap_table(), 0, 0);
        let (mut next, mut first_left) = (marked.next, None);
        while let Some(id) = marked.first_from(next) {
            next = id.next();
            let word = table.load(id);
            let is_untouched = is_asleep(word) && !word.is_referenced();
            let added = if is_untouched { self.add(segment, id, word, buffer, used) } else { Added::Changed };
            match added {
                Added::Yes(bytes) => used = bytes,
                Added::Changed => marked.remove(id),
                Added::TooLarge => {
                    too_large += 1;
                    first_left.get_or_insert(id);
                }
                Added::NoRoom => {
                    first_left.get_or_insert(id);
                    break;
                }
            }
        }
        (Round { discarded: 0, too_large }, first_left.unwrap_or(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_on;
    use crate::world::{Backing, FileBuffer, FileError};
    use core::cell::Cell;
    use uswap_core::budget::Signal;
    use uswap_core::files::{FileAccess, FileKind, FileSpec, slots_of_all};
    use uswap_core::pool::ZspageOwner;
    use uswap_core::segment::Geometry;
    use uswap_core::swap_table::LoadKind;
    use uswap_sync::AtomicU64;
    use uswap_units::limits::WRITEBACK_BATCH_BYTES;
    use uswap_units::{FileId, MmId, SlotId, SwapOffset, ZspageId};

    /// Two disks: the first may fail, the second takes all. Or none may be written.
    struct Disks {
        may_write: Cell<bool>,
        fails_first: Cell<bool>,
    }

    impl Backing for Disks {
        fn release_zspage(&self, _: ZspageId) {}
        async fn read_file(&self, _: SwapOffset, _: usize, _: &mut FileBuffer) -> Result<(), FileError> {
            panic!("nothing is read here")
        }
        async fn pause(&self) {}
        async fn step(&self) {}
        fn now_ns(&self) -> u64 {
            0
        }
        fn raise(&self, _: Signal) {}
        async fn wait(&self, _: Signal, _: u32, _: u64) {}
    }

    impl SwapWriter for Disks {
        type Backing = Self;
        fn backing(&self) -> &Self {
            self
        }
        fn may_write(&self, _: FileId, _: u64) -> bool {
            self.may_write.get()
        }
        async fn write_file(&self, offset: SwapOffset, _: &[u8]) -> Result<(), FileError> {
            let fails = offset < SlotId::new(SLOTS).start() && self.fails_first.get();
            if fails { Err(FileError::Io(5)) } else { Ok(()) }
        }
    }

    /// Slots of each of the two files.
    const SLOTS: u64 = 2048;

    /// Calls `test` with so many blobs of these lengths in turn, and a closure that writes a batch.
    fn with_blobs(
        count: usize,
        lengths: &[usize],
        test: impl FnOnce(Segment<'_>, Vec<SwapId>, &Disks, &mut dyn FnMut(&mut Marked) -> Batch),
    ) {
        let slots = slots_of_all([SLOTS, SLOTS]);
        let geometry = Geometry { mms: 4, tables: 8, entries: 8192, zspages: 512, slots, readahead: 0 };
        let words: Vec<AtomicU64> = (0..geometry.layout().total_words()).map(|_| AtomicU64::new(0)).collect();
        let segment = Segment::create(&words, geometry);
        for priority in [2, 1] {
            let (kind, access) = (FileKind::SolidState, FileAccess::Buffered);
            let spec = FileSpec { slots: SLOTS, priority, kind, descriptor: 3, access };
            segment.slots().add_file(spec).expect("the geometry has room for it");
        }
        let mut zspages = ZspageOwner::new();
        let blobs = (0..count).zip(lengths.iter().cycle()).map(|(_, &length)| {
            let id = segment.swap_table().reserve().expect("room");
            let cell = segment.pool().reserve(MmId::new(1), &mut zspages, length).expect("room");
            segment.pool().write(&cell, id, &vec![7; length]);
            segment.swap_table().publish(id, Content::Blob { blob: cell.blob(), length: length as u32 });
            id
        });
        let blobs = blobs.collect();
        let disks = Disks { may_write: Cell::new(true), fails_first: Cell::new(false) };
        let (mut shrinker, mut buffer) = (Shrinker::new(), vec![0; WRITEBACK_BATCH_BYTES]);
        test(segment, blobs, &disks, &mut |marked| {
            block_on(shrinker.write_marked(segment, &disks, &mut buffer, marked))
        });
    }

    fn is_in_file(segment: Segment<'_>, id: SwapId) -> bool {
        matches!(segment.swap_table().load(id).content(), Content::Slot { .. })
    }

    #[test]
    fn what_was_touched_after_it_was_marked_stays_and_the_rest_goes() {
        with_blobs(1000, &[1500], |segment, blobs, disks, write| {
            let mut marked = Marked::now(segment);
            let (touched, others) = blobs.split_at(100);
            touched.iter().for_each(|&id| segment.swap_table().note_loaded(id, LoadKind::Alone));
            crate::pool::release::put_entry(segment, disks, others[0]);
            let mut written = 0;
            loop {
                match write(&mut marked) {
                    Batch::Written { blobs, discarded: 0 } => written += blobs,
                    batch => break assert_eq!(batch, Batch::NothingToWrite),
                }
            }
            assert_eq!(written, 899);
            assert!(touched.iter().all(|&id| !is_in_file(segment, id)));
            assert!(others[1..].iter().all(|&id| is_in_file(segment, id)));
        });
    }

    #[test]
    fn a_file_that_may_not_be_written_is_full_and_nothing_is_forgotten() {
        with_blobs(10, &[1500], |segment, blobs, disks, write| {
            let mut marked = Marked::now(segment);
            disks.may_write.set(false);
            assert_eq!(write(&mut marked), Batch::FilesFull);
            disks.may_write.set(true);
            assert_eq!(write(&mut marked), Batch::Written { blobs: 10, discarded: 0 });
            assert!(blobs.iter().all(|&id| is_in_file(segment, id)));
            disks.may_write.set(false);
            assert_eq!(write(&mut marked), Batch::NothingToWrite);
        });
    }

    #[test]
    fn what_one_disk_does_not_take_is_written_to_the_other() {
        with_blobs(300, &[1500], |segment, blobs, disks, write| {
            let mut marked = Marked::now(segment);
            segment.swap_table().note_loaded(blobs[7], LoadKind::Alone);
            disks.fails_first.set(true);
            assert!(matches!(write(&mut marked), Batch::LeftToOthers { file, .. } if file.number() == 0));
            assert_eq!(write(&mut marked), Batch::Written { blobs: 299, discarded: 0 });
            assert!(!is_in_file(segment, blobs[7]), "it was touched");
            let others = blobs.iter().filter(|&&id| id != blobs[7]);
            assert!({ others }.all(|&id| is_in_file(segment, id)));
        });
    }

    /// Only single slots are free: small blobs fit, and large ones are what it is full for.
    #[test]
    fn what_finds_no_room_is_not_left_out_in_silence() {
        with_blobs(4, &[4096, 1000], |segment, blobs, _, write| {
            let slots = segment.slots();
            for file in slots.files().all() {
                // The batches that took them never end.
                while slots.take_run(&file, 1, 512).is_some() {}
            }
            (1..SLOTS).step_by(2).for_each(|slot| slots.remove_blob(SlotId::new(slot).start(), 4096));
            let mut marked = Marked::now(segment);
            assert_eq!(write(&mut marked), Batch::Written { blobs: 2, discarded: 0 });
            assert_eq!(write(&mut marked), Batch::FilesFull);
            assert_eq!(
                [0, 1, 2, 3].map(|n: usize| is_in_file(segment, blobs[n])),
                [false, true, false, true]
            );
        });
    }
}
