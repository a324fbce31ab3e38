//! Compaction of Linux 4.4: one scanner walks up from the start of the zone and takes pages, one walks down from the
//! end and takes holes, until they meet.
//!
//! A step takes up to 32 pages of one block. Blocks from which nothing came are marked and passed over, until the marks
//! are cleared; positions are kept between runs.

use uswap_zones::FrameId;
use uswap_zones::compaction::scan::Seen;
use uswap_zones::compaction::{Move, Moved};
use uswap_zones::marks::{Mark, Reach};
use uswap_zones::wake::Asked;
use uswap_zones::{BLOCK_FRAMES, Level, Mobility, Zone};

use crate::highalloc::memory::Memory;
use crate::highalloc::prices;

/// Pages of a step.
const STEP_PAGES: usize = 32;

/// How much a run may wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Nothing: pages only of blocks of what moves.
    Async,
    /// Locks: pages of all blocks.
    Light,
}

/// Where the scanners of a zone are, and what they pass over.
pub struct Positions {
    skip: Vec<bool>,
    /// The next block of pages, for each mode.
    migrate: [u32; 2],
    /// The next block of holes.
    free: u32,
    /// The marks are to be cleared when kswapd sleeps.
    pub flush: bool,
}

impl Positions {
    /// At both ends.
    pub fn new(blocks: u32) -> Positions {
        Positions { skip: vec![false; blocks as usize], migrate: [0; 2], free: blocks, flush: false }
    }
    /// No mark, and at both ends.
    pub fn reset(&mut self) {
        self.skip.fill(false);
        self.migrate = [0; 2];
        self.free = self.skip.len() as u32;
        self.flush = false;
    }
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The scanners met.
    Complete,
    /// There is a run.
    Partial,
}

/// One run.
pub struct Run {
    zone: usize,
    asked: Asked,
    mode: Mode,
    ignores_marks: bool,
    first: u32,
    /// The next frame to be looked at for a page.
    migrate: u32,
    isolated_in_block: bool,
    /// The block of holes, and the next frame in it.
    free_block: u32,
    free_at: u32,
    holes_in_block: bool,
    holes: Vec<u32>,
}

impl Run {
    /// From where the last one ended.
    pub fn new(
        zone: &Zone<'_>,
        number: usize,
        asked: Asked,
        mode: Mode,
        positions: &Positions,
        ignores_marks: bool,
    ) -> Run {
        Run {
            zone: number,
            asked,
            mode,
            ignores_marks,
            first: zone.shape().first.number(),
            migrate: positions.migrate[mode as usize] * BLOCK_FRAMES,
            isolated_in_block: false,
            free_block: positions.free.saturating_sub(1),
            free_at: 0,
            holes_in_block: false,
            holes: Vec::new(),
        }
    }
    /// In which zone.
    pub fn zone(&self) -> usize {
        self.zone
    }

    fn have_met(&self) -> bool {
        self.migrate / BLOCK_FRAMES >= self.free_block
    }

    /// Goes on: the time it took, and whether that was the end.
    pub fn step(&mut self, memory: &mut Memory<'_>, positions: &mut Positions) -> (u64, Option<End>) {
        let zone = memory.zone(self.zone);
        if let Some(end) = self.end(&zone, positions) {
            self.holes.drain(..).for_each(|hole| zone.put_hole_back(FrameId::new(hole)));
            zone.drain();
            return (prices::LOOK_AT_PAGE_NS, Some(end));
        }
        let mut ns = 0;
        let pages = self.isolate_pages(memory, &zone, positions, &mut ns);
        if !pages.is_empty() {
            self.isolate_holes(memory, &zone, positions, pages.len(), &mut ns);
        }
        memory.counts.isolated += pages.len() as u64;
        for page in pages {
            let Some(hole) = self.holes.pop() else {
                zone.cancel_scanned(FrameId::new(page));
                continue;
            };
            let one = Move { from: FrameId::new(page), to: FrameId::new(hole), order: 0 };
            let how = memory.try_move(one);
            zone.finish_scanned(one, how);
            ns += prices::MOVE_NS;
            match how {
                Moved::Yes => memory.counts.migrated += 1,
                Moved::Busy => memory.counts.migrate_failed += 1,
            }
        }
        (ns, None)
    }

    fn end(&mut self, zone: &Zone<'_>, positions: &mut Positions) -> Option<End> {
        if self.have_met() {
            positions.migrate = [0; 2];
            positions.free = zone.shape().blocks;
            return Some(End::Complete);
        }
        let Asked { order, class } = self.asked;
        zone.is_above(Level::of(Mark::Low, order, class)).then_some(End::Partial)
    }

    fn isolate_pages(
        &mut self,
        memory: &mut Memory<'_>,
        zone: &Zone<'_>,
        positions: &mut Positions,
        ns: &mut u64,
    ) -> Vec<u32> {
        let mut pages = Vec::new();
        while !self.have_met() && pages.is_empty() {
            let block = self.migrate / BLOCK_FRAMES;
            let is_begun = !self.migrate.is_multiple_of(BLOCK_FRAMES);
            let passes = (!self.ignores_marks && positions.skip[block as usize])
                || (self.mode == Mode::Async && zone.block(block).mobility != Mobility::Movable);
            if !is_begun && passes {
                self.migrate += BLOCK_FRAMES;
                continue;
            }
            if !is_begun {
                self.isolated_in_block = false;
            }
            let end = (block + 1) * BLOCK_FRAMES;
            while self.migrate < end && pages.len() < STEP_PAGES {
                let frame = FrameId::new(self.first + self.migrate);
                memory.counts.migrate_scanned += 1;
                *ns += prices::LOOK_AT_FRAME_NS;
                self.migrate += match zone.look(frame) {
                    Seen::Free(order) => 1 << order,
                    Seen::Used(used) => {
                        if zone.begin_scanned(frame) {
                            pages.push(frame.number());
                        }
                        1 << used.order
                    }
                    Seen::Other => 1,
                };
            }
            self.isolated_in_block |= !pages.is_empty();
            if self.migrate >= end && !self.isolated_in_block && !self.ignores_marks {
                positions.skip[block as usize] = true;
                let mine = self.mode as usize;
                positions.migrate[mine] = positions.migrate[mine].max(block + 1);
            }
        }
        pages
    }

    fn isolate_holes(
        &mut self,
        memory: &mut Memory<'_>,
        zone: &Zone<'_>,
        positions: &mut Positions,
        wanted: usize,
        ns: &mut u64,
    ) {
        while self.holes.len() < wanted && !self.have_met() {
            let block = self.free_block;
            let state = zone.block(block);
            let passes = state.mobility != Mobility::Movable
                || state.free == BLOCK_FRAMES
                || (!self.ignores_marks && positions.skip[block as usize]);
            if self.free_at == 0 && passes {
                self.next_free_block();
                continue;
            }
            while self.free_at < BLOCK_FRAMES && self.holes.len() < wanted {
                let frame = FrameId::new(self.first + block * BLOCK_FRAMES + self.free_at);
                memory.counts.free_scanned += 1;
                *ns += prices::LOOK_FOR_ROOM_NS;
                if let Seen::Free(order) = zone.look(frame) {
                    let kept =
                        Level { order: 0, class: 0, mark: Mark::Low, reach: Reach::Mark, more: 1 << order };
                    if zone.has_frames_above(kept) {
                        for part in 0..1 << order {
                            zone.take_hole_at(frame.plus(part));
                            self.holes.push(frame.number() + part);
                        }
                        memory.counts.isolated += 1 << order;
                        self.holes_in_block = true;
                    }
                    self.free_at += 1 << order;
                } else {
                    self.free_at += 1;
                }
            }
            if self.free_at >= BLOCK_FRAMES {
                if !self.holes_in_block && !self.ignores_marks {
                    positions.skip[block as usize] = true;
                    positions.free = block;
                }
                self.next_free_block();
            }
        }
    }

    fn next_free_block(&mut self) {
        self.free_block = self.free_block.saturating_sub(1);
        self.free_at = 0;
        self.holes_in_block = false;
    }
}
