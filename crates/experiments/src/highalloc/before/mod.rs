//! What Linux did about large requests in 4.4 and in the change that brought kcompactd, built from descriptions, for
//! this comparison: [`kswapd`] that compacts itself, [`scanners`] that walk through zones, kcompactd
//! ([`Before::kcompactd_turn`]), and requests that compact for themselves.

pub mod kswapd;
pub mod scanners;
#[cfg(test)]
mod tests;

use uswap_zones::compaction::rules::fragmentation_index;
use uswap_zones::marks::{Mark, Reach, gap};
use uswap_zones::wake::Asked;
use uswap_zones::{Level, Zone};

use super::memory::Memory;
use super::turn::{Then, Turn};
use super::{Column, prices};
use kswapd::Kswapd;
use scanners::{End, Mode, Positions, Run};

/// What could be done for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Suitable {
    /// It should succeed already.
    IsThere,
    /// Compact.
    Yes,
    /// Not enough is free.
    Skipped,
}

/// As 4.4: at the low mark, with twice the run on top.
pub fn suitable(zone: &Zone<'_>, order: u32, class: usize) -> Suitable {
    if zone.is_above(Level::of(Mark::Low, order, class)) {
        return Suitable::IsThere;
    }
    let room = Level { order: 0, class, mark: Mark::Low, reach: Reach::Mark, more: gap(order) };
    let runs = core::array::from_fn(|order| zone.free_runs(order as u32));
    let is_fragmented = fragmentation_index(runs, order).is_none_or(|index| index > 500);
    if zone.has_frames_above(room) && is_fragmented { Suitable::Yes } else { Suitable::Skipped }
}

/// kcompactd of the change.
#[derive(Default)]
struct Kcompactd {
    asked: Option<Asked>,
    is_awake: bool,
    zone: usize,
    run: Option<Run>,
}

/// The state of what is not in the zones.
pub struct Before {
    column: Column,
    positions: Vec<Positions>,
    kswapd: Kswapd,
    kcompactd: Kcompactd,
}

impl Before {
    /// Nothing was done yet.
    pub fn new(column: Column, memory: &Memory<'_>) -> Before {
        let positions = memory.node.zones().map(|zone| Positions::new(zone.shape().blocks)).collect();
        Before { column, positions, kswapd: Kswapd::new(column), kcompactd: Kcompactd::default() }
    }

    /// A request did not find enough above the low mark. True: kswapd is woken.
    pub fn wake_kswapd(&mut self, memory: &Memory<'_>, asked: Asked) -> bool {
        self.kswapd.wake(memory, asked)
    }
    /// kswapd goes on.
    pub fn kswapd_turn(&mut self, memory: &mut Memory<'_>, now: u64) -> Turn {
        let turn = self.kswapd.turn(memory, &mut self.positions, now);
        if let Some(asked) = turn.wakes_kcompactd {
            self.wake_kcompactd(memory, asked);
        }
        turn
    }

    fn wake_kcompactd(&mut self, memory: &mut Memory<'_>, asked: Asked) {
        // For single pages there is nothing to do: that is why the column without the order changes nothing.
        if asked.order == 0 {
            return;
        }
        let is_useful = (0..=asked.class)
            .any(|zone| suitable(&memory.zone(zone), asked.order, asked.class) == Suitable::Yes);
        if self.kcompactd.is_awake || !is_useful {
            return;
        }
        memory.counts.daemon_wakes += 1;
        self.kcompactd = Kcompactd { asked: Some(asked), is_awake: true, zone: 0, run: None };
    }
    /// kcompactd goes on.
    pub fn kcompactd_turn(&mut self, memory: &mut Memory<'_>) -> Turn {
        let Some(asked) = self.kcompactd.asked else { return Turn::of(prices::WAKE_NS, Then::Sleep) };
        let mut ns = 0;
        while ns < prices::QUANTUM_NS {
            if let Some(run) = &mut self.kcompactd.run {
                let zone = memory.zone(run.zone());
                let (took, end) = run.step(memory, &mut self.positions[run.zone()]);
                ns += took;
                let Some(end) = end else { continue };
                let mut deferral = zone.deferral();
                if zone.is_above(Level::of(Mark::Low, asked.order, asked.class)) {
                    deferral.succeeded(asked.order);
                } else if end == End::Complete {
                    zone.drain();
                    deferral.failed(asked.order);
                }
                zone.set_deferral(deferral);
                self.kcompactd.run = None;
                self.kcompactd.zone += 1;
                continue;
            }
            let number = self.kcompactd.zone;
            if number > asked.class {
                self.kcompactd = Kcompactd::default();
                return Turn::of(ns + prices::WAKE_NS, Then::Sleep);
            }
            let zone = memory.zone(number);
            if self.is_put_off(&zone, number, asked.order)
                || suitable(&zone, asked.order, asked.class) != Suitable::Yes
            {
                self.kcompactd.zone += 1;
                ns += prices::LOOK_AT_PAGE_NS;
                continue;
            }
            // The skip marks of the first version were not looked at.
            self.kcompactd.run =
                Some(Run::new(&zone, number, asked, Mode::Light, &self.positions[number], true));
        }
        Turn::of(ns, Then::GoOn)
    }

    fn is_put_off(&mut self, zone: &Zone<'_>, number: usize, order: u32) -> bool {
        let mut deferral = zone.deferral();
        let is_put_off = deferral.puts_off(order);
        if deferral.is_at_its_end() {
            self.positions[number].reset();
        }
        zone.set_deferral(deferral);
        is_put_off
    }

    /// A request compacts for itself. Returns the time, and whether anything was tried.
    pub fn compact_directly(&mut self, memory: &mut Memory<'_>, asked: Asked, mode: Mode) -> (u64, bool) {
        let (mut ns, mut was_tried) = (0, false);
        for number in (0..=asked.class).rev() {
            let zone = memory.zone(number);
            if self.is_put_off(&zone, number, asked.order) {
                continue;
            }
            match suitable(&zone, asked.order, asked.class) {
                Suitable::Skipped => continue,
                Suitable::IsThere => break,
                Suitable::Yes => (),
            }
            was_tried = true;
            let mut run = Run::new(&zone, number, asked, mode, &self.positions[number], false);
            let end = loop {
                let (took, end) = run.step(memory, &mut self.positions[number]);
                ns += took;
                if let Some(end) = end {
                    break end;
                }
            };
            let mut deferral = zone.deferral();
            if zone.is_above(Level::of(Mark::Low, asked.order, asked.class)) {
                deferral.succeeded(asked.order);
                zone.set_deferral(deferral);
                break;
            }
            if end == End::Complete {
                self.positions[number].flush = true;
                if mode == Mode::Light {
                    deferral.failed(asked.order);
                }
            }
            zone.set_deferral(deferral);
        }
        (ns, was_tried)
    }

    /// Which column this is.
    pub fn column(&self) -> Column {
        self.column
    }
}
