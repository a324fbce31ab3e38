//! Hashes and compresses what processes of the run hand over, on a processor where the program does not run.
//!
//! Only who has a memory map of its own can do that without a TLB flush in the program's: threads of the agent cannot.

use std::sync::Mutex;

use uswap_core::budget::Signal;
use uswap_core::store_jobs::JobHead;
use uswap_engine::Workspace;
use uswap_engine::storer::{RemoteFrames, Storer};
use uswap_os::{Errno, process};
use uswap_units::PAGE_BYTES;

use super::away::Away;
use super::shared::Shared;
use super::shrinker::block;

/// Too large for a stack.
static WORKSPACE: Mutex<Workspace> = Mutex::new(Workspace::new());

const IDLE_NS: u64 = 100_000_000;

impl RemoteFrames for Shared {
    fn read_frames(&self, head: JobHead, first: u32, pages: &mut [[u8; PAGE_BYTES]]) -> bool {
        let bytes = pages.as_flattened_mut();
        let wanted = bytes.len();
        let address = head.address + u64::from(first) * PAGE_BYTES as u64;
        match process::read_memory(head.pid, address, bytes) {
            Ok(read) => read == wanted,
            // Forbidden here (a seccomp filter, or a process that may not be traced): each does its own work.
            Err(Errno::EPERM | Errno::ENOSYS) => {
                self.segment.store_jobs().set_open(false);
                false
            }
            Err(_) => false,
        }
    }
}

pub fn run(shared: &Shared) {
    let jobs = shared.segment.store_jobs();
    let mut away = Away::new(shared);
    if !away.is_possible() {
        return;
    }
    let mut workspace = WORKSPACE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut storer = Storer::new(&mut workspace);
    jobs.set_open(true);
    while !shared.is_stopping() {
        away.follow(shared);
        let seen = shared.segment.budget().signal_count(Signal::Store);
        if !block(storer.turn(shared.segment, shared)) {
            storer.rest(shared.segment, shared);
            block(uswap_engine::Backing::wait(shared, Signal::Store, seen, IDLE_NS));
        }
    }
    jobs.set_open(false);
}
