//! The thread that evicts while the program runs. It sleeps until there is pressure.

use crate::process::{Phase, Process, Space};
use crate::{messages, run, supervisor, swap_files};
use uswap_core::budget::Signal;
use uswap_core::counters::Counter;
use uswap_engine::in_place::reclaim::{Background, Fruitless};
use uswap_os::fd::Timeout;
use uswap_os::futex::{self, Scope};
use uswap_os::process::{self, StatmFile};
use uswap_os::{clock, thread};

/// Sleeps without pressure last this long at most, so that a supervisor that is gone is noticed.
const SLEEP_NS: u64 = 1_000_000_000;
/// So often the process is measured while it is reclaimed from.
const MEASURE_NS: u64 = 5_000_000;

/// So often it is looked for what the program has locked.
const LOOK_AT_LOCKS_NS: u64 = 500_000_000;

/// As the kswapd of the other mode.
const NICE: i32 = -15;

/// What the thread keeps.
struct Evicting {
    process: &'static Process,
    space: &'static Space,
    statm: Option<StatmFile>,
    measured_ns: u64,
    counted_ns: u64,
    looked_at_locks_ns: u64,
    files_seen: Option<u64>,
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
    announce(space);
    let statm = StatmFile::open_as(None, crate::descriptors::keep).ok();
    let mut evicting = Evicting {
        process,
        space,
        statm,
        measured_ns: 0,
        counted_ns: 0,
        looked_at_locks_ns: clock::now_ns(),
        files_seen: None,
    };
    evicting.live();
}

/// The record is complete: the supervisor may look at the process.
fn announce(space: &'static Space) {
    let record = space.record();
    // The supervisor may want it when the process is gone.
    if let Ok(name) = process::own_command_name() {
        record.set_name(name.as_bytes());
    }
    record.announce();
}

impl Evicting {
    fn live(&mut self) {
        let segment = self.space.segment();
        let budget = segment.budget();
        loop {
            self.count_cpu();
            self.look_at_locks();
            let seen = budget.signal_count(Signal::Pressure);
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
            if !is_idle && used > marks.low {
                self.evict();
            } else {
                let word = budget.signal_word(Signal::Pressure);
                futex::wait_low(word, seen, Timeout::Nanoseconds(SLEEP_NS), Scope::Shared);
            }
        }
    }

    /// From low down to high.
    fn evict(&mut self) {
        let segment = self.space.segment();
        segment.counters().add(Counter::KswapdWakes, 1);
        let mut fruitless = Fruitless::default();
        loop {
            let mut evictor = self.process.evictors.borrow();
            let turn = run(self.space.background_turn(&mut evictor, &mut fruitless));
            drop(evictor);
            self.measure();
            self.follow_files();
            if turn == Background::Rests {
                return;
            }
            if !supervisor::lives(&segment) {
                return;
            }
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
            self.process.count_locked();
        }
    }

    /// Adds what the thread has used of the processor since the last time to the counter of the run.
    fn count_cpu(&mut self) {
        let now_ns = clock::thread_cpu_ns();
        let counters = self.space.segment().counters();
        counters.add(Counter::EngineCpuNs, now_ns.saturating_sub(self.counted_ns));
        self.counted_ns = now_ns;
    }
}
