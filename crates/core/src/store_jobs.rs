//! Work that processes hand to the supervisor: staged chunks whose pages are to be hashed and compressed on another
//! processor.
//!
//! The supervisor has a memory map of its own, so its work costs the program no TLB flush. It reads frames through the
//! kernel, without any lock: a staged frame does not change until its page is touched, and then it is empty for good.
//! What it found is a proposal. Only the owner of the page commits it, with the page word locked, if the page is still
//! in that frame.
//!
//! The states are those of [`crate::jobs`]; who frees an abandoned one gives back all that was stored for it.

use crate::jobs::{JobState, JobWord, SeenJob};
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::{CHUNK_PAGES, MmId, SwapId};

/// Jobs of a run at once.
pub const STORE_JOBS: usize = 16;
const FRAME_WORDS: usize = 3;
const HEAD_WORDS: usize = 8;
/// Words of a job.
pub const STORE_JOB_WORDS: usize = HEAD_WORDS + FRAME_WORDS * CHUNK_PAGES as usize;

/// What is known of one frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FrameJob {
    /// In: the entry with a copy of the page as it was, if there is one.
    pub old: Option<SwapId>,
    /// Out: the hash of the content. 0: the frame was not read.
    pub hash: u128,
    /// Out: the entry that holds the content, with one reference for the page; None if the old one has the same hash,
    /// or there was no room.
    pub stored: Option<SwapId>,
}

/// A job that was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TakenJob {
    /// Its number.
    pub index: u8,
    /// As it was then.
    pub seen: SeenJob,
}

/// What a process asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobHead {
    /// Whose frames.
    pub mm: MmId,
    /// Process id.
    pub pid: u32,
    /// Address of the first frame there.
    pub address: u64,
    /// Frames.
    pub frames: u32,
}

/// View of all jobs.
#[derive(Clone, Copy)]
pub struct StoreJobs<'a> {
    pub(crate) words: &'a [AtomicU64],
    /// 1 while somebody takes jobs.
    pub(crate) open: &'a AtomicU64,
}

/// View of one job.
#[derive(Clone, Copy)]
pub struct StoreJob<'a> {
    words: &'a [AtomicU64],
}

impl<'a> StoreJobs<'a> {
    /// Says whether jobs are taken.
    pub fn set_open(&self, open: bool) {
        self.open.store(u64::from(open), Ordering::Relaxed);
    }
    /// True while jobs are taken.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed) != 0
    }
    /// Job `index`.
    pub fn job(&self, index: usize) -> StoreJob<'a> {
        StoreJob { words: &self.words[index * STORE_JOB_WORDS..][..STORE_JOB_WORDS] }
    }
    /// All jobs.
    pub fn all(&self) -> impl Iterator<Item = StoreJob<'a>> + use<'a> {
        let jobs = *self;
        (0..STORE_JOBS).map(move |index| jobs.job(index))
    }
    /// A job that was taken.
    pub fn taken(&self, taken: TakenJob) -> StoreJob<'a> {
        self.job(usize::from(taken.index))
    }
    /// Takes a free job, to be filled.
    pub fn take(&self, mm: MmId) -> Option<TakenJob> {
        (0..STORE_JOBS).find_map(|index| {
            let word = self.job(index).word();
            let seen = word.load();
            let taken = if seen.state() == JobState::Free { word.take(seen, mm) } else { None };
            Some(TakenJob { index: index as u8, seen: taken? })
        })
    }
    /// Begins with a job, if one is ready; and the word then.
    pub fn begin(&self) -> Option<(StoreJob<'a>, SeenJob)> {
        self.all().find_map(|job| {
            let seen = job.word().load();
            let is_ready = seen.state() == JobState::Ready;
            let begun = if is_ready { job.word().change(seen, JobState::Working) } else { None };
            Some((job, begun?))
        })
    }
}

impl<'a> StoreJob<'a> {
    /// Where it is, and whose.
    pub fn word(self) -> JobWord<'a> {
        JobWord(&self.words[0])
    }
    /// Writes what is asked for; while it is filled.
    pub fn set_head(self, head: JobHead) {
        self.words[1].store(u64::from(head.pid) | u64::from(head.frames) << 32, Ordering::Relaxed);
        self.words[2].store(head.address, Ordering::Relaxed);
    }
    /// What is asked for; while it is worked on.
    pub fn head(self) -> JobHead {
        let word = self.words[1].load(Ordering::Relaxed);
        JobHead {
            mm: self.word().load().mm(),
            pid: word as u32,
            frames: (word >> 32) as u32,
            address: self.words[2].load(Ordering::Relaxed),
        }
    }
    /// What is known of frame `index`.
    pub fn frame(self, index: u32) -> FrameJob {
        let words = &self.words[HEAD_WORDS + index as usize * FRAME_WORDS..][..FRAME_WORDS];
        let [ids, low, high] = core::array::from_fn(|word| words[word].load(Ordering::Relaxed));
        let id = |half: u64| (half as u32 != 0).then_some(SwapId(half as u32));
        FrameJob { old: id(ids), stored: id(ids >> 32), hash: u128::from(high) << 64 | u128::from(low) }
    }
    /// What was found for frame `index`, for its owner to use or to give up: nobody else finds it then, also when the
    /// owner is killed.
    pub fn take_frame(self, index: u32) -> FrameJob {
        let found = self.frame(index);
        self.set_frame(index, FrameJob::default());
        found
    }
    /// Says what is known of frame `index`: who fills or works on the job.
    pub fn set_frame(self, index: u32, frame: FrameJob) {
        let words = &self.words[HEAD_WORDS + index as usize * FRAME_WORDS..][..FRAME_WORDS];
        let id = |id: Option<SwapId>| id.map_or(0, |id| u64::from(id.0));
        words[0].store(id(frame.old) | id(frame.stored) << 32, Ordering::Relaxed);
        words[1].store(frame.hash as u64, Ordering::Relaxed);
        words[2].store((frame.hash >> 64) as u64, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::jobs::Finish;
    use crate::segment::{Geometry, Segment};
    use std::vec::Vec;

    const OWNER: MmId = MmId(3);

    fn with_jobs(test: impl FnOnce(StoreJobs<'_>)) {
        let geometry = Geometry { mms: 4, tables: 4, entries: 512, zspages: 1, slots: 8 };
        let words: Vec<_> = (0..geometry.layout().total_words()).map(|_| AtomicU64::new(0)).collect();
        test(Segment::create(&words, geometry).store_jobs());
    }

    #[test]
    fn what_is_asked_and_found_is_read_as_it_was_written() {
        with_jobs(|jobs| {
            let job = jobs.taken(jobs.take(OWNER).expect("all are free"));
            let head = JobHead { mm: OWNER, pid: u32::MAX, address: 0x7FFF_FFFF_F000, frames: 64 };
            job.set_head(head);
            assert_eq!(job.head(), head);
            let found =
                FrameJob { old: Some(SwapId(u32::MAX)), hash: u128::MAX - 7, stored: Some(SwapId(1)) };
            job.set_frame(63, found);
            assert_eq!(job.frame(62), FrameJob::default());
            assert_eq!(job.take_frame(63), found);
            // Once: who is killed afterwards leaves nothing for others to give back again.
            assert_eq!(job.take_frame(63), FrameJob::default());
        });
    }

    #[test]
    fn each_job_is_taken_once_and_each_change_made_by_one() {
        with_jobs(|jobs| {
            let taken: Vec<_> = core::iter::from_fn(|| jobs.take(OWNER)).collect();
            assert!(taken.iter().map(|taken| usize::from(taken.index)).eq(0..STORE_JOBS));
            let (word, seen) = (jobs.job(5).word(), taken[5].seen);
            let ready = word.change(seen, JobState::Ready).expect("nobody else changes it");
            let working = word.change(ready, JobState::Working).expect("nobody else changes it");
            assert!(word.change(ready, JobState::Free).is_none());
            assert!(word.reap(MmId(1)).is_none());
            assert_eq!(word.load(), working);
            assert!(word.reap(OWNER).is_none(), "nothing was found yet");
            let Finish::Abandoned(abandoned) = word.finish() else { panic!("its owner is dead") };
            assert_eq!((abandoned.mm(), abandoned.state()), (OWNER, JobState::Abandoned));
            assert!(word.change(abandoned, JobState::Free).is_some());
            let again = jobs.take(OWNER).expect("one is free");
            assert_eq!(again.index, 5);
            assert!(!again.seen.is_same_use(seen), "though it has the same owner");
            assert!(word.change(seen, JobState::Ready).is_none());
        });
    }

    #[test]
    fn what_was_found_for_the_dead_is_given_back_by_who_reaps_the_job() {
        with_jobs(|jobs| {
            let taken = jobs.take(OWNER).expect("all are free");
            let word = jobs.taken(taken).word();
            assert!(word.change(taken.seen, JobState::Ready).is_some());
            let (job, _) = jobs.begin().expect("one is ready");
            assert_eq!(job.word().finish(), Finish::Done);
            let reaped = word.reap(OWNER).expect("it was done");
            assert!(jobs.take(MmId(1)).is_some_and(|other| other.index != taken.index), "not yet");
            assert!(word.change(reaped, JobState::Free).is_some());
            assert!(word.reap(OWNER).is_none());
            assert!(jobs.take(MmId(1)).is_some_and(|other| other.index == taken.index));
            assert!(word.reap(OWNER).is_none(), "it is another's");
        });
    }
}
