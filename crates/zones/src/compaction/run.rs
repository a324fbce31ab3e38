//! One run of compaction in one zone: block after block is emptied, the cheapest first, until the goal is reached.
//!
//! ```text
//! next -> Move -> the caller tries each of `moves` and tells `finish` -> next -> ... -> Finished
//! ```
//! Who gives up a run before it is finished calls [`Run::abandon`].

use super::{Move, Moved};
use crate::frame::{Frame, Holder, Mobility, Used};
use crate::{BLOCK_FRAMES, ORDER_MAX, Zone};

/// Pages of a batch. As Linux: so long nobody else has the zone, and what is isolated.
pub const BATCH: usize = 32;

/// Blocks that a run may try in vain.
const FAILURES_MAX: u32 = 16;

/// Looks through a closed block: what its owner gives back meanwhile must not be found by others.
const PASSES_MAX: u32 = 3;

/// What a run has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Words of frames that were looked at for something to move.
    pub migrate_scanned: u64,
    /// Free runs that were looked at for room.
    pub free_scanned: u64,
    /// Frames that were isolated, in both places.
    pub isolated: u64,
    /// Frames that were moved.
    pub moved: u64,
    /// Frames that could not be moved.
    pub busy: u64,
    /// Blocks that became free.
    pub emptied: u64,
    /// Blocks that were tried in vain.
    pub in_vain: u64,
}

impl core::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.migrate_scanned += other.migrate_scanned;
        self.free_scanned += other.free_scanned;
        self.isolated += other.isolated;
        self.moved += other.moved;
        self.busy += other.busy;
        self.emptied += other.emptied;
        self.in_vain += other.in_vain;
    }
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// There are as many free blocks as were wanted.
    Reached,
    /// No block is left that might be emptied.
    NoSource,
    /// There are no holes left for what would have to be moved.
    NoHole,
    /// Too many blocks could not be emptied.
    InVain,
}

/// What comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// What [`Run::moves`] says is to be tried; then `next` is called again.
    Move,
    /// The run is over.
    Finished(Outcome),
}

/// A block that is being emptied.
#[derive(Clone, Copy, Debug)]
struct Source {
    block: u32,
    /// The next frame to be looked at.
    at: u32,
    pass: u32,
    /// Used frames when it was closed.
    used: u32,
}

/// See above.
#[derive(Clone, Debug)]
pub struct Run {
    blocks_wanted: u64,
    source: Option<Source>,
    batch: [Option<Move>; BATCH],
    batch_count: usize,
    counts: Counts,
}

impl Run {
    /// One that empties so many blocks.
    pub fn new(blocks_wanted: u64) -> Run {
        Run { blocks_wanted, source: None, batch: [None; BATCH], batch_count: 0, counts: Counts::default() }
    }
    /// What it has done so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The moves of the last batch.
    pub fn moves(&self) -> impl Iterator<Item = Move> + use<> {
        self.batch.into_iter().take(self.batch_count).flatten()
    }

    /// A move of the last batch was tried.
    pub fn finish(&mut self, zone: &Zone<'_>, one: Move, how: Moved) {
        zone.finish_move(one, how);
        match how {
            Moved::Yes => self.counts.moved += 1 << one.order,
            Moved::Busy => self.counts.busy += 1 << one.order,
        }
    }

    /// Every move of the last batch was finished.
    pub fn next(&mut self, zone: &Zone<'_>) -> Next {
        self.batch_count = 0;
        loop {
            let Some(source) = self.source.or_else(|| self.begin(zone)) else {
                let is_reached = self.counts.emptied >= self.blocks_wanted;
                return Next::Finished(match (is_reached, self.counts.in_vain >= u64::from(FAILURES_MAX)) {
                    (true, _) => Outcome::Reached,
                    (false, true) => Outcome::InVain,
                    (false, false) => Outcome::NoSource,
                });
            };
            self.source = Some(source);
            match self.look(zone, source) {
                Look::Batch => return Next::Move,
                Look::Again => (),
                Look::Emptied => self.end(zone, true),
                Look::Blocked => self.end(zone, false),
                Look::NoHole if self.batch_count > 0 => return Next::Move,
                Look::NoHole => {
                    self.abandon(zone);
                    return Next::Finished(Outcome::NoHole);
                }
            }
        }
    }

    fn begin(&mut self, zone: &Zone<'_>) -> Option<Source> {
        let may_go_on =
            self.counts.emptied < self.blocks_wanted && self.counts.in_vain < u64::from(FAILURES_MAX);
        let block = if may_go_on { zone.cheapest_source() } else { None }?;
        let used = zone.block(block).used();
        self.counts.migrate_scanned += zone.close(block);
        Some(Source { block, at: 0, pass: 1, used })
    }

    /// Goes through the block until a batch is full or the block has been seen.
    fn look(&mut self, zone: &Zone<'_>, source: Source) -> Look {
        let start = source.block * BLOCK_FRAMES;
        let mut at = source.at;
        let found = loop {
            if at >= BLOCK_FRAMES {
                break self.seen(zone, source);
            }
            if self.batch_count == BATCH {
                break Look::Batch;
            }
            self.counts.migrate_scanned += 1;
            let frame = zone.frame(start + at);
            match frame {
                Frame::Free { order } => zone.hollow_free(start + at, order),
                Frame::Used(Used { holder: Holder::Hollow, .. }) | Frame::AtHand { .. } | Frame::Inside => (),
                Frame::Used(used) => match self.isolate(zone, start + at, used, source.used) {
                    None => (),
                    Some(found) => break found,
                },
            }
            at += frame.frames();
        };
        if found != Look::Again
            && let Some(source) = self.source.as_mut()
        {
            source.at = at;
        }
        found
    }

    fn isolate(&mut self, zone: &Zone<'_>, at: u32, used: Used, in_source: u32) -> Option<Look> {
        let may_move = used.mobility == Mobility::Movable
            && used.order < ORDER_MAX
            && used.holder == Holder::User
            // It stayed where it was.
            && self.source.is_some_and(|source| source.pass < PASSES_MAX);
        if !may_move {
            return Some(if self.batch_count > 0 { Look::Batch } else { Look::Blocked });
        }
        let Some(hole) = zone.take_hole(used.order, in_source, &mut self.counts.free_scanned) else {
            return Some(Look::NoHole);
        };
        zone.isolate(at, used);
        self.counts.isolated += 2 << used.order;
        self.batch[self.batch_count] = Some(Move { from: zone.id(at), to: zone.id(hole), order: used.order });
        self.batch_count += 1;
        None
    }

    /// All frames of the block were looked at: are all of them hollow now?
    fn seen(&mut self, zone: &Zone<'_>, source: Source) -> Look {
        if self.batch_count > 0 {
            return Look::Batch;
        }
        zone.drain_block(source.block);
        let start = source.block * BLOCK_FRAMES;
        let mut at = start;
        while at < start + BLOCK_FRAMES {
            let frame = zone.frame(at);
            if !matches!(frame, Frame::Used(Used { holder: Holder::Hollow, .. }) | Frame::Free { .. }) {
                let again = Source { at: 0, pass: source.pass + 1, ..source };
                self.source = Some(again);
                return if again.pass > PASSES_MAX { Look::Blocked } else { Look::Again };
            }
            at += frame.frames();
        }
        Look::Emptied
    }

    fn end(&mut self, zone: &Zone<'_>, is_emptied: bool) {
        let source = self.source.take().expect("a block is being emptied");
        if !is_emptied {
            zone.change_block(source.block, |block| block.is_skipped = true);
        }
        if zone.open_block(source.block) {
            self.counts.emptied += 1;
        } else {
            self.counts.in_vain += 1;
        }
    }

    /// The run ends here. Every move of the last batch was finished.
    pub fn abandon(&mut self, zone: &Zone<'_>) {
        if let Some(source) = self.source.take() {
            zone.open_block(source.block);
        }
    }
}

/// What a look into a block has shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Look {
    /// There is something to be moved.
    Batch,
    /// It has to be looked through once more.
    Again,
    /// Nothing is in it any more.
    Emptied,
    /// Something in it cannot be moved.
    Blocked,
    /// There is no room elsewhere.
    NoHole,
}
