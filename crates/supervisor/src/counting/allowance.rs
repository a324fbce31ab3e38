//! How much processor time counting may take: what is dear is done less often, never without a bound.
//!
//! What must hold: all that is paid for with [`Allowance::spend`] takes at most its part of one processor in the long
//! run, plus what was saved up ([`SAVED_NS_MAX`]) and the last step. Each kind of work has its own, so that none
//! starves another. Called by the walks over page tables and the reads of faults and maps in this folder; the cheap
//! read of each process goes by the interval of the monitor.

/// So much is saved up while nothing is counted: a first walk need not wait.
const SAVED_NS_MAX: u64 = 60_000_000;

/// Time that may be spent.
pub struct Allowance {
    /// One part in so many of a processor.
    part: u64,
    saved_ns: i64,
    last_ns: Option<u64>,
}

impl Allowance {
    pub fn new(part: u64) -> Allowance {
        Allowance { part, saved_ns: SAVED_NS_MAX as i64, last_ns: None }
    }

    /// It is `now_ns`: time that went by adds to it.
    pub fn earn(&mut self, now_ns: u64) {
        let since = self.last_ns.map_or(0, |last| now_ns.saturating_sub(last));
        self.last_ns = Some(now_ns);
        self.saved_ns = (self.saved_ns + (since / self.part) as i64).min(SAVED_NS_MAX as i64);
    }

    /// Whether something dear may begin.
    pub fn has_some(&self) -> bool {
        self.saved_ns > 0
    }

    /// Something took so long. A step that took more than there was is paid back by waiting.
    pub fn spend(&mut self, cost_ns: u64) {
        self.saved_ns -= cost_ns as i64;
    }

    /// Does `work` and pays for it with the processor time of this thread.
    pub fn pay<Answer>(&mut self, work: impl FnOnce() -> Answer) -> Answer {
        let before_ns = uswap_os::clock::thread_cpu_ns();
        let answer = work();
        self.spend(uswap_os::clock::thread_cpu_ns().saturating_sub(before_ns));
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: u64 = 25;

    #[test]
    fn in_the_long_run_no_more_is_spent_than_the_part() {
        let mut allowance = Allowance::new(PART);
        let (mut spent_ns, mut now_ns) = (0, 0);
        for _ in 0..10_000 {
            now_ns += 2_000_000;
            allowance.earn(now_ns);
            if allowance.has_some() {
                allowance.spend(1_500_000);
                spent_ns += 1_500_000;
            }
        }
        assert!(spent_ns <= now_ns / PART + SAVED_NS_MAX + 1_500_000, "{spent_ns}");
        assert!(spent_ns >= now_ns / PART, "what is allowed is used: {spent_ns}");
    }

    #[test]
    fn what_is_saved_has_a_limit_and_a_debt_is_paid_back() {
        let mut allowance = Allowance::new(PART);
        allowance.earn(0);
        allowance.earn(u64::MAX / 2);
        allowance.spend(SAVED_NS_MAX + 1_000_000);
        assert!(!allowance.has_some());
        allowance.earn(u64::MAX / 2 + 1_000_000 * PART);
        assert!(!allowance.has_some(), "just paid back");
        allowance.earn(u64::MAX / 2 + 1_000_001 * PART);
        assert!(allowance.has_some());
    }
}
