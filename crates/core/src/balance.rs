//! Decides from numbers: watermarks, and how much to reclaim.
//!
//! Pure functions. The watermarks are of *used* memory, so `min` is the highest: reclaim starts above `low`, goes on
//! down to `high`, and above `min` faults wait (Linux counts free memory; the names are the same).
//!
//! Must hold: `register` < `high` < `low` < `min` < the limit, whatever the limit is. While anything is above the goal,
//! the share of each process is at least one page and at most all of that; else it is 0. Called by [`crate::budget`]
//! for the watermarks, and by `engine`, the supervisor and `sim` for shares, pauses and the most pages of one fault.

use uswap_units::limits::RUN_PAGES_MAX;
use uswap_units::{Bytes, PAGE_BYTES};

/// Levels of used memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watermarks {
    /// Above it, a thread reclaims before it serves its fault.
    pub min: Bytes,
    /// Above it, kswapd evicts.
    pub low: Bytes,
    /// kswapd sleeps again when used memory is below it.
    pub high: Bytes,
    /// Above it, memory is taken under management, so that there is time left before `low`. Below it, nothing at all is
    /// done.
    pub register: Bytes,
}

/// Between two measurements (2 ms under pressure) two processors can touch this much fresh memory: 2 * 2 ms / 1.5 us *
/// 4 KiB = 11 MB. Small budgets cannot afford that much headroom; they are measured more often instead.
const HEADROOM_MAX_BYTES: u64 = 24 << 20;

/// Building the engine of a process takes some milliseconds, in which the program touches about this much.
const REGISTER_EARLY_BYTES: u64 = 32 << 20;

/// How much memory is kept free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Headroom {
    /// Memory appears that no fault of ours gave out: new mappings are touched before they are found.
    Wide,
    /// All that is touched comes to us by a fault, which makes room first.
    Narrow,
}

impl Watermarks {
    /// Watermarks of a budget: free memory of 5 %, 10 % and 15 %, or of 1 %, 2 % and 3 %; but not more than helps.
    /// Linux widens its watermarks for a time too (`watermark_boost_factor`).
    pub fn of(ram: Bytes, headroom: Headroom) -> Watermarks {
        let part = match headroom {
            Headroom::Wide => ram.bytes() / 100 * 5,
            Headroom::Narrow => ram.bytes() / 100,
        };
        let step = part.min(HEADROOM_MAX_BYTES / 3);
        let early = REGISTER_EARLY_BYTES.min(ram.bytes() / 2);
        Watermarks {
            min: ram.minus(step),
            low: ram.minus(2 * step),
            high: ram.minus(3 * step),
            register: ram.minus(early),
        }
    }
}

/// Pages that one fault may bring in: at most 1/256 of the budget.
pub fn run_pages_max(ram: Bytes) -> u32 {
    (ram.bytes() / 256 / PAGE_BYTES as u64).clamp(4, RUN_PAGES_MAX as u64) as u32
}

/// Pages that one process should reclaim now, its share by burden ([`crate::fairness`]) of what is above the goal.
pub fn reclaim_share(used: Bytes, goal: Bytes, own_burden: u64, all_burdens: u64) -> u64 {
    let excess = used.above(goal).div_ceil(4096);
    let share = u128::from(excess) * u128::from(own_burden) / u128::from(all_burdens.max(own_burden).max(1));
    (share as u64).max(u64::from(excess > 0))
}

/// Turns of reclaim in a row that bring nothing, after which it is tried less often. As Linux, where kswapd gives up
/// then.
const RECLAIM_RETRIES_MAX: u32 = 16;

/// How often reclaim is tried that brings nothing: each `step_ns` at first, later each 16 steps. What is pinned may be
/// let go without a word, so it is never given up.
pub fn backoff_ns(turns: u32, step_ns: u64) -> u64 {
    step_ns << (turns.saturating_sub(RECLAIM_RETRIES_MAX).div_ceil(4)).min(4)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_brings_nothing_is_tried_less_often() {
        let waits = [0, 1, 16, 17, 20, 21, 29, 1000].map(|turns| backoff_ns(turns, 2));
        assert_eq!(waits, [2, 2, 2, 4, 4, 8, 32, 32]);
    }

    #[test]
    fn watermarks_are_ordered_and_below_the_budget() {
        for megabytes in [8_u64, 64, 256, 4096, 1 << 20] {
            let ram = Bytes::new(megabytes << 20);
            for headroom in [Headroom::Wide, Headroom::Narrow] {
                let marks = Watermarks::of(ram, headroom);
                assert!(marks.register < marks.high);
                assert!(marks.high < marks.low);
                assert!(marks.low < marks.min);
                assert!(marks.min < ram);
            }
        }
    }

    #[test]
    fn shares_add_up_to_the_excess() {
        let (used, goal) = (Bytes::new(100 << 20), Bytes::new(90 << 20));
        let parts: u64 = [100, 200, 700].map(|own| reclaim_share(used, goal, own, 1000)).iter().sum();
        assert!((2557..=2563).contains(&parts), "{parts}");
        assert_eq!(reclaim_share(goal, used, 10, 10), 0);
        assert_eq!(reclaim_share(used, goal, 0, 10), 1);
    }

    #[test]
    fn small_budgets_bring_in_less_at_once() {
        assert_eq!(
            [2_u64, 8, 24, 50, 4096].map(|megabytes| run_pages_max(Bytes::new(megabytes << 20))),
            [4, 8, 24, 32, 32]
        );
    }
}
