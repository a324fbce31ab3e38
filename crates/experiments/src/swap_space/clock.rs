//! One measurement: operations of some CPUs, in simulated time or with threads of this machine.
//!
//! Which of the two is what the build can do: with the feature `virtual_time` the accesses of operations are noted and
//! their time is reckoned, without it threads run them.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use serde::Serialize;
use uswap_sync::trace;

use super::simulated_time::{Prices, Sockets};
use super::virtual_time::{LockKind, LockKinds, Settings, Step, Worker, recorded, run};

/// Does one operation of a CPU.
pub type Operation<'a> = Box<dyn FnMut() -> Step + Send + 'a>;

/// What time this build measures.
pub const NAME: &str = if trace::RECORDS { "simulated time" } else { "threads" };

/// CPUs that are measured: made up, or threads.
pub const CPUS: &[u16] = if trace::RECORDS { &[1, 2, 4, 8, 16, 32, 64, 96] } else { &[1, 2, 4, 8] };

/// How many operations all CPUs do together.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    /// Before measuring starts.
    pub warm_up: u64,
    /// That are measured.
    pub operations: u64,
}

/// Some operations, by the clock. What a clock does not know is None.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Measured {
    /// CPUs that worked.
    pub cpus: u16,
    /// Operations that were measured.
    pub operations: u64,
    /// Operations of all CPUs together in a second.
    pub per_second: f64,
    /// One operation, waiting included.
    pub mean_ns: f64,
    /// 99 of 100 operations took at most this.
    pub p99_ns: Option<f64>,
    /// Percent of the time of operations spent waiting for locks.
    pub waiting_percent: Option<f64>,
    /// The same for locks of clusters.
    pub waiting_cluster_percent: Option<f64>,
    /// The same for the lock of the device.
    pub waiting_device_percent: Option<f64>,
    /// The same for locks of trees.
    pub waiting_tree_percent: Option<f64>,
    /// Cache lines that came from another CPU, for each operation.
    pub transfers: Option<f64>,
}

/// Measures one operation on each CPU.
#[must_use]
pub fn measure(operations: Vec<Operation<'_>>, length: Length, lock_kinds: LockKinds) -> Measured {
    if trace::RECORDS { by_prices(operations, length, lock_kinds) } else { with_threads(operations, length) }
}

fn by_prices(operations: Vec<Operation<'_>>, length: Length, lock_kinds: LockKinds) -> Measured {
    let cpus = operations.len() as u16;
    let workers: Vec<Worker<'_>> = operations.into_iter().map(recorded).collect();
    let settings = Settings {
        prices: Prices::default(),
        sockets: Sockets::Two,
        warm_up_operations: length.warm_up,
        operations: length.operations,
        lock_kinds,
    };
    let report = run(workers, &settings);
    let percent = |kind| Some(report.waiting_share(kind) * 100.0);
    Measured {
        cpus,
        operations: report.operations,
        per_second: report.operations_per_second,
        mean_ns: report.mean_ns,
        p99_ns: Some(report.p99_ns),
        waiting_percent: Some(report.waiting_shares.iter().sum::<f64>() * 100.0),
        waiting_cluster_percent: percent(LockKind::Cluster),
        waiting_device_percent: percent(LockKind::Device),
        waiting_tree_percent: percent(LockKind::Tree),
        transfers: Some(report.transfers_per_operation),
    }
}

/// Each thread does its part of the operations, or until it has no more to do.
fn with_threads(operations: Vec<Operation<'_>>, length: Length) -> Measured {
    let cpus = operations.len() as u64;
    let start_line = Barrier::new(operations.len());
    let done: Vec<(u64, u64)> = thread::scope(|scope| {
        let threads: Vec<_> = operations
            .into_iter()
            .map(|mut operation| {
                let start_line = &start_line;
                scope.spawn(move || {
                    let is_warm = (0..length.warm_up / cpus).all(|_| operation() == Step::Done);
                    start_line.wait();
                    let start = Instant::now();
                    let wanted = if is_warm { length.operations / cpus } else { 0 };
                    let count = (0..wanted).take_while(|_| operation() == Step::Done).count();
                    (count as u64, start.elapsed().as_nanos() as u64)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("operations do not panic")).collect()
    });
    let count: u64 = done.iter().map(|&(count, _)| count).sum();
    let busy_ns: u64 = done.iter().map(|&(_, ns)| ns).sum();
    let longest_ns = done.iter().map(|&(_, ns)| ns).max().unwrap_or(0);
    Measured {
        cpus: cpus as u16,
        operations: count,
        per_second: count as f64 * 1e9 / longest_ns.max(1) as f64,
        mean_ns: busy_ns as f64 / count.max(1) as f64,
        ..Measured::default()
    }
}

/// Does `job` in a thread of its own: what it prepares is not noted, as nobody has asked that thread for its events
/// yet.
pub fn unnoted<T: Send>(job: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(job).join().expect("a scene does not panic"))
}

#[cfg(test)]
mod tests {
    use uswap_sync::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn operations_are_counted_and_end_when_there_are_no_more() {
        let word = AtomicU64::new(0);
        for (left, expected) in [(1000, 40), (15, 20)] {
            let operations: Vec<Operation<'_>> = (0..2)
                .map(|_| {
                    let (mut left, word) = (left, &word);
                    Box::new(move || {
                        word.fetch_add(1, Ordering::Relaxed);
                        left -= 1;
                        if left == 0 { Step::Finished } else { Step::Done }
                    }) as Operation<'_>
                })
                .collect();
            let measured =
                unnoted(|| measure(operations, Length { warm_up: 10, operations: 40 }, LockKinds::default()));
            assert_eq!(measured.cpus, 2);
            assert!(measured.operations <= expected, "{measured:?}");
            assert!(measured.per_second > 0.0);
            assert_eq!(measured.transfers.is_some(), trace::RECORDS);
        }
    }
}
