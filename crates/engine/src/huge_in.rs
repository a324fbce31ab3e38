//! Stored huge pages come back as one: where a program goes through its memory in order, and all of a block left as
//! one, its 512 pages are decoded into a huge frame of the arena, which is moved back with one MOVE.
//!
//! That takes a sixth of the time of 512 copies into new pages, and what comes as one goes as one the next time. The
//! pages are decoded as a row of runs, the next ones of which the supervisor decodes at the same time.
//!
//! Must hold: the words of all 512 pages stay locked until they are there, and each names its entry as before until
//! then. So whatever comes between, nothing is lost: the pages come one by one. The thread that touched the first page
//! waits for the last one; a program that does not go on in order does not get here.

use crate::engine::Engine;
use crate::fault::FaultOutcome;
use crate::huge::{Back, block_at};
use crate::huge_fill::HugeFrame;
use crate::platform::{Install, Platform};
use crate::run::{FilledRun, Run};
use crate::streams::Window;
use crate::throttle::Patience;
use crate::workspace::Workspace;
use core::sync::atomic::Ordering;
use uswap_core::counters::{Counter, FaultSource};
use uswap_core::page_table::Leaf;
use uswap_core::page_word::Place;
use uswap_core::reuse;
use uswap_core::swap_table::Came;
use uswap_core::swap_word::Content;
use uswap_units::{BLOCK_PAGES, FrameId, PageId};

/// A blob may be on its way from one place to another when it is read: then it is at the other.
const ATTEMPTS: u32 = 2;

impl<P: Platform> Engine<'_, P> {
    /// Serves a fault on the first page of a block that left as one. None: it did not, or it cannot come as one; it is
    /// served page by page.
    pub(crate) async fn swap_in_block(
        &self,
        first: PageId,
        window: Window,
        patience: Patience,
        workspace: &mut Workspace,
    ) -> Option<FilledRun> {
        if !self.has_left_as_one(first).await {
            return None;
        }
        let frames = match self.huge_frame(self.huge_room_pages / 2, patience, workspace).await {
            HugeFrame::Taken(frames, _) => Some(frames),
            HugeFrame::PutOff => return Some(FilledRun::PUT_OFF),
            HugeFrame::None => None,
        };
        let filled = match frames {
            Some(frames) => self.bring_block(first, frames, window, workspace).await,
            None => None,
        };
        self.counters.add(Counter::HugeInFallback, u64::from(filled.is_none()));
        filled
    }

    async fn has_left_as_one(&self, first: PageId) -> bool {
        self.platform.lock_shared().await;
        let left_as_one = self.table.leaf(first).is_some_and(|leaf| {
            leaf.stageable().has_left_as_one()
                && leaf.slots_in(block_at(first)).all(|(_, slot)| slot.load().place() == Place::Swapped)
        });
        self.platform.unlock_shared();
        left_as_one
    }

    async fn bring_block(
        &self,
        first: PageId,
        frames: FrameId,
        window: Window,
        workspace: &mut Workspace,
    ) -> Option<FilledRun> {
        self.platform.step().await;
        self.platform.lock_shared().await;
        let leaf = match self.table.leaf(first) {
            Some(leaf) if !self.event_in_progress.load(Ordering::Acquire) => {
                self.lock_block(&leaf, |word| word.place() == Place::Swapped).then_some(leaf)
            }
            _ => None,
        };
        self.platform.unlock_shared();
        let Some(leaf) = leaf else {
            self.give_up_block(frames, 0);
            return None;
        };
        let source = self.load_block(leaf, frames, window, workspace).await;
        self.platform.lock_shared().await;
        let filled = match source {
            Some(source) if self.is_whole(&leaf) => {
                self.expect_next(block_at(first).end, BLOCK_PAGES as u32 - 1, window);
                Some(self.map_block(&leaf, frames, source).await)
            }
            _ => {
                runs(leaf, self.streams.window_max()).for_each(|run| self.unlock_rest(&run, 0));
                self.give_up_block(frames, 0);
                None
            }
        };
        self.platform.unlock_shared();
        filled
    }

    /// True when nothing was dropped of a block, or is being moved, since it was locked. In a shared section.
    fn is_whole(&self, leaf: &Leaf<'_>) -> bool {
        let mut words = leaf.slots_in(block_at(leaf.first_page()));
        !self.event_in_progress.load(Ordering::Acquire) && words.all(|(_, slot)| !slot.load().is_removed())
    }

    /// Decodes a block whose words are locked into a huge frame. Where its first pages were; None: not all of it can be
    /// had now. Without the gate.
    async fn load_block(
        &self,
        leaf: Leaf<'_>,
        frames: FrameId,
        window: Window,
        workspace: &mut Workspace,
    ) -> Option<FaultSource> {
        let mut source = None;
        let mut first = leaf.first_page();
        let end = block_at(first).end;
        while first < end {
            let left = (end.0 - first.0) as u32;
            let run =
                Run::of_locked(leaf, first, self.window_of_job(first, self.streams.window_max()).min(left));
            self.ask_ahead(&run, window.depth);
            source.get_or_insert(if self.is_in_file(&run) { FaultSource::File } else { FaultSource::Pool });
            let ahead = self.take_ahead(&run).await;
            workspace.file_holds = 0..0;
            let mut start = 0;
            while start < run.length() {
                let part = start..run.length().min(start + self.part_pages);
                let mut loaded = 0;
                for _ in 0..ATTEMPTS {
                    loaded = self.load_part(&run, &ahead, part.clone(), loaded, workspace).await;
                }
                if loaded < part.end - part.start {
                    return None;
                }
                let at = (first.0 - leaf.first_page().0) as u32 + start;
                self.platform.write_frames(FrameId(frames.0 + at), &workspace.pages[..loaded as usize]);
                start = part.end;
            }
            first = run.end();
        }
        source
    }

    /// In a shared section; all words of the block are locked, and the frames hold their content.
    async fn map_block(&self, leaf: &Leaf<'_>, frames: FrameId, source: FaultSource) -> FilledRun {
        let first = leaf.first_page();
        self.platform.step().await;
        let filled = self.platform.move_block_in(frames, first);
        self.platform.step().await;
        let (mut pages, mut outcome) = (0, self.not_done(filled.last));
        for ((_, slot), index) in leaf.slots_in(block_at(first)).zip(0..) {
            let word = slot.load();
            let swap = word.swap().expect("a swapped page names its entry");
            let back = self.back(frames, filled, index);
            let is_zeros = || matches!(self.segment.swap_table().load(swap).content(), Content::Same(0));
            match back {
                Back::Stayed => self.commit(slot, word.place(), Some(swap)),
                Back::ZerosOrCame if is_zeros() => self.commit_fresh(slot, word),
                Back::Came | Back::ZerosOrCame => {
                    let how = if index == 0 { reuse::Back::ByFault } else { reuse::Back::Along };
                    self.segment.reuse().note_back(word.left_at(), how);
                    self.segment.swap_table().note_loaded(swap, Came::InRun);
                    self.commit(slot, Place::Present, Some(swap));
                    pages += 1;
                    if index == 0 {
                        self.note_came_back(word, BLOCK_PAGES as u32);
                        outcome = FaultOutcome::Served(source);
                    }
                }
            }
        }
        if filled.last == Install::Done {
            self.private.lock().arena.give_back_block(frames);
            let is_one = self.platform.is_huge(first);
            if is_one {
                self.chances.want_frame();
            }
            self.counters.add(if is_one { Counter::HugeIn } else { Counter::HugeSplit }, 1);
        } else {
            // The kernel wakes only those that wait for what it counted.
            self.platform.wake(first, BLOCK_PAGES as u32);
            self.give_up_block(frames, pages);
        }
        FilledRun { outcome, pages }
    }
}

/// A block whose words are locked, as runs of at most so many pages.
fn runs(leaf: Leaf<'_>, pages: u32) -> impl Iterator<Item = Run<'_>> {
    let starts = (0..BLOCK_PAGES).step_by(pages as usize);
    starts.map(move |start| {
        Run::of_locked(leaf, leaf.first_page().plus(start), pages.min((BLOCK_PAGES - start) as u32))
    })
}
