//! Reads the swap files ahead of faults.
//!
//! A fault whose stream has lasted ([`crate::space::readahead`]) asks for what the stream needs next from the file, and
//! goes on. The supervisor reads it ([`serve_readahead`]), in a thread of its own, so that the next fault of the stream
//! waits for less of the disk's latency, or for none.
//!
//! Must hold: what was read ahead is a hint ([`uswap_core::readahead_buffers`]). It is verified when it is used, like
//! all that is read; whoever does not find it, or does not get it in time, reads the file itself. Called by
//! [`crate::fault`], which asks, by [`crate::fault::load`], which uses it, and by the supervisor and `sim`
//! ([`serve_readahead`]).

use super::load::{Source, gap_bytes_max};
use crate::space::AddressSpace;
use crate::space::readahead::Window;
use crate::space::words::asleep;
use crate::workspace::Workspace;
use crate::world::{Backing, FileBuffer, World};
use core::ops::Range;
use uswap_core::budget::Signal;
use uswap_core::counters::Counter;
use uswap_core::files::FileKind;
use uswap_core::page_word::Place;
use uswap_core::readahead_buffers::Copied;
use uswap_core::segment::Segment;
use uswap_core::swap_word::Content;
use uswap_units::limits::FILE_BUFFER_BYTES;
use uswap_units::{PageId, PageRange, SwapOffset};

/// The first page of a part that is asked for is less than so far ahead of a stream: two windows, so that one part is
/// used while the next is read.
const BEGINS_PAGES_MAX: u64 = 64;

/// How far ahead pages are looked at, at some 10 ns each: a part of 64 KiB holds this many that compress 12 to 1.
const LOOKS_PAGES_MAX: u64 = 192;

/// How often a fault waits for what is being read, at most [`WAIT_NS`] each time.
const WAITS_MAX: u32 = 16;
/// A signal that was lost costs this much.
const WAIT_NS: u64 = 2_000_000;

/// Adds a record to a part of the file, if it lies next to it and there is room.
fn joined(part: &Range<SwapOffset>, record: &Range<SwapOffset>) -> Option<Range<SwapOffset>> {
    let gap_bytes = gap_bytes_max(FileKind::SolidState);
    let is_near = record.start <= part.end.plus(gap_bytes) && part.start <= record.end.plus(gap_bytes);
    let joined = part.start.min(record.start)..part.end.max(record.end);
    (is_near && joined.end.since(joined.start) <= FILE_BUFFER_BYTES as u64).then_some(joined)
}

impl<W: World> AddressSpace<'_, W> {
    /// `run` comes for a fault of a stream that has lasted: what the stream needs next from the file is asked for,
    /// unless it is there or on its way. In a shared section.
    pub(super) fn ask_for_next(&self, run: PageRange, window: Window) {
        if self.counters().get(Counter::WrittenPages) == 0 {
            return;
        }
        let buffers = self.segment.readahead();
        let (mut known, mut part) = (SwapOffset::NOTHING, None::<Range<SwapOffset>>);
        for ahead in 0..LOOKS_PAGES_MAX {
            if part.is_none() && ahead >= BEGINS_PAGES_MAX {
                break;
            }
            let page = match window.is_down {
                true if run.start() > PageId::new(ahead) => run.start().minus(1 + ahead),
                true => break,
                false => run.end().plus(ahead),
            };
            let Some(record) = self.record_in_file(page) else { continue };
            let Some(begun) = &part else {
                if record.start < known.start || known.end < record.end {
                    match buffers.find(&record) {
                        Some(found) => known = found,
                        None => part = Some(record),
                    }
                }
                continue;
            };
            let Some(joined) = joined(begun, &record) else { break };
            part = Some(joined);
        }
        if let Some(part) = part
            && buffers.ask(&part, self.world.now_ns())
        {
            self.world.raise(Signal::Readahead);
        }
    }

    /// The slots of the file with the content of a page that is stored there.
    fn record_in_file(&self, page: PageId) -> Option<Range<SwapOffset>> {
        let word = self.table.word_ref(page)?.load();
        let swap = word.swap().filter(|_| word.place() == Place::Swapped)?;
        match self.segment.swap_table().load(swap).content() {
            Content::Slot { offset, length } => {
                Some(offset.slot().start()..offset.plus(u64::from(length)).next_slot_start())
            }
            _ => None,
        }
    }
}

impl<B: Backing> Source<'_, B> {
    /// Copies `wanted`, and what follows it up to `reach`, if it was read ahead; the workspace holds it then. If it is
    /// being read, that is waited for, though not for ever.
    pub(super) async fn copy_read_ahead(
        &self,
        wanted: &Range<SwapOffset>,
        reach: SwapOffset,
        workspace: &mut Workspace,
    ) -> bool {
        let (buffers, budget) = (self.segment.readahead(), self.segment.budget());
        for _ in 0..WAITS_MAX {
            let seen = budget.signal_count(Signal::Readahead);
            match buffers.copy(wanted, reach, &mut workspace.file.0) {
                Copied::UpTo(end) => {
                    workspace.file_holds = wanted.start..end;
                    self.segment.counters().add(Counter::ReadaheadHits, 1);
                    return true;
                }
                Copied::Coming => {
                    asleep(self.record, self.backing.wait(Signal::Readahead, seen, WAIT_NS)).await;
                }
                Copied::Not => break,
            }
        }
        false
    }
}

/// The supervisor's task: reads what is asked for; how many parts.
pub async fn serve_readahead<B: Backing>(segment: Segment<'_>, backing: &B, buffer: &mut FileBuffer) -> u32 {
    let buffers = segment.readahead();
    let mut count = 0;
    while let Some(task) = buffers.take() {
        let (start, bytes) = (task.part.start, task.part.end.since(task.part.start) as usize);
        let is_read = backing.read_file(start, bytes, buffer).await.is_ok();
        buffers.finish(task, is_read.then_some(&buffer.0[..bytes]));
        if is_read {
            segment.counters().add(Counter::ReadaheadReads, 1);
            segment.counters().add(Counter::ReadBytes, bytes as u64);
        }
        backing.raise(Signal::Readahead);
        count += 1;
    }
    count
}
