//! Drop-behind: notes what a program goes past in order, and follows samples of what was evicted. The rule is
//! [`uswap_core::drop_behind`].
//!
//! Must hold: all of this is hints. Several threads note and ask; whoever finds the state in use goes on without it,
//! and no more comes of that than a worse choice of pages. Called by [`crate::fault`], which notes, and by
//! [`crate::evict`], which asks, in shared sections of the gate.

use crate::evict::choose::Wanted;
use crate::evict::{BATCH_PAGES, Evictor};
use crate::space::AddressSpace;
use crate::space::readahead::Window;
use crate::world::World;
use uswap_core::counters::Counter;
use uswap_core::drop_behind::{Chosen, Sample, SampleState};
use uswap_core::page_word::Place;
use uswap_units::{BLOCK_PAGES, CHUNK_PAGES, ChunkId, PageId, PageRange};

/// Blocks that are in RAM as a whole and that a stream passes over at most, at 0.2 us each: what goes round in little
/// more than there is has most of it there.
const SKIPPED_BLOCKS_MAX: u32 = 256;

impl<W: World> AddressSpace<'_, W> {
    /// Stored pages came back, of this window. Of a stream that has lasted, the chunk is noted whose end they reach.
    pub(crate) fn note_passed(&self, came: PageRange, window: Window) {
        if !self.readahead.is_largest(window) || came.pages() == 0 {
            return;
        }
        let (first, last) = (came.start().chunk(), came.end().minus(1).chunk());
        let passed = match window.is_down {
            false if came.end().chunk() != last => last,
            false if first != last => first,
            true if came.start() == first.first_page() => first,
            true if first != last => last,
            _ => return,
        };
        self.behind.with(|state| state.note_passed(passed));
    }

    /// Locks what the program has just gone past, if it is the turn of that: whole chunks, however warm their pages
    /// are. How many of the pages may go.
    pub(super) fn lock_behind(&self, evictor: &mut Evictor, pages_max: usize) -> usize {
        let mut goes = 0;
        while goes < pages_max && evictor.length + CHUNK_PAGES as usize <= BATCH_PAGES && self.may_evict() {
            let Some(chunk) = self.next_behind() else { break };
            let Some(leaf) = self.table.leaf(chunk.first_page()) else { continue };
            let in_block = chunk.position_in_block();
            if leaf.evictable().chunks() & 1 << in_block != 0 {
                let all = Wanted {
                    chosen: Some(Chosen::Behind),
                    goes_max: CHUNK_PAGES as usize,
                    within: chunk.pages(),
                };
                goes += self.lock_chunk(&leaf, in_block, evictor, all);
            }
        }
        goes
    }

    /// The next chunk that the program went past, if it is the turn of those. None: the hand chooses.
    fn next_behind(&self) -> Option<ChunkId> {
        let now = self.segment.reuse().stored();
        self.behind.with(|state| state.next(now)).flatten()
    }

    /// Notes that this page was evicted, among so many: it is followed, if one more sample is wanted.
    pub(super) fn note_chosen(&self, chosen: Chosen, pages: u64, page: PageId) {
        if chosen == Chosen::Behind {
            self.counters().add(Counter::DroppedBehind, pages);
        }
        let now = self.segment.reuse().stored();
        self.behind.with(|state| {
            state.look(now, |sample| self.state_of(sample, now));
            state.note_evicted(chosen, pages);
            if state.wants_sample(chosen, now) {
                state.follow(chosen, Sample { page, at: now });
            }
        });
    }

    fn state_of(&self, sample: Sample, now: u64) -> SampleState {
        let reuse = self.segment.reuse();
        let Some(word) = self.table.word_ref(sample.page).map(|word_ref| word_ref.load()) else {
            return SampleState::Gone;
        };
        match word.place() {
            _ if !word.is_managed() => SampleState::Gone,
            Place::Fresh => SampleState::Gone,
            Place::Present => SampleState::Present,
            // The word has the time of its own eviction, with an error of 1/4096 of the budget.
            Place::Swapped => match reuse.distance(word.evicted_at()) + reuse.ram_pages() / 64 {
                least if least < now.saturating_sub(sample.at) => SampleState::AwayAgain,
                _ => SampleState::Away,
            },
        }
    }

    /// Where a stream goes on that has brought pages up to `next`: it meets no fault before the first page that is not
    /// in RAM.
    pub(crate) fn skip_present(&self, next: PageId) -> PageId {
        let mut at = next;
        for _ in 0..SKIPPED_BLOCKS_MAX {
            let Some(leaf) = self.table.leaf(at) else { break };
            let block_end = leaf.first_page().plus(BLOCK_PAGES);
            let mut word_refs = leaf.word_refs_in(PageRange::new(at, block_end));
            if let Some((page, _)) = word_refs.find(|(_, word_ref)| word_ref.load().place() != Place::Present)
            {
                return page;
            }
            at = block_end;
        }
        at
    }
}
