//! What the one task that writes back does next.
//!
//! Called by [`super::task`] before each step, in the loop of the supervisor and of `sim`, which say its pace. Nothing
//! here waits or writes: the loop takes the step, and notes the outcome.
//!
//! What must hold: room comes first, since faults wait for it. A step that cannot be taken is not due again at once,
//! except for room, where the caller waits by itself.

use uswap_core::counters::Counter;
use uswap_core::segment::Segment;

use super::{Batch, excess_bytes};

/// How eager the schedule is with what is not urgent.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// This many pages that did not compress, and came since the last batch, are worth a batch of their own.
    pub uncompressed_pages_min: u64,
    /// A pool that has room is compacted at most once in this time.
    pub compact_every_ns: u64,
    /// When there is nothing to do, it waits so long at most until it looks again.
    pub idle_max_ns: u64,
}

/// The next step.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The pool is nearly full: write what is old.
    MakeRoom,
    /// Write what does not compress.
    WriteUncompressed,
    /// Write what somebody asked to be written.
    WriteAsked,
    /// Compact the pool, which has room, then wait.
    Compact,
    /// Wait until something changes.
    Wait,
}

/// In a large pool it takes time to look for holes. The pause after that is at least so many times as long.
const COMPACTION_PAUSE_FACTOR: u64 = 20;

/// What was done, and when.
pub struct Schedule {
    pace: Pace,
    /// Pages that did not compress, at the last batch.
    uncompressed_seen: u64,
    compaction_ended_ns: u64,
    compaction_took_ns: u64,
}

impl Schedule {
    /// Nothing was done before `now_ns`.
    pub fn new(pace: Pace, now_ns: u64) -> Schedule {
        Schedule { pace, uncompressed_seen: 0, compaction_ended_ns: now_ns, compaction_took_ns: 0 }
    }

    /// The next step. `is_asked`: somebody waits for pages to be written.
    pub fn next(&self, segment: Segment<'_>, now_ns: u64, is_asked: bool) -> Step {
        if excess_bytes(segment) > 0 {
            return Step::MakeRoom;
        }
        if uncompressed_pages(segment) >= self.uncompressed_seen + self.pace.uncompressed_pages_min {
            return Step::WriteUncompressed;
        }
        if is_asked {
            return Step::WriteAsked;
        }
        if self.is_compaction_due(segment, now_ns) { Step::Compact } else { Step::Wait }
    }

    /// Holes in the pool take the room of pages that would otherwise not be reclaimed.
    fn is_compaction_due(&self, segment: Segment<'_>, now_ns: u64) -> bool {
        let budget = segment.budget();
        let pause_ns = self.pace.compact_every_ns.max(COMPACTION_PAUSE_FACTOR * self.compaction_took_ns);
        budget.used() > budget.watermarks().high && now_ns.saturating_sub(self.compaction_ended_ns) > pause_ns
    }

    /// A batch was tried: [`Step::MakeRoom`] or [`Step::WriteUncompressed`]. `uncompressed_before`: what
    /// [`uncompressed_pages`] said before it.
    pub fn note_batch(&mut self, batch: Batch, uncompressed_before: u64) {
        // Compaction writes nothing: the uncompressed pages wait for the next batch.
        if !matches!(batch, Batch::Compacted { .. }) {
            self.uncompressed_seen = uncompressed_before;
        }
    }

    /// The pool was compacted: [`Step::Compact`].
    pub fn note_compaction(&mut self, began_ns: u64, ended_ns: u64) {
        self.compaction_ended_ns = ended_ns;
        self.compaction_took_ns = ended_ns.saturating_sub(began_ns);
    }
}

/// Pages of the run that did not compress, so far.
pub fn uncompressed_pages(segment: Segment<'_>) -> u64 {
    segment.counters().get(Counter::Incompressible)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use uswap_core::segment::Geometry;
    use uswap_sync::AtomicU64;
    use uswap_units::Bytes;

    const PACE: Pace = Pace { uncompressed_pages_min: 2, compact_every_ns: 100, idle_max_ns: 10 };

    /// A run whose memory is used up, and whose pool has room.
    fn with_run(act: impl FnOnce(Segment<'_>)) {
        let geometry = Geometry { mms: 4, tables: 1, entries: 512, zspages: 8, slots: 8, readahead: 0 };
        let words: Vec<AtomicU64> = (0..geometry.layout().total_words()).map(|_| AtomicU64::new(0)).collect();
        let segment = Segment::create(&words, geometry);
        segment.budget().set_ram(Bytes::new(64 << 20));
        segment.budget().set_measured(Bytes::ZERO, Bytes::new(64 << 20));
        act(segment);
    }

    #[test]
    fn what_is_asked_for_goes_before_compaction_and_after_what_does_not_compress() {
        with_run(|segment| {
            let mut schedule = Schedule::new(PACE, 0);
            assert_eq!(schedule.next(segment, 1000, true), Step::WriteAsked);
            segment.counters().add(Counter::Incompressible, 2);
            assert_eq!(schedule.next(segment, 1000, true), Step::WriteUncompressed);
            schedule.note_batch(Batch::Compacted { bytes: 1 }, 2);
            assert_eq!(schedule.next(segment, 1000, true), Step::WriteUncompressed, "nothing was written");
            schedule.note_batch(Batch::Written { blobs: 2, discarded: 0 }, 2);
            assert_eq!(schedule.next(segment, 1000, false), Step::Compact);
        });
    }

    #[test]
    fn compaction_takes_a_small_part_of_the_time() {
        with_run(|segment| {
            let mut schedule = Schedule::new(PACE, 0);
            assert_eq!(schedule.next(segment, 100, false), Step::Wait);
            assert_eq!(schedule.next(segment, 101, false), Step::Compact);
            schedule.note_compaction(101, 201);
            assert_eq!(schedule.next(segment, 2201, false), Step::Wait);
            assert_eq!(schedule.next(segment, 2202, false), Step::Compact);
            segment.budget().set_measured(segment.budget().used(), Bytes::ZERO);
            assert_eq!(schedule.next(segment, 9999, false), Step::Wait, "there is room for holes");
        });
    }
}
