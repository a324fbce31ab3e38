//! The simulated world: what all processes of a run share. Random numbers, the executor, the disk, the trace and the
//! verdict.

use crate::content::Version;
use crate::disk::Disk;
use crate::executor::{Executor, TaskId};
use crate::lending::Spare;
use crate::options::Options;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use uswap_core::budget::Signal;
use uswap_core::segment::Segment;
use uswap_engine::writeback::drain::{Drain, Drained};
use uswap_units::Prng;

/// What happened, in order: always a hash of it, the lines only when somebody wants them.
pub struct Trace {
    hash: u64,
    lines: Option<String>,
}

/// A file that is being emptied.
pub enum Emptying {
    /// None is.
    Nothing,
    /// The shrinker moves what is in it.
    Of(Box<Drain>),
    /// That is over.
    Done(Drained),
}

/// Everything about one run but its processes.
pub struct World<'a> {
    /// The shared tables.
    pub segment: Segment<'a>,
    /// What this seed runs.
    pub options: Options,
    /// Who runs.
    pub executor: Executor<'a>,
    /// The only source of chance.
    pub prng: RefCell<Prng>,
    /// The disks, one for each swap file.
    pub disks: RefCell<Vec<Disk>>,
    /// A file that is being emptied, and then the outcome.
    pub emptying: RefCell<Emptying>,
    /// How often each thing happened.
    pub tally: RefCell<BTreeMap<&'static str, u64>>,
    /// All tasks of the engine end at their next turn.
    pub stopping: Cell<bool>,
    /// Workspaces and evictors that no process has.
    pub spare: Rc<Spare>,
    trace: RefCell<Trace>,
    failure: RefCell<Option<String>>,
    signal_waiters: RefCell<Vec<(Signal, TaskId)>>,
    versions: Cell<Version>,
}

impl<'a> World<'a> {
    /// An empty world. `keep_lines` says whether the trace is kept as text.
    pub fn new(
        segment: Segment<'a>,
        options: Options,
        prng: Prng,
        spare: Rc<Spare>,
        keep_lines: Option<String>,
    ) -> World<'a> {
        World {
            segment,
            options,
            executor: Executor::default(),
            prng: RefCell::new(prng),
            disks: RefCell::new(
                options.files().map(|file| Disk::new(file.spec.slots, file.faults)).collect(),
            ),
            emptying: RefCell::new(Emptying::Nothing),
            tally: RefCell::default(),
            stopping: Cell::new(false),
            spare,
            trace: RefCell::new(Trace { hash: 0xcbf2_9ce4_8422_2325, lines: keep_lines }),
            failure: RefCell::default(),
            signal_waiters: RefCell::default(),
            versions: Cell::new(1),
        }
    }

    /// A number below `bound`.
    pub fn below(&self, bound: u64) -> u64 {
        self.prng.borrow_mut().below(bound)
    }
    /// True in so many of 1000 cases.
    pub fn chance(&self, of_1000: u64) -> bool {
        of_1000 > 0 && self.prng.borrow_mut().chance(of_1000, 1000)
    }
    /// A content that no page had before.
    pub fn next_version(&self) -> Version {
        self.versions.set(self.versions.get() + 1);
        self.versions.get()
    }
    /// Counts something.
    pub fn count(&self, name: &'static str, amount: u64) {
        *self.tally.borrow_mut().entry(name).or_default() += amount;
    }
    /// Notes an event of the run.
    pub fn note(&self, what: core::fmt::Arguments<'_>) {
        let (name, owner) = self.executor.current_name();
        let line = match owner {
            Some(owner) => format!("{} p{owner} {name}: {what}\n", self.executor.now_ns()),
            None => format!("{} {name}: {what}\n", self.executor.now_ns()),
        };
        let mut trace = self.trace.borrow_mut();
        for byte in line.bytes() {
            // FNV-1a.
            trace.hash = (trace.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if let Some(lines) = &mut trace.lines {
            lines.push_str(&line);
        }
    }
    /// Hash of the trace, and its text if it was kept.
    pub fn trace(&self) -> (u64, Option<String>) {
        let trace = self.trace.borrow();
        (trace.hash, trace.lines.clone())
    }
    /// Something is wrong. Only the first is kept.
    pub fn fail(&self, what: String) {
        self.note(format_args!("FAILED: {what}"));
        self.failure.borrow_mut().get_or_insert(what);
    }
    /// What went wrong.
    pub fn failure(&self) -> Option<String> {
        self.failure.borrow().clone()
    }

    /// Counts a signal and wakes who waits for it.
    pub fn raise(&self, signal: Signal) {
        self.segment.budget().raise(signal);
        let mut waiters = self.signal_waiters.borrow_mut();
        waiters.extract_if(.., |(of, _)| *of == signal).for_each(|(_, task)| self.executor.unpark(task));
    }
    /// Waits for a change of a signal's count.
    pub async fn wait(&self, signal: Signal, seen: u32, timeout_ns: u64) {
        let until = self.executor.now_ns() + timeout_ns;
        while self.segment.budget().signal_count(signal) == seen && self.executor.now_ns() < until {
            self.signal_waiters.borrow_mut().push((signal, self.executor.current()));
            self.executor.park("a signal", Some(until)).await;
        }
    }
    /// Waits up to `ns_max`.
    pub async fn sleep_up_to(&self, ns_max: u64) {
        let ns = self.below(ns_max);
        self.executor.sleep(ns).await;
    }
    /// Slowness of a new task.
    pub fn slowness(&self) -> u64 {
        if self.below(4) == 0 { self.options.slowness } else { 1 }
    }
}
