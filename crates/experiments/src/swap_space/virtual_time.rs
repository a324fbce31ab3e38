//! Runs the same code on 1 to 128 CPUs that are made up, one operation after the other, and reckons the time.
//!
//! Each CPU has a worker; one call of it is one operation, done for real and whole by the calling thread. What the
//! operation did to memory and locks is then played back against [`Lines`] and the locks here, an event at a time,
//! always on the CPU whose clock is smallest. A CPU whose operation has been played to its end does its next one. So
//! events of different CPUs are in the order of virtual time, and who waits for a lock waits in the order of asking.
//!
//! What this leaves out: the content of memory is as if each operation had happened at once at its start. A
//! `compare_exchange` never fails because another CPU came between, nobody finds a lock taken and goes elsewhere, and a
//! waiter for a lock touches its line once, not again and again.
//!
//! Same workers, same settings: same result, if the memory that the workers share lies the same way in cache lines.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::fmt;
use std::ops::Range;

use uswap_sync::trace::{self, Event, LINE_BYTES};

use super::simulated_time::{Access, Lines, Prices, Served, Sockets, Time};

#[cfg(test)]
mod tests;

/// What a call of a worker did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// One operation.
    Done,
    /// Nothing: the worker has no more to do and is not called again.
    Finished,
}

/// Does one operation and appends its events.
pub type Worker<'a> = Box<dyn FnMut(&mut Vec<Event>) -> Step + 'a>;

/// A worker out of code that uses the atomics and [`trace`] of `uswap-sync`.
///
/// Only what happens inside `operation` counts. Without the feature `virtual_time` nothing is noted, and each operation
/// takes no time: look at [`trace::RECORDS`].
pub fn recorded<'a>(mut operation: impl FnMut() -> Step + 'a) -> Worker<'a> {
    Box::new(move |events| {
        trace::take(events);
        events.clear();
        let step = operation();
        trace::take(events);
        step
    })
}

/// What a lock guards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LockKind {
    /// A cluster of slots.
    Cluster,
    /// The whole swap file: lists of clusters, counts.
    Device,
    /// Slots that a CPU keeps at hand.
    Cache,
    /// An index of what is in which slot.
    Tree,
    /// Anything else.
    Other,
}

impl LockKind {
    /// All of them, in the order of [`Report::waiting_shares`].
    pub const ALL: [LockKind; 5] =
        [LockKind::Cluster, LockKind::Device, LockKind::Cache, LockKind::Tree, LockKind::Other];
}

/// Which lock is of which kind, by address.
#[derive(Clone, Debug, Default)]
pub struct LockKinds {
    /// Start of a range to its end.
    ranges: BTreeMap<usize, (usize, LockKind)>,
}

impl LockKinds {
    /// Locks at `addresses` are of this kind. No range overlaps another.
    pub fn add(&mut self, addresses: Range<usize>, kind: LockKind) {
        self.ranges.insert(addresses.start, (addresses.end, kind));
    }

    /// The kind of the lock at `address`; [`LockKind::Other`] if nobody said.
    #[must_use]
    pub fn of(&self, address: usize) -> LockKind {
        match self.ranges.range(..=address).next_back() {
            Some((_, &(end, kind))) if address < end => kind,
            _ => LockKind::Other,
        }
    }
}

/// How a run is done.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What memory costs.
    pub prices: Prices,
    /// Where the CPUs sit.
    pub sockets: Sockets,
    /// Operations of all CPUs that end before measuring starts.
    pub warm_up_operations: u64,
    /// Operations of all CPUs that are measured, at most: workers may finish before.
    pub operations: u64,
    /// Which lock is what.
    pub lock_kinds: LockKinds,
}

/// What a run took, in virtual time.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// CPUs that the run began with.
    pub cpu_count: usize,
    /// Operations that were measured.
    pub operations: u64,
    /// From the end of the warm-up to the end of the last operation.
    pub virtual_ns: f64,
    /// Of all CPUs together.
    pub operations_per_second: f64,
    /// Time of one operation, waiting included: mean.
    pub mean_ns: f64,
    /// Half of the operations took at most this.
    pub p50_ns: f64,
    /// 99 of 100 operations took at most this.
    pub p99_ns: f64,
    /// Part of the time of all operations spent waiting for locks of each kind, in the order of [`LockKind::ALL`].
    pub waiting_shares: [f64; LockKind::ALL.len()],
    /// How often a line had to come from another CPU, or be taken away from one, for each operation.
    pub transfers_per_operation: f64,
}

impl Report {
    /// Part of the time of all operations spent waiting for locks of this kind.
    #[must_use]
    pub fn waiting_share(&self, kind: LockKind) -> f64 {
        self.waiting_shares[kind as usize]
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} CPUs: {:.3} million/s, {:.0} ns each (p50 {:.0}, p99 {:.0}), {:.2} transfers each, waiting",
            self.cpu_count,
            self.operations_per_second / 1e6,
            self.mean_ns,
            self.p50_ns,
            self.p99_ns,
            self.transfers_per_operation
        )?;
        for kind in LockKind::ALL {
            write!(formatter, " {kind:?} {:.1} %", self.waiting_share(kind) * 100.0)?;
        }
        Ok(())
    }
}

/// Runs one worker on each CPU.
///
/// # Panics
/// The locks of the operations make no sense: one is given back by who does not hold it, is kept beyond an operation,
/// or CPUs wait for each other.
#[must_use]
pub fn run(workers: Vec<Worker<'_>>, settings: &Settings) -> Report {
    let mut machine = Machine::new(workers, settings);
    let operations_wanted = settings.warm_up_operations + settings.operations;
    while machine.totals.ended < operations_wanted
        && let Some(Reverse((now, cpu))) = machine.ready.pop()
    {
        machine.step(cpu, now);
    }
    if machine.totals.ended < operations_wanted {
        let is_waiting = |lock: &Lock| !lock.waiters.is_empty();
        assert!(
            !machine.locks.values().any(is_waiting),
            "CPUs wait for each other's locks: the lock order is wrong"
        );
    }
    machine.totals.report(machine.cpus.len())
}

/// A CPU and what is left of its operation.
struct Cpu<'a> {
    worker: Worker<'a>,
    events: Vec<Event>,
    /// Index into `events` of what comes next.
    next: usize,
    held_locks: u32,
    /// None between two operations.
    operation: Option<Operation>,
}

/// What an operation took so far.
#[derive(Clone, Copy)]
struct Operation {
    start: Time,
    waiting_ps: [u64; LockKind::ALL.len()],
    transfers: u64,
}

/// A lock that was taken at least once.
#[derive(Default)]
struct Lock {
    holder: Option<usize>,
    /// CPUs and since when they wait, who came first in front.
    waiters: VecDeque<(usize, Time)>,
}

/// What was measured so far.
struct Totals {
    warm_up_operations: u64,
    /// Operations that ended, those of the warm-up too.
    ended: u64,
    /// When the warm-up ended.
    start: Time,
    /// When the last operation ended.
    end: Time,
    operation_ps: Vec<u64>,
    waiting_ps: [u64; LockKind::ALL.len()],
    transfers: u64,
}

struct Machine<'a> {
    cpus: Vec<Cpu<'a>>,
    /// CPUs that do not wait for a lock, by their clocks; of two equal ones that with the smaller number is first.
    ready: BinaryHeap<Reverse<(Time, usize)>>,
    lines: Lines,
    locks: HashMap<usize, Lock>,
    lock_kinds: &'a LockKinds,
    totals: Totals,
}

impl<'a> Machine<'a> {
    fn new(workers: Vec<Worker<'a>>, settings: &'a Settings) -> Machine<'a> {
        let cpu_count = workers.len();
        let cpu = |worker| Cpu { worker, events: Vec::new(), next: 0, held_locks: 0, operation: None };
        Machine {
            cpus: workers.into_iter().map(cpu).collect(),
            ready: (0..cpu_count).map(|cpu| Reverse((Time::ZERO, cpu))).collect(),
            lines: Lines::new(&settings.prices, settings.sockets, cpu_count),
            locks: HashMap::new(),
            lock_kinds: &settings.lock_kinds,
            totals: Totals::new(settings.warm_up_operations),
        }
    }

    /// Plays the next event of `cpu`, or ends its operation and does the next one.
    fn step(&mut self, cpu: usize, now: Time) {
        let state = &mut self.cpus[cpu];
        let Some(&event) = state.events.get(state.next) else {
            if let Some(operation) = state.operation.take() {
                assert_eq!(state.held_locks, 0, "an operation gives back the locks that it took");
                self.totals.add(operation, now);
            }
            if state.begin_operation(now) == Step::Done {
                self.ready.push(Reverse((now, cpu)));
            }
            return;
        };
        state.next += 1;
        match event {
            Event::Read(line) => self.access(cpu, line, Access::Read, now),
            Event::Write(line) => self.access(cpu, line, Access::Write, now),
            Event::Exchange(line) => self.access(cpu, line, Access::Exchange, now),
            Event::Worked(nanoseconds) => {
                self.ready.push(Reverse((now.plus(u64::from(nanoseconds) * 1000), cpu)));
            }
            Event::Locked(address) => self.lock(cpu, address, now),
            Event::Unlocked(address) => self.unlock(cpu, address, now),
        }
    }

    fn access(&mut self, cpu: usize, line: usize, access: Access, now: Time) {
        let served = self.lines.access(cpu, line, access, now);
        self.go_on(cpu, served);
    }

    /// A free lock costs nothing here: its exchange is an event of its own.
    fn lock(&mut self, cpu: usize, address: usize, now: Time) {
        let lock = self.locks.entry(address).or_default();
        match lock.holder {
            None => {
                lock.holder = Some(cpu);
                self.cpus[cpu].held_locks += 1;
                self.ready.push(Reverse((now, cpu)));
            }
            Some(holder) => {
                assert_ne!(holder, cpu, "CPU {cpu} waits for a lock that it holds");
                lock.waiters.push_back((cpu, now));
            }
        }
    }

    /// The first that waits has the lock after a transfer, which is part of its waiting.
    fn unlock(&mut self, cpu: usize, address: usize, now: Time) {
        let lock = self.locks.entry(address).or_default();
        assert_eq!(lock.holder, Some(cpu), "who gives a lock back holds it");
        self.cpus[cpu].held_locks -= 1;
        self.ready.push(Reverse((now, cpu)));
        let Some((waiter, since)) = lock.waiters.pop_front() else {
            lock.holder = None;
            return;
        };
        lock.holder = Some(waiter);
        let served = self.lines.hand_over(address / LINE_BYTES, cpu, waiter, now);
        let state = &mut self.cpus[waiter];
        state.held_locks += 1;
        let kind = self.lock_kinds.of(address);
        state.operation_mut().waiting_ps[kind as usize] += served.done.picoseconds_since(since);
        self.go_on(waiter, served);
    }

    fn go_on(&mut self, cpu: usize, served: Served) {
        self.cpus[cpu].operation_mut().transfers += u64::from(served.by_transfer);
        self.ready.push(Reverse((served.done, cpu)));
    }
}

impl Cpu<'_> {
    fn begin_operation(&mut self, now: Time) -> Step {
        self.events.clear();
        self.next = 0;
        let step = (self.worker)(&mut self.events);
        if step == Step::Done {
            let waiting_ps = [0; LockKind::ALL.len()];
            self.operation = Some(Operation { start: now, waiting_ps, transfers: 0 });
        }
        step
    }

    fn operation_mut(&mut self) -> &mut Operation {
        self.operation.as_mut().expect("events belong to an operation that has not ended")
    }
}

impl Totals {
    fn new(warm_up_operations: u64) -> Totals {
        Totals {
            warm_up_operations,
            ended: 0,
            start: Time::ZERO,
            end: Time::ZERO,
            operation_ps: Vec::new(),
            waiting_ps: [0; LockKind::ALL.len()],
            transfers: 0,
        }
    }

    /// An operation ended.
    fn add(&mut self, operation: Operation, now: Time) {
        self.ended += 1;
        self.end = now;
        if self.ended <= self.warm_up_operations {
            self.start = now;
            return;
        }
        self.operation_ps.push(now.picoseconds_since(operation.start));
        for (total, waiting) in self.waiting_ps.iter_mut().zip(operation.waiting_ps) {
            *total += waiting;
        }
        self.transfers += operation.transfers;
    }

    fn report(mut self, cpu_count: usize) -> Report {
        self.operation_ps.sort_unstable();
        let operations = self.operation_ps.len() as u64;
        let busy_ps = self.operation_ps.iter().sum::<u64>();
        let virtual_ps = self.end.picoseconds_since(self.start);
        Report {
            cpu_count,
            operations,
            virtual_ns: virtual_ps as f64 / 1000.0,
            operations_per_second: share(operations, virtual_ps) * 1e12,
            mean_ns: share(busy_ps, operations) / 1000.0,
            p50_ns: self.percentile_ns(50),
            p99_ns: self.percentile_ns(99),
            waiting_shares: self.waiting_ps.map(|waiting_ps| share(waiting_ps, busy_ps)),
            transfers_per_operation: share(self.transfers, operations),
        }
    }

    /// The smallest time that `percent` of 100 operations do not exceed.
    fn percentile_ns(&self, percent: usize) -> f64 {
        let count_below = (self.operation_ps.len() * percent).div_ceil(100);
        self.operation_ps.get(count_below.saturating_sub(1)).map_or(0.0, |&time| time as f64 / 1000.0)
    }
}

/// 0 of nothing.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
