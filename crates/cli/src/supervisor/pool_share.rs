//! How much of the budget the pool may take: between half and eight tenths, as the program needs it.
//!
//! A byte more for the pool spares a fault that is served from the file; a byte more for pages as they are spares one that is served from the pool. Both are counted while the program runs: the first
//! as faults from the file for each byte there, the second as touches of staged pages, which are the coldest quarter of what is resident. The pool moves towards the dearer of the two.

use std::time::{Duration, Instant};

use uswap_core::balance::staged_pages_wanted;
use uswap_core::counters::{Counter, FaultSource};
use uswap_units::PAGE_BYTES;

use super::shared::Shared;

/// So often the pool's limit may move, by a 64th of the budget.
const LOOK: Duration = Duration::from_millis(100);
const STEP_PART: u64 = 64;

/// Fewer faults say nothing: then it waits for more, but not longer than this.
const FAULTS_MIN: u64 = 64;
const STALE: Duration = Duration::from_secs(2);

/// Two wake-ups and the ways into the kernel, which no handler sees.
const HANDOFF_NS: u64 = 10_000;

/// One side must be dearer so many times: what is counted are estimates.
const MARGIN: f64 = 2.0;

/// The pool must be so many times dearer to get more than seven tenths: what pages are worth behind the coldest quarter is not known, and there are few of them.
const MARGIN_BEYOND: f64 = 4.0;

/// So many times dearer it gets two steps at once.
const MARGIN_FAST: f64 = 8.0;

/// What of a process is resident whatever is reclaimed: its agent's threads and tables, its stacks, what libc wrote to.
const KEPT_BYTES: u64 = 512 << 10;

/// One part in so many of the budget is for the pages of the program, however dear the file is: with less they only make room for each other.
const PAGES_PART: u64 = 8;

/// Faults that waited for room in vain, within a second: what is resident is less than what the program needs at once, and the pool must give way. What a process keeps is only estimated.
const IN_VAIN_MAX: u64 = 2;
const IN_VAIN_WITHIN: Duration = Duration::from_secs(1);

/// So long the pool stays below the size at which it gave way.
const YIELDED: Duration = Duration::from_secs(60);

/// Counts of the last look.
pub struct PoolShare {
    looked: Instant,
    from_file: u64,
    staged_back: u64,
    in_vain: InVain,
}

/// Watches for faults that waited in vain.
struct InVain {
    since: Instant,
    count: u64,
    /// The largest limit, and since when.
    ceiling: Option<(u64, Instant)>,
}

impl InVain {
    /// Whether the pool must give way at `now`, when `count` faults have waited in vain in all.
    fn is_too_often(&mut self, count: u64, now: Instant) -> bool {
        let is_too_often = count - self.count >= IN_VAIN_MAX;
        if is_too_often || now - self.since > IN_VAIN_WITHIN {
            (self.since, self.count) = (now, count);
        }
        is_too_often
    }

    fn ceiling(&self, now: Instant) -> Option<u64> {
        self.ceiling.filter(|(_, since)| now - *since < YIELDED).map(|(limit, _)| limit)
    }
}

/// What was counted since the last look, and over what.
struct Seen {
    from_file: u64,
    staged_back: u64,
    file_ns: u64,
    pool_ns: u64,
    file_bytes: u64,
    /// As large as it may get.
    file_bytes_max: u64,
    staged_bytes: u64,
    /// The pool has seven tenths of the budget or more.
    beyond: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Move {
    Up,
    UpFast,
    Stay,
    Down,
}

impl Seen {
    fn file_is_nearly_full(&self) -> bool {
        self.file_bytes > self.file_bytes_max / 8 * 7
    }

    /// Towards where a byte spares more time; but a file that is nearly full gets nothing more.
    fn decide(&self) -> Move {
        if self.file_is_nearly_full() {
            return Move::Up;
        }
        let longer_ns = self.file_ns.saturating_sub(self.pool_ns);
        let of_pool = (self.from_file * longer_ns) as f64 / self.file_bytes.max(1) as f64;
        let of_pages = (self.staged_back * self.pool_ns) as f64 / self.staged_bytes.max(1) as f64;
        let margin = if self.beyond { MARGIN_BEYOND } else { MARGIN };
        if of_pool > MARGIN_FAST * of_pages {
            Move::UpFast
        } else if of_pool > margin * of_pages {
            Move::Up
        } else if of_pages > MARGIN * of_pool {
            Move::Down
        } else {
            Move::Stay
        }
    }
}

/// The largest limit that leaves room for pages of the program, between a quarter of the budget and `most`.
fn with_room_for_pages(most: u64, ram: u64, engine_bytes: u64, processes: u64) -> u64 {
    let others = engine_bytes + processes * KEPT_BYTES + ram / PAGES_PART;
    ram.saturating_sub(others).max(ram / 4).min(most)
}

impl PoolShare {
    pub fn new() -> PoolShare {
        let now = Instant::now();
        let in_vain = InVain { since: now, count: 0, ceiling: None };
        PoolShare { looked: now, from_file: 0, staged_back: 0, in_vain }
    }

    /// Moves the limit of the pool if it is time, and if the pool is at its limit. `engine_bytes` is what uswap has beside the pool.
    pub fn follow(&mut self, shared: &Shared, engine_bytes: u64) {
        let elapsed = self.looked.elapsed();
        if elapsed < LOOK {
            return;
        }
        let (segment, ram) = (&shared.segment, shared.options.ram_bytes);
        let (pool, counters) = (segment.pool(), segment.counters());
        let latency = |source| counters.latency(source);
        let (from_file, staged_back) =
            (latency(FaultSource::File).count(), latency(FaultSource::Staged).count());
        let limit = pool.limit_bytes();
        let seen = Seen {
            from_file: from_file - self.from_file,
            staged_back: staged_back - self.staged_back,
            file_ns: latency(FaultSource::File).quantile(1, 2) + HANDOFF_NS,
            pool_ns: latency(FaultSource::Pool).quantile(1, 2) + HANDOFF_NS,
            file_bytes: segment.slots().used() * PAGE_BYTES as u64,
            file_bytes_max: segment.slots().capacity() * PAGE_BYTES as u64,
            staged_bytes: staged_pages_wanted(segment.mms().resident_pages()) * PAGE_BYTES as u64,
            beyond: limit >= ram / 10 * 7,
        };
        let step = ram / STEP_PART;
        let (least, most) = shared.options.pool.bounds(ram).into_inner();
        let now = Instant::now();
        let must_give_way = self.in_vain.is_too_often(counters.get(Counter::WaitedInVain), now);
        if must_give_way && least < most && !seen.file_is_nearly_full() {
            let limit = limit.saturating_sub(4 * step).max(ram / 4);
            self.in_vain.ceiling = Some((limit, now));
            pool.set_limit_bytes(limit);
            return;
        }
        let enough = seen.from_file + seen.staged_back >= FAULTS_MIN;
        if !enough && elapsed < STALE {
            return;
        }
        (self.looked, self.from_file, self.staged_back) = (now, from_file, staged_back);
        // Beyond: --on-full grow has given it more, since the file is full.
        if limit > most + step {
            return;
        }
        let most = with_room_for_pages(most, ram, engine_bytes, segment.mms().in_use().count() as u64);
        let most = self.in_vain.ceiling(now).map_or(most, |ceiling| ceiling.min(most));
        let least = least.min(most);
        if limit > most && !seen.file_is_nearly_full() {
            pool.set_limit_bytes(most);
            return;
        }
        let at_its_limit = pool.resident_bytes() > limit / 8 * 7;
        if !enough || !at_its_limit {
            return;
        }
        match seen.decide() {
            Move::Up => pool.set_limit_bytes((limit + step).min(most).max(limit)),
            Move::UpFast => pool.set_limit_bytes((limit + 2 * step).min(most).max(limit)),
            Move::Down => pool.set_limit_bytes(limit.saturating_sub(step).max(least)),
            Move::Stay => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: Seen = Seen {
        from_file: 100,
        staged_back: 100,
        file_ns: 70_000,
        pool_ns: 20_000,
        file_bytes: 5 << 20,
        file_bytes_max: 64 << 20,
        staged_bytes: 2 << 20,
        beyond: false,
    };

    #[test]
    fn the_pool_moves_to_where_a_byte_spares_more() {
        // 100 * 50 us over 5 MiB, and 100 * 20 us over 2 MiB.
        assert_eq!(SEEN.decide(), Move::Stay);
        assert_eq!(Seen { from_file: 201, ..SEEN }.decide(), Move::Up);
        assert_eq!(Seen { staged_back: 201, ..SEEN }.decide(), Move::Down);
        assert_eq!(Seen { file_ns: 121_000, ..SEEN }.decide(), Move::Up);
        assert_eq!(Seen { file_bytes: 11 << 20, ..SEEN }.decide(), Move::Down);
        assert_eq!(Seen { from_file: 801, ..SEEN }.decide(), Move::UpFast);
    }

    #[test]
    fn beyond_seven_tenths_it_takes_more() {
        let beyond = Seen { beyond: true, ..SEEN };
        assert_eq!(Seen { from_file: 399, ..beyond }.decide(), Move::Stay);
        assert_eq!(Seen { from_file: 401, ..beyond }.decide(), Move::Up);
        assert_eq!(Seen { staged_back: 201, ..beyond }.decide(), Move::Down);
    }

    #[test]
    fn a_file_that_is_nearly_full_gets_nothing_more() {
        let pages_are_dear = Seen { staged_back: 1000, ..SEEN };
        assert_eq!(pages_are_dear.decide(), Move::Down);
        assert_eq!(Seen { file_bytes_max: 5 << 20, ..pages_are_dear }.decide(), Move::Up);
    }

    #[test]
    fn pages_keep_some_room_in_a_small_budget() {
        let most = |ram_mib: u64, processes| {
            let ram = ram_mib << 20;
            with_room_for_pages(ram / 10 * 8, ram, 2 << 20, processes)
        };
        assert_eq!(most(64, 1), (64 << 20) / 10 * 8);
        // A pipe of four in 12 MiB: 2 for uswap, 2 for what they keep, 1.5 for their pages.
        assert_eq!(most(12, 4), 13 << 19);
        assert_eq!(most(12, 100), 3 << 20);
    }

    #[test]
    fn faults_that_wait_in_vain_are_noticed_within_a_second() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut in_vain = InVain { since: start, count: 5, ceiling: None };
        assert!(!in_vain.is_too_often(6, at(100)));
        assert!(in_vain.is_too_often(7, at(900)));
        assert!(!in_vain.is_too_often(8, at(1000)));
        assert!(!in_vain.is_too_often(8, at(2000)));
        assert!(!in_vain.is_too_often(9, at(2100)), "one a second is no sign");
        assert!(in_vain.is_too_often(10, at(2200)));
        in_vain.ceiling = Some((7, at(2200)));
        assert_eq!((in_vain.ceiling(at(2300)), in_vain.ceiling(at(70_000))), (Some(7), None));
    }

    #[test]
    fn nothing_counted_moves_nothing() {
        let nothing = Seen { from_file: 0, staged_back: 0, file_bytes: 0, staged_bytes: 0, ..SEEN };
        assert_eq!(nothing.decide(), Move::Stay);
    }
}
