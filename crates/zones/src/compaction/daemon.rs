//! What kcompactd does: fills tickets, makes a run of the order that kswapd was asked for, and keeps free memory in
//! whole blocks if it is told to.
//!
//! A state machine; the caller moves: `next -> Move -> the caller moves and tells `finish` -> next -> ... ->
//! NeedsReclaim or Idle`. It sleeps after either, until it is woken: by kswapd when that has reached its marks, by a
//! request when there is room but in pieces.

use super::rules::{Suitability, suitability};
use super::run::{Counts, Next as Step, Outcome, Run};
use super::{Move, Moved};
use crate::node::{Node, may_give};
use crate::room::Room;
use crate::wake::Asked;
use crate::{ORDER_MAX, ZONES_MAX, Zone};

/// What comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// What [`Daemon::moves`] says is to be tried.
    Move,
    /// Nothing can be done before kswapd has made room for this.
    NeedsReclaim(Asked),
    /// Nothing is to be done.
    Idle,
}

/// Who wakes kcompactd.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// A request that found kswapd with nothing to do.
    Request,
    /// kswapd, that has done what it could: it is not asked again for the same.
    Kswapd,
}

/// See above.
#[derive(Clone, Debug, Default)]
pub struct Daemon {
    run: Option<(usize, Run)>,
    /// Zones that cannot help with what is asked now.
    is_done: [bool; ZONES_MAX],
    asked: Option<Asked>,
    /// kswapd was asked for room already, by who woke it, or is what woke this.
    has_room_been_asked: bool,
    counts: Counts,
    filled: u64,
}

impl Daemon {
    /// It is woken for this.
    pub fn ask(&mut self, asked: Asked, by: By) {
        self.has_room_been_asked = by == By::Kswapd;
        self.asked = Some(self.asked.map_or(asked, |before| before.joined(asked)));
        self.is_done = [false; ZONES_MAX];
    }
    /// What it has done since the start.
    pub fn counts(&self) -> Counts {
        let mut counts = self.counts;
        if let Some((_, run)) = &self.run {
            counts += run.counts();
        }
        counts
    }
    /// Tickets that it has filled.
    pub fn filled(&self) -> u64 {
        self.filled
    }

    /// The moves of the last batch.
    pub fn moves(&self) -> impl Iterator<Item = Move> + use<> {
        self.run.as_ref().map(|(_, run)| run.moves()).into_iter().flatten()
    }

    /// A move of the last batch was tried.
    pub fn finish(&mut self, node: &Node<'_>, one: Move, how: Moved) {
        let (number, run) = self.run.as_mut().expect("a batch is of a run");
        run.finish(node.zone(*number).expect("the run is in a zone"), one, how);
    }

    /// Every move of the last batch was finished. While room is tight it works only with what nobody else needs.
    pub fn next(&mut self, node: &Node<'_>, now_ms: u64, room: Room) -> Next {
        node.clear_void_tickets(now_ms);
        loop {
            self.fill(node, room);
            if let Some((number, mut run)) = self.run.take() {
                let zone = node.zone(number).expect("the run is in a zone");
                match run.next(zone) {
                    Step::Move => {
                        self.run = Some((number, run));
                        // What was emptied meanwhile goes to who waits for it before anybody else can ask.
                        self.fill(node, room);
                        return Next::Move;
                    }
                    Step::Finished(outcome) => {
                        self.counts += run.counts();
                        self.is_done[number] = !note(zone, outcome);
                    }
                }
                continue;
            }
            let Some(wanted) = self.wanted(node) else {
                self.asked = None;
                return Next::Idle;
            };
            if let Some(stopped) = self.start(node, wanted, room) {
                return stopped;
            }
        }
    }

    fn fill(&mut self, node: &Node<'_>, room: Room) {
        let filled = node.fill_tickets(room);
        if filled > 0 {
            self.filled += u64::from(filled);
            // Who left a ticket is who asked kswapd.
            self.asked = None;
        }
    }

    /// Tickets first, then what kswapd was asked for.
    fn wanted(&self, node: &Node<'_>) -> Option<Asked> {
        let tickets =
            node.tickets().waiting().map(|(_, wanted)| Asked { order: wanted.order, class: wanted.class });
        tickets.reduce(Asked::joined).or_else(|| self.asked.filter(|asked| asked.order > 0))
    }

    /// Begins a run in the highest zone where one is worth while. Some: there is none.
    fn start(&mut self, node: &Node<'_>, wanted: Asked, room: Room) -> Option<Next> {
        let has_tickets = node.tickets().waiting().next().is_some();
        let mut needs_reclaim = false;
        for number in (0..=wanted.class).rev() {
            let Some(zone) = node.zone(number) else { continue };
            if self.is_done[number] {
                continue;
            }
            let suitability = suitability(zone, wanted.order, wanted.class);
            needs_reclaim |= suitability == Suitability::NeedsReclaim && zone.has_source();
            match suitability {
                Suitability::IsThere if !has_tickets => {
                    self.asked = None;
                    return Some(Next::Idle);
                }
                Suitability::Worthwhile
                    if may_give(zone, wanted, room) && !is_put_off(zone, wanted.order) =>
                {
                    self.run = Some((number, Run::new(1)));
                    return None;
                }
                _ => (),
            }
        }
        self.asked = None;
        let may_ask = !core::mem::replace(&mut self.has_room_been_asked, true);
        Some(if needs_reclaim && may_ask { Next::NeedsReclaim(wanted) } else { Next::Idle })
    }
}

fn is_put_off(zone: &Zone<'_>, order: u32) -> bool {
    let mut deferral = zone.deferral();
    let is_put_off = deferral.puts_off(order);
    if deferral.is_at_its_end() {
        zone.forget_skipped();
    }
    zone.set_deferral(deferral);
    is_put_off
}

/// Notes in the zone how a run ended. Returns whether it helped.
fn note(zone: &Zone<'_>, outcome: Outcome) -> bool {
    let mut deferral = zone.deferral();
    match outcome {
        Outcome::Reached => deferral.succeeded(ORDER_MAX),
        Outcome::NoSource | Outcome::NoHole | Outcome::InVain => {
            zone.forget_skipped_soon();
            deferral.failed(ORDER_MAX);
        }
    }
    zone.set_deferral(deferral);
    outcome == Outcome::Reached
}
