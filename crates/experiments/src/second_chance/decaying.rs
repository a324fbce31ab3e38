//! What was there before: so many young entries are protected, the more the more faults there are; but each store
//! beyond a quarter of the pool halves that number.
//!
//! Facts: zswap of Linux before 6.12.

use super::shrinker::{Absence, Driver, Pass, Pool, Shrinker, Visit, Why};

/// The rule.
#[derive(Default, Debug)]
pub struct Decaying {
    protected: u64,
    driver: Driver,
}

impl Shrinker for Decaying {
    fn stored(&mut self, entries: u64) {
        self.protected += 1;
        if self.protected > entries / 4 {
            self.protected /= 2;
        }
    }
    fn asked(&mut self) {
        self.protected += 1;
    }
    fn came_from_disk(&mut self, _: Why, _: Absence) {}
    fn ahead_used(&mut self, _: Absence) {}

    fn begin(&mut self, pool: Pool, pass: Pass) -> u64 {
        let freeable = pool.worth(pool.entries.saturating_sub(self.protected));
        self.driver.begin(freeable, pass.priority)
    }
    fn may_go_on(&self, entries: u64, batch: u64, written_before: Option<u64>) -> bool {
        self.protected < entries.saturating_sub(batch) && written_before != Some(0)
    }
    fn end(&mut self, visits: u64, _: u64) {
        self.driver.end(visits);
    }
    fn visit(&mut self, _: bool) -> Visit {
        Visit::Write
    }
    fn promotes(&self, _: Absence) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_stores_takes_protection_away_and_faults_give_it() {
        let mut rule = Decaying::default();
        let protected: Vec<u64> = (1000..1500)
            .map(|entries| {
                rule.stored(entries);
                rule.protected
            })
            .collect();
        assert_eq!(protected[..3], [1, 2, 3]);
        assert!(protected.windows(2).any(|pair| pair[1] < pair[0]), "it decays");
        assert!(protected.iter().zip(1000..).all(|(&protected, entries)| protected <= entries / 4));
        let before = rule.protected;
        (0..2000).for_each(|_| rule.asked());
        assert_eq!(rule.protected, before + 2000);
        let (pool, pass) =
            (Pool { entries: 1500, pages: 500 }, Pass { now_ns: 0, priority: 0, taken: 0, in_ram: 0 });
        assert_eq!(rule.begin(pool, pass), 0, "all are protected");
        assert!(!rule.may_go_on(1500, 128, None));
        rule.stored(1500);
        assert!(rule.begin(pool, pass) > 0, "one store halves it");
        assert!(rule.may_go_on(1500, 128, None));
    }
}
