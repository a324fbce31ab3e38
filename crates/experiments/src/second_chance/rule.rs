//! A rule by which old blobs could go to the swap file before the pool's limit asks for it, and which pages that came
//! back belong into the pool.
//!
//! Today the experiment uses it (`cargo xtask second-chance`). In the engine the pool's limit drives write-back: what
//! this rule did there is measured in docs/adr/0015.
//!
//! Every blob has a second chance: its referenced bit, which a store sets and the hand takes away. This module says how
//! far the hand goes, and what a page says that comes back from the file.
//!
//! * *Absence.* While blobs are written they are counted, and the mark of a page says what the count was when it was
//!   written. What comes back before as many others were written as the pool holds, would have been found there in a
//!   pool without that haste: it came back *early*.
//! * *Credit.* Each page that somebody asked for and that came back early spares some blobs that would have been
//!   written, as many as its read cost loads from the pool. So no more than that part of what is written comes back
//!   early. Pages that came along with others give credit when they are used, not before.
//! * *Pressure.* The hand passes the same part of the blobs that reclaim takes of the pages in RAM, twice that, as
//!   Linux does it; the better blobs compress, the fewer, since less is gained.
//!
//! Pure: who calls it says what was counted. There is one [`Hand`] in a run, so no two shrinkers spend the same credit.
//! Facts: zswap of Linux 6.12 has the bit, counts all pages that come from the disk, and spares one entry for each.

/// Bits of a mark: what is free in the word of a page in the file.
pub const MARK_BITS: u32 = 4;
const MARKS: u64 = 1 << MARK_BITS;

/// Passes are counted in parts of this size, so that none is lost.
const PART: u64 = 1 << 12;

/// When a page was written, roughly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark(u8);

impl Mark {
    /// From its bits.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Mark {
        Mark((bits % MARKS) as u8)
    }

    /// Its bits.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0 as u64
    }
}

/// The count of written blobs as a clock with 16 hours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteClock {
    /// Blobs in an hour, as a power of two.
    shift: u32,
}

impl WriteClock {
    /// For a pool that holds, when it is full, about twice to six times `pages` blobs: an hour is about `pages`.
    #[must_use]
    pub const fn new(pages: u64) -> WriteClock {
        let pages = if pages == 0 { 1 } else { pages };
        WriteClock { shift: pages.ilog2() }
    }

    /// The mark of what is written now, when so many were written.
    #[must_use]
    pub const fn mark(self, written: u64) -> Mark {
        Mark::from_bits(written >> self.shift)
    }

    /// Whether what was written at `mark` is early if it comes back now, when so many are written and the pool has so
    /// many entries.
    ///
    /// What was away for more than a round of the clock looks younger: of those pages as many are called early as the
    /// pool has hours, of 16.
    #[must_use]
    pub const fn is_early(self, mark: Mark, written: u64, entries: u64) -> bool {
        let hours = (self.mark(written).bits() + MARKS - mark.bits()) % MARKS;
        hours << self.shift <= entries
    }
}

/// The pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entries {
    /// Blobs in it.
    pub count: u64,
    /// RAM that they take, in pages.
    pub pages: u64,
}

/// What reclaim has taken of the pages in RAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// So many parts
    pub part: u64,
    /// of so many.
    pub whole: u64,
}

/// The referenced bit of a blob.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bit {
    /// Stored or loaded since the hand passed.
    Referenced,
    /// Not since then.
    Clear,
}

/// What becomes of a blob that the hand passes.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pass {
    /// It stays, without its bit.
    TakeBit,
    /// It stays, since others came back early.
    Spare,
    /// It goes to the file.
    Write,
}

/// How far the hand goes, and what it spares.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Hand {
    /// In parts of a pass.
    owed: u64,
    /// Blobs that will not be written.
    spared: u64,
}

/// What a page that came back early costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cost {
    /// A fault that reads from the file.
    pub file_ns: u64,
    /// A fault that finds its page in the pool, and its share of compressing it.
    pub pool_ns: u64,
}

impl Hand {
    /// So many pages came back early from a pool of so many blobs, no more of which than there are can be spared.
    pub fn note_early(&mut self, pages: u64, cost: Cost, pool_count: u64) {
        let spared = pages.saturating_mul(cost.file_ns) / cost.pool_ns.max(1);
        self.spared = self.spared.saturating_add(spared).min(pool_count);
    }

    /// What becomes of a blob that the hand passes.
    pub fn pass(&mut self, bit: Bit) -> Pass {
        if bit == Bit::Referenced {
            return Pass::TakeBit;
        }
        if self.spared > 0 {
            self.spared -= 1;
            return Pass::Spare;
        }
        Pass::Write
    }

    /// Reclaim has taken pages: how many blobs the hand passes now. The caller passes all of them.
    #[must_use]
    pub fn passes(&mut self, pool: Entries, taken: Taken) -> u64 {
        if pool.count == 0 || taken.whole == 0 {
            return 0;
        }
        let worth = pool.pages.min(pool.count);
        let more =
            u128::from(worth) * u128::from(2 * taken.part) * u128::from(PART) / u128::from(taken.whole);
        // All of them twice is all that can be done.
        let most = 2 * pool.count;
        self.owed = self.owed.saturating_add(more.min(u128::from(most * PART)) as u64).min(most * PART);
        let passes = self.owed / PART;
        self.owed %= PART;
        passes
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    const POOL: Entries = Entries { count: 3000, pages: 1000 };

    #[test]
    fn the_hand_passes_twice_the_part_that_reclaim_took() {
        let mut hand = Hand::default();
        assert_eq!(
            hand.passes(POOL, Taken { part: 1, whole: 10 }),
            200,
            "a tenth of what 1000 pages are worth, twice"
        );
        assert_eq!(
            hand.passes(Entries { count: 3000, pages: 500 }, Taken { part: 1, whole: 10 }),
            100,
            "they compress better"
        );
        assert_eq!(hand.passes(POOL, Taken { part: 9, whole: 1 }), 6000, "all of them twice is the most");
        assert_eq!(hand.passes(Entries { count: 0, pages: 0 }, Taken { part: 1, whole: 1 }), 0);
        assert_eq!(hand.passes(POOL, Taken { part: 1, whole: 0 }), 0);
    }

    #[test]
    fn small_parts_add_up() {
        let mut hand = Hand::default();
        let taken = Taken { part: 1, whole: 6000 };
        assert_eq!(
            (0..3000).map(|_| hand.passes(POOL, taken)).sum::<u64>(),
            999,
            "3000 times a third, nearly"
        );
    }

    #[test]
    fn each_early_page_spares_as_many_blobs_as_it_cost_loads() {
        let mut hand = Hand::default();
        assert_eq!(hand.pass(Bit::Clear), Pass::Write);
        hand.note_early(2, Cost { file_ns: 90, pool_ns: 40 }, 3000);
        let passes =
            [Bit::Clear, Bit::Referenced, Bit::Clear, Bit::Clear, Bit::Clear, Bit::Clear, Bit::Clear];
        let all = passes.map(|bit| hand.pass(bit));
        assert_eq!(all[1], Pass::TakeBit, "the bit comes first, and uses no credit");
        assert_eq!(all.iter().filter(|pass| **pass == Pass::Spare).count(), 4);
        assert_eq!(all[6], Pass::Write);
        hand.note_early(u64::MAX, Cost { file_ns: 90, pool_ns: 0 }, 5);
        let spared = (0..20).filter(|_| hand.pass(Bit::Clear) == Pass::Spare).count();
        assert_eq!(spared, 5, "no more than there are");
    }

    #[test]
    fn early_is_what_comes_back_within_the_size_of_the_pool() {
        let clock = WriteClock::new(1000);
        let mark = clock.mark(51_200);
        assert_eq!(mark, Mark::from_bits(100));
        let is_early = |later: u64| clock.is_early(mark, 51_200 + later, 1700);
        assert!([0, 512, 1535, 2047].into_iter().all(is_early));
        assert!(![2048, 4000, 8191].into_iter().any(is_early));
        assert!(is_early(16 * 512), "a whole round looks like nothing");
        assert!(clock.is_early(mark, 51_200 + 15 * 512, 15 * 512), "a large pool");
        assert_eq!(WriteClock::new(0).mark(17), Mark::from_bits(1));
    }
}
