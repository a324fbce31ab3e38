//! How long two threads take to wake each other, on one processor and across two.
//!
//! A page that comes back takes two such wake-ups: of the agent's thread, and of the one that waits. In some virtual
//! machines one across processors takes five times as long as all the rest.

use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use uswap_os::thread::{self, CpuSet};

/// The medians of two wake-ups, there and back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WakeUps {
    /// Both threads on one processor.
    pub here: Duration,
    /// On two.
    pub across: Duration,
}

const TRIES: usize = 101;

/// Measures on the first two processors that this process may use, for some milliseconds. None: there is only one, or
/// the threads may not be placed.
pub fn measure() -> Option<WakeUps> {
    let set = thread::affinity(0).ok()?;
    let mut allowed = (0..set.len() * 64).filter(|cpu| set[cpu / 64] & (1 << (cpu % 64)) != 0).map(only);
    let (first, second) = (allowed.next()?, allowed.next()?);
    Some(WakeUps { here: round_trip(first, first)?, across: round_trip(first, second)? })
}

fn only(cpu: usize) -> CpuSet {
    let mut set = [0; 16];
    set[cpu / 64] = 1 << (cpu % 64);
    set
}

fn round_trip(one: CpuSet, other: CpuSet) -> Option<Duration> {
    let (to_other, from_one) = sync_channel::<()>(0);
    let (to_one, from_other) = sync_channel::<()>(0);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // Who may not be placed says so by not answering.
            if thread::set_affinity(0, &other).is_ok() {
                while from_one.recv().is_ok() && to_one.send(()).is_ok() {}
            }
        });
        // On a thread of its own, so that the caller's stays where it may run.
        let measuring = scope.spawn(move || {
            thread::set_affinity(0, &one).ok()?;
            let mut times = Vec::with_capacity(TRIES);
            for _ in 0..TRIES {
                let start = Instant::now();
                to_other.send(()).ok()?;
                from_other.recv().ok()?;
                times.push(start.elapsed());
            }
            times.sort_unstable();
            Some(times[TRIES / 2])
        });
        measuring.join().ok().flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_threads_answer_each_other_and_the_caller_may_run_where_it_could() {
        let before = thread::affinity(0).expect("the kernel says where this thread may run");
        let first = only((0..1024).find(|cpu| before[cpu / 64] & (1 << (cpu % 64)) != 0).expect("one"));
        assert!(round_trip(first, first).is_some_and(|time| time > Duration::ZERO));
        assert_eq!(thread::affinity(0).ok(), Some(before));
    }

    #[test]
    fn a_processor_that_is_not_there_gives_no_figure() {
        assert_eq!(round_trip(only(1023), only(1023)), None);
    }
}
