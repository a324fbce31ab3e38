//! Asks for the next runs of a program that goes through its memory in order, to be read and decoded on another
//! processor: load jobs for the supervisor's [`crate::loader`].
//!
//! While a run is filled, the next ones are being read and decoded, the more of them the longer the program goes on in
//! order. What was found is a hint without any reference: see [`uswap_core::load_jobs`].

use crate::engine::Engine;
use crate::platform::Platform;
use crate::run::Run;
use uswap_codec as codec;
use uswap_core::budget::Signal;
use uswap_core::counters::Counter;
use uswap_core::jobs::{JobState, JobWord, SeenJob};
use uswap_core::load_jobs::{LoadHead, LoadJob};
use uswap_core::page_word::Place;
use uswap_core::swap_word::Content;
use uswap_units::limits::RUN_PAGES_MAX;
use uswap_units::{BLOCK_PAGES, PageId, PageRange, SwapId};

/// So many of them may be pages of one value, which need no decoding: a quarter must be others.
const WORTH_MIN: u32 = 4;

/// What nobody came for in this time nobody will come for.
const OLD_NS: u64 = 20_000_000;

/// Looks whether a job has come to an end after the page that was being decoded, 5 us each.
const LOOKS: u32 = 4;
const SPINS: u32 = 100;

/// Then it decodes a page that takes its time.
const WAIT_NS: u64 = 200_000;

/// So often, and so long each time, is waited for reads that the supervisor has begun: as long as they take, since ours
/// would take as long. A supervisor that gets no processor must not stop the program.
const READ_WAITS: u32 = 5;
const READ_WAIT_NS: u64 = 1_000_000;

/// Pages of a run that may be decoded already: a job that is read. Dropped, the job is free again, or done if it has
/// pages behind the run.
pub(crate) struct Ahead<'a>(Option<Found<'a>>);

struct Found<'a> {
    job: LoadJob<'a>,
    /// As it was seen when reading began.
    reading: SeenJob,
    /// Number of the run's first page in the job.
    offset: u32,
    /// What it becomes.
    then: JobState,
}

impl Drop for Ahead<'_> {
    fn drop(&mut self) {
        if let Some(Found { job, reading, then, .. }) = self.0 {
            let _nobody_else_changes_it = job.word().change(reading, then);
        }
    }
}

impl<P: Platform> Engine<'_, P> {
    /// Asks for so many runs behind one.
    pub(crate) fn ask_ahead(&self, run: &Run<'_>, depth: u32) {
        let window_max = self.streams.window_max();
        if !self.segment.store_jobs().is_open() {
            return;
        }
        let mut first = run.end();
        for _ in 0..depth {
            // Runs end with their block.
            let block_end = (first.0 / BLOCK_PAGES + 1) * BLOCK_PAGES;
            let end = PageId(block_end.min(first.0 + u64::from(window_max)));
            first = match self.segment.load_jobs().find(self.mm, first) {
                Some((job, _)) if job.head().range().contains(&first) => job.head().range().end,
                _ => {
                    self.ask_for(PageRange { start: first, end });
                    end
                }
            };
        }
    }

    /// Pages of a window from `page` on, without those behind the end of a job that has the first ones: they are
    /// another job's.
    pub(crate) fn window_of_job(&self, page: PageId, window: u32) -> u32 {
        let job = self.segment.load_jobs().find(self.mm, page).filter(|_| window > 1);
        let left = job.map(|(job, _)| job.head().range().end.0.saturating_sub(page.0));
        left.filter(|&left| left > 0).map_or(window, |left| u64::from(window).min(left) as u32)
    }

    fn ask_for(&self, range: PageRange) {
        let Some(leaf) = self.table.leaf(range.start) else { return };
        let (mut ids, mut pages, mut worth) = ([SwapId(0); RUN_PAGES_MAX], 0, 0);
        let mut first = range.start;
        for (page, slot) in leaf.slots_in(range) {
            let word = slot.load();
            let Some(id) = word.swap().filter(|_| word.place() == Place::Swapped) else {
                // What is in RAM already needs no job.
                if pages == 0 { continue } else { break }
            };
            if pages == 0 {
                first = page;
            }
            ids[pages as usize] = id;
            pages += 1;
            let content = self.segment.swap_table().load(id).content();
            worth += u32::from(matches!(content, Content::Blob { .. } | Content::Slot { .. }));
        }
        if pages == 0 || worth * WORTH_MIN < pages {
            return;
        }
        let now_ns = self.platform.now_ns();
        let old_ns = now_ns.saturating_sub(OLD_NS);
        let Some((job, filling, unused)) = self.segment.load_jobs().take(self.mm, old_ns) else { return };
        if let Some((mm, head)) = unused {
            self.counters.add(Counter::DecodedUnused, u64::from(head.pages));
            if mm == self.mm {
                self.streams.note_unused(head.page);
            }
        }
        job.set_head(LoadHead { page: first, pages, asked_ns: now_ns });
        (0..pages).zip(ids).for_each(|(index, id)| job.ask(index, id));
        let _nobody_else_changes_it = job.word().change(filling, JobState::Ready);
        self.platform.raise(Signal::Store);
    }

    /// Takes what was decoded for a run. What is being read of the file is waited for. Of what is being decoded, it
    /// takes what there is; the rest is decoded here, while the supervisor goes on to the next run. A job that nobody
    /// began is taken back.
    pub(crate) async fn take_ahead(&self, run: &Run<'_>) -> Ahead<'_> {
        let Some((job, found)) = self.segment.load_jobs().find(self.mm, run.first()) else {
            return Ahead(None);
        };
        let word = job.word();
        let mut waits = if self.is_in_file(run) { READ_WAITS } else { 0 };
        loop {
            let stored = self.segment.budget().signal_count(Signal::Stored);
            let seen = word.load();
            if !seen.is_same_use(found) {
                // Nobody came for it for so long that another has it.
                return Ahead(None);
            }
            match seen.state() {
                JobState::Ready if word.change(seen, JobState::Free).is_some() => return Ahead(None),
                JobState::Working if waits > 0 => {
                    waits =
                        if self.wait_while(word, seen, stored, READ_WAIT_NS).await { waits - 1 } else { 0 };
                }
                JobState::Working => {
                    if let Some(stopped) = word.change(seen, JobState::Stopped) {
                        let _it_may_not_wait = self.wait_while(word, stopped, stored, WAIT_NS).await;
                    }
                }
                JobState::Stopped if word.change(seen, JobState::Abandoned).is_some() => return Ahead(None),
                JobState::Done => {
                    if let Some(reading) = word.change(seen, JobState::Filling) {
                        return self.ahead(job, reading, run);
                    }
                }
                // It has just changed.
                JobState::Ready | JobState::Stopped => (),
                JobState::Free | JobState::Filling | JobState::Abandoned => return Ahead(None),
            }
        }
    }

    /// A job that is read from now on.
    fn ahead<'s>(&self, job: LoadJob<'s>, reading: SeenJob, run: &Run<'_>) -> Ahead<'s> {
        let range = job.head().range();
        let then = if run.end() < range.end { JobState::Done } else { JobState::Free };
        // What is not there is not found: the look was at another use of the job.
        let offset = run.first().0.wrapping_sub(range.start.0) as u32;
        Ahead(Some(Found { job, reading, offset, then }))
    }

    pub(crate) fn is_in_file(&self, run: &Run<'_>) -> bool {
        let table = self.segment.swap_table();
        let content = |index| table.load(run.swap(index)).content();
        (0..run.length()).any(|index| matches!(content(index), Content::Slot { .. }))
    }

    /// Waits until a job is no longer as it was seen, for a while; `stored`: the count of the supervisor's signal
    /// before. False: this handler may not wait now, and has only looked for some microseconds.
    async fn wait_while(&self, word: JobWord<'_>, seen: SeenJob, stored: u32, wait_ns: u64) -> bool {
        for _ in 0..LOOKS {
            (0..SPINS).take_while(|_| word.load() == seen).for_each(|_| core::hint::spin_loop());
            self.platform.step().await;
        }
        if word.load() != seen {
            return true;
        }
        let may_wait = self.platform.may_wait();
        if may_wait {
            self.platform.wait(Signal::Stored, stored, wait_ns).await;
        }
        may_wait
    }

    /// Copies page `index` of a run out of what was decoded, if it is there.
    pub(crate) fn copy_ahead(
        &self,
        ahead: &Ahead<'_>,
        run: &Run<'_>,
        index: u32,
        out: &mut codec::Page,
    ) -> bool {
        let Some(Found { job, reading, offset, .. }) = &ahead.0 else { return false };
        let (id, at) = (run.swap(index), offset.saturating_add(index));
        let hash = self.segment.swap_table().hash(id);
        let copied = job.copy_page(*reading, at, id, hash, out);
        self.counters.add(Counter::DecodedAhead, u64::from(copied));
        copied
    }
}
