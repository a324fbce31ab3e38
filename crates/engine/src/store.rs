//! Stores what was staged and not touched again: same-filled, unchanged, compressed or raw.

use crate::arena::{Finished, StagedChunk};
use crate::copies::{self, PROMOTE_ONE_OF};
use crate::engine::Engine;
use crate::evict::bits;
use crate::platform::Platform;
use crate::storer::{StoreBuffers, effort, pool_is_tight, store_anew};
use crate::workspace::Workspace;
use core::sync::atomic::Ordering;
use uswap_codec as codec;
use uswap_core::counters::Counter;
use uswap_core::jobs::JobState;
use uswap_core::page_word::{Commit, PageSlot, PageWord, Place, TryLock};
use uswap_core::store_jobs::FrameJob;
use uswap_units::{CHUNK_PAGES, FrameId, PAGE_BYTES, SwapId};

/// What came of storing a staged chunk.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreChunk {
    /// Pages whose frames were given back; those of a huge page follow when all of it is stored.
    pub freed: u32,
    /// Pages that were staged in it.
    pub looked: u32,
    /// True when it ended early because the pool had no room.
    pub no_room: bool,
}

enum StorePage {
    /// The page is swapped now (or gone); its frame is free.
    Stored,
    /// It was touched meanwhile, or someone works on it.
    Left,
    NoRoom,
}

impl<P: Platform> Engine<'_, P> {
    /// Stores the oldest staged chunk. None: nothing is staged, or frames may not be dropped now.
    pub async fn store_oldest(&self, workspace: &mut Workspace) -> Option<StoreChunk> {
        if !self.may_evict() {
            return None;
        }
        let staged = self.next_to_store().await?;
        let proposals = self.proposals_for(&staged);
        let mut no_room = false;
        let mut stored = 0;
        for index in 0..staged.used {
            let proposal = proposals.map_or_else(FrameJob::default, |found| found.job.take_frame(index));
            match self.store_page(&staged, index, proposal, workspace).await {
                StorePage::Stored => stored += 1,
                StorePage::Left => (),
                StorePage::NoRoom => {
                    no_room = true;
                    self.give_up_proposals(proposals, index + 1..staged.used);
                    break;
                }
            }
        }
        let (staged, looked) = (StagedChunk { job: None, ..staged }, staged.pages);
        self.record().takings().note_taken(u64::from(stored));
        if let Some(found) = proposals {
            let freed = found.job.word().change(found.seen, JobState::Free);
            assert!(freed.is_some(), "only its owner frees a job that is done");
        }
        let (still, may_drop) = self.still_staged(&staged).await;
        if still != 0 || !may_drop {
            let mut private = self.private.lock();
            if no_room {
                private.arena.push_oldest(staged)
            } else {
                private.arena.push(staged)
            }
            return Some(StoreChunk { freed: 0, looked, no_room });
        }
        let finished = self.private.lock().arena.finish(staged.arena, stored);
        let dropped = match finished {
            Finished::Chunk => {
                self.platform.drop_frames(staged.arena.first_frame(), u64::MAX);
                self.private.lock().arena.give_back(staged.arena);
                stored
            }
            Finished::PartOfBlock => 0,
            Finished::Block { first, .. } if self.keep_block(first) => 0,
            Finished::Block { first, stored } => {
                self.platform.drop_block(first);
                self.private.lock().arena.give_back_block(first);
                stored
            }
        };
        self.segment.budget().subtract(u64::from(dropped) * PAGE_BYTES as u64);
        Some(StoreChunk { freed: stored, looked, no_room })
    }

    /// Frames of the chunk that page words still name, and whether the others may be dropped. Both are of one shared
    /// section: a fork may have come meanwhile, and its child reads our frames until it has its own; or a mapping is
    /// just being moved, and words are on their way.
    async fn still_staged(&self, staged: &StagedChunk) -> (u64, bool) {
        self.platform.lock_shared().await;
        let mut still = 0;
        for index in 0..staged.used {
            let frame = FrameId(staged.arena.first_frame().0 + index);
            let page = self.private.lock().arena.page_of(frame);
            if self.table.slot(page).is_some_and(|slot| slot.load().place() == Place::Staged(frame)) {
                still |= 1 << index;
            }
        }
        let may_drop = self.may_evict();
        self.platform.unlock_shared();
        (still, may_drop)
    }

    async fn store_page(
        &self,
        staged: &StagedChunk,
        index: u32,
        proposal: FrameJob,
        workspace: &mut Workspace,
    ) -> StorePage {
        let frame = FrameId(staged.arena.first_frame().0 + index);
        self.platform.lock_shared().await;
        let page = self.private.lock().arena.page_of(frame);
        let locked = self.table.slot(page).map(|slot| (slot, slot.try_lock()));
        self.platform.unlock_shared();
        let Some((slot, TryLock::Locked(word))) = locked else {
            self.give_up(proposal);
            return StorePage::Left;
        };
        if word.place() != Place::Staged(frame) {
            self.give_up(proposal);
            self.unlock_as_it_was(slot, word);
            return StorePage::Left;
        }
        if let Some(swap) = self.accept(word, proposal) {
            self.commit_stored(slot, word, swap).await;
            return StorePage::Stored;
        }
        self.platform.read_frame(frame, &mut workspace.page);
        self.platform.step().await;
        match self.store_content(word, workspace).await {
            Some(swap) => {
                self.commit_stored(slot, word, swap).await;
                StorePage::Stored
            }
            None => {
                self.unlock_as_it_was(slot, word);
                StorePage::NoRoom
            }
        }
    }

    fn unlock_as_it_was(&self, slot: PageSlot<'_>, word: PageWord) {
        if let Commit::Removed(_) = slot.commit(word.place(), word.swap()) {
            self.give_up_removed(slot, word);
        }
    }

    /// The page is in `swap` now. If that is a new entry, the old one goes, but not while the word, as it was, is being
    /// copied for a child ([`uswap_core::handovers`]): that is done in an exclusive section, and over when a shared one
    /// begins.
    async fn commit_stored(&self, slot: PageSlot<'_>, word: PageWord, swap: SwapId) {
        let old = word.swap().filter(|&old| old != swap);
        match slot.commit_swapped(swap, self.segment.reuse().note_stored()) {
            Commit::Done => {
                if let Some(old) = old {
                    if !self.handovers.is_seen_by_all() {
                        self.platform.lock_shared().await;
                        self.platform.unlock_shared();
                    }
                    self.put_entry(old);
                }
            }
            Commit::Removed(_) => {
                self.give_up_removed(slot, word);
                if word.swap() != Some(swap) {
                    self.put_entry(swap);
                }
            }
        }
    }

    /// Stores `workspace.page`; the entry that holds it. None: no room.
    async fn store_content(&self, word: PageWord, workspace: &mut Workspace) -> Option<SwapId> {
        let table = self.segment.swap_table();
        let hash = codec::hash(&workspace.page).0;
        if let Some(old) = word.swap()
            && table.hash(old) == hash
        {
            let promoted =
                if self.should_promote(old) { self.store_anew(hash, workspace).await } else { None };
            if promoted.is_some() {
                self.counters.add(Counter::Promoted, 1);
                return promoted;
            }
            if table.rely_on(old) {
                self.counters.add(Counter::Unchanged, 1);
                return Some(old);
            }
        }
        self.store_anew(hash, workspace).await
    }

    /// Whether a page that goes again, unchanged, gets a copy in the pool ([`copies::may_be_promoted`]).
    pub(crate) fn should_promote(&self, old: SwapId) -> bool {
        copies::may_be_promoted(self.segment, old)
            && (copies::pool_has_room(self.segment)
                || self.back_to_file.fetch_add(1, Ordering::Relaxed).is_multiple_of(PROMOTE_ONE_OF))
    }

    /// Stores `workspace.page` under a new entry.
    async fn store_anew(&self, hash: u128, workspace: &mut Workspace) -> Option<SwapId> {
        let Workspace { page, blob, scratch, .. } = workspace;
        let effort = effort(self.segment);
        let mut buffers = StoreBuffers { page, blob, scratch, effort, is_trial: false, incompressible: None };
        store_anew(self.segment, &self.platform, self, hash, &mut buffers).await.ok()
    }

    /// What is stored from now on would push something else into the file.
    pub(crate) fn pool_is_tight(&self) -> bool {
        pool_is_tight(self.segment)
    }

    /// Drops what a fork copied into chunks of the arena that no page word names.
    pub fn drop_free_chunks(&self) {
        let mut from = 0;
        loop {
            let chunk = self.private.lock().arena.next_free(from);
            let Some(chunk) = chunk else { return };
            let held = self.platform.held(chunk.first_frame(), CHUNK_PAGES as u32);
            if bits(held).next().is_some() {
                self.platform.drop_frames(chunk.first_frame(), held);
            }
            from = chunk.0 + 1;
        }
    }
}
