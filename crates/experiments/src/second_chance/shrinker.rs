//! What a rule is asked and told, and how reclaim of Linux drives those that count entries.

/// The pool as a rule sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pool {
    /// Pages in it.
    pub entries: u64,
    /// RAM that they take, in pages.
    pub pages: u64,
}

impl Pool {
    /// Of so many entries those whose RAM is worth a page each: the better they compress, the fewer there are.
    #[must_use]
    pub fn worth(self, entries: u64) -> u64 {
        if self.entries == 0 {
            return 0;
        }
        (u128::from(entries) * u128::from(self.pages) / u128::from(self.entries)) as u64
    }
}

/// Why a page was read from the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// Somebody waits for it.
    Asked,
    /// It came along with another.
    Ahead,
}

/// How long a page was on the disk, or will have been. Pages are numbered as they are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Absence {
    /// Its own number.
    pub written: u64,
    /// That of the page written last.
    pub last_written: u64,
    /// Pages in the pool now.
    pub entries: u64,
}

/// A pass of reclaim.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// When.
    pub now_ns: u64,
    /// 12 looks at one part in 4096, each one lower at twice as much.
    pub priority: u32,
    /// Pages that it took from RAM.
    pub taken: u64,
    /// Pages that were in RAM before.
    pub in_ram: u64,
}

/// What becomes of an entry that the hand has reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Visit {
    /// Its bit is cleared, and it is young again.
    Spare,
    /// It goes to the disk.
    Write,
}

/// A rule by which compressed pages go to the disk.
pub trait Shrinker {
    /// A page came into the pool, which has so many now.
    fn stored(&mut self, entries: u64);
    /// A fault asked for a page of the pool or of the disk.
    fn asked(&mut self);
    /// A page came from the disk.
    fn came_from_disk(&mut self, why: Why, absence: Absence);
    /// A page that came from the disk along with another is used for the first time.
    fn ahead_used(&mut self, absence: Absence);
    /// How many entries the hand passes now.
    fn begin(&mut self, pool: Pool, pass: Pass) -> u64;
    /// Whether the hand may go on over so many more.
    fn may_go_on(&self, entries: u64, batch: u64, written_before: Option<u64>) -> bool;
    /// Told once after each `begin`: the hand passed so many, and it took until then.
    fn end(&mut self, visits: u64, now_ns: u64);
    /// What becomes of an entry; `referenced` since it was stored or spared.
    fn visit(&mut self, referenced: bool) -> Visit;
    /// Whether a page that still has its copy on the disk is compressed all the same.
    fn promotes(&self, absence: Absence) -> bool;
}

/// Entries that are passed in one go.
pub const BATCH: u64 = 128;

/// How Linux turns a count into work: what is too little for a batch is put off.
#[derive(Clone, Copy, Default, Debug)]
pub struct Driver {
    deferred: u64,
    delta: u64,
    freeable: u64,
}

impl Driver {
    /// What is passed now, of so many that could be.
    pub fn begin(&mut self, freeable: u64, priority: u32) -> u64 {
        (self.freeable, self.delta) = (freeable, 0);
        if freeable == 0 {
            return 0;
        }
        self.delta = (freeable >> priority) * 2;
        let total = ((self.deferred >> priority) + self.delta).min(2 * freeable);
        if total >= freeable {
            // Batches until less than one is left; or all of it, if there is not even one.
            let rest = total % BATCH;
            return if rest >= freeable { total } else { total - rest };
        }
        total / BATCH * BATCH
    }

    /// So many were passed.
    pub fn end(&mut self, visits: u64) {
        if self.freeable > 0 {
            self.deferred = (self.deferred + self.delta).saturating_sub(visits).min(2 * self.freeable);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_than_a_batch_is_put_off() {
        let mut driver = Driver::default();
        // 100,000 at priority 12 are 24, twice as much 48.
        assert_eq!(driver.begin(100_000, 12), 0);
        driver.end(0);
        assert_eq!(driver.deferred, 48);
        // 390 at priority 8, twice as much 780: six batches.
        assert_eq!(driver.begin(100_000, 8), 768);
        driver.end(768);
        assert_eq!(driver.deferred, 60);
        driver.begin(0, 0);
        driver.end(0);
        assert_eq!(driver.deferred, 60, "nothing to do leaves it alone");
    }

    #[test]
    fn at_the_last_priority_all_are_passed_twice() {
        let mut driver = Driver::default();
        assert_eq!(driver.begin(1000, 0), 1920);
        assert_eq!(driver.begin(50, 0), 100);
    }

    #[test]
    fn better_compression_makes_fewer_candidates() {
        assert_eq!(Pool { entries: 300, pages: 100 }.worth(150), 50);
        assert_eq!(Pool { entries: 0, pages: 0 }.worth(0), 0);
    }
}
