//! Joins the run when the program starts, before its own constructors where the linker allows.
//!
//! A process that cannot reach the supervisor is left alone ([`uswap_host::invitation`]).

use crate::state::{self, OPTIONS, Phase, SEGMENT, SEGMENT_BYTES, SEGMENT_START};
use crate::{hooks, kswapd};
use core::ffi::{c_char, c_int};
use core::sync::atomic::Ordering;
use uswap_core::counters::Counter;
use uswap_core::segment::Segment;
use uswap_host::invitation::{self, Invitation};
use uswap_os::{memory, process};

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = constructor;

extern "C" fn constructor(_: c_int, _: *const *const c_char, environment: *const *const c_char) {
    // SAFETY: 1. it is what the dynamic linker hands to every constructor, before threads of the program run.
    if let Some(invitation) = unsafe { Invitation::find(environment) } {
        join(invitation);
    }
}

fn join(invitation: Invitation) -> Option<()> {
    OPTIONS.store(invitation.options.bits(), Ordering::Relaxed);
    let opened = invitation::open_segment()?;
    SEGMENT_START.store(opened.start, Ordering::Release);
    SEGMENT_BYTES.store(opened.bytes, Ordering::Release);
    let segment = SEGMENT.set(opened.segment);
    state::keep_workspaces_out_of_cores().ok()?;
    state::set_phase(Phase::Watching);
    segment.counters().add(Counter::Joined, 1);
    hooks::register_fork_handlers();
    memory::keep_unlocked_page().ok()?;
    kswapd::start(kswapd::Begin::Watching);
    Some(())
}

/// The record is complete: the supervisor may look at the process. On kswapd.
pub fn announce(segment: &Segment<'static>) {
    let record = segment.mms().record(state::mm());
    // The supervisor may want it when the process is gone.
    if let Ok(name) = process::own_command_name() {
        record.set_name(name.as_bytes());
    }
    record.announce();
}
