//! Work that processes hand to the supervisor: stored pages that will be wanted soon, to be decoded on another
//! processor.
//!
//! A job holds no reference to its entries, and the supervisor takes no lock. Each page that it decoded lies in the job
//! with the entry and the hash of its content. The owner uses it only while a page word that it has locked names that
//! entry, and the entry has that hash: then it is the content. What nobody came for is overwritten by the next job. The
//! states are those of [`crate::jobs`].

use crate::jobs::{JobState, JobWord, SeenJob};
use crate::plant::{Plant, is_planted};
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::limits::RUN_PAGES_MAX;
use uswap_units::{MmId, PAGE_BYTES, PageId, SwapId};

/// Jobs of a run at once: two runs ahead of four streams.
pub const LOAD_JOBS: usize = 8;
const HEAD_WORDS: usize = 8;
const ID_WORDS: usize = 3;
const PAGE_WORDS: usize = PAGE_BYTES / 8;
/// Words of a job without its pages.
const JOB_WORDS: usize = HEAD_WORDS + ID_WORDS * RUN_PAGES_MAX;
/// Words of all jobs. The pages come behind the rest, and take memory once they are used.
pub const LOAD_JOBS_WORDS: usize = PAGES_START + LOAD_JOBS * RUN_PAGES_MAX * PAGE_WORDS;
const PAGES_START: usize = (LOAD_JOBS * JOB_WORDS).next_multiple_of(PAGE_WORDS);

/// View of all jobs.
#[derive(Clone, Copy)]
pub struct LoadJobs<'a> {
    pub(crate) words: &'a [AtomicU64],
}

/// View of one job.
#[derive(Clone, Copy)]
pub struct LoadJob<'a> {
    words: &'a [AtomicU64],
    pages: &'a [AtomicU64],
}

/// What a process asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoadHead {
    /// The first page.
    pub page: PageId,
    /// How many there are.
    pub pages: u32,
    /// When it was asked for.
    pub asked_ns: u64,
}

/// Whose a job was that nobody came for, and what was asked for; `None` if it was free.
pub type Unused = Option<(MmId, LoadHead)>;

impl LoadHead {
    /// The pages.
    pub fn range(&self) -> core::ops::Range<PageId> {
        self.page..self.page.plus(u64::from(self.pages))
    }
}

impl<'a> LoadJobs<'a> {
    /// All jobs.
    pub fn all(&self) -> impl Iterator<Item = LoadJob<'a>> + use<'a> {
        let (words, pages) = self.words.split_at(PAGES_START);
        let jobs = words.chunks_exact(JOB_WORDS).zip(pages.chunks_exact(RUN_PAGES_MAX * PAGE_WORDS));
        jobs.map(|(words, pages)| LoadJob { words, pages })
    }

    /// The job of a process that asks for `page` among others, wherever it is; and the look at it.
    pub fn find(&self, mm: MmId, page: PageId) -> Option<(LoadJob<'a>, SeenJob)> {
        let looks = self.all().map(|job| (job, job.word().load()));
        // The head is read behind the look: it is of the same use of the job if a change of what was seen succeeds.
        let mut taken = looks.filter(|(_, seen)| seen.state() != JobState::Free && seen.mm() == mm);
        taken.find(|(job, _)| job.head().range().contains(&page))
    }

    /// A job by its number.
    pub fn job(&self, number: usize) -> LoadJob<'a> {
        self.all().nth(number).expect("there are so many jobs")
    }

    /// Begins with the job that was asked for first, if one is ready: its number, and the word then.
    pub fn begin(&self) -> Option<(usize, SeenJob)> {
        let looks = self.all().enumerate().map(|(number, job)| (number, job, job.word().load()));
        let ready = looks.filter(|(_, _, seen)| seen.state() == JobState::Ready);
        let (number, job, seen) = ready.min_by_key(|(_, job, _)| job.head().asked_ns)?;
        Some((number, job.word().change(seen, JobState::Working)?))
    }

    /// Takes a job to be filled: a free one, or one that was done before `old_ns` and that nobody came for; whose that
    /// was, and what was asked for then.
    pub fn take(&self, mm: MmId, old_ns: u64) -> Option<(LoadJob<'a>, SeenJob, Unused)> {
        let take = |from: JobState| {
            move |job: LoadJob<'a>| {
                let seen = job.word().load();
                let head = job.head();
                let is_old = from == JobState::Free || head.asked_ns < old_ns;
                let taken = if seen.state() == from && is_old { job.word().take(seen, mm) } else { None };
                Some((job, taken?, (from == JobState::Done).then_some((seen.mm(), head))))
            }
        };
        self.all().find_map(take(JobState::Free)).or_else(|| self.all().find_map(take(JobState::Done)))
    }
}

impl<'a> LoadJob<'a> {
    /// Where it is, and whose.
    pub fn word(self) -> JobWord<'a> {
        JobWord(&self.words[0])
    }
    /// Writes what is asked for; while it is filled.
    pub fn set_head(self, head: LoadHead) {
        self.words[1].store(head.page.0, Ordering::Relaxed);
        self.words[2].store(u64::from(head.pages), Ordering::Relaxed);
        self.words[3].store(head.asked_ns, Ordering::Relaxed);
    }
    /// What is asked for. A hint, unless the caller fills the job or works on it.
    pub fn head(self) -> LoadHead {
        LoadHead {
            page: PageId(self.words[1].load(Ordering::Relaxed)),
            pages: (self.words[2].load(Ordering::Relaxed) as u32).min(RUN_PAGES_MAX as u32),
            asked_ns: self.words[3].load(Ordering::Relaxed),
        }
    }
    fn ids(self, index: u32) -> &'a [AtomicU64] {
        &self.words[HEAD_WORDS + index as usize * ID_WORDS..][..ID_WORDS]
    }
    /// Asks for an entry; while it is filled.
    pub fn ask(self, index: u32, id: SwapId) {
        let words = self.ids(index);
        [u64::from(id.0), 0, 0]
            .into_iter()
            .zip(words)
            .for_each(|(value, word)| word.store(value, Ordering::Relaxed));
    }
    /// The entry that is asked for.
    pub fn id(self, index: u32) -> SwapId {
        SwapId(self.ids(index)[0].load(Ordering::Relaxed) as u32)
    }
    /// The content of an entry, which has this hash; while it is worked on.
    pub fn set_page(self, index: u32, hash: u128, content: &[u8; PAGE_BYTES]) {
        write_words(self.page(index), content);
        self.ids(index)[1].store(hash as u64, Ordering::Relaxed);
        self.ids(index)[2].store((hash >> 64) as u64, Ordering::Relaxed);
    }
    fn page(self, index: u32) -> &'a [AtomicU64] {
        &self.pages[index as usize * PAGE_WORDS..][..PAGE_WORDS]
    }
    /// The entry that was asked for and the hash of the content that was found; while the owner reads.
    pub fn found(self, index: u32) -> (SwapId, u128) {
        let [id, low, high] = core::array::from_fn(|word| self.ids(index)[word].load(Ordering::Relaxed));
        (SwapId(id as u32), u128::from(high) << 64 | u128::from(low))
    }
    /// Copies the content of entry `id`, whose hash is this, if it is there; while the owner reads, in the state that
    /// was `seen` then. False also if it lost the job while it copied.
    pub fn copy_page(
        self,
        seen: SeenJob,
        index: u32,
        id: SwapId,
        hash: u128,
        out: &mut [u8; PAGE_BYTES],
    ) -> bool {
        if index >= self.head().pages || self.found(index) != (id, hash) {
            return false;
        }
        read_words(self.page(index), out);
        // Behind the copying: see `read_words`.
        self.word().load() == seen
    }
}

/// Writes content for who reads it with `read_words`.
pub(crate) fn write_words(words: &[AtomicU64], content: &[u8]) {
    // Release pairs with `read_words`: who copies these bytes for what was here before finds the job taken.
    let release = if is_planted(Plant::PageRelaxed) { Ordering::Relaxed } else { Ordering::Release };
    for (word, value) in words.iter().zip(content.as_chunks().0) {
        word.store(u64::from_le_bytes(*value), release);
    }
}

/// Copies content that may be written anew meanwhile: then a look at the job afterwards shows that it was taken.
pub(crate) fn read_words(words: &[AtomicU64], out: &mut [u8]) {
    for (word, value) in words.iter().zip(out.as_chunks_mut().0) {
        // Acquire pairs with `write_words`, and keeps the look behind the copying.
        *value = word.load(Ordering::Acquire).to_le_bytes();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::jobs::Finish;
    use crate::segment::{Geometry, Segment};
    use std::vec::Vec;

    const OWNER: MmId = MmId(3);

    fn with_jobs(test: impl FnOnce(LoadJobs<'_>)) {
        let geometry = Geometry { mms: 4, tables: 4, entries: 512, zspages: 1, slots: 8 };
        let words: Vec<_> = (0..geometry.layout().total_words()).map(|_| AtomicU64::new(0)).collect();
        test(Segment::create(&words, geometry).load_jobs());
    }

    #[test]
    fn content_is_given_only_for_the_entry_and_the_hash_that_it_has() {
        with_jobs(|jobs| {
            let (job, seen, _) = jobs.take(OWNER, 0).expect("all are free");
            job.set_head(LoadHead { page: PageId(77), pages: 2, asked_ns: 5 });
            job.ask(0, SwapId(9));
            job.ask(1, SwapId(u32::MAX));
            let content: [u8; PAGE_BYTES] = core::array::from_fn(|index| (index * 7 % 251) as u8);
            let mut out = [0; PAGE_BYTES];
            assert!(!job.copy_page(seen, 1, SwapId(u32::MAX), u128::MAX - 7, &mut out));
            job.set_page(1, u128::MAX - 7, &content);
            assert!(!job.copy_page(seen, 1, SwapId(8), u128::MAX - 7, &mut out));
            assert!(!job.copy_page(seen, 1, SwapId(u32::MAX), u128::MAX - 8, &mut out));
            assert!(!job.copy_page(seen, 0, SwapId(9), 1, &mut out));
            assert!(job.copy_page(seen, 1, SwapId(u32::MAX), u128::MAX - 7, &mut out));
            assert_eq!(out, content);
            // Not to who had the job before, or thinks that it is in another state.
            let now = job.word().change(seen, JobState::Ready).expect("nobody else changes it");
            assert!(!job.copy_page(seen, 1, SwapId(u32::MAX), u128::MAX - 7, &mut out));
            assert!(job.copy_page(now, 1, SwapId(u32::MAX), u128::MAX - 7, &mut out));
            // The next who asks finds nothing of before.
            job.ask(1, SwapId(u32::MAX));
            assert!(!job.copy_page(now, 1, SwapId(u32::MAX), u128::MAX - 7, &mut out));
        });
    }

    #[test]
    fn a_job_is_found_by_any_of_its_pages() {
        with_jobs(|jobs| {
            for first in [64, 0, 32] {
                let (job, ..) = jobs.take(OWNER, 0).expect("all are free");
                job.set_head(LoadHead { page: PageId(first), pages: 30, asked_ns: 0 });
            }
            let found = |page| jobs.find(OWNER, PageId(page)).map(|(job, _)| job.head().page.0);
            assert_eq!([0, 29, 32, 93].map(found), [Some(0), Some(0), Some(32), Some(64)]);
            assert_eq!([30, 31, 94].map(found), [None; 3]);
        });
    }

    #[test]
    fn what_nobody_came_for_is_taken_again_once_it_is_old() {
        with_jobs(|jobs| {
            for page in 0..LOAD_JOBS as u64 {
                let (job, seen, unused) = jobs.take(OWNER, 0).expect("some are free");
                assert!(unused.is_none());
                job.set_head(LoadHead { page: PageId(page), pages: 1, asked_ns: 100 + page });
                assert!(job.word().change(seen, JobState::Ready).is_some());
            }
            assert!(jobs.take(OWNER, u64::MAX).is_none(), "none is done");
            let (third, seen) = jobs.find(OWNER, PageId(2)).expect("it is there");
            assert!(third.word().change(seen, JobState::Working).is_some());
            assert_eq!(third.word().finish(), Finish::Done);
            assert!(third.word().change(seen, JobState::Working).is_none(), "what was seen is over");
            assert!(jobs.find(MmId(1), PageId(2)).is_none());
            assert!(jobs.find(OWNER, PageId(LOAD_JOBS as u64)).is_none());
            assert!(jobs.take(MmId(1), 102).is_none(), "it is not old");
            let (again, now, unused) = jobs.take(MmId(1), 103).expect("it is old");
            assert_eq!(unused.map(|(mm, head)| (mm, head.page)), Some((OWNER, PageId(2))));
            assert_eq!((now.mm(), again.head().page), (MmId(1), PageId(2)));
            assert!(!now.is_same_use(seen));
        });
    }
}
