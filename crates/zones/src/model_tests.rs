//! Zones against a list of who owns what; requests, compaction in pieces, and tickets.

use crate::FrameId;
use crate::compaction::run::{Next, Run};
use crate::compaction::{Move, Moved};
use crate::marks::{Mixing, Spacing, kept_for_lower, marks};
use crate::node::{Attempt, Node, Patience, Request, Step, Urgency};
use crate::room::Room;
use crate::tickets::{Fetched, Ticket, Tickets, Wanted};
use crate::{BLOCK_FRAMES, Holder, Mobility, ORDER_MAX, Shape, Zone};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;
use uswap_sync::AtomicU64;

const SHAPES: [Shape; 2] = [
    Shape { first: FrameId::new(0), blocks: 2, cpus: 2 },
    Shape { first: FrameId::new(1024), blocks: 6, cpus: 2 },
];

#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Take {
        zone: usize,
        order: u32,
        kind: Mobility,
        count: u32,
    },
    TakeAtHand {
        zone: usize,
        cpu: u32,
        kind: Mobility,
        count: u32,
    },
    GiveBack {
        pick: usize,
        cpu: Option<u32>,
    },
    GiveBackMany {
        count: usize,
    },
    Request {
        order: u32,
        kind: Mobility,
        patience: Patience,
    },
    Drain,
    /// A run of compaction goes on by one batch, or begins. Every so many moves fail.
    Compact {
        busy_in: u32,
    },
    Abandon,
    ForgetSkipped,
    LeaveTicket {
        kind: Mobility,
    },
    FillTickets,
    ShowTicket {
        pick: usize,
    },
    Wait {
        ms: u64,
    },
}

fn kind() -> impl Strategy<Value = Mobility> {
    prop_oneof![4 => Just(Mobility::Movable), 1 => Just(Mobility::Unmovable), 1 => Just(Mobility::Reclaimable)]
}

pub(super) fn operation() -> impl Strategy<Value = Op> {
    let patience = prop_oneof![Just(Patience::MayWait), Just(Patience::MayNot)];
    prop_oneof![
        4 => (0..2_usize, 0..=ORDER_MAX, kind(), 1..12_u32)
            .prop_map(|(zone, order, kind, count)| Op::Take { zone, order, kind, count }),
        4 => (0..2_usize, 0..2_u32, kind(), 1..400_u32)
            .prop_map(|(zone, cpu, kind, count)| Op::TakeAtHand { zone, cpu, kind, count }),
        4 => (any::<prop::sample::Index>(), prop::option::of(0..2_u32))
            .prop_map(|(pick, cpu)| Op::GiveBack { pick: pick.index(1 << 16), cpu }),
        4 => (1..300_usize).prop_map(|count| Op::GiveBackMany { count }),
        2 => (0..=ORDER_MAX, kind(), patience)
            .prop_map(|(order, kind, patience)| Op::Request { order, kind, patience }),
        1 => Just(Op::Drain),
        8 => (2..200_u32).prop_map(|busy_in| Op::Compact { busy_in }),
        1 => Just(Op::Abandon),
        1 => Just(Op::ForgetSkipped),
        1 => kind().prop_map(|kind| Op::LeaveTicket { kind }),
        1 => Just(Op::FillTickets),
        1 => (0..4_usize).prop_map(|pick| Op::ShowTicket { pick }),
        1 => (0..900_u64).prop_map(|ms| Op::Wait { ms }),
    ]
}

struct Memory {
    zones: [Vec<AtomicU64>; 2],
    tickets: Vec<AtomicU64>,
}

impl Memory {
    fn new() -> Memory {
        let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let memory = Memory { zones: SHAPES.map(|shape| zeros(shape.words())), tickets: zeros(4) };
        let frames = SHAPES.map(|shape| u64::from(shape.frames()));
        for (number, (words, shape)) in memory.zones.iter().zip(SHAPES).enumerate() {
            let zone = Zone::create(words, shape);
            let marks = marks(u64::from(shape.frames()), 16 * (number as u64 + 1), Spacing::Now);
            zone.set_marks(marks, kept_for_lower(&frames, number), Mixing::Sparing);
        }
        memory
    }
    fn node(&self) -> Node<'_> {
        let zones = self.zones.iter().zip(SHAPES).map(|(words, shape)| Zone::open(words, shape));
        Node::new(zones, Tickets::open(&self.tickets))
    }
}

struct Model<'a> {
    node: Node<'a>,
    /// First frame -> order and kind of each run that somebody owns.
    owned: BTreeMap<u32, (u32, Mobility)>,
    /// What is written in a run, by its first frame; and where each content should be.
    content: BTreeMap<u32, u64>,
    written: u64,
    run: Option<(usize, Run)>,
    /// Moves of the last batch, whose owners may give them back in between.
    tickets: Vec<Ticket>,
    now_ms: u64,
}

impl Model<'_> {
    fn own(&mut self, frame: FrameId, order: u32, kind: Mobility) {
        let used = self.node.zone_of(frame).used(frame).expect("somebody has it");
        assert_eq!((used.order, used.mobility, used.holder), (order, kind, Holder::User));
        assert!(frame.number().is_multiple_of(1 << order));
        // Nobody owns a part of it.
        let before = self.owned.range(..=frame.number() + (1 << order) - 1).next_back();
        assert!(
            before.is_none_or(|(&first, &(order, _))| first + (1 << order) <= frame.number()),
            "{frame:?} is owned twice"
        );
        self.written += 1;
        self.owned.insert(frame.number(), (order, kind));
        self.content.insert(frame.number(), self.written);
    }
    fn disown(&mut self, first: u32) {
        self.owned.remove(&first);
        self.content.remove(&first);
    }
    fn pick(&self, pick: usize) -> Option<u32> {
        let count = self.owned.len();
        (count > 0).then(|| self.owned.keys().nth(pick % count).copied()).flatten()
    }
    fn give_back(&mut self, pick: usize, cpu: Option<u32>) {
        let Some(first) = self.pick(pick) else { return };
        match cpu {
            Some(cpu) => self.node.give_back(cpu, FrameId::new(first)),
            None => self.node.zone_of(FrameId::new(first)).give_back(FrameId::new(first)),
        }
        self.disown(first);
    }

    /// The moves of the last batch are done now: between the two steps their owners may have given them back.
    fn finish_batch(&mut self, busy_in: u32) {
        let Some((number, run)) = &mut self.run else { return };
        let zone = self.node.zone(*number).expect("it is there");
        let moves: Vec<Move> = run.moves().collect();
        for one in moves {
            let how = if self.written.is_multiple_of(u64::from(busy_in)) { Moved::Busy } else { Moved::Yes };
            self.written += 1;
            run.finish(zone, one, how);
            if how == Moved::Yes
                && let Some(owned) = self.owned.remove(&one.from.number())
            {
                assert_eq!(owned, (one.order, Mobility::Movable));
                let content = self.content.remove(&one.from.number()).expect("it is written");
                assert!(self.content.insert(one.to.number(), content).is_none());
                self.owned.insert(one.to.number(), owned);
            }
        }
    }

    fn compact(&mut self, busy_in: u32) {
        self.finish_batch(busy_in);
        let (number, mut run) = self.run.take().unwrap_or_else(|| (self.written as usize % 2, Run::new(2)));
        let zone = self.node.zone(number).expect("it is there");
        match run.next(zone) {
            Next::Move => self.run = Some((number, run)),
            Next::Finished(_) => zone.check_nothing_is_isolated(),
        }
    }

    fn request(&mut self, order: u32, kind: Mobility, patience: Patience) {
        let request = Request { order, mobility: kind, class: 1, cpu: 0, patience, urgency: Urgency::High };
        let (before, mut attempt) = (self.node.free_frames(), Attempt::new(request));
        for step in 0.. {
            assert!(step < 200, "it comes to an end");
            match attempt.next(&self.node, self.now_ms, 0) {
                Step::Got(frame) => return self.own(frame, order, kind),
                Step::Failed(ticket) => {
                    let may_leave = patience == Patience::MayNot && order > 3;
                    assert!(ticket.is_none() || may_leave);
                    self.tickets.extend(ticket);
                    break;
                }
                Step::WakeKswapd(asked) => assert_eq!(asked.order, order),
                // Invariant 27.
                Step::Wait(_) | Step::Reclaim | Step::Compact(_) => assert_eq!(patience, Patience::MayWait),
            }
        }
        assert!(self.node.free_frames() >= before, "a request that failed took nothing");
    }

    fn show_ticket(&mut self, pick: usize) {
        if self.tickets.is_empty() {
            return;
        }
        let ticket = self.tickets[pick % self.tickets.len()];
        match self.node.fetch(ticket) {
            Fetched::Waiting => return,
            Fetched::Void => (),
            Fetched::Frame(frame) => {
                let used = self.node.zone_of(frame).used(frame).expect("it was kept");
                self.own(frame, used.order, used.mobility);
            }
        }
        self.tickets.retain(|&other| other != ticket);
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Take { zone, order, kind, count } => {
                for _ in 0..count {
                    let Some(frame) = self.node.zone(zone).and_then(|zone| zone.take(order, kind)) else {
                        let zone = self.node.zone(zone).expect("it is there");
                        assert!((order..=ORDER_MAX).all(|order| zone.free_runs(order) == 0), "there is one");
                        break;
                    };
                    self.own(frame, order, kind);
                }
            }
            Op::TakeAtHand { zone, cpu, kind, count } => {
                let zone = *self.node.zone(zone).expect("it is there");
                (0..count)
                    .map_while(|_| zone.take_at_hand(cpu, kind))
                    .for_each(|frame| self.own(frame, 0, kind));
            }
            Op::GiveBack { pick, cpu } => self.give_back(pick, cpu),
            Op::GiveBackMany { count } => {
                (0..count).for_each(|pick| self.give_back(pick * 7, Some(pick as u32 & 1)))
            }
            Op::Request { order, kind, patience } => self.request(order, kind, patience),
            Op::Drain => {
                self.node.zones().for_each(Zone::drain);
                assert!(self.node.zones().all(|zone| zone.frames_at_hand() == 0));
            }
            Op::Compact { busy_in } => self.compact(busy_in),
            Op::Abandon => {
                self.finish_batch(2);
                if let Some((number, mut run)) = self.run.take() {
                    let zone = self.node.zone(number).expect("it is there");
                    run.abandon(zone);
                    zone.check_nothing_is_isolated();
                }
            }
            Op::ForgetSkipped => self.node.zones().for_each(Zone::forget_skipped),
            Op::LeaveTicket { kind } => {
                let wanted = Wanted { order: ORDER_MAX, mobility: kind, class: 1 };
                self.tickets.extend(self.node.tickets().leave(wanted, self.now_ms));
            }
            Op::FillTickets => {
                self.node.fill_tickets(Room::Ample);
            }
            Op::ShowTicket { pick } => self.show_ticket(pick),
            Op::Wait { ms } => {
                self.now_ms += ms;
                self.node.clear_void_tickets(self.now_ms);
            }
        }
    }

    fn check(&self) {
        self.node.zones().for_each(Zone::check);
        for (&first, &(order, kind)) in &self.owned {
            let used =
                self.node.zone_of(FrameId::new(first)).used(FrameId::new(first)).expect("its owner has it");
            assert_eq!((used.order, used.mobility), (order, kind));
            assert!(matches!(used.holder, Holder::User | Holder::Leaving));
            assert!(!used.is_given_back);
        }
        assert_eq!(self.owned.len(), self.content.len());
    }
}

/// Each step of a list against the model; then everything is given back and all blocks are whole again.
pub(super) fn run(ops: Vec<Op>) {
    let memory = Memory::new();
    let mut model = Model {
        node: memory.node(),
        owned: BTreeMap::new(),
        content: BTreeMap::new(),
        written: 0,
        run: None,
        tickets: Vec::new(),
        now_ms: 0,
    };
    for op in ops {
        model.apply(op);
        model.check();
    }
    model.apply(Op::Abandon);
    while !model.owned.is_empty() {
        model.give_back(0, None);
    }
    model.apply(Op::Wait { ms: 10_000 });
    model.apply(Op::Drain);
    model.check();
    for (zone, shape) in model.node.zones().zip(SHAPES) {
        assert_eq!(zone.free_runs(ORDER_MAX), shape.blocks, "all blocks are whole again");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 192, ..ProptestConfig::default() })]
    #[test]
    fn runs_are_those_of_the_model(ops in prop::collection::vec(operation(), 1..60)) {
        run(ops);
    }
}

fn one_zone(test: impl FnOnce(Zone<'_>)) {
    let shape = Shape { first: FrameId::new(0), blocks: 8, cpus: 1 };
    let words: Vec<AtomicU64> = (0..shape.words()).map(|_| AtomicU64::new(0)).collect();
    test(Zone::create(&words, shape));
}

#[test]
fn compaction_empties_the_block_that_takes_the_fewest_moves() {
    one_zone(|zone| {
        let single: Vec<FrameId> =
            (0..8 * BLOCK_FRAMES).map(|_| zone.take(0, Mobility::Movable).expect("room")).collect();
        let block = |number: u32| single.iter().filter(move |frame| frame.number() / BLOCK_FRAMES == number);
        // Block 2 keeps 100 pages, block 5 keeps 10, every other one all but 64.
        for number in 0..8 {
            let keep = match number {
                2 => 100,
                5 => 10,
                _ => 448,
            };
            block(number).skip(keep).for_each(|&frame| zone.give_back(frame));
        }
        let mut run = Run::new(1);
        while run.next(&zone) == Next::Move {
            run.moves().collect::<Vec<_>>().into_iter().for_each(|one| {
                assert_eq!(one.from.number() / BLOCK_FRAMES, 5);
                assert!(![2, 5].contains(&(one.to.number() / BLOCK_FRAMES)), "a hole in a fuller block");
                run.finish(&zone, one, Moved::Yes);
            });
        }
        let counts = run.counts();
        assert_eq!((counts.moved, counts.emptied, counts.in_vain), (10, 1, 0));
        assert!(counts.migrate_scanned <= 3 * 512 && counts.free_scanned < 50, "{counts:?}");
        assert_eq!(zone.free_runs(ORDER_MAX), 1);
        zone.check();
    });
}

#[test]
fn a_block_that_cannot_be_emptied_is_left_alone_until_marks_are_cleared() {
    one_zone(|zone| {
        let single: Vec<FrameId> =
            (0..8 * BLOCK_FRAMES).map(|_| zone.take(0, Mobility::Movable).expect("room")).collect();
        single.iter().filter(|frame| frame.number() % 2 == 0).for_each(|&frame| zone.give_back(frame));
        let mut run = Run::new(1);
        while run.next(&zone) == Next::Move {
            run.moves().collect::<Vec<_>>().into_iter().for_each(|one| run.finish(&zone, one, Moved::Busy));
        }
        assert_eq!(run.counts().moved, 0, "{:?}", run.counts());
        assert_eq!(zone.skipped_blocks(), 8);
        assert!(!zone.has_source());
        zone.check_nothing_is_isolated();
        zone.kswapd_sleeps();
        assert!(!zone.has_source(), "nobody said that something changed");
        zone.forget_skipped_soon();
        zone.kswapd_sleeps();
        assert!(zone.has_source());
        zone.check();
    });
}

#[test]
fn unmovable_runs_stay_together() {
    one_zone(|zone| {
        let mut pinned = Vec::new();
        for step in 0..2000 {
            zone.take(0, Mobility::Movable).expect("room");
            if step % 10 == 0 {
                pinned.push(zone.take(0, Mobility::Unmovable).expect("room").number() / BLOCK_FRAMES);
            }
        }
        pinned.dedup();
        assert_eq!(pinned.len(), 1, "200 pages fit into one block");
        assert_eq!(zone.mixed(), (1, 0));
        assert_eq!(zone.boost(), 0, "a whole block was taken over: nothing is mixed");
    });
}
