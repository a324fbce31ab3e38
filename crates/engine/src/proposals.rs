//! The owner's side of store jobs: which chunks are handed to the supervisor, and what becomes of what it found.

use crate::arena::StagedChunk;
use crate::engine::Engine;
use crate::platform::Platform;
use crate::storer::Owners;
use core::ops::Range;
use uswap_core::budget::Signal;
use uswap_core::counters::Counter;
use uswap_core::jobs::{JobState, JobWord, SeenJob};
use uswap_core::page_word::{PageWord, Place};
use uswap_core::pool::ZspageOwner;
use uswap_core::store_jobs::{FrameJob, JobHead, StoreJob, TakenJob};
use uswap_units::{FrameId, MmId, SwapId};

/// Chunks that the supervisor may have at once: one that it works on, and so many that wait that bursts do not find it
/// behind.
const CHUNKS_AHEAD: usize = 6;

/// kswapd waits so often, and so long each time, for a job that is not done, while memory is not short.
const WAITS: u32 = 4;
const WAIT_NS: u64 = 500_000;

/// What was found in a chunk: a job that is done, and the look at it.
#[derive(Clone, Copy)]
pub(crate) struct Proposals<'a> {
    pub(crate) job: StoreJob<'a>,
    pub(crate) seen: SeenJob,
}

impl<P: Platform> Owners for Engine<'_, P> {
    fn mm(&self) -> MmId {
        self.mm
    }
    fn with<T>(&self, change: impl FnOnce(&mut ZspageOwner) -> T) -> T {
        let mut private = self.private.lock();
        let private = &mut *private;
        change(&mut private.zspages)
    }
}

impl<P: Platform> Engine<'_, P> {
    /// Hands the oldest staged chunks to the supervisor, if it takes jobs.
    pub(crate) async fn hand_over(&self) {
        let jobs = self.segment.store_jobs();
        if !jobs.is_open() || !self.may_evict() {
            return;
        }
        for place in 0..CHUNKS_AHEAD {
            let Some(chunk) = self.private.lock().arena.oldest(place) else { return };
            if chunk.job.is_some() {
                continue;
            }
            let Some(taken) = jobs.take(self.mm) else { return };
            let job = jobs.taken(taken);
            self.fill_job(job, &chunk).await;
            // Another task may have taken the chunk meanwhile.
            let noted = self.private.lock().arena.set_job(place, chunk, taken);
            let next = if noted { JobState::Ready } else { JobState::Free };
            let changed = job.word().change(taken.seen, next);
            assert!(changed.is_some(), "only its owner changes a job that is being filled");
            if !noted {
                return;
            }
            self.platform.raise(Signal::Store);
        }
    }

    async fn fill_job(&self, job: StoreJob<'_>, chunk: &StagedChunk) {
        let first = chunk.arena.first_frame();
        let (pid, address) = self.platform.remote_address(first);
        job.set_head(JobHead { mm: self.mm, pid, address, frames: chunk.used });
        self.platform.lock_shared().await;
        for index in 0..chunk.used {
            let frame = FrameId(first.0 + index);
            let page = self.private.lock().arena.page_of(frame);
            let word = self.table.slot(page).map(|slot| slot.load());
            let old = word.filter(|word| word.place() == Place::Staged(frame)).and_then(PageWord::swap);
            // What is to be promoted is stored anew.
            let old = old.filter(|&old| !self.should_promote(old));
            job.set_frame(index, FrameJob { old, ..FrameJob::default() });
        }
        self.platform.unlock_shared();
    }

    /// Takes the oldest chunk that is not just being read. While memory is not short, a job of it is waited for.
    pub(crate) async fn next_to_store(&self) -> Option<StagedChunk> {
        let jobs = self.segment.store_jobs();
        for _ in 0..WAITS {
            let seen = self.segment.budget().signal_count(Signal::Stored);
            let oldest = self.private.lock().arena.oldest(0);
            let job = oldest.and_then(|chunk| chunk.job).map(|taken| jobs.taken(taken).word().state());
            let unfinished = matches!(job, Some(JobState::Ready | JobState::Working | JobState::Filling));
            let urgent = self.segment.budget().used() > self.watermarks().min;
            if !unfinished || urgent || !self.platform.may_wait() {
                break;
            }
            self.platform.wait(Signal::Stored, seen, WAIT_NS).await;
        }
        let mut private = self.private.lock();
        for place in 0.. {
            let Some(chunk) = private.arena.oldest(place) else { break };
            let Some(taken) = chunk.job else {
                private.arena.remove(place);
                return Some(chunk);
            };
            let (word, seen) = self.job_of(taken);
            let done = seen.state() == JobState::Done;
            let takes_back = seen.state() == JobState::Ready && word.change(seen, JobState::Free).is_some();
            if done || takes_back {
                private.arena.remove(place);
                return Some(StagedChunk { job: chunk.job.filter(|_| done), ..chunk });
            }
            // It is being read: its frames may not be used for anything else meanwhile.
        }
        let nothing_in_the_ring = private.arena.oldest(0).is_none();
        nothing_in_the_ring.then(|| private.arena.pop_oldest()).flatten()
    }

    /// The word of a job that a chunk names. What was found in a job that is another's would be taken for the content
    /// of our pages.
    fn job_of(&self, taken: TakenJob) -> (JobWord<'_>, SeenJob) {
        let word = self.segment.store_jobs().taken(taken).word();
        let seen = word.load();
        assert!(seen.is_same_use(taken.seen), "a job stays with its chunk until the chunk is stored");
        (word, seen)
    }

    /// What the supervisor found in a chunk that was just taken.
    pub(crate) fn proposals_for(&self, chunk: &StagedChunk) -> Option<Proposals<'_>> {
        let taken = chunk.job?;
        let (_, seen) = self.job_of(taken);
        let job = self.segment.store_jobs().taken(taken);
        let (_, address) = self.platform.remote_address(chunk.arena.first_frame());
        assert_eq!(job.head().address, address, "the frames that were read are those of the chunk");
        Some(Proposals { job, seen })
    }

    /// Takes what was found for a page whose word the caller has locked and seen to be in its frame; None: it must be
    /// stored by the caller.
    pub(crate) fn accept(&self, word: PageWord, found: FrameJob) -> Option<SwapId> {
        if found.hash == 0 {
            return None;
        }
        let table = self.segment.swap_table();
        let good = word.swap().filter(|&old| table.hash(old) == found.hash);
        if found.stored.is_some() {
            self.counters.add(Counter::Promoted, u64::from(good.is_some()));
            return found.stored;
        }
        let old = good.filter(|&old| table.rely_on(old))?;
        self.counters.add(Counter::Unchanged, 1);
        Some(old)
    }

    /// The page is not in its frame any more.
    pub(crate) fn give_up(&self, found: FrameJob) {
        if let Some(stored) = found.stored {
            self.put_entry(stored);
        }
    }

    /// Frames that are not looked at.
    pub(crate) fn give_up_proposals(&self, found: Option<Proposals<'_>>, frames: Range<u32>) {
        if let Some(Proposals { job, .. }) = found {
            frames.for_each(|index| self.give_up(job.take_frame(index)));
        }
    }
}
