//! Which swap file takes the next batch: the one of highest priority that has room; those of equal priority in turn, a
//! batch each (Linux: a cluster each).
//!
//! Must hold: no file is left out for good. One to which a write failed rests for a while, longer each time in a row,
//! and the others go on without it; when no other takes anything, those that rest are tried.
//!
//! Called by [`crate::writeback`] and [`crate::writeback::drain`], in the one task that writes.

use core::cmp::Reverse;
use uswap_core::files::FileRecord;
use uswap_core::slots::{SlotMap, TakenRun};
use uswap_units::FileId;
use uswap_units::limits::SWAP_FILES_MAX;

/// A file rests this long after a write that failed, and after each further one twice as long, up to 64 times: a disk
/// that is full may have room again, and a trial costs a batch.
const REST_NS: u64 = 100_000_000;
const DOUBLED_MAX: u32 = 6;

/// A file that has only short runs left is passed over while another has longer ones: 64 KiB are worth a write, and in
/// two slots there is room for any blob.
const RUN_SLOTS: [u64; 3] = [16, 2, 1];

#[derive(Clone, Copy, Default)]
struct FileState {
    /// Number of the last batch that went there.
    last_batch: u64,
    /// Writes that failed since one succeeded.
    failures: u32,
    rests_until_ns: u64,
}

/// What is remembered of each file.
pub(crate) struct Rotation {
    files: [FileState; SWAP_FILES_MAX],
    batches: u64,
}

impl Rotation {
    pub(crate) const fn new() -> Rotation {
        Rotation {
            files: [FileState { last_batch: 0, failures: 0, rests_until_ns: 0 }; SWAP_FILES_MAX],
            batches: 0,
        }
    }

    fn of(&self, file: FileId) -> FileState {
        self.files[file.index()]
    }
    fn rests(&self, file: FileId, now_ns: u64) -> bool {
        now_ns < self.of(file).rests_until_ns
    }

    /// A run of at most `wanted` slots, in the file whose turn it is, among those that may be written. None: all of
    /// them are full.
    pub(crate) fn take_run(
        &mut self,
        slots: SlotMap<'_>,
        wanted: u64,
        now_ns: u64,
        may_write: impl Fn(FileId) -> bool,
    ) -> Option<TakenRun> {
        let may_write = |file: &FileRecord| may_write(file.id);
        let awake = |file: &FileRecord| !self.rests(file.id, now_ns) && may_write(file);
        let resting = |file: &FileRecord| self.rests(file.id, now_ns) && may_write(file);
        let rank = |file: &FileRecord| (Reverse(file.spec.priority), self.of(file.id).last_batch);
        let longest = |file: &FileRecord| self.of(file.id).last_batch;
        let run = RUN_SLOTS
            .into_iter()
            .find_map(|least| first_run(slots, awake, rank, least.min(wanted), wanted))
            .or_else(|| first_run(slots, resting, longest, 1, wanted))?;
        self.batches += 1;
        self.files[run.file().index()].last_batch = self.batches;
        Some(run)
    }

    /// A write to the file succeeded.
    pub(crate) fn note_written(&mut self, file: FileId) {
        let turn = &mut self.files[file.index()];
        (turn.failures, turn.rests_until_ns) = (0, 0);
    }

    /// A write to the file failed.
    pub(crate) fn note_failed(&mut self, file: FileId, now_ns: u64) {
        let turn = &mut self.files[file.index()];
        turn.rests_until_ns = now_ns + (REST_NS << turn.failures.min(DOUBLED_MAX));
        turn.failures += 1;
    }

    /// Whether a file has room that does not rest and may be written.
    pub(crate) fn one_takes_more(
        &self,
        slots: SlotMap<'_>,
        now_ns: u64,
        may_write: impl Fn(FileId) -> bool,
    ) -> bool {
        let mut awake =
            slots.files().in_use().filter(|file| !self.rests(file.id, now_ns) && may_write(file.id));
        awake.any(|file| slots.used_in(&file) < file.spec.slots)
    }
}

/// A run in the first of these files, by rank, that has one.
fn first_run<R: Ord>(
    slots: SlotMap<'_>,
    may: impl Fn(&FileRecord) -> bool,
    rank: impl Fn(&FileRecord) -> R,
    least: u64,
    wanted: u64,
) -> Option<TakenRun> {
    let mut tried = [false; SWAP_FILES_MAX];
    loop {
        let left = slots.files().in_use().filter(|file| may(file) && !tried[file.id.index()]);
        let next = left.min_by_key(&rank)?;
        if let Some(run) = slots.take_run(&next, least, wanted) {
            return Some(run);
        }
        tried[next.id.index()] = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;
    use uswap_core::files::{FileAccess, FileKind, FileSpec, slots_of_all};
    use uswap_core::segment::{Geometry, Segment};
    use uswap_sync::AtomicU64;
    use uswap_units::SlotId;

    /// A segment with files of these priorities, of 64 slots each.
    fn with_files(priorities: &[i16], test: impl FnOnce(SlotMap<'_>)) {
        let slots = slots_of_all(priorities.iter().map(|_| 64));
        let geometry = Geometry { mms: 4, tables: 1, entries: 512, zspages: 1, slots, readahead: 0 };
        let words: Vec<AtomicU64> = (0..geometry.layout().total_words()).map(|_| AtomicU64::new(0)).collect();
        let slots = Segment::create(&words, geometry).slots();
        for &priority in priorities {
            let (kind, access) = (FileKind::SolidState, FileAccess::Buffered);
            let added = slots.add_file(FileSpec { slots: 64, priority, kind, descriptor: 3, access });
            added.expect("the geometry has room for it");
        }
        test(slots);
    }

    /// Files that take one batch of 16 slots after the other, until all are full.
    fn fill(turns: &mut Rotation, slots: SlotMap<'_>) -> Vec<u8> {
        core::iter::from_fn(|| turns.take_run(slots, 16, 0, |_| true).map(|run| run.file().number()))
            .collect()
    }

    #[test]
    fn higher_priorities_are_filled_first_and_equal_ones_in_turn() {
        with_files(&[5, -2, 5, 9], |slots| {
            let order = fill(&mut Rotation::new(), slots);
            assert_eq!(order, [3, 3, 3, 3, 0, 2, 0, 2, 0, 2, 0, 2, 1, 1, 1, 1]);
        });
    }

    #[test]
    fn a_file_that_fails_rests_and_the_others_go_on() {
        with_files(&[2, 1], |slots| {
            let mut turns = Rotation::new();
            let take = |turns: &mut Rotation, now_ns| {
                let run = turns.take_run(slots, 1, now_ns, |_| true).expect("there is room");
                let file = run.file();
                slots.end_run(run);
                file
            };
            let (high, low) = (FileId::new(0), FileId::new(1));
            let forbidden = turns.take_run(slots, 1, 0, |file| file == low).expect("the other has room");
            assert_eq!(forbidden.file(), low);
            assert!(turns.take_run(slots, 1, 0, |_| false).is_none());
            slots.end_run(forbidden);
            assert_eq!(take(&mut turns, 0), high);
            turns.note_failed(high, 0);
            assert_eq!(take(&mut turns, 1), low);
            assert_eq!(take(&mut turns, REST_NS), high, "it has rested");
            turns.note_failed(high, REST_NS);
            assert_eq!(take(&mut turns, 2 * REST_NS), low, "twice as long");
            assert!(turns.one_takes_more(slots, 2 * REST_NS, |_| true));
            turns.note_failed(low, 2 * REST_NS);
            assert!(!turns.one_takes_more(slots, 2 * REST_NS, |_| true));
            assert_eq!(take(&mut turns, 2 * REST_NS), high, "none is awake, and it has waited longest");
            turns.note_written(high);
            assert_eq!(take(&mut turns, 2 * REST_NS), high);
        });
    }

    #[test]
    fn single_slots_of_a_better_file_wait_until_the_others_have_no_more() {
        with_files(&[2, 1], |slots| {
            let mut turns = Rotation::new();
            let run = turns.take_run(slots, 64, 0, |_| true).expect("all are free");
            assert_eq!(run.file(), FileId::new(0));
            // Every other slot stays in use.
            (0..64).step_by(2).for_each(|slot| slots.add_blob(SlotId::new(slot).start(), 4096));
            slots.end_run(run);
            assert_eq!(
                turns.take_run(slots, 64, 0, |_| true).expect("the other is empty").file(),
                FileId::new(1)
            );
            let single = turns.take_run(slots, 64, 0, |_| true).expect("32 are free");
            assert_eq!((single.file(), single.bytes()), (FileId::new(0), 4096));
        });
    }
}
