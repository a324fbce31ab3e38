//! kswapd, kcompactd and requests in a small world that is full to the last frame: everybody gets on, and the numbers
//! are kept.

use crate::FrameId;
use crate::compaction::Moved;
use crate::compaction::daemon::{By, Daemon, Next as Work};
use crate::kswapd::{Balance, Balanced, Force, Next, is_balanced};
use crate::marks::{Mark, Mixing, Spacing, kept_for_lower, marks};
use crate::node::{Attempt, Node, Patience, Request, Step, Urgency};
use crate::room::Room;
use crate::tickets::{Fetched, TICKETS_MAX, Tickets};
use crate::wake::Asked;
use crate::{BLOCK_FRAMES, Level, Mobility, ORDER_MAX, Shape, Zone};
use std::collections::BTreeMap;
use std::vec::Vec;
use uswap_sync::AtomicU64;
use uswap_units::Prng;

const SHAPES: [Shape; 2] = [
    Shape { first: FrameId::new(0), blocks: 2, cpus: 1 },
    Shape { first: FrameId::new(1024), blocks: 30, cpus: 1 },
];

struct Words {
    zones: [Vec<AtomicU64>; 2],
    tickets: Vec<AtomicU64>,
}

impl Words {
    fn new() -> Words {
        let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let words = Words { zones: SHAPES.map(|shape| zeros(shape.words())), tickets: zeros(TICKETS_MAX) };
        let frames = SHAPES.map(|shape| u64::from(shape.frames()));
        for (number, (words, shape)) in words.zones.iter().zip(SHAPES).enumerate() {
            let zone = Zone::create(words, shape);
            let marks = marks(frames[number], frames[number] / 64, Spacing::Now);
            zone.set_marks(marks, kept_for_lower(&frames, number), Mixing::Sparing);
        }
        words
    }
    fn node(&self) -> Node<'_> {
        let zones = self.zones.iter().zip(SHAPES).map(|(words, shape)| Zone::open(words, shape));
        Node::new(zones, Tickets::open(&self.tickets))
    }
}

const MOVABLE: Request = Request {
    order: 0,
    mobility: Mobility::Movable,
    class: 1,
    cpu: 0,
    patience: Patience::MayWait,
    urgency: Urgency::Normal,
};
const BLOCK: Request = Request {
    order: ORDER_MAX,
    mobility: Mobility::Unmovable,
    patience: Patience::MayNot,
    urgency: Urgency::High,
    ..MOVABLE
};

/// Pages that can be dropped, by frame, with what is in them.
struct World<'a> {
    node: Node<'a>,
    pages: BTreeMap<u32, u64>,
    prng: Prng,
    daemon: Daemon,
    now_ms: u64,
    written: u64,
}

impl World<'_> {
    fn new(words: &Words) -> World<'_> {
        let daemon = Daemon::default();
        World {
            node: words.node(),
            pages: BTreeMap::new(),
            prng: Prng::new(7),
            daemon,
            now_ms: 0,
            written: 0,
        }
    }
    fn write(&mut self, frame: FrameId) {
        self.written += 1;
        assert!(self.pages.insert(frame.number(), self.written).is_none());
    }
    /// Takes every frame, whatever the marks say; then gives one of so many back.
    fn fill(&mut self, free_in: u64) {
        let zones: Vec<Zone<'_>> = self.node.zones().copied().collect();
        for zone in zones {
            while let Some(frame) = zone.take(0, Mobility::Movable) {
                self.write(frame);
            }
        }
        assert_eq!(self.node.free_frames(), 0);
        let frames: Vec<u32> = self.pages.keys().copied().collect();
        frames
            .into_iter()
            .filter(|_| self.prng.chance(1, free_in))
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|frame| self.drop_page(frame));
    }
    fn drop_page(&mut self, frame: u32) {
        self.pages.remove(&frame).expect("it is there");
        self.node.zone_of(FrameId::new(frame)).give_back(FrameId::new(frame));
    }
    /// Looks at so many pages of a zone, and drops every second one.
    fn shrink(&mut self, zone: usize, wanted: u64) -> (u64, u64) {
        let zone = *self.node.zone(zone).expect("it is there");
        let frames: Vec<u32> =
            self.pages.keys().copied().filter(|&frame| zone.has(FrameId::new(frame))).collect();
        let looked_at = wanted.min(frames.len() as u64);
        let start = self.prng.below(frames.len().max(1) as u64) as usize;
        let dropped: Vec<u32> =
            frames.iter().cycle().skip(start).take(looked_at as usize).step_by(2).copied().collect();
        dropped.iter().for_each(|&frame| self.drop_page(frame));
        (looked_at, dropped.len() as u64)
    }
    fn balance(&mut self, asked: Asked) -> (Balanced, u64) {
        let (mut balance, mut reclaimed) = (Balance::new(&self.node, asked, Room::Ample), 0);
        for _ in 0..10_000 {
            match balance.next(&self.node) {
                Next::Finished(balanced) => return (balanced, reclaimed),
                Next::Shrink(shrink) => {
                    if asked.order > 0
                        && self.node.zones().any(|zone| zone.is_above(Level::of(Mark::High, 0, 1)))
                    {
                        assert_eq!(shrink.force, Force::Gentle);
                    }
                    let (scanned, dropped) = self.shrink(shrink.zone, shrink.frames.min(64));
                    reclaimed += dropped;
                    balance.shrunk(scanned, dropped);
                }
            }
        }
        panic!("a balance comes to an end");
    }
    /// kcompactd works until it sleeps. Every 500th move fails.
    fn compact(&mut self, asked: Asked, by: By) -> Work {
        self.daemon.ask(asked, by);
        loop {
            match self.daemon.next(&self.node, self.now_ms, Room::Ample) {
                Work::Move => {
                    for one in self.daemon.moves().collect::<Vec<_>>() {
                        let how = if self.prng.chance(1, 500) { Moved::Busy } else { Moved::Yes };
                        self.daemon.finish(&self.node, one, how);
                        if how == Moved::Yes {
                            let content = self.pages.remove(&one.from.number()).expect("it is there");
                            assert!(self.pages.insert(one.to.number(), content).is_none());
                        }
                    }
                }
                done => return done,
            }
        }
    }
    fn check(&self) {
        for zone in self.node.zones() {
            zone.check();
            zone.check_nothing_is_isolated();
        }
    }
}

/// Invariant 23: kswapd ends only when there is enough, or nothing more can be had.
#[test]
fn kswapd_ends_when_there_is_enough_or_nothing_left() {
    let words = Words::new();
    let mut world = World::new(&words);
    world.fill(1 << 40);
    let asked = Asked { order: 0, class: 1 };
    let (balanced, reclaimed) = world.balance(asked);
    assert!(is_balanced(&world.node, asked), "{balanced:?}");
    assert!(!balanced.has_failed);
    let high = SHAPES.map(|shape| u64::from(shape.frames()) / 64 * 2).iter().sum::<u64>();
    assert!(reclaimed < 2 * high, "not more than is needed: {reclaimed}");
    // Nothing can be dropped.
    let words = Words::new();
    let mut world = World::new(&words);
    world.fill(1 << 40);
    world.pages.clear();
    let (balanced, reclaimed) = world.balance(asked);
    assert!(balanced.has_failed);
    assert_eq!(reclaimed, 0);
}

/// Invariant 24: for a run of a block the room is reclaimed in single pages, and kcompactd is told the order of the
/// run.
#[test]
fn kcompactd_is_told_the_order_that_was_asked() {
    let words = Words::new();
    let mut world = World::new(&words);
    world.fill(8);
    let asked = BLOCK.asked();
    let (balanced, _) = world.balance(asked);
    assert_eq!((balanced.asked, balanced.order), (asked, 0));
    assert!(world.node.take(&BLOCK, Mark::Min, crate::marks::Reach::Mark).is_none(), "all in pieces");
    world.daemon.ask(balanced.asked, By::Kswapd);
    assert_eq!(world.compact(balanced.asked, By::Kswapd), Work::Idle);
    assert!(world.node.take(&BLOCK, Mark::Min, crate::marks::Reach::Mark).is_some());
    world.check();
}

/// What is made for a ticket is not taken by who comes first.
#[test]
fn a_block_goes_to_who_asked_first() {
    let words = Words::new();
    let mut world = World::new(&words);
    world.fill(8);
    let mut attempt = Attempt::new(BLOCK);
    assert_eq!(attempt.next(&world.node, 0, 0), Step::WakeKswapd(BLOCK.asked()));
    let Step::Failed(Some(ticket)) = attempt.next(&world.node, 0, 0) else { panic!("there is none yet") };
    world.balance(BLOCK.asked());
    world.compact(BLOCK.asked(), By::Kswapd);
    let other = world.node.take(&BLOCK, Mark::Min, crate::marks::Reach::Mark);
    assert_eq!(other, None, "the block is kept for the ticket");
    let Fetched::Frame(frame) = world.node.fetch(ticket) else { panic!("it was filled") };
    world.check();
    world.node.zone_of(frame).give_back(frame);
    world.check();
}

/// Memory full to the last frame: whoever may wait gets single pages, again and again; blocks are had too, and nothing
/// is lost.
#[test]
fn everybody_gets_on_with_memory_full_to_the_last_frame() {
    let words = Words::new();
    let mut world = World::new(&words);
    world.fill(1 << 40);
    let mut blocks = 0;
    let mut ticket = None;
    for step in 0..4000_u64 {
        world.now_ms += 20;
        let mut attempt = Attempt::new(MOVABLE);
        let mut progress = 0;
        let frame = loop {
            match attempt.next(&world.node, world.now_ms, progress) {
                Step::Got(frame) => break frame,
                Step::WakeKswapd(asked) => {
                    let (balanced, _) = world.balance(asked);
                    world.compact(balanced.asked, By::Kswapd);
                }
                Step::Reclaim => progress = world.shrink(1, 32).1,
                step @ (Step::Wait(_) | Step::Compact(_) | Step::Failed(_)) => panic!("{step:?}"),
            }
        };
        world.write(frame);
        if !step.is_multiple_of(6) {
            continue;
        }
        let fetched = match ticket.take().map(|ticket| (ticket, world.node.fetch(ticket))) {
            Some((_, Fetched::Frame(frame))) => Some(frame),
            Some((waiting, Fetched::Waiting)) => {
                ticket = Some(waiting);
                None
            }
            Some((_, Fetched::Void)) | None => None,
        };
        let mut attempt = Attempt::new(BLOCK);
        let got = fetched.or_else(|| {
            loop {
                match attempt.next(&world.node, world.now_ms, 0) {
                    Step::Got(frame) => return Some(frame),
                    Step::WakeKswapd(asked) => {
                        let (balanced, _) = world.balance(asked);
                        world.compact(balanced.asked, By::Kswapd);
                    }
                    Step::Failed(left) => {
                        ticket = ticket.or(left);
                        return None;
                    }
                    step => panic!("it may not wait: {step:?}"),
                }
            }
        });
        if let Some(frame) = got {
            blocks += 1;
            world.node.zone_of(frame).give_back(frame);
        }
    }
    assert!(blocks > 500, "{blocks} of 667 requests for a block");
    world.check();
    let room = SHAPES.iter().map(|shape| shape.blocks * BLOCK_FRAMES).sum::<u32>();
    assert!(world.pages.len() > room as usize / 2);
}
