//! What kswapd does: reclaims until enough is free, harder and harder, and hands the rest of the work to kcompactd.
//!
//! The order that was asked for and the order for which it reclaims are two values. For a large run it reclaims the
//! room that compaction needs and no more; who wakes kcompactd is told the order that was asked. For a large run it is
//! also gentle: it neither writes nor goes far down the lists, since such a request can do without.
//!
//! A state machine that decides from numbers; the caller reclaims: `next -> Shrink -> the caller reclaims -> shrunk ->
//! next -> ... -> Finished`.

use super::marks::{Mark, Reach, gap};
use super::node::Node;
use super::room::Room;
use super::wake::Asked;
use super::{Level, ZONES_MAX, Zone};

/// At priority `p` a list is looked at by its `1 << p`th part. The first one.
pub const PRIORITY_FIRST: u32 = 12;
/// The last one when what is wanted is a large run, or the boost.
const PRIORITY_GENTLE: u32 = 10;
/// Rounds in a row that brought nothing: the node is hopeless until something is given back.
pub const FAILURES_MAX: u32 = 16;
/// Pages that a round wants at least.
const ROUND_MIN: u64 = 32;

/// How hard to try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Force {
    /// What is clean and was not used lately.
    Gentle,
    /// Also what has to be written.
    Full,
}

/// What is to be reclaimed now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shrink {
    /// From this zone.
    pub zone: usize,
    /// Look at this part of its lists: `1 >> priority`.
    pub priority: u32,
    /// Pages that are enough.
    pub frames: u64,
    /// How hard.
    pub force: Force,
}

/// How a balance ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Balanced {
    /// What was asked for: kcompactd is told this.
    pub asked: Asked,
    /// For which order there is enough now.
    pub order: u32,
    /// There was a boost, and it has been reclaimed: kcompactd should make whole blocks of it.
    pub was_boosted: bool,
    /// Nothing could be reclaimed though it was needed.
    pub has_failed: bool,
}

/// What comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Reclaim, and tell with [`Balance::shrunk`].
    Shrink(Shrink),
    /// Enough is free, or no more can be had.
    Finished(Balanced),
}

/// Whether a zone has enough free frames for single pages.
fn is_balanced_for_pages(zone: &Zone<'_>, class: usize) -> bool {
    zone.is_above(Level::of(Mark::High, 0, class))
}

/// Whether a zone has what a run of this order takes: the run, or the room to make it.
fn has_room(zone: &Zone<'_>, asked: Asked) -> bool {
    let Asked { order, class } = asked;
    let room = Level { order: 0, class, mark: Mark::High, reach: Reach::Mark, more: gap(order) };
    zone.is_above(Level::of(Mark::High, order, class)) || zone.has_frames_above(room)
}

/// Whether nothing need be reclaimed for this. Single pages may come from any zone. A large run can be made only where
/// a block can be emptied; so each such zone has the room.
pub fn is_balanced(node: &Node<'_>, asked: Asked) -> bool {
    let zones = || node.zones().take(asked.class + 1);
    let for_pages = zones().any(|zone| is_balanced_for_pages(zone, asked.class));
    let can_have = |zone: &&Zone<'_>| zone.has_source();
    for_pages && (asked.order == 0 || zones().filter(can_have).all(|zone| has_room(zone, asked)))
}

/// One balance.
#[derive(Clone, Debug)]
pub struct Balance {
    asked: Asked,
    room: Room,
    priority: u32,
    /// The zone whose turn is next in this round.
    zone: usize,
    round_scanned: u64,
    round_reclaimed: u64,
    round_wanted: u64,
    reclaimed: u64,
    boosts: [u64; ZONES_MAX],
}

impl Balance {
    /// For what was asked.
    pub fn new(node: &Node<'_>, asked: Asked, room: Room) -> Balance {
        let boosts = core::array::from_fn(|zone| node.zone(zone).map_or(0, |zone| zone.boost()));
        Balance {
            asked,
            room,
            priority: PRIORITY_FIRST,
            zone: 0,
            round_scanned: 0,
            round_reclaimed: 0,
            round_wanted: 0,
            reclaimed: 0,
            boosts,
        }
    }

    /// What to do.
    pub fn next(&mut self, node: &Node<'_>) -> Next {
        loop {
            let class = self.asked.class;
            let needs_pages = !node.zones().take(class + 1).any(|zone| is_balanced_for_pages(zone, class));
            // At the gentle end the request for a run is given up, the need for pages is not.
            let wants_run = self.asked.order > 0
                && self.room == Room::Ample
                && self.priority >= PRIORITY_GENTLE
                && !is_balanced(node, self.asked);
            if !needs_pages && !wants_run {
                return Next::Finished(self.finished(node));
            }
            let count = node.zones().take(class + 1).count();
            while self.zone < count {
                let zone = self.zone;
                self.zone += 1;
                if let Some(shrink) = self.shrink(node, zone, needs_pages) {
                    self.round_wanted += shrink.frames;
                    return Next::Shrink(shrink);
                }
            }
            if !self.end_round() {
                return Next::Finished(self.finished(node));
            }
        }
    }

    fn shrink(&self, node: &Node<'_>, number: usize, needs_pages: bool) -> Option<Shrink> {
        let zone = node.zone(number)?;
        let class = self.asked.class;
        let (frames, force) = if needs_pages {
            (zone.marks().high + zone.boost(), Force::Full)
        } else if zone.has_source() && !has_room(zone, self.asked) {
            (gap(self.asked.order), Force::Gentle)
        } else {
            return None;
        };
        if needs_pages && is_balanced_for_pages(zone, class) {
            return None;
        }
        Some(Shrink { zone: number, priority: self.priority, frames: frames.max(ROUND_MIN), force })
    }

    /// The caller looked at so many pages, and got so many frames.
    pub fn shrunk(&mut self, scanned: u64, reclaimed: u64) {
        self.round_scanned += scanned;
        self.round_reclaimed += reclaimed;
        self.reclaimed += reclaimed;
    }

    /// False: there is no harder one.
    fn end_round(&mut self) -> bool {
        if self.round_scanned < self.round_wanted || self.round_reclaimed == 0 {
            self.priority -= 1;
        }
        self.zone = 0;
        self.round_scanned = 0;
        self.round_reclaimed = 0;
        self.round_wanted = 0;
        self.priority > 0
    }

    fn finished(&self, node: &Node<'_>) -> Balanced {
        for (zone, boost) in node.zones().zip(self.boosts) {
            zone.take_off_boost(boost);
        }
        let zones = || node.zones().take(self.asked.class + 1);
        let has_run =
            |order| zones().any(|zone| zone.is_above(Level::of(Mark::High, order, self.asked.class)));
        Balanced {
            asked: self.asked,
            order: if has_run(self.asked.order) { self.asked.order } else { 0 },
            was_boosted: self.boosts.iter().any(|&boost| boost > 0),
            has_failed: self.reclaimed == 0 && !has_run(0),
        }
    }
}
