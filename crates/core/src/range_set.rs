//! A few ranges of pages that any thread of a process may add, look at and take out, without locks. Private to a
//! process, and `const`: it is made for statics.
//!
//! Must hold: a set may say too much, never too little. So whoever adds a range learns whether it found a place, and
//! what is left of one that is cut in two stays whole if there is no second place. Called by `host`: for what is not
//! managed (stacks), and for what the program keeps in RAM.
//!
//! Memory order: a range is put in and taken out with Release (`add`, `subtract`, `clear`), for the Acquire of whoever
//! looks (`iter`, `subtract`) or takes a place that has become free (`add`): whoever finds a range, or does not find it
//! any more, sees what was done before. The range itself is one word, and needs no order.

use crate::page_table::ALL_PAGES;
use core::sync::atomic::{AtomicU64, Ordering};
use uswap_units::{PageId, PageRange};

const PAGES_BITS: u32 = 28;

/// Ranges of up to 1 TiB each. Each is one word, the number of its first page and in the low 28 bits how many pages (0:
/// none), so that a range is never seen half.
pub struct RangeSet<const PLACES: usize>([AtomicU64; PLACES]);

/// The place of a range in its set.
pub struct Entry<'a>(&'a AtomicU64);

impl Entry<'_> {
    /// Takes the range out. Release: whoever does not find it sees what happened before.
    pub fn clear(&self) {
        self.0.store(0, Ordering::Release);
    }
}

/// A range that is in its set until this is dropped.
pub struct RangeGuard<'a>(Entry<'a>);

impl Drop for RangeGuard<'_> {
    fn drop(&mut self) {
        self.0.clear();
    }
}

fn pack(range: PageRange) -> Option<u64> {
    let fits = !range.is_empty() && range.pages() >> PAGES_BITS == 0 && range.end() <= ALL_PAGES.end();
    fits.then(|| (range.start().number() << PAGES_BITS) | range.pages())
}

fn unpack(word: u64) -> Option<PageRange> {
    let start = PageId::new(word >> PAGES_BITS);
    (word != 0).then(|| PageRange::new(start, start.plus(word & ((1 << PAGES_BITS) - 1))))
}

impl<const PLACES: usize> RangeSet<PLACES> {
    /// Nothing is in it.
    #[allow(
        clippy::new_without_default,
        reason = "it is made in a static, where a default cannot be asked for"
    )]
    pub const fn new() -> RangeSet<PLACES> {
        RangeSet([const { AtomicU64::new(0) }; PLACES])
    }

    /// Adds a range. None: it is empty or too large, or there is no place.
    pub fn add(&self, range: PageRange) -> Option<Entry<'_>> {
        let word = pack(range)?;
        let is_free =
            |place: &&AtomicU64| place.compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        self.0.iter().find(is_free).map(Entry)
    }

    /// Adds a range until the answer is dropped. None: as for [`RangeSet::add`].
    pub fn hold(&self, range: PageRange) -> Option<RangeGuard<'_>> {
        self.add(range).map(RangeGuard)
    }

    /// The ranges in it.
    pub fn iter(&self) -> impl Iterator<Item = PageRange> {
        self.0.iter().filter_map(|place| unpack(place.load(Ordering::Acquire)))
    }

    /// Takes `range` out of every range in it. What stays of one that it cuts in two, and finds no second place, stays
    /// whole.
    pub fn subtract(&self, range: PageRange) {
        for place in &self.0 {
            let word = place.load(Ordering::Acquire);
            let Some(seen) = unpack(word) else { continue };
            if range.end() <= seen.start() || seen.end() <= range.start() {
                continue;
            }
            let front = PageRange::new(seen.start(), range.start().min(seen.end()));
            let back = PageRange::new(range.end().max(seen.start()), seen.end());
            let rest = match (pack(front), pack(back)) {
                (Some(_), Some(_)) if self.add(back).is_none() => continue,
                (Some(front), _) => front,
                (None, back) => back.unwrap_or(0),
            };
            // Changed meanwhile: another thread changes the same mapping, and what it says counts.
            let _changed = place.compare_exchange(word, rest, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Empties it.
    pub fn clear(&self) {
        self.0.iter().for_each(|place| place.store(0, Ordering::Release));
    }
}
