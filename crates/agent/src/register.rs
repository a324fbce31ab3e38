//! Registers parts of the program's memory so that no mapping stays registered in part.
//!
//! The kernel takes a mapping that is registered in part for two, and `mremap` of it fails. It happens when the program maps something new where kswapd has
//! just seen something smaller. So both ends of what was registered are looked at once more, and what was cut off there is registered too; and a `mremap`
//! that comes through [`crate::hooks`] is never between the two. One by a raw system call can be, for some microseconds.

use crate::scan::{for_each_allowed_part, is_candidate};
use crate::state::AgentEngine;
use uswap_engine::platform::{Platform, Register};
use uswap_os::clock;
use uswap_os::gate::{ExclusiveGuard, Gate, SharedGuard};
use uswap_os::maps::{Maps, MapsSource, Vma};
use uswap_units::{PAGE_BYTES, PageRange};

/// Shared: calls of mremap. Exclusive: from registering to the look at its ends.
static GATE: Gate = Gate::new();

/// So often, and so long each time, calls of mremap are waited for: such a call may itself wait for an engine thread that waits for kswapd.
const TRIES: u32 = 50;
const TRY_NS: u64 = 20_000;

/// A call of mremap begins; it ends when the guard is dropped.
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
            return Some(guard);
        }
        clock::sleep_ns(TRY_NS);
    }
    None
}

/// Registers `range`, and the rest of the mappings that begin before it or end behind it. False: refused.
pub fn register(engine: &AgentEngine, check: &Maps, range: PageRange) -> bool {
    let _no_call_of_mremap = enter();
    if engine.platform().register(range) == Register::Refused {
        return false;
    }
    // Without PROCMAP_QUERY a look costs as much as reading all mappings; then a cut heals at the next scan.
    if check.source() == MapsSource::Query {
        for edge in [range.start.address() as usize, range.end.address() as usize] {
            heal(engine, check, edge);
        }
    }
    true
}

/// If one mapping of the program was made two at `edge`, both become registered, and so one again.
fn heal(engine: &AgentEngine, check: &Maps, edge: usize) {
    let mapping_at = |address| check.covering_or_next(address).ok().flatten();
    let Some(behind) = mapping_at(edge).filter(|vma| vma.start == edge) else { return };
    let Some(before) = mapping_at(edge - PAGE_BYTES).filter(|vma| vma.end == edge) else { return };
    let are_alike = Vma { start: 0, end: 0, ..before } == Vma { start: 0, end: 0, ..behind };
    if are_alike && is_candidate(&before, PAGE_BYTES) {
        for_each_allowed_part(before.start, behind.end, |start, end| {
            if start < edge && edge < end {
                let both = PageRange::of_addresses(start as u64, end as u64);
                let _what_is_refused_is_no_memory_of_ours = engine.platform().register(both);
            }
        });
    }
}
