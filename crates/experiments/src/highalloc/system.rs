//! The machine's memory with one way to make room: that of a column. What jobs, the test, kswapd and kcompactd call.

use uswap_sync::AtomicU64;
use uswap_zones::FrameId;
use uswap_zones::compaction::daemon::{By, Daemon, Next as Work};
use uswap_zones::compaction::rules::{Suitability, suitability};
use uswap_zones::compaction::run::{Next as Step, Run};
use uswap_zones::kswapd::{Balance, Force, Next as Reclaim};
use uswap_zones::marks::{Mark, Reach};
use uswap_zones::node::{Attempt, Patience, Request, Step as RequestStep, Urgency, may_give};
use uswap_zones::room::Room;
use uswap_zones::tickets::{Fetched, Ticket};
use uswap_zones::wake::{Asked, Requests, Sleep, Wake};
use uswap_zones::{Mobility, ORDER_MAX};

use super::before::Before;
use super::before::scanners::Mode;
use super::memory::{Memory, Shrunk};
use super::turn::{Then, Turn};
use super::{CLASS, Column, prices};

/// Ours.
struct Ours {
    kswapd: AtomicU64,
    kcompactd: AtomicU64,
    balance: Option<Balance>,
    daemon: Daemon,
    is_compacting: bool,
}

enum Way {
    Before(Box<Before>),
    Ours(Box<Ours>),
}

/// What a request for a block has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Got {
    /// It has one.
    Frame(FrameId),
    /// It has none.
    Nothing,
    /// It waits until kcompactd has one, but not longer than this.
    WaitUntil(u64),
}

/// A request for a block on its way.
pub struct BlockRequest {
    request: Request,
    attempt: Attempt,
}

/// So long a request that may wait gives kcompactd a chance.
const PATIENCE_NS: u64 = 50_000_000;

/// See above.
pub struct System<'a> {
    /// The memory.
    pub memory: Memory<'a>,
    way: Way,
    /// kswapd was woken and has not run.
    pub kswapd_is_woken: bool,
    /// kcompactd was woken and has not run.
    pub kcompactd_is_woken: bool,
    /// What the test has left, to be shown with its next request.
    ticket: Option<Ticket>,
}

impl<'a> System<'a> {
    /// The memory, with the way of this column.
    pub fn new(memory: Memory<'a>, column: Column) -> System<'a> {
        let way = match column {
            Column::Base | Column::Kcompactd | Column::WithOrder => {
                Way::Before(Box::new(Before::new(column, &memory)))
            }
            Column::Ours => Way::Ours(Box::new(Ours {
                kswapd: AtomicU64::new(0),
                kcompactd: AtomicU64::new(0),
                balance: None,
                daemon: Daemon::default(),
                is_compacting: false,
            })),
        };
        System { memory, way, kswapd_is_woken: false, kcompactd_is_woken: false, ticket: None }
    }

    fn wake_kswapd(&mut self, asked: Asked) {
        self.kswapd_is_woken |= match &mut self.way {
            Way::Before(before) => before.wake_kswapd(&self.memory, asked),
            Way::Ours(ours) => Requests(&ours.kswapd).ask(asked) == Wake::Needed,
        };
    }

    /// kswapd goes on.
    pub fn kswapd_turn(&mut self, now: u64) -> Turn {
        let turn = match &mut self.way {
            Way::Before(before) => {
                let turn = before.kswapd_turn(&mut self.memory, now);
                self.kcompactd_is_woken |= turn.wakes_kcompactd.is_some();
                turn
            }
            Way::Ours(ours) => ours.kswapd_turn(&mut self.memory, now, &mut self.kcompactd_is_woken),
        };
        self.memory.counts.kswapd_ns += turn.ns;
        turn
    }
    /// kcompactd goes on.
    pub fn kcompactd_turn(&mut self, now: u64) -> Turn {
        let turn = match &mut self.way {
            Way::Before(before) => before.kcompactd_turn(&mut self.memory),
            Way::Ours(ours) => ours.kcompactd_turn(&mut self.memory, now, &mut self.kswapd_is_woken),
        };
        self.memory.counts.kcompactd_ns += turn.ns;
        turn
    }

    /// A small request. Returns the time it took beyond the usual.
    pub fn take(&mut self, order: u32, mobility: Mobility, cpu: u32, now: u64) -> (Option<FrameId>, u64) {
        let patience = Patience::MayWait;
        let request = Request { order, mobility, class: CLASS, cpu, patience, urgency: Urgency::Normal };
        if let Some(frame) = self.memory.node.take(&request, Mark::Low, Reach::Mark) {
            return (Some(frame), 0);
        }
        let mut ns = prices::SLOW_PATH_NS;
        let mut attempt = Attempt::new(request);
        let (mut progress, mut stalls) = (0, 0);
        loop {
            match attempt.next(&self.memory.node, now / 1_000_000, progress) {
                RequestStep::Got(frame) => {
                    self.memory.counts.stalled_ns += ns;
                    return (Some(frame), ns);
                }
                RequestStep::Failed(_) => return (None, ns),
                RequestStep::WakeKswapd(asked) => self.wake_kswapd(asked),
                RequestStep::Reclaim => {
                    let shrunk = self.reclaim_directly(now);
                    stalls += 1;
                    self.memory.counts.alloc_stalls += u64::from(stalls == 1);
                    (progress, ns) = (shrunk.reclaimed, ns + shrunk.ns);
                }
                RequestStep::Compact(order) => {
                    let asked = Asked { order, class: CLASS };
                    ns += self.compact_directly(asked, Mode::Light, &request).1;
                }
                RequestStep::Wait(_) => unreachable!("it is small"),
            }
        }
    }

    fn reclaim_directly(&mut self, now: u64) -> Shrunk {
        let mut all = Shrunk::default();
        for priority in (0..=12).rev() {
            for zone in (0..=CLASS).rev() {
                all += self.memory.shrink(zone, priority, 32, true, now);
            }
            if all.reclaimed >= 32 {
                break;
            }
        }
        self.memory.counts.direct_scanned += all.scanned;
        all
    }

    /// Compacts for a request, and takes what it wants if that is there then.
    fn compact_directly(&mut self, asked: Asked, mode: Mode, request: &Request) -> (Option<FrameId>, u64) {
        let (ns, was_tried) = match &mut self.way {
            Way::Before(before) => before.compact_directly(&mut self.memory, asked, mode),
            Way::Ours(_) => compact_one_block(&mut self.memory),
        };
        if !was_tried {
            return (None, ns);
        }
        self.memory.counts.compact_stalls += 1;
        let got = self.memory.node.take(request, Mark::Min, reach_of(request));
        self.memory.counts.compact_success += u64::from(got.is_some());
        (got, ns)
    }

    /// A job touches the first page of 2 MiB. Returns a huge page if there is one, and the time it took.
    pub fn take_huge(&mut self, cpu: u32) -> (Option<FrameId>, u64) {
        let request = Request {
            order: ORDER_MAX,
            mobility: Mobility::Movable,
            class: CLASS,
            cpu,
            patience: Patience::MayWait,
            urgency: Urgency::Normal,
        };
        self.memory.counts.huge_wanted += 1;
        let node = self.memory.node;
        let mut ns = 0;
        let got = node.take(&request, Mark::Low, Reach::Mark).or_else(|| {
            if matches!(self.way, Way::Ours(_)) {
                // It can do with single pages, so it does not wait, and nobody works for it.
                return None;
            }
            // As 4.4 by default: it compacts without waiting, and does not wake kswapd.
            node.take(&request, Mark::Min, Reach::Mark).or_else(|| {
                let (got, took) = self.compact_directly(request.asked(), Mode::Async, &request);
                ns += prices::SLOW_PATH_NS + took;
                got
            })
        });
        self.memory.counts.stalled_ns += ns;
        self.memory.counts.huge_faults += u64::from(got.is_some());
        (got, if got.is_some() { ns + prices::HUGE_NS } else { ns })
    }

    /// The test asks for a block of unmovable memory.
    pub fn begin_block(patience: Patience) -> BlockRequest {
        let request = Request {
            order: ORDER_MAX,
            mobility: Mobility::Unmovable,
            class: CLASS,
            cpu: 0,
            patience,
            urgency: Urgency::High,
        };
        BlockRequest { request, attempt: Attempt::new(request) }
    }
    /// The test's request goes on. Returns what became of it, and the time it took.
    pub fn next_block(&mut self, block: &mut BlockRequest, now: u64) -> (Got, u64) {
        match self.way {
            Way::Before(_) => self.next_block_before(block.request, now),
            Way::Ours(_) => self.next_block_ours(block, now),
        }
    }

    fn next_block_before(&mut self, request: Request, now: u64) -> (Got, u64) {
        let node = self.memory.node;
        if let Some(frame) = node.take(&request, Mark::Low, Reach::Mark) {
            return (Got::Frame(frame), 0);
        }
        self.wake_kswapd(request.asked());
        let reach = reach_of(&request);
        if let Some(frame) = node.take(&request, Mark::Min, reach) {
            return (Got::Frame(frame), prices::SLOW_PATH_NS);
        }
        if request.patience == Patience::MayNot {
            return (Got::Nothing, prices::SLOW_PATH_NS);
        }
        let (got, mut ns) = self.compact_directly(request.asked(), Mode::Async, &request);
        let got = got.or_else(|| {
            self.memory.counts.alloc_stalls += 1;
            ns += self.reclaim_directly(now).ns;
            node.take(&request, Mark::Min, reach)
        });
        let got = got.or_else(|| {
            let (got, took) = self.compact_directly(request.asked(), Mode::Light, &request);
            ns += took;
            got
        });
        (got.map_or(Got::Nothing, Got::Frame), ns)
    }

    fn next_block_ours(&mut self, block: &mut BlockRequest, now: u64) -> (Got, u64) {
        if let Some(ticket) = self.ticket.take() {
            match self.memory.node.fetch(ticket) {
                Fetched::Frame(frame) => {
                    self.ticket = self.memory.node.leave_next(&block.request, now / 1_000_000);
                    self.wake_kswapd(block.request.asked());
                    self.wake_kcompactd_for_request(block.request.asked());
                    return (Got::Frame(frame), prices::SLOW_PATH_NS);
                }
                // A new one would be behind it.
                Fetched::Waiting => self.memory.node.withdraw(ticket),
                Fetched::Void => (),
            }
        }
        let (mut ns, mut progress) = (0, 0);
        loop {
            match block.attempt.next(&self.memory.node, now / 1_000_000, progress) {
                RequestStep::Got(frame) => return (Got::Frame(frame), ns),
                RequestStep::Failed(ticket) => {
                    self.ticket = ticket;
                    return (Got::Nothing, ns);
                }
                RequestStep::WakeKswapd(asked) => {
                    ns += prices::SLOW_PATH_NS;
                    self.wake_kswapd(asked);
                    self.wake_kcompactd_for_request(asked);
                }
                RequestStep::Wait(_) => return (Got::WaitUntil(now + PATIENCE_NS), ns),
                RequestStep::Reclaim => {
                    self.memory.counts.alloc_stalls += 1;
                    let shrunk = self.reclaim_directly(now);
                    (progress, ns) = (shrunk.reclaimed, ns + shrunk.ns);
                }
                RequestStep::Compact(order) => {
                    let request = block.request;
                    let (got, took) =
                        self.compact_directly(Asked { order, class: CLASS }, Mode::Light, &request);
                    ns += took;
                    if let Some(frame) = got {
                        return (Got::Frame(frame), ns);
                    }
                }
            }
        }
    }

    /// There may be room already, in pieces: then kswapd has nothing to do, and kcompactd has.
    fn wake_kcompactd_for_request(&mut self, asked: Asked) {
        let Way::Ours(ours) = &mut self.way else { return };
        if !uswap_zones::kswapd::is_balanced(&self.memory.node, asked) {
            return;
        }
        ours.daemon.ask(asked, By::Request);
        self.kcompactd_is_woken |= Requests(&ours.kcompactd).ask(asked) == Wake::Needed;
    }

    /// A request of the test is over: what it had is freed.
    pub fn free_block(&mut self, frame: FrameId) {
        self.memory.node.give_back(0, frame);
    }
    /// The test is over.
    pub fn end_test(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.memory.node.withdraw(ticket);
        }
    }

    /// All counters, those of kcompactd among them.
    pub fn counts(&self) -> super::counts::Counts {
        let mut counts = self.memory.counts;
        if let Way::Ours(ours) = &self.way {
            let done = ours.daemon.counts();
            counts.migrated += done.moved;
            counts.migrate_failed += done.busy;
            counts.isolated += done.isolated;
            counts.migrate_scanned += done.migrate_scanned;
            counts.free_scanned += done.free_scanned;
        }
        counts
    }
}

fn reach_of(request: &Request) -> Reach {
    match (request.urgency, request.patience) {
        (Urgency::Normal, _) => Reach::Mark,
        (Urgency::High, Patience::MayWait) => Reach::Half,
        (Urgency::High, Patience::MayNot) => Reach::ThreeEighths,
    }
}

/// A request empties a block itself, in the highest zone where that works.
fn compact_one_block(memory: &mut Memory<'_>) -> (u64, bool) {
    let (mut ns, mut was_tried) = (0, false);
    for number in (0..=CLASS).rev() {
        let zone = memory.zone(number);
        let asked = Asked { order: ORDER_MAX, class: CLASS };
        let may_give = may_give(&zone, asked, Room::of(&memory.working_set));
        if !may_give || suitability(&zone, ORDER_MAX, CLASS) != Suitability::Worthwhile {
            continue;
        }
        was_tried = true;
        let mut run = Run::new(1);
        while run.next(&zone) == Step::Move {
            for one in run.moves() {
                let how = memory.try_move(one);
                ns += prices::MOVE_NS << one.order;
                run.finish(&zone, one, how);
            }
        }
        let done = run.counts();
        ns += done.migrate_scanned * prices::LOOK_AT_FRAME_NS + done.free_scanned * prices::LOOK_FOR_ROOM_NS;
        let counts = &mut memory.counts;
        counts.migrated += done.moved;
        counts.migrate_failed += done.busy;
        counts.isolated += done.isolated;
        counts.migrate_scanned += done.migrate_scanned;
        counts.free_scanned += done.free_scanned;
        if done.emptied > 0 {
            break;
        }
    }
    (ns, was_tried)
}

impl Ours {
    fn kswapd_turn(&mut self, memory: &mut Memory<'_>, now: u64, kcompactd_is_woken: &mut bool) -> Turn {
        let mut ns = 0;
        while ns < prices::QUANTUM_NS {
            let Some(balance) = &mut self.balance else {
                match Requests(&self.kswapd).take() {
                    Some(asked) => {
                        self.balance = Some(Balance::new(&memory.node, asked, Room::of(&memory.working_set)))
                    }
                    None if Requests(&self.kswapd).sleep() == Sleep::Now => {
                        return Turn::of(ns + prices::WAKE_NS, Then::Sleep);
                    }
                    None => (),
                }
                continue;
            };
            match balance.next(&memory.node) {
                Reclaim::Shrink(shrink) => {
                    let may_write = shrink.force == Force::Full;
                    let done = memory.shrink(shrink.zone, shrink.priority, shrink.frames, may_write, now);
                    memory.counts.kswapd_scanned += done.scanned;
                    memory.counts.kswapd_reclaimed += done.reclaimed;
                    ns += done.ns + prices::LOOK_AT_PAGE_NS;
                    balance.shrunk(done.scanned, done.reclaimed);
                }
                Reclaim::Finished(balanced) => {
                    self.balance = None;
                    memory.node.zones().for_each(|zone| zone.kswapd_sleeps());
                    let order = if balanced.was_boosted { ORDER_MAX } else { balanced.asked.order };
                    if order > 0 {
                        let asked = Asked { order, ..balanced.asked };
                        self.daemon.ask(asked, By::Kswapd);
                        *kcompactd_is_woken |= Requests(&self.kcompactd).ask(asked) == Wake::Needed;
                    }
                }
            }
        }
        Turn::of(ns, Then::GoOn)
    }

    fn kcompactd_turn(&mut self, memory: &mut Memory<'_>, now: u64, kswapd_is_woken: &mut bool) -> Turn {
        let mut ns = 0;
        if !self.is_compacting {
            self.is_compacting = true;
            memory.counts.daemon_wakes += 1;
        }
        let before = self.daemon.counts();
        while ns < prices::QUANTUM_NS {
            // What is asked is with the daemon already.
            let _ = Requests(&self.kcompactd).take();
            match self.daemon.next(&memory.node, now / 1_000_000, Room::of(&memory.working_set)) {
                Work::Move => {
                    for one in self.daemon.moves() {
                        let how = memory.try_move(one);
                        ns += prices::MOVE_NS << one.order;
                        self.daemon.finish(&memory.node, one, how);
                    }
                    continue;
                }
                Work::NeedsReclaim(asked) => {
                    *kswapd_is_woken |= Requests(&self.kswapd).ask(asked) == Wake::Needed;
                }
                Work::Idle => (),
            }
            if Requests(&self.kcompactd).sleep() == Sleep::Now {
                self.is_compacting = false;
                return Turn::of(ns + self.looked_ns(before) + prices::WAKE_NS, Then::Sleep);
            }
        }
        Turn::of(ns + self.looked_ns(before), Then::GoOn)
    }

    fn looked_ns(&self, before: uswap_zones::compaction::run::Counts) -> u64 {
        let after = self.daemon.counts();
        (after.migrate_scanned - before.migrate_scanned) * prices::LOOK_AT_FRAME_NS
            + (after.free_scanned - before.free_scanned) * prices::LOOK_FOR_ROOM_NS
    }
}
