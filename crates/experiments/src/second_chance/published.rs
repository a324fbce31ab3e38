//! What was published: an entry has a referenced bit since it was stored, which the hand takes away first; and each
//! page that came from the disk is one candidate less, once.
//!
//! Facts: "zswap: second chance algorithm for dynamic zswap shrinker", both patches; in Linux since 6.12.

use super::shrinker::{Absence, Driver, Pass, Pool, Shrinker, Visit, Why};

/// The rule.
#[derive(Default, Debug)]
pub struct Published {
    came_from_disk: u64,
    driver: Driver,
}

impl Shrinker for Published {
    fn stored(&mut self, _: u64) {}
    fn asked(&mut self) {}
    /// Whoever asked, or nobody.
    fn came_from_disk(&mut self, _: Why, _: Absence) {
        self.came_from_disk += 1;
    }
    fn ahead_used(&mut self, _: Absence) {}

    fn begin(&mut self, pool: Pool, pass: Pass) -> u64 {
        let consumed = self.came_from_disk.min(pool.entries);
        self.came_from_disk -= consumed;
        self.driver.begin(pool.worth(pool.entries - consumed), pass.priority)
    }
    fn may_go_on(&self, _: u64, _: u64, written_before: Option<u64>) -> bool {
        written_before != Some(0)
    }
    fn end(&mut self, visits: u64, _: u64) {
        self.driver.end(visits);
    }
    fn visit(&mut self, referenced: bool) -> Visit {
        if referenced { Visit::Spare } else { Visit::Write }
    }
    fn promotes(&self, _: Absence) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABSENCE: Absence = Absence { written: 0, last_written: 0, entries: 0 };
    const POOL: Pool = Pool { entries: 1000, pages: 1000 };
    const PASS: Pass = Pass { now_ns: 0, priority: 0, taken: 0, in_ram: 0 };

    #[test]
    fn each_page_from_the_disk_is_consumed_once() {
        let mut rule = Published::default();
        (0..900).for_each(|_| rule.came_from_disk(Why::Asked, ABSENCE));
        assert_eq!(rule.begin(POOL, PASS), 128, "100 candidates, twice, in whole batches");
        rule.end(128, 0);
        assert_eq!(rule.begin(POOL, PASS), 1920, "the next one, perhaps at the same time, finds all of them");
        (0..1500).for_each(|_| rule.came_from_disk(Why::Ahead, ABSENCE));
        assert_eq!(rule.begin(POOL, PASS), 0);
        assert_eq!(rule.came_from_disk, 500, "there are no more entries to spare");
    }

    #[test]
    fn the_first_visit_only_takes_the_bit() {
        let mut rule = Published::default();
        assert_eq!([true, false].map(|bit| rule.visit(bit)), [Visit::Spare, Visit::Write]);
        assert!(rule.may_go_on(0, 128, None) && rule.may_go_on(0, 128, Some(1)));
        assert!(!rule.may_go_on(0, 128, Some(0)), "a batch that wrote nothing ends it");
    }
}
