//! Decides from numbers whether compaction is worth while. Pure functions.

use crate::marks::{Mark, Reach, gap};
use crate::{COSTLY_ORDER, Level, ORDERS, Zone};

/// What compaction could do for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Suitability {
    /// There is such a run already.
    IsThere,
    /// There is room, in pieces.
    Worthwhile,
    /// There is not enough room: reclaim first.
    NeedsReclaim,
    /// No block could be emptied.
    NoSource,
}

/// Whether to compact this zone for a run of this order.
pub fn suitability(zone: &Zone<'_>, order: u32, class: usize) -> Suitability {
    if zone.is_above(Level::of(Mark::Min, order, class)) {
        return Suitability::IsThere;
    }
    let mark = if order > COSTLY_ORDER { Mark::Low } else { Mark::Min };
    let room = Level { order: 0, class, mark, reach: Reach::Mark, more: gap(order) };
    let is_fragmented = || {
        let index = fragmentation_index(core::array::from_fn(|order| zone.free_runs(order as u32)), order);
        index.is_none_or(|index| index > FRAGMENTED)
    };
    if !zone.has_frames_above(room) || (order > COSTLY_ORDER && !is_fragmented()) {
        Suitability::NeedsReclaim
    } else if zone.has_source() {
        Suitability::Worthwhile
    } else {
        Suitability::NoSource
    }
}

/// Up to here a request fails for want of memory.
const FRAGMENTED: u64 = 500;

/// Why there is no run of this order: 0 for want of memory, 1000 since it is in pieces. None: there is one.
pub fn fragmentation_index(free_runs: [u32; ORDERS], order: u32) -> Option<u64> {
    if free_runs[order as usize..].iter().any(|&runs| runs > 0) {
        return None;
    }
    let runs: u64 = free_runs.iter().map(|&runs| u64::from(runs)).sum();
    let frames: u64 = (0..).zip(free_runs).map(|(order, runs)| u64::from(runs) << order).sum();
    if runs == 0 {
        return Some(0);
    }
    Some(1000_u64.saturating_sub((1000 + frames * 1000 / (1 << order)) / runs))
}

/// When compaction that failed is tried again: after 1, 2, 4 ... 64 requests.
///
/// `23..8 requests since the last try   15..8 shift   7..0 orders from this one on fail, + 1`
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Deferral {
    considered: u32,
    shift: u32,
    /// The smallest order that failed, + 1. 0: none did.
    failed: u32,
}

/// Requests that are put off at most: `1 << 6`.
const SHIFT_MAX: u32 = 6;

impl Deferral {
    pub(crate) fn of(word: u64) -> Deferral {
        Deferral {
            considered: (word >> 16) as u32 & 0xff,
            shift: (word >> 8) as u32 & 0xff,
            failed: word as u32 & 0xff,
        }
    }
    pub(crate) fn word(self) -> u64 {
        u64::from(self.considered) << 16 | u64::from(self.shift) << 8 | u64::from(self.failed)
    }

    /// A request comes: is it put off? Counts it.
    #[must_use]
    pub fn puts_off(&mut self, order: u32) -> bool {
        if self.failed == 0 || order + 1 < self.failed {
            return false;
        }
        self.considered = (self.considered + 1).min(1 << self.shift);
        self.considered < 1 << self.shift
    }
    /// It was tried, and failed.
    pub fn failed(&mut self, order: u32) {
        let before = if self.failed == 0 { u32::MAX } else { self.failed };
        *self =
            Deferral { considered: 0, shift: (self.shift + 1).min(SHIFT_MAX), failed: before.min(order + 1) };
    }
    /// It brought a run of this order.
    pub fn succeeded(&mut self, order: u32) {
        if self.failed <= order + 1 {
            *self = Deferral::default();
        }
    }
    /// It was put off as long as it may be: what was tried in vain before is worth another look.
    pub fn is_at_its_end(self) -> bool {
        self.shift == SHIFT_MAX && self.considered >= 1 << SHIFT_MAX
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Invariant 26.
    #[test]
    fn after_each_failure_twice_as_many_requests_are_put_off() {
        let mut deferral = Deferral::default();
        for failures in 1..=8_u32 {
            deferral.failed(9);
            let put_off = (0..1000).take_while(|_| deferral.puts_off(9)).count();
            assert_eq!(put_off, (1 << failures.min(6)) - 1);
            assert!(!deferral.puts_off(8), "a smaller order did not fail");
            assert_eq!(Deferral::of(deferral.word()), deferral);
        }
        assert!(deferral.is_at_its_end());
        deferral.succeeded(9);
        assert!(!deferral.puts_off(9));
    }

    #[test]
    fn the_index_tells_want_of_memory_from_pieces() {
        let mut runs = [0; ORDERS];
        assert_eq!(fragmentation_index(runs, 9), Some(0));
        runs[0] = 10;
        assert!(fragmentation_index(runs, 9).expect("there is none") > 800, "all in pieces");
        runs = [0; ORDERS];
        runs[8] = 1;
        assert_eq!(fragmentation_index(runs, 9), Some(0), "one run of half the size: memory is short");
        runs[9] = 1;
        assert_eq!(fragmentation_index(runs, 9), None);
    }
}
