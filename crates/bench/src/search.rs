//! Finds the limit of a memory cgroup at which the true RAM of a rival is the budget.
//!
//! Compressed memory of zram and zswap is not charged to the group, so the limit must be lower by as much as the pool
//! grows, and the pool grows when the limit is lowered. The highest sum of a whole run is a function of the limit that
//! grows with it: a secant finds the limit in a few runs.
//!
//! It costs few runs where it begins near the limit: [`first`] takes what was found for the like of it. Where the sum
//! stays above the budget though the limit was lowered (data that do not compress enough), it ends: more runs would
//! only be slower. It ends soon, too, where a lower limit kills the program.

use std::mem::discriminant;

use crate::results::{Outcome, Run};
use crate::rivals::Rival;
use crate::workloads::WorkloadSpec;

/// The sum may differ from the budget by this part of it.
pub const TOLERANCE: f64 = 0.02;

/// Runs for one search. A secant needs three or four; where the sum jumps, more would not help.
pub const RUNS_MAX: u32 = 5;

/// A run of a search is stopped after this part of the time that a measured run may take: what it had at its highest by
/// then counts. Programs fill their memory first.
pub const TIMEOUT_PART: u32 = 4;

/// A limit that kills and one that does not are near each other if no more of the budget is between them.
const NEAR: f64 = 0.1;

/// Where the sum falls by less than this part of what the limit falls, it does not follow.
const FOLLOWS_MIN: f64 = 0.1;

/// The lowest limit that is tried: below, a program cannot even start.
const LIMIT_BYTES_MIN: f64 = 4.0 * 1024.0 * 1024.0;

/// One run of the search.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Try {
    /// Limit of the group.
    pub limit_bytes: u64,
    /// Highest sum of resident and compressed memory.
    pub sum_bytes: u64,
    /// The program was alive to its end, or until it was stopped, and had got somewhere by then.
    pub done: bool,
}

impl Try {
    /// What a run with this limit says. One that was stopped before it had half of the budget did not get on: its limit
    /// is as deadly as if it had been killed.
    pub fn of(run: &Run, limit_bytes: u64, budget_bytes: u64) -> Try {
        let sum_bytes = run.memory.sum_bytes;
        let done = match run.outcome {
            Outcome::Done => true,
            Outcome::TimedOut => sum_bytes >= budget_bytes / 2,
            Outcome::Killed | Outcome::Failed(_) => false,
        };
        Try { limit_bytes, sum_bytes, done }
    }

    fn error(&self, budget_bytes: u64) -> f64 {
        self.sum_bytes as f64 - budget_bytes as f64
    }
}

/// A limit that was found.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// For this work.
    pub spec: &'a WorkloadSpec,
    /// Of this rival.
    pub rival: &'a Rival,
    /// Limit of the group.
    pub limit_bytes: u64,
}

/// Where the search for this rival's limit begins: at the limit that was found last for the same rival and a workload
/// with the same memory, else for a rival of the same kind (zram with another algorithm) and the same workload; else
/// where the rival says. None for a rival without a limit.
pub fn first(spec: &WorkloadSpec, rival: &Rival, known: &[Known<'_>]) -> Option<u64> {
    let usual = rival.first_limit(spec.budget_bytes, spec.bytes)?.max(LIMIT_BYTES_MIN as u64);
    let program = |spec: &WorkloadSpec| spec.name.split('-').next();
    let same_memory = |other: &WorkloadSpec| {
        program(other) == program(spec)
            && (other.budget_bytes, other.bytes) == (spec.budget_bytes, spec.bytes)
    };
    let last = |fits: &dyn Fn(&Known<'_>) -> bool| known.iter().rev().find(|known| fits(known));
    let found = last(&|known| known.rival == rival && same_memory(known.spec)).or_else(|| {
        last(&|known| discriminant(known.rival) == discriminant(rival) && known.spec.name == spec.name)
    });
    Some(found.map_or(usual, |known| known.limit_bytes))
}

/// What to do next.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Next {
    /// Run with this limit.
    Run(u64),
    /// This is the limit.
    Found(u64),
}

/// The next step after these runs. `first_bytes` is where the search begins.
pub fn next(budget_bytes: u64, first_bytes: u64, tries: &[Try]) -> Next {
    let Some(last) = tries.last() else { return Next::Run(first_bytes) };
    let tolerated = TOLERANCE * budget_bytes as f64;
    if !last.done {
        return after_death(budget_bytes, tries);
    }
    if last.error(budget_bytes).abs() <= tolerated {
        return Next::Found(last.limit_bytes);
    }
    if let [.., before, last] = tries
        && does_not_follow(budget_bytes, before, last)
    {
        return Next::Found(best(budget_bytes, tries));
    }
    let wanted = match tries {
        [.., before, last] if before.done && before.limit_bytes != last.limit_bytes => {
            let slope = (last.sum_bytes as f64 - before.sum_bytes as f64)
                / (last.limit_bytes as f64 - before.limit_bytes as f64);
            // A sum that does not follow the limit says nothing about where to go: then a slope as of incompressible
            // data.
            let slope = if slope.is_finite() { slope.clamp(0.2, 2.0) } else { 0.5 };
            last.limit_bytes as f64 - last.error(budget_bytes) / slope
        }
        // Data that compress 2 to 1: half of what the limit grows leaves the pool.
        _ => last.limit_bytes as f64 - last.error(budget_bytes) / 0.5,
    };
    let wanted = wanted.clamp(LIMIT_BYTES_MIN, 2.0 * budget_bytes as f64) as u64;
    if tries.iter().any(|one| !one.done && wanted <= one.limit_bytes) {
        return after_death(budget_bytes, tries);
    }
    if tries.len() as u32 == RUNS_MAX || wanted == last.limit_bytes {
        return Next::Found(best(budget_bytes, tries));
    }
    Next::Run(wanted)
}

/// What a program had when it was killed says nothing about where the limit is, only that it is higher: half way to the
/// lowest limit at which it lived, or to the budget. Where those are near each other, what is between them is chance.
fn after_death(budget_bytes: u64, tries: &[Try]) -> Next {
    let limits = |done: bool| tries.iter().filter(move |one| one.done == done).map(|one| one.limit_bytes);
    let deadly = limits(false).max().unwrap_or(0);
    let lived = limits(true).min();
    let near = lived.is_some_and(|lived| lived.saturating_sub(deadly) as f64 <= NEAR * budget_bytes as f64);
    if near || tries.len() as u32 == RUNS_MAX {
        return Next::Found(best(budget_bytes, tries));
    }
    Next::Run(u64::midpoint(deadly, lived.unwrap_or(budget_bytes)))
}

/// The limit was lowered, and the sum stayed above the budget nearly where it was.
fn does_not_follow(budget_bytes: u64, before: &Try, last: &Try) -> bool {
    let fell = before.sum_bytes as f64 - last.sum_bytes as f64;
    let wanted = FOLLOWS_MIN * (before.limit_bytes as f64 - last.limit_bytes as f64);
    last.sum_bytes > budget_bytes && last.limit_bytes < before.limit_bytes && fell < wanted
}

/// The run whose sum was nearest to the budget; one that ended well before one that was killed. Of those that are as
/// near, within the tolerance, the one with the highest limit: the rival has it easiest there.
fn best(budget_bytes: u64, tries: &[Try]) -> u64 {
    let any_done = tries.iter().any(|one| one.done);
    let usable = || tries.iter().filter(|one| one.done || !any_done);
    let error = |one: &Try| one.error(budget_bytes).abs();
    let nearest = usable().map(error).fold(f64::INFINITY, f64::min);
    let near = usable().filter(|one| error(one) <= nearest + TOLERANCE * budget_bytes as f64);
    near.map(|one| one.limit_bytes).max().expect("there was a run")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Memory;
    use crate::workloads::{Parameters, by_name};

    /// Runs a search against a rival whose data compress by `ratio`; answers the limit and the runs.
    fn search(budget: u64, data: u64, ratio: f64, first: u64) -> (u64, usize, f64) {
        let sum = |limit: u64| limit as f64 + (data.saturating_sub(limit)) as f64 / ratio;
        let mut tries = Vec::new();
        loop {
            match next(budget, first, &tries) {
                Next::Run(limit_bytes) => {
                    tries.push(Try { limit_bytes, sum_bytes: sum(limit_bytes) as u64, done: true });
                }
                Next::Found(limit) => return (limit, tries.len(), sum(limit) / budget as f64),
            }
        }
    }

    #[test]
    fn a_limit_is_found_in_few_runs_whatever_the_compression() {
        const MIB: u64 = 1 << 20;
        for ratio in [1.2, 2.0, 3.0, 8.0] {
            for factor in [1.5, 2.0] {
                let (budget, data) = (256 * MIB, (256.0 * factor) as u64 * MIB);
                if data as f64 / ratio > 0.95 * budget as f64 {
                    continue;
                }
                let (_, runs, found) = search(budget, data, ratio, budget / 2);
                assert!((found - 1.0).abs() <= TOLERANCE, "{ratio} {factor}: {found}");
                assert!(runs <= 4, "{ratio} {factor}: {runs} runs");
            }
        }
    }

    #[test]
    fn where_no_limit_fits_the_nearest_is_taken() {
        // Data that do not compress cannot be held: the sum stays above the budget.
        let (limit, runs, found) = search(100 << 20, 400 << 20, 1.05, 50 << 20);
        assert!(runs <= RUNS_MAX as usize);
        assert!(found > 1.02 && limit < 50 << 20, "{limit} {found}");
    }

    #[test]
    fn a_run_that_was_killed_is_taken_only_if_all_were() {
        let one = |limit_bytes, sum_bytes, done| Try { limit_bytes, sum_bytes, done };
        assert_eq!(best(100, &[one(50, 99, false), one(60, 120, true)]), 60);
        assert_eq!(best(100, &[one(50, 99, false), one(60, 120, false)]), 50);
    }

    #[test]
    fn a_run_that_was_stopped_counts_if_it_had_got_somewhere() {
        let done = |outcome, sum_bytes| {
            let memory = Memory { sum_bytes, ..Memory::default() };
            Try::of(&Run { outcome, memory, ..Run::default() }, 7, 100).done
        };
        assert!(done(Outcome::Done, 5) && done(Outcome::TimedOut, 95));
        assert!(!done(Outcome::TimedOut, 5) && !done(Outcome::Killed, 95));
    }

    #[test]
    fn of_runs_that_are_as_near_the_highest_limit_is_taken() {
        let one = |limit_bytes, sum_bytes| Try { limit_bytes, sum_bytes, done: true };
        assert_eq!(best(100, &[one(60, 130), one(50, 111), one(20, 110)]), 50);
        assert_eq!(best(100, &[one(60, 130), one(50, 113), one(20, 110)]), 20);
    }

    #[test]
    fn a_sum_that_stays_above_the_budget_ends_the_search() {
        let mut tries = Vec::new();
        let found = loop {
            match next(100 << 20, 40 << 20, &tries) {
                Next::Run(limit_bytes) => tries.push(Try { limit_bytes, sum_bytes: 110 << 20, done: true }),
                Next::Found(limit) => break limit,
            }
        };
        assert_eq!((tries.len(), found), (2, 40 << 20));
    }

    #[test]
    fn where_low_limits_kill_the_lowest_that_does_not_is_found_in_few_runs() {
        for deadly in [8, 19, 30, 200] {
            let mut tries = Vec::new();
            let found = loop {
                match next(100 << 20, 20 << 20, &tries) {
                    Next::Run(limit_bytes) => {
                        let done = limit_bytes > deadly << 20;
                        let sum_bytes = if done { (110 << 20) + limit_bytes / 4 } else { 90 << 20 };
                        tries.push(Try { limit_bytes, sum_bytes, done });
                    }
                    Next::Found(limit) => break limit,
                }
            };
            assert!(tries.len() <= RUNS_MAX as usize, "{deadly}: {tries:?}");
            let all_died = tries.iter().all(|one| !one.done);
            assert_eq!(all_died, deadly == 200, "{tries:?}");
            assert!(all_died || found > deadly << 20, "{deadly}: {found} of {tries:?}");
            assert!(all_died || found <= (deadly + 12) << 20, "{deadly}: {found} of {tries:?}");
            assert!(deadly != 8 || tries.len() <= 3, "{tries:?}");
        }
    }

    #[test]
    fn the_search_begins_where_the_like_of_it_was_found() {
        let parameters = |mib: u64| Parameters {
            budget_bytes: mib << 20,
            factor: 2.0,
            own_factor: None,
            seconds: 1,
            seed: 1,
        };
        let spec = |name, mib| by_name(name, &parameters(mib)).unwrap();
        let rival = |name| Rival::parse(name).unwrap();
        let (uniform, zipf, sort) =
            (spec("pmbench-uniform-1", 64), spec("pmbench-zipf-4", 64), spec("sort", 64));
        let (lz4, lzo, zswap) = (rival("zram-lz4"), rival("zram-lzo-rle+bg"), rival("zswap"));
        let known = [
            Known { spec: &uniform, rival: &lz4, limit_bytes: 11 },
            Known { spec: &uniform, rival: &zswap, limit_bytes: 12 },
            Known { spec: &sort, rival: &lz4, limit_bytes: 13 },
        ];
        assert_eq!(first(&zipf, &lz4, &known), Some(11), "the same memory");
        assert_eq!(first(&zipf, &zswap, &known), Some(12));
        assert_eq!(first(&sort, &lzo, &known), Some(13), "the same kind of rival");
        assert_eq!(first(&zipf, &lzo, &known), lzo.first_limit(64 << 20, 128 << 20), "neither is the same");
        assert_eq!(first(&spec("pmbench-zipf-4", 32), &lz4, &known), lz4.first_limit(32 << 20, 64 << 20));
        assert_eq!(first(&sort, &rival("uswap"), &known), None, "it has no limit");
    }

    #[test]
    fn a_sum_that_does_not_follow_the_limit_ends_the_search() {
        let mut tries = Vec::new();
        while let Next::Run(limit_bytes) = next(100 << 20, 50 << 20, &tries) {
            tries.push(Try { limit_bytes, sum_bytes: 30 << 20, done: true });
        }
        assert!(tries.len() <= RUNS_MAX as usize);
    }
}
