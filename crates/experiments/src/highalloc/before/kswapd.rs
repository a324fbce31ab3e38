//! kswapd of Linux 4.4, which compacts when it has reclaimed; and the same as the change left it, which leaves that to
//! kcompactd.
//!
//! Without the change (6.6 of the notes on Linux): a zone counts as reclaimed when compaction could work there,
//! compaction waits for more to have been reclaimed than was attempted, and the order of the request is gone when
//! kswapd sleeps. The column `kcompactd` has all of that, and wakes kcompactd with the order that is left: 0.

use uswap_zones::marks::{Mark, Reach, gap};
use uswap_zones::wake::Asked;
use uswap_zones::{Level, Zone};

use super::scanners::{Mode, Positions, Run};
use super::{Suitable, suitable};
use crate::highalloc::memory::Memory;
use crate::highalloc::turn::{Then, Turn};
use crate::highalloc::{Column, prices};

/// Between the end of a balance and real sleep.
const NAP_NS: u64 = 100_000_000;

const PRIORITY_FIRST: u32 = 12;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Asleep,
    Balancing,
    Napping,
}

/// See above.
pub struct Kswapd {
    column: Column,
    state: State,
    requested: Option<Asked>,
    /// What it works on: the order may fall to 0.
    now: Asked,
    /// What was asked.
    asked: Asked,
    priority: u32,
}

impl Kswapd {
    /// It sleeps.
    pub fn new(column: Column) -> Kswapd {
        let nothing = Asked { order: 0, class: 0 };
        Kswapd {
            column,
            state: State::Asleep,
            requested: None,
            now: nothing,
            asked: nothing,
            priority: PRIORITY_FIRST,
        }
    }

    fn keeps_order(&self) -> bool {
        self.column == Column::WithOrder
    }

    /// Whether a zone has enough. With the change: single pages, and room for the run on top, but for the choice of
    /// zones.
    fn is_zone_balanced(&self, zone: &Zone<'_>, asked: Asked, more: u64, is_for_run: bool) -> bool {
        let Asked { order, class } = asked;
        let level = Level { order, class, mark: Mark::High, reach: Reach::Mark, more };
        if self.keeps_order() && !is_for_run {
            return zone.is_above(Level { order: 0, more: more + (1 << order), ..level });
        }
        zone.is_above(level)
            && (order == 0 || self.keeps_order() || suitable(zone, order, class) != Suitable::Skipped)
    }
    /// For single pages each zone; for a run a quarter of the memory.
    fn is_balanced(&self, memory: &Memory<'_>, asked: Asked) -> bool {
        let (mut balanced, mut all, mut is_each) = (0, 0, true);
        for number in 0..=asked.class {
            let zone = memory.zone(number);
            let frames = u64::from(zone.shape().frames());
            all += frames;
            let own = Asked { order: asked.order, class: number };
            if memory.reclaimable(number) == 0 || self.is_zone_balanced(&zone, own, 0, false) {
                balanced += frames;
            } else {
                is_each = false;
            }
        }
        if asked.order == 0 { is_each } else { balanced * 4 >= all }
    }

    /// Somebody asks. True: it slept, and is woken.
    pub fn wake(&mut self, memory: &Memory<'_>, asked: Asked) -> bool {
        let enough = |number: usize| {
            let zone = memory.zone(number);
            self.is_zone_balanced(&zone, Asked { order: asked.order, class: 0 }, 0, true)
        };
        if (0..=asked.class).all(enough) {
            return false;
        }
        self.requested = Some(self.requested.map_or(asked, |before| before.joined(asked)));
        self.state != State::Balancing
    }

    /// Goes on.
    pub fn turn(&mut self, memory: &mut Memory<'_>, positions: &mut [Positions], now: u64) -> Turn {
        match self.state {
            State::Balancing => self.round(memory, positions, now),
            State::Asleep | State::Napping => {
                if let Some(asked) = self.requested.take() {
                    (self.asked, self.now, self.priority) = (asked, asked, PRIORITY_FIRST);
                    self.state = State::Balancing;
                    return Turn::of(prices::WAKE_NS, Then::GoOn);
                }
                if self.state == State::Asleep {
                    return Turn::of(0, Then::Sleep);
                }
                self.end_nap(memory, positions)
            }
        }
    }

    fn end_nap(&mut self, memory: &mut Memory<'_>, positions: &mut [Positions]) -> Turn {
        // What the change is about: which order kcompactd is told.
        let order = if self.keeps_order() { self.asked.order } else { self.now.order };
        let asked = Asked { order, class: self.asked.class };
        if !self.is_balanced(memory, if self.keeps_order() { asked } else { self.now }) {
            self.state = State::Balancing;
            self.priority = PRIORITY_FIRST;
            return Turn::of(prices::WAKE_NS, Then::GoOn);
        }
        positions.iter_mut().filter(|positions| positions.flush).for_each(Positions::reset);
        self.state = State::Asleep;
        let mut turn = Turn::of(prices::WAKE_NS, Then::Sleep);
        turn.wakes_kcompactd = (self.column != Column::Base).then_some(asked);
        turn
    }

    fn end_balance(&mut self, ns: u64, now: u64) -> Turn {
        self.state = State::Napping;
        Turn::of(ns, Then::At(now + ns + NAP_NS))
    }

    /// One priority.
    fn round(&mut self, memory: &mut Memory<'_>, positions: &mut [Positions], now: u64) -> Turn {
        let Asked { order, class } = self.now;
        let unbalanced = (0..=class)
            .rev()
            .find(|&number| !self.is_zone_balanced(&memory.zone(number), Asked { order, class: 0 }, 0, true));
        let Some(end_zone) = unbalanced else { return self.end_balance(prices::WAKE_NS, now) };
        let (mut ns, mut attempted, mut reclaimed, mut raise) = (0, 0, 0, true);
        let some_has_run =
            (0..=end_zone).any(|number| memory.zone(number).is_above(Level::of(Mark::Low, order, end_zone)));
        let needs_compaction = order > 0 && !self.keeps_order() && !some_has_run;
        for number in 0..=end_zone {
            let zone = memory.zone(number);
            if memory.reclaimable(number) == 0 && self.priority != PRIORITY_FIRST {
                continue;
            }
            let could_compact = suitable(&zone, order, class) != Suitable::Skipped;
            let test = if order > 0 && !self.keeps_order() && could_compact { 0 } else { order };
            let frames = u64::from(zone.shape().frames());
            let margin = zone.marks().low.min(frames.div_ceil(100));
            if self.is_zone_balanced(&zone, Asked { order: test, class: end_zone }, margin, false) {
                raise = false;
                continue;
            }
            let wanted = zone.marks().high.max(32);
            attempted += wanted;
            let shrunk = memory.shrink(number, self.priority, wanted, true, now);
            memory.counts.kswapd_scanned += shrunk.scanned;
            memory.counts.kswapd_reclaimed += shrunk.reclaimed;
            ns += shrunk.ns;
            reclaimed += shrunk.reclaimed;
            raise &= shrunk.scanned < wanted;
        }
        if order > 0 && !self.keeps_order() && reclaimed >= gap(order) {
            self.now.order = 0;
        }
        if needs_compaction && reclaimed > attempted {
            ns += self.compact(memory, positions, Asked { order, class: end_zone });
        }
        if raise || reclaimed == 0 {
            self.priority -= 1;
        }
        if self.priority == 0 || self.is_balanced(memory, self.now) {
            return self.end_balance(ns + prices::WAKE_NS, now);
        }
        Turn::of(ns + prices::WAKE_NS, Then::GoOn)
    }

    fn compact(&self, memory: &mut Memory<'_>, positions: &mut [Positions], asked: Asked) -> u64 {
        let mut ns = 0;
        for (number, positions) in positions.iter_mut().enumerate().take(asked.class + 1) {
            let zone = memory.zone(number);
            let mut deferral = zone.deferral();
            let is_put_off = deferral.puts_off(asked.order);
            zone.set_deferral(deferral);
            if is_put_off || suitable(&zone, asked.order, asked.class) != Suitable::Yes {
                continue;
            }
            let mut run = Run::new(&zone, number, asked, Mode::Async, positions, false);
            loop {
                let (took, end) = run.step(memory, positions);
                ns += took;
                if end.is_some() {
                    break;
                }
            }
            if zone.is_above(Level::of(Mark::Low, asked.order, asked.class)) {
                deferral.succeeded(asked.order);
                zone.set_deferral(deferral);
            }
        }
        ns
    }
}
