//! Frames in zones: who has which, in runs of 1 to 512, so that large runs stay possible; and how room for them is
//! made.
//!
//! After Linux 6.18. A zone is cut into *blocks* of 512 frames. Free runs are on lists by order and by the mobility of
//! their block (`buddy`); a kind that has none left takes a block over, or a run out of one (`fallback`); each CPU
//! keeps single frames at hand (`at_hand`). [`marks`] says how many frames stay free, [`node`] serves requests from
//! several zones, [`kswapd`] and [`compaction`] decide how room is made, [`tickets`] hands what compaction has freed to
//! who asked for it, [`wake`] wakes who sleeps.
//!
//! Two things are not as there. The largest run is a block, so that a free run lies in one block and its list follows
//! from the block. And each block has a word that says what is in it, so that compaction looks for a block to empty on
//! lists, and not through the frames.
//!
//! Must hold, between two calls: no frame is in two runs; two free runs that could be one are one; the counts of blocks
//! and of the zone are the sums of the runs in them.
//!
//! A zone is a slice of words of its own, which start zeroed. Who calls has the zone for itself: one lock for each zone
//! is what threads need. Nothing waits here. Called by the experiment `highalloc`, in simulated time, and by the tests.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod at_hand;
mod block;
mod buddy;
#[cfg(test)]
pub(crate) mod check;
pub mod compaction;
mod fallback;
mod frame;
pub mod kswapd;
mod list;
pub mod marks;
pub mod node;
mod plant;
pub mod room;
pub mod tickets;
pub mod wake;

#[cfg(all(test, not(shuttle)))]
mod model_tests;
#[cfg(all(test, not(shuttle)))]
mod reclaim_tests;
#[cfg(all(test, shuttle))]
mod shuttle_tests;

pub use block::Block;
use block::SOURCES;
use frame::Frame;
pub use frame::{FrameId, Holder, Mobility, Used};
use list::{LIST_WORDS, Lists, NODES_MAX};
use marks::{Mark, Marks, Mixing, Reach};
use uswap_sync::{AtomicU64, Ordering};

/// Orders of runs: 1 to 512 frames.
pub const ORDERS: usize = 10;
/// The largest: a block.
pub const ORDER_MAX: u32 = ORDERS as u32 - 1;
/// Orders above it are for speed only: no request of this kind is tried for ever.
pub const COSTLY_ORDER: u32 = 3;
/// Frames of a block.
pub const BLOCK_FRAMES: u32 = 1 << ORDER_MAX;
/// Zones of a node.
pub const ZONES_MAX: usize = 4;

const KINDS: usize = Mobility::ALL.len();
const FREE_LISTS: usize = ORDERS * KINDS;

/// Where the numbers of a zone are, among the first words.
const FREE: usize = 0;
const MARKS: usize = 1;
const BOOST: usize = 4;
const KEPT: usize = 5;
const DEFERRAL: usize = KEPT + ZONES_MAX;
const CLAIMED: usize = DEFERRAL + 1;
const STOLEN: usize = CLAIMED + 1;
const MUST_FORGET: usize = STOLEN + 1;
const IS_SPARING: usize = MUST_FORGET + 1;
const HEAD_WORDS: usize = 16;
const _: () = assert!(IS_SPARING < HEAD_WORDS);

/// Sizes of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// The number of its first frame, a multiple of 512.
    pub first: FrameId,
    /// Blocks.
    pub blocks: u32,
    /// CPUs that keep frames at hand.
    pub cpus: u32,
}

impl Shape {
    /// Frames.
    pub const fn frames(self) -> u32 {
        self.blocks * BLOCK_FRAMES
    }
    const fn at_hand_start(self) -> usize {
        HEAD_WORDS + FREE_LISTS * LIST_WORDS
    }
    const fn sources_start(self) -> usize {
        self.at_hand_start() + self.cpus as usize * KINDS * LIST_WORDS
    }
    const fn blocks_start(self) -> usize {
        self.sources_start() + SOURCES * LIST_WORDS
    }
    const fn frames_start(self) -> usize {
        self.blocks_start() + 2 * self.blocks as usize
    }
    /// Words of state.
    pub const fn words(self) -> usize {
        self.frames_start() + self.frames() as usize
    }
}

/// View of a zone. Frames are counted from its first one here; requests name them by [`FrameId`].
#[derive(Clone, Copy)]
pub struct Zone<'a> {
    shape: Shape,
    head: &'a [AtomicU64],
    free: Lists<'a>,
    at_hand: Lists<'a>,
    sources: Lists<'a>,
    blocks: &'a [AtomicU64],
}

impl<'a> Zone<'a> {
    /// A view of `words`, as many as the shape needs.
    pub fn open(words: &'a [AtomicU64], shape: Shape) -> Zone<'a> {
        assert!(words.len() >= shape.words());
        assert!(shape.frames() <= NODES_MAX);
        assert!(shape.first.number().is_multiple_of(BLOCK_FRAMES));
        let part = |start: usize, end: usize| &words[start..end];
        let frames = part(shape.frames_start(), shape.words());
        let blocks = part(shape.blocks_start(), shape.frames_start());
        let (blocks, block_links) = blocks.split_at(shape.blocks as usize);
        Zone {
            shape,
            head: part(0, HEAD_WORDS),
            free: Lists { ends: part(HEAD_WORDS, shape.at_hand_start()), nodes: frames },
            at_hand: Lists { ends: part(shape.at_hand_start(), shape.sources_start()), nodes: frames },
            sources: Lists { ends: part(shape.sources_start(), shape.blocks_start()), nodes: block_links },
            blocks,
        }
    }

    /// The same on zeroed words: all frames are free and movable.
    pub fn create(words: &'a [AtomicU64], shape: Shape) -> Zone<'a> {
        let zone = Zone::open(words, shape);
        for block in 0..shape.blocks {
            zone.store_block(block, Block { free: BLOCK_FRAMES, ..Block::EMPTY });
            zone.put_free(block * BLOCK_FRAMES, ORDER_MAX, Mobility::Movable, End::Last);
        }
        zone.set(FREE, u64::from(shape.frames()));
        zone
    }

    fn get(&self, number: usize) -> u64 {
        self.head[number].load(Ordering::Relaxed)
    }
    fn set(&self, number: usize, value: u64) {
        self.head[number].store(value, Ordering::Relaxed);
    }

    /// Its sizes.
    pub fn shape(&self) -> Shape {
        self.shape
    }
    /// Free frames, without those at hand of a CPU.
    pub fn free_frames(&self) -> u64 {
        self.get(FREE)
    }
    /// Free runs of this order, of all kinds.
    pub fn free_runs(&self, order: u32) -> u32 {
        Mobility::ALL.iter().map(|&kind| self.free.count(free_list(order, kind))).sum()
    }
    /// Blocks that another kind took over, and runs that were taken out of a block of another kind, since the start.
    pub fn mixed(&self) -> (u64, u64) {
        (self.get(CLAIMED), self.get(STOLEN))
    }

    /// Its watermarks, without the boost.
    pub fn marks(&self) -> Marks {
        Marks { min: self.get(MARKS), low: self.get(MARKS + 1), high: self.get(MARKS + 2) }
    }
    /// Sets them, and how many frames requests of each class keep away from.
    pub fn set_marks(&self, marks: Marks, kept: [u64; ZONES_MAX], mixing: Mixing) {
        self.set(IS_SPARING, u64::from(mixing == Mixing::Sparing));
        [marks.min, marks.low, marks.high]
            .into_iter()
            .enumerate()
            .for_each(|(at, mark)| self.set(MARKS + at, mark));
        kept.into_iter().enumerate().for_each(|(class, kept)| self.set(KEPT + class, kept));
    }
    /// By how much the marks are raised for a time.
    pub fn boost(&self) -> u64 {
        self.get(BOOST)
    }
    /// So much of the boost was reclaimed.
    pub fn take_off_boost(&self, frames: u64) {
        self.set(BOOST, self.boost().saturating_sub(frames));
    }

    /// Whether a request may have a run of this order here: frames stay free above the mark, and there is such a run.
    /// `class`: the highest zone that it could use.
    pub fn is_above(&self, level: Level) -> bool {
        self.has_frames_above(level) && (level.order..=ORDER_MAX).any(|order| self.free_runs(order) > 0)
    }
    /// The first half of that.
    pub fn has_frames_above(&self, level: Level) -> bool {
        let mark = level.reach.lowered(self.marks().of(level.mark) + self.boost());
        let wanted = mark + self.get(KEPT + level.class) + level.more + ((1 << level.order) - 1);
        self.free_frames() > wanted
    }

    /// What is in a block.
    pub fn block(&self, block: u32) -> Block {
        Block::of(self.blocks[block as usize].load(Ordering::Relaxed))
    }
    fn store_block(&self, block: u32, to: Block) {
        self.blocks[block as usize].store(to.word(), Ordering::Relaxed);
    }
    /// Changes what is in a block, and puts it on the list of compaction where it belongs then.
    fn change_block(&self, block: u32, change: impl FnOnce(&mut Block)) {
        let mut now = self.block(block);
        change(&mut now);
        let wanted = now.source_wanted().filter(|_| !self.is_one_run(block));
        if wanted != now.source {
            if let Some(before) = now.source {
                self.sources.remove(before, block);
            }
            if let Some(wanted) = wanted {
                self.sources.push_back(wanted, block);
            }
            now.source = wanted;
        }
        self.store_block(block, now);
    }
    fn is_one_run(&self, block: u32) -> bool {
        matches!(self.frame(block * BLOCK_FRAMES), Frame::Used(Used { order: ORDER_MAX, .. }))
    }

    fn frame(&self, at: u32) -> Frame {
        Frame::of(self.free.nodes[at as usize].load(Ordering::Relaxed))
    }
    fn store_frame(&self, at: u32, frame: Frame) {
        self.free.nodes[at as usize].store(frame.word(), Ordering::Relaxed);
    }
    fn at(&self, frame: FrameId) -> u32 {
        assert!(self.has(frame));
        frame.since(self.shape.first)
    }
    fn id(&self, at: u32) -> FrameId {
        self.shape.first.plus(at)
    }
    /// Whether the frame is one of this zone.
    pub fn has(&self, frame: FrameId) -> bool {
        frame.number().checked_sub(self.shape.first.number()).is_some_and(|at| at < self.shape.frames())
    }
    /// The run that begins with this frame, if somebody has it.
    pub fn used(&self, frame: FrameId) -> Option<Used> {
        match self.frame(self.at(frame)) {
            Frame::Used(used) => Some(used),
            Frame::Inside | Frame::Free { .. } | Frame::AtHand { .. } => None,
        }
    }
}

/// What a zone is asked to have free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level {
    /// A run of this order is wanted.
    pub order: u32,
    /// The highest zone that the request could use.
    pub class: usize,
    /// Frames that stay free.
    pub mark: Mark,
    /// How far below the mark it may go.
    pub reach: Reach,
    /// Frames on top of the mark.
    pub more: u64,
}

impl Level {
    /// So much for a run of this order, and for nothing else.
    pub const fn of(mark: Mark, order: u32, class: usize) -> Level {
        Level { order, class, mark, reach: Reach::Mark, more: 0 }
    }
}

/// Where a run is put on its list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    First,
    Last,
}

const fn free_list(order: u32, kind: Mobility) -> usize {
    order as usize * KINDS + kind as usize
}
const fn block_of(at: u32) -> u32 {
    at / BLOCK_FRAMES
}
