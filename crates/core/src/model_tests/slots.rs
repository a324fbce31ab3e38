//! The slot map against one byte a slot, with files of several kinds and sizes that come one after the other.

use super::{SMALL, with_segment};
use crate::clusters::{Search, Space};
use crate::files::{FileAccess, FileKind, FileRecord, FileSpec, NoFile, slots_of_all};
use crate::segment::{Geometry, Segment};
use crate::slots::TakenRun;
use core::ops::Range;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;
use uswap_units::limits::SWAP_FILES_MAX;
use uswap_units::{FileId, FileOffset, PAGE_BYTES, SlotId, SwapOffset};

#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    AddFile,
    Take { file: usize, least: u64, wanted: u64 },
    AddBlob { run: usize, at: u64, granules: u64 },
    RemoveBlob { blob: usize },
    EndRun { run: usize },
    Trim,
}

pub(super) fn operation() -> impl Strategy<Value = Op> {
    prop_oneof![
        1 => Just(Op::AddFile),
        4 => (0..4_usize, 1..5_u64, 1..70_u64).prop_map(|(file, least, wanted)| Op::Take { file, least, wanted }),
        8 => (0..64_usize, 0..4096_u64, 1..65_u64).prop_map(|(run, at, granules)| Op::AddBlob { run, at, granules }),
        4 => (0..256_usize).prop_map(|blob| Op::RemoveBlob { blob }),
        3 => (0..64_usize).prop_map(|run| Op::EndRun { run }),
        1 => Just(Op::Trim),
    ]
}

/// Sizes in slots: less than a cluster, no power of two, more than a cluster.
const SIZES: [u64; 4] = [64, 40, 600, 8];
const KINDS: [FileKind; 4] =
    [FileKind::SolidState, FileKind::Rotational, FileKind::SolidState, FileKind::Rotational];

/// A file of so many slots, of which nothing else matters.
pub(super) fn spec(slots: u64, kind: FileKind) -> FileSpec {
    FileSpec { slots, priority: -1, kind, descriptor: 3, access: FileAccess::Buffered }
}

fn geometry() -> Geometry {
    Geometry { slots: slots_of_all(SIZES), ..SMALL }
}

/// Slots of the largest aligned free run that is a power of two, at most 64.
fn largest_free_run(counts: &[u8]) -> u64 {
    (0..=6)
        .rev()
        .map(|order| 1 << order)
        .find(|&size| counts.chunks_exact(size).any(|run| run.iter().all(|&count| count == 0)))
        .unwrap_or(0) as u64
}

fn touched(offset: SwapOffset, bytes: u64) -> Range<usize> {
    let (page, offset) = (PAGE_BYTES as u64, offset.bytes());
    (offset / page) as usize..(offset + bytes).div_ceil(page) as usize
}

struct Model<'a> {
    segment: Segment<'a>,
    files: Vec<FileRecord>,
    /// Of all numbers, those of no file too.
    counts: Vec<u8>,
    runs: Vec<TakenRun>,
    blobs: Vec<(SwapOffset, u64)>,
}

impl Model<'_> {
    fn of(&self, file: &FileRecord) -> &[u8] {
        &self.counts[file.first_slot.number() as usize..file.slots().end.number() as usize]
    }

    fn add_file(&mut self) {
        let (map, number) = (self.segment.slots(), self.files.len());
        let Some((&slots, &kind)) = SIZES.get(number).zip(KINDS.get(number)) else {
            assert_eq!(map.add_file(spec(8, FileKind::SolidState)), Err(NoFile::TooLarge));
            return;
        };
        let id = map.add_file(spec(slots, kind)).expect("the geometry has room for it");
        let file = map.files().get(id).expect("it was just added");
        let end = self.files.last().map_or(0, |last| last.slots().end.number());
        let first = file.first_slot.number();
        assert!(first.is_multiple_of(512) && first >= end + u64::from(number > 0) * 16);
        self.files.push(file);
    }

    fn take(&mut self, file: usize, least: u64, wanted: u64) {
        if self.files.is_empty() {
            return;
        }
        let file = self.files[file % self.files.len()];
        let largest = largest_free_run(self.of(&file));
        let size = largest.min(1 << wanted.ilog2());
        let least = 1 << least.min(wanted).ilog2();
        let Some(run) = self.segment.slots().take_run(&file, least, wanted) else {
            return assert!(size < least, "there are {size} slots together");
        };
        let slots = run.bytes() / PAGE_BYTES as u64;
        assert_eq!(slots, size, "the largest");
        assert_eq!(run.file(), file.id);
        let first = run.start().slot();
        assert!(first.since(file.first_slot).is_multiple_of(slots) && first.plus(slots) <= file.slots().end);
        let first = first.number();
        for count in &mut self.counts[first as usize..(first + slots) as usize] {
            assert_eq!(*count, 0, "a live slot was taken");
            *count = 1;
        }
        self.runs.push(run);
    }

    fn add_blob(&mut self, run: usize, at: u64, granules: u64) {
        if self.runs.is_empty() {
            return;
        }
        let run = &self.runs[run % self.runs.len()];
        let bytes = (granules * 64).min(run.bytes());
        let offset = run.start().plus((at * 64) % (run.bytes() - bytes + 64));
        let slots = touched(offset, bytes);
        if self.counts[slots.clone()].iter().all(|&count| count < 65) {
            self.segment.slots().add_blob(offset, bytes);
            self.counts[slots].iter_mut().for_each(|count| *count += 1);
            self.blobs.push((offset, bytes));
        }
    }

    fn apply(&mut self, op: Op) {
        let map = self.segment.slots();
        match op {
            Op::AddFile => self.add_file(),
            Op::Take { file, least, wanted } => self.take(file, least, wanted),
            Op::AddBlob { run, at, granules } => self.add_blob(run, at, granules),
            Op::RemoveBlob { blob } if !self.blobs.is_empty() => {
                let (offset, bytes) = self.blobs.swap_remove(blob % self.blobs.len());
                map.remove_blob(offset, bytes);
                self.counts[touched(offset, bytes)].iter_mut().for_each(|count| *count -= 1);
            }
            Op::EndRun { run } if !self.runs.is_empty() => {
                let run = self.runs.swap_remove(run % self.runs.len());
                let slots = touched(run.start(), run.bytes());
                map.end_run(run);
                self.counts[slots].iter_mut().for_each(|count| *count -= 1);
            }
            Op::Trim => {
                if let Some(empty) = map.take_to_trim() {
                    let slots = touched(empty.bytes.start, empty.bytes.end.since(empty.bytes.start));
                    assert!(self.counts[slots.clone()].iter().all(|&count| count == 0));
                    let (start, end) = (SlotId::new(slots.start as u64), SlotId::new(slots.end as u64));
                    let whole = |file: &FileRecord| file.slots().contains(&start) && end <= file.slots().end;
                    assert!(self.files.iter().any(whole), "it is a part of one file");
                    map.trimmed(empty);
                }
            }
            Op::RemoveBlob { .. } | Op::EndRun { .. } => {}
        }
    }

    fn check(&self) {
        let map = self.segment.slots();
        let used = |counts: &[u8]| counts.iter().filter(|&&count| count > 0).count() as u64;
        assert!((0..).zip(&self.counts).all(|(slot, &count)| map.count(SlotId::new(slot)) == count));
        assert_eq!(map.used(), used(&self.counts));
        assert_eq!(map.capacity(), self.files.iter().map(|file| file.spec.slots).sum::<u64>());
        for file in &self.files {
            assert_eq!(map.used_in(file), used(self.of(file)));
            assert!(map.files().used_peak(file.id) >= used(self.of(file)));
        }
        assert!(map.files().all().eq(self.files.iter().copied()));
    }
}

/// Each step of a list against the model; then everything is freed, and can be had again.
pub(super) fn run(ops: Vec<Op>, always_whole: bool) {
    with_segment(geometry(), |segment| {
        let counts = vec![0; geometry().slots as usize];
        let mut model = Model { segment, files: Vec::new(), counts, runs: Vec::new(), blobs: Vec::new() };
        model.add_file();
        for op in ops {
            model.apply(match op {
                Op::Take { file, .. } if always_whole => Op::Take { file, least: 1, wanted: 64 },
                op => op,
            });
            model.check();
        }
        while !model.blobs.is_empty() {
            model.apply(Op::RemoveBlob { blob: 0 });
        }
        while !model.runs.is_empty() {
            model.apply(Op::EndRun { run: 0 });
        }
        model.check();
        let map = segment.slots();
        for file in &model.files {
            let singles = core::iter::from_fn(|| map.take_run(file, 1, 1)).inspect(|run| {
                assert!(file.slots().contains(&run.start().slot()));
            });
            assert_eq!(singles.count() as u64, file.spec.slots);
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 256, ..ProptestConfig::default() })]
    #[test]
    fn counts_are_those_of_the_model(ops in prop::collection::vec(operation(), 1..120), always_whole: bool) {
        run(ops, always_whole);
    }
}

/// A segment with one file of so many slots.
pub(super) fn with_file<T>(
    geometry: Geometry,
    kind: FileKind,
    test: impl FnOnce(Segment<'_>, FileRecord) -> T,
) -> T {
    with_segment(geometry, |segment| {
        let id = segment.slots().add_file(spec(geometry.slots, kind)).expect("the first one");
        let file = segment.slots().files().get(id).expect("it was just added");
        test(segment, file)
    })
}

#[test]
fn a_fragmented_file_gives_short_runs_and_a_full_one_none() {
    with_file(SMALL, FileKind::SolidState, |segment, file| {
        let map = segment.slots();
        let take = |wanted| map.take_run(&file, 1, wanted);
        let run = take(64).expect("all are free");
        assert!(take(1).is_none());
        (0..64).step_by(2).for_each(|slot| map.add_blob(SlotId::new(slot).start(), 4096));
        map.end_run(run);
        assert_eq!(map.used(), 32);
        assert!(map.take_run(&file, 2, 64).is_none(), "no two lie together");
        let singles: Vec<TakenRun> = core::iter::from_fn(|| take(8)).collect();
        assert!(singles.iter().all(|run| run.bytes() == 4096));
        assert_eq!(singles.len(), 32);
        assert_eq!(map.used(), 64);
        assert!(take(1).is_none());
    });
}

#[test]
fn there_are_so_many_files_and_no_more() {
    let sizes = || core::iter::repeat_n(8, SWAP_FILES_MAX);
    with_segment(Geometry { slots: slots_of_all(sizes()) + 4096, ..SMALL }, |segment| {
        let map = segment.slots();
        for (number, slots) in (0..).zip(sizes()) {
            assert_eq!(map.add_file(spec(slots, FileKind::SolidState)), Ok(FileId::new(number)));
        }
        assert_eq!(map.add_file(spec(8, FileKind::SolidState)), Err(NoFile::TooMany));
        assert_eq!(
            map.files().get(FileId::new(3)).map(|file| file.spec),
            Some(spec(8, FileKind::SolidState))
        );
        for file in map.files().all() {
            let byte = file.first_slot.start().plus(77);
            assert_eq!(map.files().locate(byte), Some((file, FileOffset::new(77))));
            assert_eq!(map.files().locate(file.slots().end.start()), None, "behind it is a gap");
        }
    });
}

/// Bytes between the end of each run and the start of the next, in a file that is filled, freed at random, and filled
/// again; and how often the next lies in front.
fn way(kind: FileKind, seed: u64) -> (u64, usize) {
    with_file(Geometry { slots: 64 * 512, ..SMALL }, kind, |segment, file| {
        let (map, mut prng) = (segment.slots(), uswap_units::Prng::new(seed));
        let take = || map.take_run(&file, 1, 128);
        let mut live: Vec<TakenRun> = core::iter::from_fn(take).collect();
        assert_eq!(live.len(), 256, "it is full");
        let mut runs = Vec::new();
        for _ in 0..2000 {
            while live.len() > 180 {
                let pick = prng.below(live.len() as u64) as usize;
                map.end_run(live.swap_remove(pick));
            }
            let run = take().expect("a quarter is free");
            runs.push(run.start().bytes()..run.start().bytes() + run.bytes());
            live.push(run);
        }
        live.into_iter().for_each(|run| map.end_run(run));
        let steps = || runs.windows(2).map(|pair| (pair[0].end, pair[1].start));
        (steps().map(|(from, to)| from.abs_diff(to)).sum(), steps().filter(|(from, to)| to < from).count())
    })
}

/// A disk that turns is written from its start to its end, and again from its start.
#[test]
fn a_file_on_a_disk_that_turns_is_filled_onward() {
    let (way_of_disk, back) = way(FileKind::Rotational, 5);
    let (way_of_others, back_of_others) = way(FileKind::SolidState, 5);
    std::println!(
        "onward: {way_of_disk} bytes, {back} times back; scattered: {way_of_others} bytes, {back_of_others} times back"
    );
    assert!(back * 5 < back_of_others, "{back} times back, and {back_of_others} if it is not told");
    assert!(way_of_disk * 3 < way_of_others, "{way_of_disk} and {way_of_others} bytes");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_segment_has_room_for_the_clusters_of_any_files(
        sizes in prop::collection::vec(1..(1_u64 << 22), 1..=SWAP_FILES_MAX),
        onward: bool,
    ) {
        let search = if onward { Search::Onward } else { Search::Scattered };
        let space = |slots: u64| Space { skipped: 0, count: slots as u32, is_trimmed: true, search };
        let words: usize = sizes.iter().map(|&slots| space(slots).words()).sum();
        let clusters = slots_of_all(sizes.iter().copied()).div_ceil(512) as usize;
        assert!(words <= Space::words_of_all(SWAP_FILES_MAX, clusters), "{words} words");
    }
}
