//! The thread that evicts while the program runs. It sleeps until there is pressure.
//!
//! What must hold: the process ends when the last thread of the program does. It would not while this thread lives, so
//! that ends ahead of it wherever that thread may end unseen: see [`Process::dismiss_background`]. What is left is a
//! filter of system calls that the program inherits, and that kills a thread: this one finds itself alone then, and
//! ends the process.
//!
//! Called by [`crate::joining`], which starts the thread, and by [`crate::leaving`], which ends it.

use crate::process::{Phase, Process, Space};
use crate::{messages, supervisor, swap_files};
use core::mem::ManuallyDrop;
use core::sync::atomic::Ordering;
use uswap_core::budget::Signal;
use uswap_core::counters::Counter;
use uswap_core::held_files::HeldFiles;
use uswap_engine::memory_map::{MapStep, MapWalk};
use uswap_engine::reclaim::{Background, KswapdFailures};
use uswap_engine::{Backing as _, block_on};
use uswap_os::fd::Timeout;
use uswap_os::futex::{self, Scope};
use uswap_os::mlock::StatusFile;
use uswap_os::process::{StatFile, StatmFile, ThreadsLeft};
use uswap_os::{clock, thread};

/// Sleeps without pressure last this long at most, so that a supervisor that is gone is noticed.
const SLEEP_NS: u64 = 1_000_000_000;
/// How often the process is measured while it is reclaimed from.
const MEASURE_NS: u64 = 5_000_000;

/// How often a look is taken at what the program has locked.
const LOOK_AT_LOCKS_NS: u64 = 500_000_000;

/// How often a look is taken whether a thread of the program lives, and at its children.
const LOOK_AT_THREADS_NS: u64 = 500_000_000;

/// How long a thread that ends is waited for at most; it may be stopped by a debugger.
const DISMISSAL_NS: u64 = 2_000_000_000;
/// A step of that wait.
const DISMISSAL_STEP_NS: u64 = 50_000_000;

/// Nice value of the thread, where the kernel grants one below 0.
const NICE: i32 = -15;

/// What the thread keeps.
struct Evicting {
    process: &'static Process,
    space: &'static Space,
    statm: Option<ManuallyDrop<StatmFile>>,
    stat: Option<ManuallyDrop<StatFile>>,
    status: Option<ManuallyDrop<StatusFile>>,
    measured_ns: u64,
    counted_ns: u64,
    looked_at_locks_ns: u64,
    looked_at_threads_ns: u64,
    files_seen: Option<u64>,
    /// The map that is being made of the memory of this process.
    map: Option<MapWalk<'static>>,
}

/// The first code of the thread; the argument is the address of the process.
pub(crate) extern "C" fn main(process: usize) {
    // SAFETY:
    // 1. It comes from `spawn_background`, which has a `&'static Process`.
    let process = unsafe { &*(process as *const Process) };
    thread::set_name(c"uswap-kswapd");
    // While it waits for a processor, threads of the program wait for words that it has locked.
    let _only_root_may = thread::set_nice(thread::thread_id(), NICE);
    let Some(space) = process.space() else { return };
    let now_ns = clock::now_ns();
    let mut evicting = Evicting {
        process,
        space,
        statm: process.background_files.statm(),
        stat: process.background_files.stat(),
        status: process.background_files.status(),
        measured_ns: 0,
        counted_ns: 0,
        looked_at_locks_ns: now_ns,
        looked_at_threads_ns: now_ns,
        files_seen: None,
        map: None,
    };
    evicting.live();
    process.background_files.close();
}

impl Process {
    /// Ends the thread that evicts, for good, and waits until it is gone. Not inside the gate.
    ///
    /// For a process whose memory stays at home: the thread has nothing to do there, and would be in the way. A filter
    /// that the program sets for all of its threads is about the calls of this one too; and where a filter kills the
    /// last thread of the program, the process has to end, with the status of that thread.
    pub(crate) fn dismiss_background(&self) {
        // Acquire pairs with the Release at the end: another thread that finds 0 here finds that one gone.
        let process_id = self.evicting_id.load(Ordering::Acquire);
        let (Some(space), true) = (self.space(), process_id != 0) else { return };
        let thread_id = self.background_stack.thread_id();
        // Ahead of the signal: who has seen the count before that looks here first. The Release of `raise` pairs with
        // the Acquire of `signal_count` in `live`: who reads the new count sees the mark.
        self.dismissed.store(1, Ordering::SeqCst);
        space.world().raise(Signal::Pressure);
        let began_ns = clock::now_ns();
        let is_late = || clock::now_ns().saturating_sub(began_ns) >= DISMISSAL_NS;
        while !self.background_stack.join(Timeout::Nanoseconds(DISMISSAL_STEP_NS)) {
            if is_late() {
                return;
            }
        }
        // It has left its stack, and the kernel may count it among the threads a moment longer.
        let exists = |thread_id| thread::send_signal(process_id, thread_id, 0).is_ok();
        while thread_id.is_some_and(exists) && !is_late() {
            thread::yield_now();
        }
        self.evicting_id.store(0, Ordering::Release);
    }

    /// The order is that of the signal behind the mark, whose Release pairs with the Acquire of `signal_count`: `live`
    /// reads the count before it looks here, and does not sleep if that has changed since.
    fn is_background_dismissed(&self) -> bool {
        self.dismissed.load(Ordering::SeqCst) != 0
    }
}

impl Evicting {
    fn live(&mut self) {
        let segment = self.space.segment();
        let budget = segment.budget();
        loop {
            self.count_cpu();
            self.look_at_locks();
            self.look_at_threads();
            let seen = budget.signal_count(Signal::Pressure);
            if self.process.is_background_dismissed() || self.has_come_home() {
                self.space.world().files.close_all();
                self.space.record().set_held_files(HeldFiles::NEVER_AGAIN);
                return;
            }
            self.follow_files();
            self.measure();
            let marks = self.space.watermarks();
            let used = budget.used();
            let may_evict = self.space.may_evict() && self.process.phase() != Phase::Home;
            let is_idle = used <= marks.register || budget.is_ending() || !may_evict;
            if !budget.is_ending() && !supervisor::lives(&segment) {
                // Nobody measures or writes back any more: keep what is there readable, and evict nothing.
                self.space.hold_evicting();
                messages::supervisor_is_gone(&segment, messages::say);
                return;
            }
            if !is_idle && self.process.phase() == Phase::Watching {
                self.process.activate(self.space);
            }
            self.space.note_looked();
            self.go_on_with_map();
            if !is_idle && used > marks.low {
                self.evict();
            } else if self.map.is_none() {
                let word = budget.signal_word(Signal::Pressure);
                futex::wait_low(word, seen, Timeout::Nanoseconds(SLEEP_NS), Scope::Shared);
            }
        }
    }

    /// The run is to be left: the memory of the process is at home now, for good.
    fn has_come_home(&self) -> bool {
        let is_leaving = self.space.segment().budget().is_leaving();
        if is_leaving {
            self.process.bring_home(None);
        }
        is_leaving
    }

    /// From low down to high.
    fn evict(&mut self) {
        let segment = self.space.segment();
        segment.counters().add(Counter::KswapdWakes, 1);
        let mut failures = KswapdFailures::default();
        loop {
            let mut evictor = self.process.evictors.borrow();
            let turn = block_on(self.space.background_turn(&mut evictor, &mut failures));
            drop(evictor);
            self.measure();
            self.look_at_threads();
            self.follow_files();
            self.go_on_with_map();
            if turn == Background::Rests || self.process.is_background_dismissed() {
                return;
            }
            if !supervisor::lives(&segment) {
                return;
            }
        }
    }

    /// Somebody looks at the run and wants to know which parts of the memory are where: a part of the answer at a time,
    /// so that evicting goes on.
    fn go_on_with_map(&mut self) {
        let walk = match (self.map.take(), self.space.map_request()) {
            (Some(walk), _) => walk,
            (None, None) => return,
            (None, Some(request)) if self.process.phase() == Phase::Active => self.space.begin_map(request),
            (None, Some(request)) => return self.space.answer_empty_map(request),
        };
        if let MapStep::GoesOn(walk) = block_on(self.space.step_map(walk)) {
            self.map = Some(walk);
        }
    }

    /// A process whose memory is at home for good reads no file.
    fn follow_files(&mut self) {
        let files = (self.process.phase() != Phase::Home).then(|| &self.space.world().files);
        let segment = self.space.segment();
        swap_files::follow(&segment, self.space.record(), files, &mut self.files_seen);
    }

    fn measure(&mut self) {
        let now_ns = clock::now_ns();
        if now_ns.saturating_sub(self.measured_ns) < MEASURE_NS {
            return;
        }
        self.measured_ns = now_ns;
        if let Some(statm) = &self.statm
            && let Ok(now) = statm.read()
        {
            self.space.record().set_resident_pages(now.anonymous_pages());
        }
    }

    fn look_at_locks(&mut self) {
        let now_ns = clock::now_ns();
        let is_time = now_ns.saturating_sub(self.looked_at_locks_ns) >= LOOK_AT_LOCKS_NS;
        if is_time && self.process.locks.has_any() {
            self.looked_at_locks_ns = now_ns;
            let status = self.status.as_ref();
            self.process.count_as_locked(status.and_then(|status| status.locked_bytes().ok()).unwrap_or(0));
        }
    }

    /// If no thread of the program lives any more, the process ends. What children have left behind is given up.
    fn look_at_threads(&mut self) {
        let now_ns = clock::now_ns();
        if now_ns.saturating_sub(self.looked_at_threads_ns) < LOOK_AT_THREADS_NS {
            return;
        }
        self.looked_at_threads_ns = now_ns;
        let threads_left = self.stat.as_ref().and_then(|stat| stat.threads_left().ok());
        if let Some(ThreadsLeft::OneBesideTheFirst { status_of_first }) = threads_left {
            self.process.end_after_its_threads(status_of_first);
        }
        self.process.look_at_children(self.space);
    }

    /// Adds what the thread has used of the processor since the last time to the counter of the run.
    fn count_cpu(&mut self) {
        let now_ns = clock::thread_cpu_ns();
        let counters = self.space.segment().counters();
        counters.add(Counter::EngineCpuNs, now_ns.saturating_sub(self.counted_ns));
        self.counted_ns = now_ns;
    }
}
