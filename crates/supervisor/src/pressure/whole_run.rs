//! How long the run as a whole waits, as Linux's pressure stall information says it of a cgroup. "Some": at least one
//! thread of any process waits for a page. "Full": one waits, and nothing of the run that does not sleep does anything
//! else.
//!
//! The engine counts for each process how long it waits, and nobody counts how much of that is at the same time: a word
//! that all processes write with each fault would tell, and be in the way of them all. So the monitor counts, whenever
//! it looks, how many processes wait at that moment. Of all that they wait, added, the part
//! (looks in which one waited) / (processes that waited in them, added) is time of the run.
//!
//! What must hold: "some" is never more than the processes together, never less than that process which waits most, and
//! never more than the time that has passed; "full" is never more than "some". Neither sum goes back. Of a run in which
//! one process waits "some" is counted. Where several do, it is as exact as the part above, which the monitor finds in
//! 20 to 500 looks a second, the more of them the shorter memory is: within a few in a hundred over ten seconds. A wait
//! is told when it ends, so what is longer than the time since the last question goes to the time that follows.

use std::time::Duration;

use uswap_control::stat::Pressure;

use super::averages::{Averages, Part};

/// So much that was seen earlier counts beside what is new: enough where that is little, and little against the
/// hundreds of looks that are made while memory is short.
const EARLIER_LOOKS: f64 = 16.0;

/// What the processes waited since the last time.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Waited {
    /// All of them, added.
    all_ns: u64,
    /// The one that waited most.
    most_ns: u64,
}

impl Waited {
    /// One process waited so long.
    pub fn add(&mut self, ns: u64) {
        self.all_ns += ns;
        self.most_ns = self.most_ns.max(ns);
    }
}

/// Time that was stalled.
#[derive(Clone, Copy, Default)]
struct Stalled {
    averages: Averages,
    total_ns: f64,
    /// Of that, what the averages have not heard of.
    new_ns: f64,
}

impl Stalled {
    fn add(&mut self, ns: f64) {
        self.total_ns += ns;
        self.new_ns += ns;
    }

    fn carry_on(&mut self, elapsed: Duration) {
        let share = std::mem::take(&mut self.new_ns) / elapsed.as_nanos() as f64;
        self.averages.carry_on(share.min(1.0), elapsed);
    }
}

/// What is known of the run.
#[derive(Default)]
pub struct WholeRun {
    some: Stalled,
    full: Stalled,
    /// What was waited, but does not fit into the time that has passed.
    left_ns: f64,
    /// Looks in which at least one process waited, of all processes that did.
    apart: Part,
    /// Of the looks in which one waited, those in which nothing else was done.
    full_part: Part,
}

impl WholeRun {
    /// At a moment so many processes wait.
    pub fn note_waiting(&mut self, processes: usize) {
        if processes > 0 {
            self.apart.note(1, processes as u32);
        }
    }

    /// At a moment one waits; `is_full`: nothing of the run does anything else.
    pub fn note_full(&mut self, is_full: bool) {
        self.full_part.note(u32::from(is_full), 1);
    }

    /// Takes up what was waited in the time since the last call.
    pub fn take_up(&mut self, waited: Waited, elapsed: Duration) {
        // Where no look met one, waits are too short to meet each other much.
        let apart = self.apart.share().unwrap_or(1.0);
        let (most, all) = (waited.most_ns as f64, waited.all_ns as f64);
        self.left_ns += (all * apart).max(most);
        let some = self.left_ns.min(elapsed.as_nanos() as f64);
        self.left_ns -= some;
        self.some.add(some);
        self.full.add(some * self.full_part.share().unwrap_or(0.0));
    }

    /// Carries the averages on. Called every two seconds, after [`Self::take_up`].
    pub fn carry_on(&mut self, elapsed: Duration) {
        self.some.carry_on(elapsed);
        self.full.carry_on(elapsed);
        self.apart.grow_old_up_to(EARLIER_LOOKS);
        self.full_part.grow_old();
    }

    /// As it is said.
    pub fn pressure(&self) -> Pressure {
        let [some, full] = [self.some, self.full].map(|line| line.averages.psi(line.total_ns as u64));
        Pressure { some, full }
    }
}

#[cfg(test)]
mod tests;
