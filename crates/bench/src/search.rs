//! Finds the limit of a memory cgroup at which the true RAM of a rival is the budget.
//!
//! Compressed memory of zram and zswap is not charged to the group, so the limit must be lower by as much as the pool grows, and the pool grows when the limit is
//! lowered. The highest sum of a whole run is a function of the limit that grows with it: a secant finds the limit in a few runs.

/// The sum may differ from the budget by this part of it.
pub const TOLERANCE: f64 = 0.02;

/// Runs for one search. A secant needs three or four; where the sum jumps, more would not help.
pub const RUNS_MAX: u32 = 6;

/// The lowest limit that is tried: below, a program cannot even start.
const LIMIT_BYTES_MIN: f64 = 4.0 * 1024.0 * 1024.0;

/// One run of the search.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Try {
    /// Limit of the group.
    pub limit_bytes: u64,
    /// Highest sum of resident and compressed memory.
    pub sum_bytes: u64,
    /// The run ended well.
    pub done: bool,
}

impl Try {
    fn error(&self, budget_bytes: u64) -> f64 {
        self.sum_bytes as f64 - budget_bytes as f64
    }
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
    if last.error(budget_bytes).abs() <= tolerated {
        return Next::Found(last.limit_bytes);
    }
    let wanted = match tries {
        [.., before, last] if before.limit_bytes != last.limit_bytes => {
            let slope = (last.sum_bytes as f64 - before.sum_bytes as f64)
                / (last.limit_bytes as f64 - before.limit_bytes as f64);
            // A sum that does not follow the limit says nothing about where to go: then a slope as of incompressible data.
            let slope = if slope.is_finite() { slope.clamp(0.2, 2.0) } else { 0.5 };
            last.limit_bytes as f64 - last.error(budget_bytes) / slope
        }
        // Data that compress 2 to 1: half of what the limit grows leaves the pool.
        _ => last.limit_bytes as f64 - last.error(budget_bytes) / 0.5,
    };
    let wanted = wanted.clamp(LIMIT_BYTES_MIN, 2.0 * budget_bytes as f64) as u64;
    if tries.len() as u32 == RUNS_MAX || wanted == last.limit_bytes {
        return Next::Found(best(budget_bytes, tries));
    }
    Next::Run(wanted)
}

/// The run whose sum was nearest to the budget; one that ended well before one that was killed.
fn best(budget_bytes: u64, tries: &[Try]) -> u64 {
    let nearest = tries.iter().min_by(|one, other| {
        let rank = |one: &Try| (!one.done, one.error(budget_bytes).abs());
        rank(one).partial_cmp(&rank(other)).expect("sums are numbers")
    });
    nearest.expect("there was a run").limit_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_sum_that_does_not_follow_the_limit_ends_the_search() {
        let mut tries = Vec::new();
        while let Next::Run(limit_bytes) = next(100 << 20, 50 << 20, &tries) {
            tries.push(Try { limit_bytes, sum_bytes: 30 << 20, done: true });
        }
        assert!(tries.len() <= RUNS_MAX as usize);
    }
}
