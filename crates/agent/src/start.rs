//! Joins the run when the program starts, before its own constructors where the linker allows.
//!
//! `uswap run` puts `USWAP_RUN` into the environment: see [`crate::supervisor`]. A process that cannot reach the supervisor is left alone.

use crate::contend;
use crate::state::{self, OPTIONS, Phase, SEGMENT, SEGMENT_BYTES, SEGMENT_START};
use crate::{hooks, kswapd, supervisor};
use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::Ordering;
use uswap_core::counters::Counter;
use uswap_core::segment::{Notice, Segment};
use uswap_os::memory::{self, Access};
use uswap_os::{message, process};

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = constructor;

extern "C" fn constructor(_: c_int, _: *const *const c_char, environment: *const *const c_char) {
    if let Some(value) = find_variable(environment) {
        join(value);
    }
}

/// The value of `USWAP_RUN`. glibc hands constructors the environment; it is not read through libc.
fn find_variable(environment: *const *const c_char) -> Option<&'static [u8]> {
    let mut at = environment;
    loop {
        // SAFETY:
        // 1. `environment` is the array that the dynamic linker hands to every constructor: pointers to strings, ended by null.
        // 2. No thread of the program runs yet that could change it.
        let entry = unsafe { at.as_ref()?.as_ref()? };
        // SAFETY: 1. each entry is a string that ends with a zero byte and lives as long as the process.
        let entry = unsafe { CStr::from_ptr(entry) }.to_bytes();
        if let Some(value) = entry.strip_prefix(b"USWAP_RUN=") {
            return Some(value);
        }
        // SAFETY: 1. the entry was not null, so the array goes on.
        at = unsafe { at.add(1) };
    }
}

fn join(value: &[u8]) -> Option<()> {
    OPTIONS.store(supervisor::accept(value)?, Ordering::Relaxed);
    let file = supervisor::open_segment().ok()?;
    let bytes = file.status().ok()?.bytes as usize;
    let words = memory::map_shared_words(&file, bytes, Access::ReadWrite).ok()?;
    drop(file);
    let segment = match Segment::open(words) {
        Ok(segment) if segment.sources() == uswap_identity::OWN.words() => segment,
        other => {
            if other.map_or(true, |segment| segment.is_first_to_say(Notice::OtherSources)) {
                say_other_sources();
            }
            // SAFETY: 1. the mapping is new, and nobody else knows of it.
            let _unmapped = unsafe { memory::unmap(words.as_ptr() as usize, bytes) };
            return None;
        }
    };
    SEGMENT_START.store(words.as_ptr() as usize, Ordering::Release);
    SEGMENT_BYTES.store(bytes, Ordering::Release);
    let segment = SEGMENT.set(segment.waiting_by(contend::wait_for_lock));
    state::keep_workspaces_out_of_cores().ok()?;
    state::set_phase(Phase::Watching);
    segment.counters().add(Counter::Joined, 1);
    hooks::register_fork_handlers();
    memory::keep_unlocked_page().ok()?;
    kswapd::start(kswapd::Begin::Watching);
    Some(())
}

/// The segment is of other sources than this agent, whose file was replaced since the run began, or is another one than the run's: nothing else in it is read.
fn say_other_sources() {
    message::write_message(
        state::MESSAGES_FD,
        format_args!(
            "uswap: process {} and others that start now run outside the budget: their libuswap_agent.so (build {:08x}) is not \
             of the sources of the 'uswap' that runs them. Was uswap installed anew meanwhile? Start the run again.\n",
            process::process_id(),
            uswap_identity::OWN.build()
        ),
    );
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
