//! Drop-behind: notes what a program goes past in order, and follows samples of what was evicted. The rule is
//! [`uswap_core::drop_behind`].

use crate::arena::BLOCK_CHUNKS;
use crate::engine::Engine;
use crate::evict::Stage;
use crate::platform::Platform;
use crate::streams::Window;
use core::sync::atomic::Ordering;
use uswap_core::counters::Counter;
use uswap_core::drop_behind::{Chosen, Fate, Pattern, Sample};
use uswap_core::page_word::Place;
use uswap_units::{BLOCK_PAGES, CHUNK_PAGES, ChunkId, PageId, PageRange};

/// Blocks that are in the program as a whole and that a stream passes over at most, at 0.2 us each: what goes round in
/// little more than there is has most of it there.
const SKIPPED_BLOCKS_MAX: u32 = 256;

impl<P: Platform> Engine<'_, P> {
    /// So many stored pages came in, in order, in the longest run there is: at most one chunk ends in it. Or they are a
    /// huge page, which is noted by its first chunk, and leaves as one.
    pub(crate) fn note_passed(&self, first: PageId, pages: u32) {
        if u64::from(pages) == BLOCK_PAGES {
            return self.private.lock().drop_behind.note_passed(first.chunk(), BLOCK_CHUNKS as usize);
        }
        let next = first.plus(u64::from(pages)).chunk();
        if next != first.chunk() {
            self.private.lock().drop_behind.note_passed(ChunkId(next.0 - 1), 1);
        }
    }

    /// Stages the next chunk that the program went past, if it is the turn of those. None: the hand chooses.
    pub(crate) async fn stage_behind(&self) -> Option<Stage> {
        let now = self.segment.reuse().stored();
        let chunk = self.private.lock().drop_behind.next(now)?;
        let staged = match self.stage_huge(chunk).await {
            Some(staged) => staged,
            None => self.stage_chunk(chunk).await,
        };
        if let Stage::Staged(pages) = staged {
            self.counters.add(Counter::DroppedBehind, u64::from(pages));
            self.follow(Chosen::Behind, chunk, pages);
        }
        // It may be gone, or rest: no reason to do anything else.
        Some(if staged == Stage::Nothing { Stage::Rests } else { staged })
    }

    /// So many pages were staged, in this chunk or the huge page that it is part of; one of them is followed, if one
    /// more sample is wanted.
    pub(crate) fn follow(&self, chosen: Chosen, chunk: ChunkId, pages: u32) {
        let at = self.segment.reuse().stored();
        {
            let drop_behind = &mut self.private.lock().drop_behind;
            drop_behind.note_staged(chosen, pages.into());
            if !drop_behind.wants_sample(chosen, at) {
                return;
            }
        }
        let range = PageRange { start: chunk.first_page(), end: chunk.first_page().plus(CHUNK_PAGES) };
        let Some(leaf) = self.table.leaf(range.start) else { return };
        let staged = leaf.slots_in(range).find(|(_, slot)| matches!(slot.load().place(), Place::Staged(_)));
        if let Some((page, _)) = staged {
            self.private.lock().drop_behind.follow(chosen, Sample::new(page, at));
        }
    }

    /// Looks what became of the samples; what they say of the program.
    pub(crate) fn look_at_samples(&self) -> Pattern {
        let now = self.segment.reuse().stored();
        let others = self.came_otherwise.swap(0, Ordering::Relaxed);
        let drop_behind = &mut self.private.lock().drop_behind;
        drop_behind.note_others(others.into());
        drop_behind.look(now, |sample| self.fate(sample, now));
        drop_behind.pattern()
    }

    fn fate(&self, sample: Sample, now: u64) -> Fate {
        let Some(slot) = self.table.slot(sample.page) else { return Fate::Gone };
        let word = slot.load();
        match word.place() {
            _ if !word.is_managed() => Fate::Gone,
            Place::Fresh => Fate::Gone,
            Place::Present => Fate::Present,
            Place::Staged(_) => Fate::Staged,
            Place::Swapped => {
                // It was staged for a while before it went for the first time.
                let (age, away) =
                    (now.saturating_sub(sample.at), self.segment.reuse().distance(word.left_at()));
                let again = away < age / 2 && age > self.segment.reuse().ram_pages() / 2;
                if again { Fate::AwayAgain } else { Fate::Away }
            }
        }
    }

    /// The thread that waits goes on soon, up to `behind`, and its next fault may be read before anybody has done more
    /// here: what that one brings along is noted before. `along`: stored pages that come with this one.
    pub(crate) fn expect_next(&self, behind: PageId, along: u32, window: Window) {
        // Random accesses do not pay for it.
        let next = if window.pages > 1 { self.skip_present(behind) } else { behind };
        self.streams.note(behind, next, along, window);
    }

    /// The first page from `next` on that is not in the program: one that is in order does not fault before it comes
    /// there.
    fn skip_present(&self, next: PageId) -> PageId {
        let mut at = next;
        for _ in 0..SKIPPED_BLOCKS_MAX {
            let Some(leaf) = self.table.leaf(at) else { break };
            let block_end = leaf.first_page().plus(BLOCK_PAGES);
            let mut slots = leaf.slots_in(PageRange { start: at, end: block_end });
            if let Some((page, _)) = slots.find(|(_, slot)| slot.load().place() != Place::Present) {
                return page;
            }
            at = block_end;
        }
        at
    }
}
