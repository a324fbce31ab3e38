//! Ours: the rule in [`super::rule`], driven by the pages that reclaim takes from RAM, not by how hard it
//! has to look for them.
//!
//! One worker at a time has the hand; who comes meanwhile goes on without.

use super::rule::{self, Bit, Cost, Entries, Hand, Taken, WriteClock};

use super::prices::{DiskKind, PRICES, Prices};
use super::shrinker::{Absence, Pass, Pool, Shrinker, Visit, Why};

/// What is counted of the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Count {
    /// The pages that its blobs take: the better they compress, the later they go.
    Scaled,
    /// Its blobs: one goes when as many pages were taken from RAM as are there.
    Plain,
}

/// The rule.
#[derive(Debug)]
pub struct Ours {
    clock: WriteClock,
    cost: Cost,
    count: Count,
    hand: Hand,
    /// Until then somebody has the hand.
    held_until_ns: u64,
}

impl Ours {
    /// In so much memory, with this disk.
    #[must_use]
    pub fn new(limit_bytes: u64, disk: DiskKind, count: Count) -> Ours {
        let Prices { fault_ns, compress_ns, decompress_ns, unmap_ns, .. } = PRICES;
        let pool_ns = fault_ns + unmap_ns + decompress_ns + compress_ns;
        Ours {
            clock: WriteClock::new(limit_bytes / 4096 / 2),
            cost: Cost { file_ns: fault_ns + disk.transfer_ns + disk.latency_ns, pool_ns },
            count,
            hand: Hand::default(),
            held_until_ns: 0,
        }
    }

    fn is_early(&self, absence: Absence) -> bool {
        let Absence { written, last_written, entries } = absence;
        self.clock.is_early(self.clock.mark(written), last_written, entries)
    }
}

impl Shrinker for Ours {
    fn stored(&mut self, _: u64) {}
    fn asked(&mut self) {}
    fn came_from_disk(&mut self, why: Why, absence: Absence) {
        if why == Why::Asked {
            self.ahead_used(absence);
        }
    }
    fn ahead_used(&mut self, absence: Absence) {
        if self.is_early(absence) {
            self.hand.note_early(1, self.cost, absence.entries);
        }
    }

    fn begin(&mut self, pool: Pool, pass: Pass) -> u64 {
        if pass.now_ns < self.held_until_ns {
            return 0;
        }
        let pages = match self.count {
            Count::Scaled => pool.pages,
            Count::Plain => pool.entries,
        };
        let entries = Entries { count: pool.entries, pages };
        self.hand.passes(entries, Taken { part: pass.taken, whole: pass.in_ram })
    }
    fn may_go_on(&self, _: u64, _: u64, _: Option<u64>) -> bool {
        true
    }
    fn end(&mut self, _: u64, now_ns: u64) {
        self.held_until_ns = self.held_until_ns.max(now_ns);
    }
    fn visit(&mut self, referenced: bool) -> Visit {
        let bit = if referenced { Bit::Referenced } else { Bit::Clear };
        match self.hand.pass(bit) {
            rule::Pass::TakeBit | rule::Pass::Spare => Visit::Spare,
            rule::Pass::Write => Visit::Write,
        }
    }
    fn promotes(&self, absence: Absence) -> bool {
        self.is_early(absence)
    }
}

#[cfg(test)]
mod tests {
    use super::super::prices::SOLID_STATE;
    use super::*;

    const POOL: Pool = Pool { entries: 1000, pages: 1000 };
    fn pass(now_ns: u64) -> Pass {
        Pass { now_ns, priority: 12, taken: 50, in_ram: 100 }
    }

    const ABSENCE: Absence = Absence { written: 5000, last_written: 5100, entries: 1000 };

    #[test]
    fn one_worker_at_a_time_has_the_hand() {
        let mut rule = Ours::new(4 << 20, SOLID_STATE, Count::Scaled);
        assert_eq!(rule.begin(POOL, pass(1000)), 1000);
        rule.end(1000, 9000);
        assert_eq!(rule.begin(POOL, pass(8999)), 0);
        rule.end(0, 8999);
        assert_eq!(rule.begin(POOL, pass(9000)), 1000);
    }

    #[test]
    fn blobs_or_the_pages_that_they_take_are_counted() {
        let pool = Pool { entries: 3000, pages: 1000 };
        let begin = |count| Ours::new(4 << 20, SOLID_STATE, count).begin(pool, pass(0));
        assert_eq!([Count::Scaled, Count::Plain].map(begin), [1000, 3000]);
    }

    #[test]
    fn what_came_along_counts_when_it_is_used_and_what_was_long_away_does_not() {
        let mut rule = Ours::new(4 << 20, SOLID_STATE, Count::Scaled);
        let spared = |rule: &mut Ours| (0..100).filter(|_| rule.visit(false) == Visit::Spare).count();
        rule.came_from_disk(Why::Ahead, ABSENCE);
        assert_eq!(spared(&mut rule), 0);
        rule.ahead_used(ABSENCE);
        assert_eq!(spared(&mut rule), 6, "81.2 us against 13");
        rule.came_from_disk(Why::Asked, ABSENCE);
        assert_eq!(spared(&mut rule), 6);
        rule.came_from_disk(Why::Asked, Absence { last_written: 5000 + 3000, ..ABSENCE });
        assert_eq!(spared(&mut rule), 0);
        assert!(rule.promotes(ABSENCE) && !rule.promotes(Absence { last_written: 8000, ..ABSENCE }));
    }
}
