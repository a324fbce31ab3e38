//! The task that writes back: one loop around [`Schedule`], the same on Linux and in the simulator.
//!
//! What differs is behind [`Task`]: who ends the loop, what somebody asks for, and what is done when nothing can be
//! written.
//!
//! Must hold: the count of `Signal::Shrink` is read before the task is asked whether it stops, since the end of a run
//! raises that signal too; what came in between does not let the loop wait. A file that is being emptied takes turns
//! with what the pool needs. Called by the supervisor, whose world blocks, and by `sim`.

use core::future::Future;

use uswap_core::budget::Signal;
use uswap_core::segment::Segment;

use super::schedule::{Pace, Schedule, Step, uncompressed_pages};
use super::{Batch, Shrinker, SwapWriter};
use crate::world::Backing as _;

/// A batch that was tried because the pool needed it, not because somebody asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tried {
    /// [`Step::MakeRoom`] or [`Step::WriteUncompressed`].
    pub step: Step,
    /// What came of it.
    pub batch: Batch,
    /// The count of [`Signal::Shrink`] before it.
    pub seen: u32,
}

/// What the supervisor and the simulator do in ways of their own.
pub trait Task {
    /// Whether the run has ended, and the loop with it.
    fn is_stopping(&self) -> bool;
    /// Moves a batch of what is in the swap file that somebody wants to be emptied. False: nobody does.
    fn empty_a_file(&mut self, shrinker: &mut Shrinker, buffer: &mut [u8]) -> impl Future<Output = bool>;
    /// A step will be chosen now, and tried.
    fn begin_step(&mut self);
    /// Whether somebody waits for pages to be written.
    fn is_asked(&mut self) -> bool;
    /// Writes a batch of these.
    fn write_asked(&mut self, shrinker: &mut Shrinker, buffer: &mut [u8]) -> impl Future<Output = ()>;
    /// How much of a buffer of so many bytes a batch may take: whole slots, at least one.
    fn batch_bytes(&self, buffer_bytes: usize) -> usize;
    /// Follows a batch, and waits if nothing can be written for the moment: the loop tries again at once.
    fn follow(&mut self, tried: Tried) -> impl Future<Output = ()>;
    /// The pool was compacted while it had room, and so many bytes of it are free.
    fn note_compaction(&mut self, bytes: u64);
}

/// Writes back until the task stops. `buffer` is as [`Shrinker::write_batch`] wants it.
pub async fn run(
    segment: Segment<'_>,
    pace: Pace,
    writer: &impl SwapWriter,
    buffer: &mut [u8],
    task: &mut impl Task,
) {
    let backing = writer.backing();
    let mut shrinker = Shrinker::new();
    let mut schedule = Schedule::new(pace, backing.now_ns());
    loop {
        let seen = segment.budget().signal_count(Signal::Shrink);
        if task.is_stopping() {
            return;
        }
        let is_emptying = task.empty_a_file(&mut shrinker, buffer).await;
        let uncompressed = uncompressed_pages(segment);
        task.begin_step();
        let step = schedule.next(segment, backing.now_ns(), task.is_asked());
        let part_bytes = task.batch_bytes(buffer.len());
        let part = &mut buffer[..part_bytes];
        let batch = match step {
            Step::MakeRoom => shrinker.write_batch(segment, writer, part).await,
            Step::WriteUncompressed => shrinker.write_uncompressed(segment, writer, part).await,
            Step::WriteAsked => {
                task.write_asked(&mut shrinker, part).await;
                continue;
            }
            Step::Compact | Step::Wait if is_emptying => continue,
            Step::Compact => {
                let began_ns = backing.now_ns();
                let bytes = shrinker.compact(segment, backing).await;
                schedule.note_compaction(began_ns, backing.now_ns());
                task.note_compaction(bytes);
                backing.wait(Signal::Shrink, seen, pace.idle_max_ns).await;
                continue;
            }
            Step::Wait => {
                backing.wait(Signal::Shrink, seen, pace.idle_max_ns).await;
                continue;
            }
        };
        schedule.note_batch(batch, uncompressed);
        task.follow(Tried { step, batch, seen }).await;
    }
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
