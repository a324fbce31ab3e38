//! Several zones and what serves requests from them: which zone, which mark, and what to do when there is nothing.
//!
//! ```text
//! low mark -> wake kswapd -> min mark -> may it wait? no: a ticket, and fail
//!                                          large: wait for the ticket -> reclaim -> compact -> fail
//!                                          small: reclaim -> drain -> compact -> reclaim ... -> fail
//! ```
//! As Linux, but for the tickets: a large request first gives kcompactd its chance, and reclaims and compacts for
//! itself only after that.

use super::marks::{Mark, Reach, gap};
use super::tickets::{Fetched, Ticket, Tickets, Wanted};
use super::wake::Asked;
use super::{COSTLY_ORDER, Frame, Holder, Level, Mobility, Used, ZONES_MAX, Zone};
use crate::FrameId;
use crate::room::Room;

/// Whether who asks can wait for room to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// It can.
    MayWait,
    /// It cannot: it gets what is there, or nothing.
    MayNot,
}

/// How deep into what is kept free it may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Urgency {
    /// To the mark.
    Normal,
    /// Below it.
    High,
}

/// What somebody needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// A run of `1 << order` frames.
    pub order: u32,
    /// Used as this.
    pub mobility: Mobility,
    /// From this zone or a lower one.
    pub class: usize,
    /// By this CPU.
    pub cpu: u32,
    /// See there.
    pub patience: Patience,
    /// See there.
    pub urgency: Urgency,
}

impl Request {
    fn reach(&self) -> Reach {
        match (self.urgency, self.patience) {
            (Urgency::Normal, _) => Reach::Mark,
            (Urgency::High, Patience::MayWait) => Reach::Half,
            (Urgency::High, Patience::MayNot) => Reach::ThreeEighths,
        }
    }
    /// What kswapd is asked for.
    pub fn asked(&self) -> Asked {
        Asked { order: self.order, class: self.class }
    }
    fn wanted(&self) -> Wanted {
        Wanted { order: self.order, mobility: self.mobility, class: self.class }
    }
}

/// View of the zones of a node, the lowest first.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    zones: [Option<Zone<'a>>; ZONES_MAX],
    tickets: Tickets<'a>,
}

impl<'a> Node<'a> {
    /// A node of these zones.
    pub fn new(zones: impl IntoIterator<Item = Zone<'a>>, tickets: Tickets<'a>) -> Node<'a> {
        let mut node = Node { zones: [None; ZONES_MAX], tickets };
        for (place, zone) in zones.into_iter().enumerate() {
            node.zones[place] = Some(zone);
        }
        node
    }
    /// All of them.
    pub fn zones(&self) -> impl DoubleEndedIterator<Item = &Zone<'a>> {
        self.zones.iter().flatten()
    }
    /// One of them.
    pub fn zone(&self, number: usize) -> Option<&Zone<'a>> {
        self.zones.get(number)?.as_ref()
    }
    /// The one that has this frame.
    pub fn zone_of(&self, frame: FrameId) -> &Zone<'a> {
        self.zones().find(|zone| zone.has(frame)).expect("every frame is in a zone")
    }
    /// The tickets of its requests.
    pub fn tickets(&self) -> Tickets<'a> {
        self.tickets
    }
    /// Free frames of all zones.
    pub fn free_frames(&self) -> u64 {
        self.zones().map(Zone::free_frames).sum()
    }

    /// Takes a run from the highest zone that stays above the mark.
    pub fn take(&self, request: &Request, mark: Mark, reach: Reach) -> Option<FrameId> {
        let Request { order, mobility, class, cpu, .. } = *request;
        let level = Level { order, class, mark, reach, more: 0 };
        self.zones[..=class].iter().flatten().rev().filter(|zone| zone.is_above(level)).find_map(|zone| {
            if order == 0 { zone.take_at_hand(cpu, mobility) } else { zone.take(order, mobility) }
        })
    }
    /// Gives back a run.
    pub fn give_back(&self, cpu: u32, frame: FrameId) {
        self.zone_of(frame).give_back_at_hand(cpu, frame);
    }

    /// Fetches what a ticket brought.
    pub fn fetch(&self, ticket: Ticket) -> Fetched {
        let fetched = self.tickets.fetch(ticket);
        if let Fetched::Frame(frame) = fetched {
            self.zone_of(frame).is_the_users(frame);
        }
        fetched
    }
    /// Who fetched a run by a ticket is likely to want another: a ticket for the next one, so that it is ready by then.
    pub fn leave_next(&self, request: &Request, now_ms: u64) -> Option<Ticket> {
        self.tickets.leave(request.wanted(), now_ms)
    }
    /// A ticket is not wanted any more.
    pub fn withdraw(&self, ticket: Ticket) {
        if let Some(frame) = self.tickets.withdraw(ticket) {
            self.zone_of(frame).is_the_users(frame);
            self.zone_of(frame).give_back(frame);
        }
    }
    /// Void tickets are cleared, and what was kept for them goes back.
    pub fn clear_void_tickets(&self, now_ms: u64) {
        while let Some(kept) = self.tickets.clear_void(now_ms) {
            if let Some(frame) = kept {
                self.zone_of(frame).is_the_users(frame);
                self.zone_of(frame).give_back(frame);
            }
        }
    }
    /// Free runs go to tickets that wait, as far as frames stay free above the min mark; while room is tight, above the
    /// high one. Returns how many.
    pub fn fill_tickets(&self, room: Room) -> u32 {
        let mut filled = 0;
        for (ticket, wanted) in self.tickets.waiting() {
            let level = Level::of(Mark::Min, wanted.order, wanted.class);
            let zones = self.zones[..=wanted.class].iter().flatten().rev();
            let asked = Asked { order: wanted.order, class: wanted.class };
            let has_run = |zone: &&Zone<'_>| zone.is_above(level) && may_give(zone, asked, room);
            let Some(zone) = zones.into_iter().find(has_run) else { continue };
            let Some(frame) = zone.take(wanted.order, wanted.mobility) else { continue };
            zone.is_the_tickets(frame);
            if self.tickets.fill(ticket, frame) {
                filled += 1;
            } else {
                zone.is_the_users(frame);
                zone.give_back(frame);
            }
        }
        filled
    }
}

/// While room is tight a large run is given away only where more than one frame in so many is free: what a process has
/// just left is wanted by the next one.
const PLENTY_IN: u64 = 8;

/// Whether a zone may give a large run away.
pub fn may_give(zone: &Zone<'_>, asked: Asked, room: Room) -> bool {
    let Asked { order, class } = asked;
    let more = gap(order) + u64::from(zone.shape().frames()) / PLENTY_IN;
    let plenty = Level { order: 0, class, mark: Mark::High, reach: Reach::Mark, more };
    room == Room::Ample || zone.has_frames_above(plenty)
}

impl Zone<'_> {
    fn set_holder(&self, frame: FrameId, holder: Holder) {
        let at = self.at(frame);
        let Frame::Used(used) = self.frame(at) else { panic!("{frame:?} is used") };
        self.store_frame(at, Frame::Used(Used { holder, ..used }));
    }
    fn is_the_tickets(&self, frame: FrameId) {
        self.set_holder(frame, Holder::Ticket);
    }
    fn is_the_users(&self, frame: FrameId) {
        self.set_holder(frame, Holder::User);
    }
}

/// Rounds of reclaim without progress before a request fails.
const ROUNDS_MAX: u32 = 16;

/// What a request has to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// It has its run.
    Got(FrameId),
    /// Wake kswapd for this; then go on at once.
    WakeKswapd(Asked),
    /// Wait until the ticket is filled, but not long; then go on.
    Wait(Ticket),
    /// Reclaim a batch; then go on and say how much it was.
    Reclaim,
    /// Compact for this order; then go on.
    Compact(u32),
    /// There is none. What was left behind is a ticket: to be shown with the next request of the same kind.
    Failed(Option<Ticket>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Start,
    Woken,
    Waited(Option<Ticket>),
    Reclaimed { rounds: u32 },
    Compacted { rounds: u32 },
}

/// A request on its way.
#[derive(Clone, Debug)]
pub struct Attempt {
    request: Request,
    stage: Stage,
}

impl Attempt {
    /// It begins.
    pub fn new(request: Request) -> Attempt {
        Attempt { request, stage: Stage::Start }
    }

    fn is_large(&self) -> bool {
        self.request.order > COSTLY_ORDER
    }

    /// Goes on. `progress`: frames that the reclaim it asked for has brought.
    pub fn next(&mut self, node: &Node<'_>, now_ms: u64, progress: u64) -> Step {
        if let Stage::Waited(Some(ticket)) = self.stage {
            match node.fetch(ticket) {
                Fetched::Frame(frame) => return Step::Got(frame),
                Fetched::Waiting => node.withdraw(ticket),
                Fetched::Void => (),
            }
        }
        let (mark, reach) = match self.stage {
            Stage::Start => (Mark::Low, Reach::Mark),
            _ => (Mark::Min, self.request.reach()),
        };
        if let Some(frame) = node.take(&self.request, mark, reach) {
            return Step::Got(frame);
        }
        let leave = || self.is_large().then(|| node.tickets().leave(self.request.wanted(), now_ms)).flatten();
        let (stage, step) = match self.stage {
            Stage::Start => (Stage::Woken, Step::WakeKswapd(self.request.asked())),
            Stage::Woken if self.request.patience == Patience::MayNot => {
                (Stage::Woken, Step::Failed(leave()))
            }
            Stage::Woken => match leave() {
                Some(ticket) => (Stage::Waited(Some(ticket)), Step::Wait(ticket)),
                None => (Stage::Reclaimed { rounds: 0 }, Step::Reclaim),
            },
            Stage::Waited(_) => (Stage::Reclaimed { rounds: 0 }, Step::Reclaim),
            Stage::Reclaimed { rounds } => {
                // Frames at hand of other CPUs may be what is missing.
                node.zones().for_each(Zone::drain);
                let rounds = if progress > 0 { 0 } else { rounds + 1 };
                match self.request.order {
                    0 if rounds >= ROUNDS_MAX => (self.stage, Step::Failed(None)),
                    0 => (Stage::Reclaimed { rounds }, Step::Reclaim),
                    order => (Stage::Compacted { rounds }, Step::Compact(order)),
                }
            }
            Stage::Compacted { rounds } if self.is_large() || rounds >= ROUNDS_MAX => {
                (Stage::Compacted { rounds }, Step::Failed(None))
            }
            Stage::Compacted { rounds } => (Stage::Reclaimed { rounds: rounds + 1 }, Step::Reclaim),
        };
        self.stage = stage;
        step
    }
}
