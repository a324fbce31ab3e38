//! The supervisor's side of load jobs: reads what lies in the swap file in the background, several jobs at once, and
//! decodes what has come.
//!
//! All that it does is a hint ([`uswap_core::load_jobs`]): entries and slots may be given up, moved and written anew
//! meanwhile. A record opens only for the entry and the hash it was made for, so what is put into a job is the content
//! of that hash whatever became of its place.

use crate::load::{Source, Tools, gap_bytes_max};
use crate::platform::Backing;
use crate::record::Owner;
use crate::workspace::Workspace;
use core::future::Future;
use core::ops::Range;
use uswap_core::budget::Signal;
use uswap_core::counters::Counter;
use uswap_core::jobs::{Finish, JobState, SeenJob};
use uswap_core::load_jobs::{LOAD_JOBS, LoadJob};
use uswap_core::segment::Segment;
use uswap_core::swap_word::Content;
use uswap_units::limits::{LOAD_BUFFER_BYTES, RUN_PAGES_MAX};
use uswap_units::{FileId, PAGE_BYTES};

/// How far the reads into a buffer are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    /// At least one has not ended.
    UnderWay,
    /// All have ended, each with all its bytes.
    Ended,
    /// One of them failed: what is in the buffer is not known.
    Failed,
}

/// Reads of the swap files that go on while their task does something else, into [`LOAD_JOBS`] buffers of
/// [`LOAD_BUFFER_BYTES`].
pub trait BackgroundReads {
    /// Begins to read parts of the files, one behind the other into a buffer into which nobody reads. How many of them:
    /// the others are left out.
    fn begin(&mut self, number: usize, parts: &[Range<u64>]) -> usize;
    /// How far the reads into a buffer are.
    fn state(&mut self, number: usize) -> Reading;
    /// What is in a buffer into which nobody reads.
    fn content(&self, number: usize) -> &[u8];
    /// Waits until a read ends; not at all if none is under way.
    fn wait(&mut self) -> impl Future<Output = ()>;
}

/// Parts of the files with what a job asks for, as they lie in its buffer one behind the other. Whole slots.
#[derive(Clone)]
struct Parts {
    parts: [Range<u64>; RUN_PAGES_MAX],
    count: usize,
    bytes: u64,
    /// Of the last one.
    file: FileId,
}

impl Parts {
    const fn new() -> Parts {
        Parts { parts: [const { 0..0 }; RUN_PAGES_MAX], count: 0, bytes: 0, file: FileId(0) }
    }

    /// What a job asks for.
    fn of(segment: Segment<'_>, job: LoadJob<'_>) -> Parts {
        let mut parts = Parts::new();
        for index in 0..job.head().pages {
            if let Content::Slot { offset, length } = segment.swap_table().load(job.id(index)).content() {
                parts.add(segment, offset..offset + u64::from(length));
            }
        }
        parts
    }

    /// Adds what lies at `wanted`, to the last part if there is little between them. What has no room is left out.
    fn add(&mut self, segment: Segment<'_>, wanted: Range<u64>) {
        let slot = PAGE_BYTES as u64;
        let (start, end) = (wanted.start / slot * slot, wanted.end.next_multiple_of(slot));
        let Some((file, _)) = segment.slots().files().locate(start) else { return };
        if self.place(start..end).is_some() || end > file.slots().end * slot {
            return;
        }
        let last = self.count.checked_sub(1).map(|last| &mut self.parts[last]);
        let near = last.filter(|last| {
            (last.start..=last.end + gap_bytes_max(file.spec.kind)).contains(&start)
                && file.id == self.file
                && self.bytes + (end - last.end) <= LOAD_BUFFER_BYTES as u64
        });
        if let Some(last) = near {
            self.bytes += end - last.end;
            last.end = end;
        } else if self.count < self.parts.len() && self.bytes + (end - start) <= LOAD_BUFFER_BYTES as u64 {
            self.parts[self.count] = start..end;
            (self.count, self.bytes, self.file) = (self.count + 1, self.bytes + (end - start), file.id);
        }
    }

    /// Where in the buffer `wanted` of the files lies.
    fn place(&self, wanted: Range<u64>) -> Option<Range<usize>> {
        let mut before = 0;
        for part in &self.parts[..self.count] {
            if part.start <= wanted.start && wanted.end <= part.end {
                let at = (before + wanted.start - part.start) as usize;
                return Some(at..at + (wanted.end - wanted.start) as usize);
            }
            before += part.end - part.start;
        }
        None
    }

    /// Leaves out all but the first ones.
    fn truncate(&mut self, count: usize) {
        self.count = count;
        self.bytes = self.parts[..count].iter().map(|part| part.end - part.start).sum();
    }
}

/// A job that was begun.
struct Loading {
    /// Its number.
    job: usize,
    working: SeenJob,
    parts: Parts,
}

/// What came of a turn.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// A job came to its end.
    Ended,
    /// Nothing can be done before a read ends.
    Reads,
    /// There is no job.
    Idle,
}

/// The jobs that were begun, by the numbers of their buffers.
pub(crate) struct Loader {
    loadings: [Option<Loading>; LOAD_JOBS],
}

impl Loader {
    pub(crate) const fn new() -> Loader {
        Loader { loadings: [const { None }; LOAD_JOBS] }
    }

    /// Begins what was asked for, and decodes one job of which all is there.
    pub(crate) async fn turn(
        &mut self,
        segment: Segment<'_>,
        backing: &impl Backing,
        reads: &mut impl BackgroundReads,
        workspace: &mut Workspace,
    ) -> Turn {
        self.begin(segment, reads);
        let jobs = segment.load_jobs();
        let loadings = self.loadings.iter().enumerate();
        let come = loadings.filter_map(|(number, loading)| {
            let loading = loading.as_ref()?;
            let job = jobs.job(loading.job);
            // Who asked for it wants no more of it.
            let is_over = job.word().load() != loading.working;
            (is_over || reads.state(number) != Reading::UnderWay).then(|| (number, job.head().asked_ns))
        });
        let Some((number, _)) = come.min_by_key(|(_, asked_ns)| *asked_ns) else {
            let any = self.loadings.iter().any(Option::is_some);
            return if any { Turn::Reads } else { Turn::Idle };
        };
        let loading = self.loadings[number].take().expect("it was found there");
        let job = jobs.job(loading.job);
        let content = match reads.state(number) {
            Reading::Ended => reads.content(number),
            Reading::Failed | Reading::UnderWay => &[],
        };
        decode(segment, backing, &loading, content, workspace).await;
        if let Finish::Abandoned(seen) = job.word().finish() {
            let _nobody_else_changes_it = job.word().change(seen, JobState::Free);
        }
        backing.raise(Signal::Stored);
        Turn::Ended
    }

    /// Begins the jobs that are ready, as many as there are buffers.
    fn begin(&mut self, segment: Segment<'_>, reads: &mut impl BackgroundReads) {
        for number in 0..LOAD_JOBS {
            // Reads of a job that nobody wanted may be under way.
            if self.loadings[number].is_some() || reads.state(number) == Reading::UnderWay {
                continue;
            }
            let Some((job, working)) = segment.load_jobs().begin() else { return };
            let mut parts = Parts::of(segment, segment.load_jobs().job(job));
            if parts.count > 0 {
                parts.truncate(reads.begin(number, &parts.parts[..parts.count]));
                segment.counters().add(Counter::ReadBytes, parts.bytes);
            }
            self.loadings[number] = Some(Loading { job, working, parts });
        }
    }
}

/// Puts the pages of a job into it, as far as all goes well and its owner wants more. `content`: what was read of the
/// files.
async fn decode(
    segment: Segment<'_>,
    backing: &impl Backing,
    loading: &Loading,
    content: &[u8],
    workspace: &mut Workspace,
) {
    let (job, table) = (segment.load_jobs().job(loading.job), segment.swap_table());
    let source = Source { segment, backing };
    for index in 0..job.head().pages {
        if job.word().load() != loading.working {
            break;
        }
        let id = job.id(index);
        let (word, hash) = (table.load(id), table.hash(id));
        let is_good = match word.content() {
            Content::Blob { .. } => source.attempt((id, hash), word, 0, 0, workspace).await.is_some(),
            Content::Slot { offset, length } => {
                let place = loading.parts.place(offset..offset + u64::from(length));
                let record = place.and_then(|place| content.get(place));
                backing.step().await;
                let Workspace { blob, pages, scratch, cipher, .. } = workspace;
                let tools = Tools { blob, scratch, cipher };
                record.is_some_and(|record| source.open(Owner { id, hash }, record, &mut pages[0], tools))
            }
            _ => false,
        };
        if is_good {
            job.set_page(index, hash, &workspace.pages[0]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;
    use uswap_core::files::{FileAccess, FileKind, FileSpec};
    use uswap_core::segment::Geometry;
    use uswap_sync::AtomicU64;

    const RECORD: u64 = 4160;
    const SLOT: u64 = PAGE_BYTES as u64;

    /// The parts that are read for these places, in a segment with two files.
    fn parts(places: &[u64], test: impl FnOnce(Parts)) {
        let geometry = Geometry { mms: 4, tables: 1, entries: 512, zspages: 1, slots: 2048 };
        let words: Vec<AtomicU64> = (0..geometry.layout().total_words()).map(|_| AtomicU64::new(0)).collect();
        let segment = Segment::create(&words, geometry);
        for slots in [512, 600] {
            let (kind, access) = (FileKind::SolidState, FileAccess::Direct);
            let added =
                segment.slots().add_file(FileSpec { slots, priority: 0, kind, descriptor: 3, access });
            assert!(added.is_ok());
        }
        let mut parts = Parts::new();
        places.iter().for_each(|&place| parts.add(segment, place..place + RECORD));
        test(parts);
    }

    #[test]
    fn what_lies_together_is_one_read() {
        let places: Vec<u64> = (0..RUN_PAGES_MAX as u64).map(|page| 640 + page * RECORD).collect();
        parts(&places, |parts| {
            assert_eq!((parts.count, parts.parts[0].clone()), (1, 0..33 * SLOT));
            let at = parts.place(places[3]..places[3] + RECORD).map(|place| place.start as u64);
            assert_eq!(at, Some(640 + 3 * RECORD));
            assert_eq!(parts.place(33 * SLOT..33 * SLOT + 64), None);
        });
    }

    #[test]
    fn what_lies_scattered_is_read_at_once_and_fits_the_buffer() {
        // Each across a border of slots, far from the next, and not in order.
        let places: Vec<u64> = (0..RUN_PAGES_MAX as u64).map(|page| page * 7 % 32 * 15 * SLOT + 64).collect();
        parts(&places, |mut parts| {
            assert_eq!((parts.count, parts.bytes), (RUN_PAGES_MAX, LOAD_BUFFER_BYTES as u64));
            let place = parts.place(places[9]..places[9] + RECORD).expect("it was added");
            assert_eq!(place.start, 9 * 2 * SLOT as usize + 64);
            parts.truncate(9);
            assert_eq!((parts.count, parts.bytes), (9, 9 * 2 * SLOT));
            assert_eq!(parts.place(places[9]..places[9] + RECORD), None);
        });
    }

    #[test]
    fn no_read_reaches_from_one_file_into_another_or_behind_its_end() {
        let end = 512 * SLOT;
        parts(&[end - 2 * SLOT, end - SLOT, end, end + 16 * SLOT], |parts| {
            assert_eq!((parts.count, parts.parts[0].clone()), (1, end - 2 * SLOT..end));
        });
    }
}
