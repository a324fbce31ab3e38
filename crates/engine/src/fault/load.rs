//! Gets the content of a swap entry: from its value, the pool or the file, and verifies it.
//!
//! Must hold: what comes from the pool or a file is handed out only if it has the hash that the swap table has of the
//! entry. If that is not what lies there, the page is lost, and its entry says so. If nothing could be read, it stays
//! as it is: a relative may have better luck, or the same process later. Called by [`crate::fault`], by
//! [`crate::fault::readahead`], and where a swap file is drained ([`crate::writeback::drain`]). Whoever loads holds a
//! reference to the entry.

use crate::pool::release::release_content;
use crate::record::{Cipher, Owner};
use crate::space::words::asleep;
use crate::workspace::Workspace;
use crate::world::Backing;
use core::ops::Range;
use uswap_codec as codec;
use uswap_core::counters::{Counter, FaultSource};
use uswap_core::files::FileKind;
use uswap_core::mm::MmRecord;
use uswap_core::segment::Segment;
use uswap_core::swap_word::{Content, SwapWord};
use uswap_units::limits::{FILE_BUFFER_BYTES, READ_ATTEMPTS_MAX};
use uswap_units::{PAGE_BYTES, SwapId, SwapOffset};

/// The outcome of a load.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// The workspace holds the verified content, found there.
    Done(FaultSource),
    /// No attempt gave the right content.
    Lost,
}

/// Why an attempt gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// The file could not be read: an error of the disk, or of this process.
    Unread,
    /// What was found is not the content.
    Wrong,
}

fn unpack(blob: &[u8], out: &mut codec::Page, scratch: &mut codec::Scratch) -> bool {
    if blob.len() == PAGE_BYTES {
        out.copy_from_slice(blob);
        return true;
    }
    codec::decompress(blob, out, scratch).is_ok()
}

/// Bytes between two blobs of a file that are read along rather than passed over.
pub(crate) const fn gap_bytes_max(kind: FileKind) -> u64 {
    match kind {
        // As much as one read takes: the disk would wait for the second one to come by.
        FileKind::Rotational => FILE_BUFFER_BYTES as u64,
        // Reading 16 KiB more costs less than another read.
        FileKind::SolidState => 16 * 1024,
    }
}

/// What opening a record works with.
pub(crate) struct Tools<'w> {
    pub(crate) blob: &'w mut [u8; PAGE_BYTES],
    pub(crate) scratch: &'w mut codec::Scratch,
}

/// Gets content, for an engine or for the supervisor.
pub(crate) struct Source<'a, B> {
    pub(crate) segment: Segment<'a>,
    pub(crate) backing: &'a B,
    pub(crate) cipher: &'a Cipher,
    /// Of the process whose thread waits.
    pub(crate) record: MmRecord<'a>,
}

impl<B: Backing> Source<'_, B> {
    /// Loads the content of an entry, to which the caller holds a reference, into page `index` of the workspace. If the
    /// workspace does not hold that part of the file, it is read up to `reach`.
    pub(crate) async fn load(
        &self,
        id: SwapId,
        index: usize,
        mut reach: SwapOffset,
        workspace: &mut Workspace,
    ) -> Load {
        let table = self.segment.swap_table();
        let (mut failures, mut was_unread) = (0, false);
        loop {
            let word = table.load(id);
            match word.content() {
                Content::Lost => return Load::Lost,
                Content::Free | Content::Reserved | Content::Discarded => {
                    unreachable!("a swapped page refers to an entry with content")
                }
                Content::Same(_) | Content::Blob { .. } | Content::Slot { .. } => (),
            }
            let end = core::mem::replace(&mut reach, SwapOffset::ZERO);
            let is_of_several = end != SwapOffset::ZERO || !workspace.file_holds.is_empty();
            let hash = table.hash(id);
            let failed = match self.attempt((id, hash), word, index, end, workspace).await {
                Ok(source) => return Load::Done(source),
                Err(failed) => failed,
            };
            workspace.file_holds = SwapOffset::NOTHING;
            // The supervisor may have moved the blob to the file while we copied it: then the word says so. And a long
            // read may have failed for the sake of others.
            if table.load(id).content() != word.content() || is_of_several {
                continue;
            }
            failures += 1;
            was_unread |= failed == Failed::Unread;
            self.segment.counters().add(Counter::ReadErrors, 1);
            if failures == READ_ATTEMPTS_MAX {
                self.segment.counters().add(Counter::LostPages, 1);
                if !was_unread {
                    self.lose(id, word);
                }
                return Load::Lost;
            }
            asleep(self.record, self.backing.pause()).await;
        }
    }

    fn lose(&self, id: SwapId, seen: SwapWord) {
        if let Some(content) = self.segment.swap_table().lose(id, seen) {
            release_content(self.segment, self.backing, content);
        }
    }

    /// End of the part of the file that should be read along with the first page of `pages`, whose entries `swap`
    /// tells; the first byte of all if that is not in the file.
    pub(crate) fn reach(&self, swap: impl Fn(u32) -> SwapId, mut pages: Range<u32>) -> SwapOffset {
        let table = self.segment.swap_table();
        let in_file = |index| match table.load(swap(index)).content() {
            Content::Slot { offset, length } => Some((offset, offset.plus(u64::from(length)))),
            _ => None,
        };
        let Some((start, mut end)) = pages.next().and_then(in_file) else { return SwapOffset::ZERO };
        let Some((file, _)) = self.segment.slots().files().locate(start) else { return SwapOffset::ZERO };
        let gap_bytes_max = gap_bytes_max(file.spec.kind);
        let limit = start.slot().start().plus(FILE_BUFFER_BYTES as u64);
        for (next_start, next_end) in pages.filter_map(in_file) {
            if (end..=end.plus(gap_bytes_max)).contains(&next_start) && next_end <= limit {
                end = next_end;
            }
        }
        end
    }

    /// One attempt to get the content of an entry into `workspace.pages[index]`, which must have this hash: where it
    /// was found. The entry need not be referred to: what has that hash is the content, whatever became of the entry.
    pub(crate) async fn attempt(
        &self,
        (id, hash): (SwapId, u128),
        word: SwapWord,
        index: usize,
        reach: SwapOffset,
        workspace: &mut Workspace,
    ) -> Result<FaultSource, Failed> {
        let (unpacked, source) = match word.content() {
            Content::Same(value) => {
                codec::fill(&mut workspace.pages[index], value);
                return Ok(FaultSource::Same);
            }
            Content::Blob { blob, length } => {
                let length = length as usize;
                let read = self.segment.pool().read(blob, length, &mut workspace.blob);
                self.backing.step().await;
                let Workspace { blob, pages, scratch, .. } = workspace;
                let unpacked = read && unpack(&blob[..length], &mut pages[index], scratch);
                (unpacked, FaultSource::Pool)
            }
            Content::Slot { offset, length } => {
                let wanted = offset..offset.plus(u64::from(length));
                self.read_slot(Owner { id, hash }, wanted, index, reach, workspace).await?;
                return Ok(FaultSource::File);
            }
            Content::Lost | Content::Free | Content::Reserved | Content::Discarded => {
                return Err(Failed::Wrong);
            }
        };
        let good = unpacked && codec::hash(&workspace.pages[index]).0 == hash;
        if good { Ok(source) } else { Err(Failed::Wrong) }
    }

    /// Unpacks what is in a record. False if that is not the content of its owner.
    pub(crate) fn open(&self, owner: Owner, record: &[u8], out: &mut codec::Page, tools: Tools<'_>) -> bool {
        self.segment.counters().add(Counter::ReadPages, 1);
        let Tools { blob, scratch } = tools;
        let length = self.cipher.open(owner, record, blob);
        let unpacked = length.is_some_and(|length| unpack(&blob[..length], out, scratch));
        unpacked && codec::hash(out).0 == owner.hash
    }

    /// Opens and unpacks the blob at `wanted` of the file, which is read up to `reach` unless the workspace holds it.
    async fn read_slot(
        &self,
        owner: Owner,
        wanted: Range<SwapOffset>,
        index: usize,
        reach: SwapOffset,
        workspace: &mut Workspace,
    ) -> Result<(), Failed> {
        let held = &workspace.file_holds;
        let slots = wanted.start.slot().start()..wanted.end.next_slot_start();
        if wanted.start < held.start || held.end < wanted.end {
            let end = wanted.end.max(reach).next_slot_start();
            workspace.file_holds = SwapOffset::NOTHING;
            // Whoever reads it alone, for the second time, wants it from the file.
            let may_be_old = reach != SwapOffset::ZERO;
            if !(may_be_old && self.copy_read_ahead(&slots, end, workspace).await) {
                let bytes = end.since(slots.start) as usize;
                if self.backing.read_file(slots.start, bytes, &mut workspace.file).await.is_err() {
                    return Err(Failed::Unread);
                }
                workspace.file_holds = slots.start..end;
                self.segment.counters().add(Counter::ReadBytes, bytes as u64);
            }
        }
        let from = wanted.start.since(workspace.file_holds.start) as usize;
        let Workspace { file, blob, pages, scratch, .. } = workspace;
        let record = &file.0[from..from + wanted.end.since(wanted.start) as usize];
        if !self.open(owner, record, &mut pages[index], Tools { blob, scratch }) {
            self.segment.readahead().forget(&slots);
            return Err(Failed::Wrong);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::compact::tests::Between;
    use core::cell::Cell;
    use std::vec::Vec;
    use uswap_core::files::{FileAccess, FileSpec};
    use uswap_core::mm::RecordHolder;
    use uswap_core::segment::Geometry;
    use uswap_sync::AtomicU64;

    const GEOMETRY: Geometry =
        Geometry { mms: 4, tables: 1, entries: 512, zspages: 1, slots: 512, readahead: 0 };
    const BLOB_BYTES: u64 = 1472;
    const PAGES: u32 = 32;

    /// Reads that it takes to get a run of pages, each of which was written with so many pages of others behind it.
    fn reads(kind: FileKind, others: u64) -> u32 {
        let words: Vec<AtomicU64> = (0..GEOMETRY.layout().total_words()).map(|_| AtomicU64::new(0)).collect();
        let segment = Segment::create(&words, GEOMETRY);
        let (slots, access) = (GEOMETRY.slots, FileAccess::Buffered);
        let spec = FileSpec { slots, priority: -1, kind, descriptor: 3, access };
        assert!(segment.slots().add_file(spec).is_ok());
        let place = |page: u32| SwapOffset::new(u64::from(page) * (others + 1) * BLOB_BYTES);
        let store = |page| {
            let id = segment.swap_table().reserve().expect("room");
            let content = Content::Slot { offset: place(page), length: BLOB_BYTES as u32 };
            segment.swap_table().publish(id, content);
            id
        };
        let ids: Vec<SwapId> = (0..PAGES).map(store).collect();
        let (backing, cipher) =
            (Between { released: Cell::new(0), step: || () }, Cipher::of(segment.file_key()));
        let record = segment.mms().take(RecordHolder::Run).expect("room");
        let source = Source { segment, backing: &backing, cipher: &cipher, record };
        let (mut count, mut held_to) = (0, SwapOffset::ZERO);
        for page in 0..PAGES {
            if held_to < place(page).plus(BLOB_BYTES) {
                held_to = source.reach(|page| ids[page as usize], page..PAGES);
                count += 1;
            }
        }
        count
    }

    #[test]
    fn a_disk_that_turns_reads_along_what_lies_between() {
        let kinds = [FileKind::SolidState, FileKind::Rotational];
        assert_eq!(kinds.map(|kind| reads(kind, 0)), [1, 1], "what lies together is read together");
        assert_eq!(kinds.map(|kind| reads(kind, 8)), [7, 7], "gaps of 12 KiB");
        assert_eq!(kinds.map(|kind| reads(kind, 15)), [32, 11], "gaps of 22 KiB");
    }
}
