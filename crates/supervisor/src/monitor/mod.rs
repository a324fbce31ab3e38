//! Measures used memory and raises pressure.
//!
//! The closer memory comes to the budget, the more often it is measured: between two looks the program may take what
//! two processors can touch.

mod locked;
mod pool_share;
mod shares;
mod tree;
mod unmanaged;
mod unseen;
mod why;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use uswap_control::unpoisoned;
use uswap_core::balance::Headroom;
use uswap_core::budget::Signal;
use uswap_core::counters::Counter;
use uswap_os::clock::thread_cpu_ns;
use uswap_os::process::StatmFile;
use uswap_units::{Bytes, PAGE_BYTES};

use crate::counting::peak::Peak;
use crate::holders::{Look, Situation};
use crate::human;
use crate::shared::Shared;
use locked::Locked;
use pool_share::PoolShare;
use shares::Shares;
use tree::Tree;

/// First touches at 1.5 us a page on two processors.
const BYTES_PER_MS: u64 = 2 * PAGE_BYTES as u64 * 1000 * 2 / 3;

/// Memory that appears between two looks, beyond what the engines have given out, is growth from this part of the
/// budget on.
const GROWTH_PART: u64 = 64;

/// Without growth for so long, little memory is kept free.
const QUIET: Duration = Duration::from_millis(250);

/// Looking takes at most one part in so many of a processor, as long as [`INTERVAL_BUSY`] suffices for that.
const LOOK_PART: u64 = 5;
/// However long a look takes, a program that fills its memory is not left alone for longer.
const INTERVAL_BUSY: Duration = Duration::from_millis(4);

const INTERVAL_MAX: Duration = Duration::from_millis(50);
const INTERVAL_MIN: Duration = Duration::from_millis(2);

pub fn run(shared: &Shared) {
    let mut meter = Meter::new(shared);
    // It stays where the run is: what it reads of many processes is of one moment only while none of them runs.
    let mut share = PoolShare::new();
    let mut shares = Shares::default();
    let mut locked = Locked::default();
    let _only_root_may = uswap_os::thread::set_nice(uswap_os::thread::thread_id(), -15);
    let (mut last, mut grew, mut looked_at_file) = (Instant::now(), Instant::now(), Instant::now());
    while !shared.is_stopping() {
        let began_ns = thread_cpu_ns();
        let budget = shared.segment.budget();
        let before = budget.used();
        shared.processes.follow(shared.segment.mms(), &shared.memfd);
        let (used, engine) = meter.measure(shared, last.elapsed());
        shares.follow(shared);
        // Which of the pages that came meanwhile were seen is not known.
        let expected = before.max(budget.used());
        budget.set_measured(before, used);
        last = Instant::now();
        if used.above(expected) > budget.ram().bytes() / GROWTH_PART {
            grew = last;
        }
        budget.set_headroom(if grew.elapsed() < QUIET { Headroom::Wide } else { Headroom::Narrow });
        let marks = shared.segment.budget().watermarks();
        if used > marks.register {
            shared.raise(Signal::Pressure);
        }
        if used <= marks.min {
            shared.raise(Signal::Room);
        }
        if looked_at_file.elapsed() >= FILE_LOOK {
            let slots = budget.note_file(shared.segment.slots());
            shared.peaks.slots.fetch_max(slots * PAGE_BYTES as u64, Ordering::Relaxed);
            looked_at_file = Instant::now();
        }
        share.follow(shared, engine);
        if let Some(text) = shared.pressure.follow(&shared.processes, &meter.tree.pids())
            && shared.keeps_budget()
        {
            shared.warn(&text);
        }
        locked.follow(shared);
        let cost_ns = thread_cpu_ns().saturating_sub(began_ns);
        shared.sleep(interval(used, marks.register, cost_ns));
    }
    meter.finish(shared);
    shares.finish(shared);
    locked.follow(shared);
}

/// How often the slots of the file are counted: a large file has many.
const FILE_LOOK: Duration = Duration::from_millis(20);

/// Half the time that it would take at least to get from here to where memory is taken under management. `cost_ns`:
/// processor time of the last look, of which there are more the more processes there are.
fn interval(used: Bytes, register: Bytes, cost_ns: u64) -> Duration {
    let headroom = register.above(used);
    let least = Duration::from_nanos(cost_ns * LOOK_PART).clamp(INTERVAL_MIN, INTERVAL_BUSY);
    Duration::from_micros(headroom * 1000 / BYTES_PER_MS / 2).clamp(least, INTERVAL_MAX)
}

/// Looks at all that the run uses, and keeps what is known between two looks.
struct Meter {
    tree: Tree,
    own_sizes: Option<StatmFile>,
    resident_peak: Peak,
    used_peak: Peak,
    look_at_holders: Look,
    /// The user knows that the budget cannot be kept.
    told_of_holders: bool,
}

impl Meter {
    fn new(shared: &Shared) -> Meter {
        Meter {
            tree: Tree::new(shared),
            own_sizes: StatmFile::open(None).ok(),
            resident_peak: Peak::default(),
            used_peak: Peak::default(),
            look_at_holders: Look::default(),
            told_of_holders: false,
        }
    }

    /// What the run uses, and what of that is uswap's own beside the pool.
    fn measure(&mut self, shared: &Shared, elapsed: Duration) -> (Bytes, u64) {
        let page = PAGE_BYTES as u64;
        let sizes = self.tree.measure(shared);
        let (resident, shared_memory) = (sizes.anonymous_pages * page, sizes.shared_bytes);
        let pool = shared.segment.pool().resident_bytes();
        let own = self.own_sizes.as_ref().and_then(|file| file.read().ok());
        let own = own.map_or(0, |statm| statm.anonymous_bytes());
        let engine = shared.segment_bytes().saturating_sub(pool) + own;
        let used = Bytes::new(resident + shared_memory + pool + engine);
        if !shared.keeps_budget() {
            return (used, engine);
        }
        let certainty = sizes.certainty.in_units_of(page);
        let peaks = &shared.peaks;
        for (peak, value) in [
            (&peaks.resident, self.resident_peak.note(resident, certainty)),
            (&peaks.shared, shared_memory),
            (&peaks.pool, pool),
            (&peaks.engine, engine),
            (&peaks.used, self.used_peak.note(used.bytes(), certainty)),
        ] {
            peak.fetch_max(value, Ordering::Relaxed);
        }
        if used > shared.segment.budget().ram() {
            peaks.over_budget_ns.fetch_add(elapsed.as_nanos() as u64, Ordering::Relaxed);
        }
        self.look_at_holders(shared, used, shared_memory, engine);
        (used, engine)
    }

    /// Finds out what is in the way when the run is over its budget; says so if that alone is too much.
    fn look_at_holders(&mut self, shared: &Shared, used: Bytes, shared_bytes: u64, engine_bytes: u64) {
        let ram = shared.segment.budget().ram();
        let unmanaged = if used > ram { self.tree.unmanaged() } else { Vec::new() };
        let found = self.look_at_holders.follow(&Situation {
            ram_bytes: ram.bytes(),
            used_bytes: used.bytes(),
            shared_bytes,
            engine_bytes,
            forced_over: shared.segment.counters().get(Counter::ForcedOver),
            managed: self.tree.managed(),
            unmanaged: &unmanaged,
        });
        let Some(holders) = found else { return };
        if holders.total_bytes() > ram.bytes()
            && let Some(text) = holders.text()
            && !core::mem::replace(&mut self.told_of_holders, true)
        {
            shared.warn(&format!(
                "what uswap may not move is more than the budget of {}, which cannot be kept: {text}",
                human::bytes(ram.bytes())
            ));
        }
        *unpoisoned(shared.holders.lock()) = Some(holders);
    }

    /// The run ends: what is still doubtful counts as far as what was counted of it has shown.
    fn finish(self, shared: &Shared) {
        let (peaks, true_part) = (&shared.peaks, self.tree.finish());
        peaks.resident.fetch_max(self.resident_peak.finish(true_part), Ordering::Relaxed);
        peaks.used.fetch_max(self.used_peak.finish(true_part), Ordering::Relaxed);
    }
}
