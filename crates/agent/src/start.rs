//! Joins the run when the program starts, before its own constructors where the linker allows.
//!
//! `uswap run` puts `USWAP_RUN=pid:segment:options` into the environment: the supervisor's process id, the number of one of its descriptors, and
//! option bits. The agent opens it, and the swap files that are listed there, through /proc; a process that cannot (another user, no /proc) is left alone.

use crate::contend;
use crate::state::{self, OPTIONS, Phase, SEGMENT, SEGMENT_BYTES, SEGMENT_START, SUPERVISOR};
use crate::{hooks, kswapd};
use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::Ordering;
use uswap_core::mm::{Hands, MmState};
use uswap_core::segment::Segment;
use uswap_os::fd::Fd;
use uswap_os::memory::{self, Access};
use uswap_os::sys::abi;
use uswap_os::{process, text};

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
    let (supervisor, rest) = text::take_number(value, 10)?;
    let (segment, rest) = text::take_number(rest.strip_prefix(b":")?, 10)?;
    let (options, _) = text::take_number(rest.strip_prefix(b":")?, 10)?;
    SUPERVISOR.store(supervisor as u32, Ordering::Relaxed);
    OPTIONS.store(options, Ordering::Relaxed);
    let path = process::descriptor_path(supervisor as u32, segment as i32);
    let file = Fd::open(path.as_c_str(), abi::O_RDWR | abi::O_CLOEXEC, 0).ok()?;
    let bytes = file.status().ok()?.bytes as usize;
    let words = memory::map_shared_words(&file, bytes, Access::ReadWrite).ok()?;
    drop(file);
    SEGMENT_START.store(words.as_ptr() as usize, Ordering::Release);
    SEGMENT_BYTES.store(bytes, Ordering::Release);
    let segment = SEGMENT.set(Segment::open(words).ok()?.waiting_by(contend::wait_for_lock));
    state::keep_workspaces_out_of_cores().ok()?;
    take_record(segment)?;
    state::set_phase(Phase::Watching);
    hooks::register_fork_handlers();
    memory::keep_unlocked_page().ok()?;
    kswapd::start(kswapd::Begin::Watching);
    Some(())
}

/// Takes a record for this process.
pub fn take_record(segment: &Segment<'static>) -> Option<()> {
    // If the process dies before it is announced, the supervisor finds the record by its number.
    let record = segment.mms().take(Hands::Process(process::ids_in_proc().process))?;
    let Ok(root) = segment.tables().allocate(record.id()) else {
        record.free();
        return None;
    };
    record.set_root(root);
    state::set_mm(record.id());
    Some(())
}

/// The record is complete: the supervisor may look at the process. On kswapd, under the ids that the supervisor knows: in another pid namespace it would look for somebody else, find nobody, and
/// give all that the process has to others.
pub fn announce(segment: &Segment<'static>) {
    let record = segment.mms().record(state::mm());
    let ids = process::ids_in_proc();
    record.set_kswapd_tid(u64::from(ids.thread));
    // The supervisor may want it when the process is gone.
    if let Ok(name) = process::command_name(ids.process) {
        record.set_name(name.as_bytes());
    }
    record.set_state(MmState::Live, ids.process);
}
