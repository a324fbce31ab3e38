//! Decodes the next runs of a program that goes through its memory in order, on another processor: load jobs for the supervisor's storer.
//!
//! While a run is filled, the next two are being decoded. What was found is a hint without any reference: see [`uswap_core::load_jobs`].

use crate::engine::Engine;
use crate::load::Source;
use crate::plant::{Plant, is_planted};
use crate::platform::{Backing, Platform};
use crate::run::Run;
use crate::workspace::Workspace;
use uswap_codec as codec;
use uswap_core::budget::Signal;
use uswap_core::counters::Counter;
use uswap_core::jobs::{Finish, JobState, JobWord, SeenJob};
use uswap_core::load_jobs::{LoadHead, LoadJob};
use uswap_core::page_word::Place;
use uswap_core::segment::Segment;
use uswap_core::swap_word::Content;
use uswap_units::limits::RUN_PAGES_MAX;
use uswap_units::{BLOCK_PAGES, PageId, PageRange, SwapId};

/// Runs that are decoded ahead of the one that is being filled.
const RUNS_AHEAD: u64 = 4;

/// So many of them may be pages of one value, which need no decoding: a quarter must be others.
const WORTH_MIN: u32 = 4;

/// What nobody came for in this time nobody will come for.
const OLD_NS: u64 = 20_000_000;

/// Looks whether a job has come to an end after the page that was being decoded, 5 us each.
const LOOKS: u32 = 4;
const SPINS: u32 = 100;

/// Then it waits for the file, as we would.
const WAIT_NS: u64 = 200_000;

/// Pages of a run that may be decoded already: a job that is read, as it was seen when that began. Dropped, the job is free again.
pub(crate) struct Ahead<'a>(Option<(LoadJob<'a>, SeenJob)>);

impl Drop for Ahead<'_> {
    fn drop(&mut self) {
        if let Some((job, reading)) = self.0 {
            let _nobody_else_changes_it = job.word().change(reading, JobState::Free);
        }
    }
}

impl<P: Platform> Engine<'_, P> {
    /// Asks for what comes behind a run, if the run is about as long as runs get.
    pub(crate) fn ask_ahead(&self, run: &Run<'_>) {
        let window_max = self.streams.window_max();
        if !self.segment.store_jobs().is_open() || run.length() * 2 < window_max {
            return;
        }
        let mut first = run.end();
        for _ in 0..RUNS_AHEAD {
            // Runs end with their block.
            let block_end = (first.0 / BLOCK_PAGES + 1) * BLOCK_PAGES;
            let end = PageId(block_end.min(first.0 + u64::from(window_max)));
            if self.segment.load_jobs().find(self.mm, first).is_none() {
                self.ask_for(PageRange { start: first, end });
            }
            first = end;
        }
    }

    fn ask_for(&self, range: PageRange) {
        let Some(leaf) = self.table.leaf(range.start) else { return };
        let (mut ids, mut pages, mut worth) = ([SwapId(0); RUN_PAGES_MAX], 0, 0);
        for (place, (_, slot)) in ids.iter_mut().zip(leaf.slots_in(range)) {
            let word = slot.load();
            let Some(id) = word.swap().filter(|_| word.place() == Place::Swapped) else { break };
            *place = id;
            pages += 1;
            let content = self.segment.swap_table().load(id).content();
            worth += u32::from(matches!(content, Content::Blob { .. } | Content::Slot { .. }));
        }
        if pages == 0 || worth * WORTH_MIN < pages {
            return;
        }
        let now_ns = self.platform.now_ns();
        let Some((job, filling)) = self.segment.load_jobs().take(self.mm, now_ns.saturating_sub(OLD_NS))
        else {
            return;
        };
        job.set_head(LoadHead { page: range.start, pages, asked_ns: now_ns });
        (0..pages).zip(ids).for_each(|(index, id)| job.ask(index, id));
        let _nobody_else_changes_it = job.word().change(filling, JobState::Ready);
        self.platform.raise(Signal::Store);
    }

    /// Takes what was decoded for a run so far; the rest is decoded here, while the supervisor goes on to the next run. A job that nobody began is taken back.
    pub(crate) async fn take_ahead(&self, run: &Run<'_>) -> Ahead<'_> {
        let Some((job, found)) = self.segment.load_jobs().find(self.mm, run.first()) else {
            return Ahead(None);
        };
        let word = job.word();
        loop {
            let stored = self.segment.budget().signal_count(Signal::Stored);
            let seen = word.load();
            if !seen.is_same_use(found) {
                // Nobody came for it for so long that another has it.
                return Ahead(None);
            }
            match seen.state() {
                JobState::Ready if word.change(seen, JobState::Free).is_some() => return Ahead(None),
                JobState::Working if word.change(seen, JobState::Stopped).is_some() => {
                    self.wait_until_it_ends(word, stored).await;
                }
                JobState::Stopped if word.change(seen, JobState::Abandoned).is_some() => return Ahead(None),
                JobState::Done => {
                    if let Some(reading) = word.change(seen, JobState::Filling) {
                        return Ahead(Some((job, reading)));
                    }
                }
                // It has just changed.
                JobState::Ready | JobState::Working | JobState::Stopped => (),
                JobState::Free | JobState::Filling | JobState::Abandoned => return Ahead(None),
            }
        }
    }

    /// The supervisor was told to stop with what it has; `stored`: the count of its signal before.
    async fn wait_until_it_ends(&self, word: JobWord<'_>, stored: u32) {
        for _ in 0..LOOKS {
            (0..SPINS)
                .take_while(|_| word.state() == JobState::Stopped)
                .for_each(|_| core::hint::spin_loop());
            self.platform.step().await;
        }
        if word.state() == JobState::Stopped && self.platform.may_wait() {
            self.platform.wait(Signal::Stored, stored, WAIT_NS).await;
        }
    }

    /// Copies page `index` of a run out of what was decoded, if it is there.
    pub(crate) fn copy_ahead(
        &self,
        ahead: &Ahead<'_>,
        run: &Run<'_>,
        index: u32,
        out: &mut codec::Page,
    ) -> bool {
        let Some((job, reading)) = ahead.0 else { return false };
        let id = run.swap(index);
        let (id, hash) = match is_planted(Plant::StaleAhead) {
            true => job.found(index),
            false => (id, self.segment.swap_table().hash(id)),
        };
        let copied = job.copy_page(reading, index, id, hash, out);
        self.counters.add(Counter::DecodedAhead, u64::from(copied));
        copied
    }
}

/// Decodes what one load job asks for, if one is ready. True if it did.
pub(crate) async fn decode_ahead(
    segment: Segment<'_>,
    backing: &impl Backing,
    workspace: &mut Workspace,
) -> bool {
    let Some((job, working)) = segment.load_jobs().begin() else { return false };
    let (word, pages, table) = (job.word(), job.head().pages, segment.swap_table());
    let source = Source { segment, backing };
    workspace.file_holds = 0..0;
    for index in 0..pages {
        if word.load() != working {
            break;
        }
        let id = job.id(index);
        let (content, hash) = (table.load(id), table.hash(id));
        if !matches!(content.content(), Content::Blob { .. } | Content::Slot { .. }) {
            continue;
        }
        let reach = source.reach(|index| job.id(index), index..pages);
        if source.attempt((id, hash), content, 0, reach, workspace).await.is_some() {
            job.set_page(index, hash, &workspace.pages[0]);
        }
    }
    if let Finish::Abandoned(seen) = word.finish() {
        let _nobody_else_changes_it = word.change(seen, JobState::Free);
    }
    backing.raise(Signal::Stored);
    true
}
