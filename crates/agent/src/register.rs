//! Registers the program's memory, whole mappings only.
//!
//! The kernel takes a mapping that is registered in part for two, and once both parts were touched they stay two:
//! `mremap` of it fails. It would happen when the program maps something new where kswapd has just seen something
//! smaller. So kswapd looks again at what is there in the moment in which it registers, and calls that come through
//! [`crate::hooks`] change no mapping meanwhile. Others can, for a microsecond: raw system calls, and those of the C
//! library itself, which moves no mapping that it did not make.

use crate::scan::{for_each_allowed_part, is_candidate};
use crate::state::AgentEngine;
use crate::sync::run;
use core::sync::atomic::{AtomicU32, Ordering};
use uswap_engine::platform::Register;
use uswap_os::clock;
use uswap_os::gate::{ExclusiveGuard, Gate, SharedGuard};
use uswap_os::maps::Maps;
use uswap_units::{PAGE_BYTES, PageRange};

/// Shared: calls that change mappings. Exclusive: from a look at a mapping until it is registered.
static GATE: Gate = Gate::new();

/// So often, and so long each time, such calls are waited for. Not for ever: a call may itself wait for an engine
/// thread that waits for kswapd.
const TRIES: u32 = 50;
const TRY_NS: u64 = 20_000;

/// So often in a row nothing is registered, because such calls follow one another without a pause.
const PATIENCE: u32 = 8;
static NOT_ENTERED: AtomicU32 = AtomicU32::new(0);

/// A call that changes mappings begins; it ends when the guard is dropped.
pub fn keep_out() -> SharedGuard<'static> {
    GATE.shared()
}

/// In a forked child: the other threads are not there, and their calls neither.
pub fn reset_after_fork() {
    GATE.reset();
}

fn enter() -> Option<ExclusiveGuard<'static>> {
    for _ in 0..TRIES {
        if let Some(guard) = GATE.try_exclusive() {
            NOT_ENTERED.store(0, Ordering::Relaxed);
            return Some(guard);
        }
        clock::sleep_ns(TRY_NS);
    }
    None
}

/// Registers the mapping that holds `range`, as far as it may be. False: refused, or no such mapping is there (any
/// more), or not now.
pub fn register(engine: &AgentEngine, check: &Maps, range: PageRange) -> bool {
    let no_call_changes_mappings = enter();
    if no_call_changes_mappings.is_none() && NOT_ENTERED.fetch_add(1, Ordering::Relaxed) < PATIENCE {
        return false;
    }
    whole(check, range).is_some_and(|whole| run(engine.register(whole)) == Register::Done)
}

/// The allowed part of the mapping around `range`, if one mapping holds all of that.
fn whole(check: &Maps, range: PageRange) -> Option<PageRange> {
    let (first, behind) = (range.start.address() as usize, range.end.address() as usize);
    let here = check.covering_or_next(first).ok().flatten()?;
    if first < here.start || here.end < behind || !is_candidate(&here, PAGE_BYTES) {
        return None;
    }
    let mut whole = None;
    for_each_allowed_part(here.start, here.end, |start, end| {
        if start <= first && behind <= end {
            whole = Some(PageRange::of_addresses(start as u64, end as u64));
        }
    });
    whole
}
