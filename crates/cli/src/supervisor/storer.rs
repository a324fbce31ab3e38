//! Hashes and compresses what processes of the run hand over, on a processor where the program does not run.
//!
//! Only who has a memory map of its own can do that without a TLB flush in the program's: threads of the agent cannot.

use std::sync::Mutex;

use uswap_core::budget::Signal;
use uswap_core::placement::{Processors, members, only};
use uswap_core::store_jobs::JobHead;
use uswap_engine::Workspace;
use uswap_engine::storer::{RemoteFrames, Storer};
use uswap_os::{Errno, process, thread};
use uswap_units::PAGE_BYTES;

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
    let everywhere = shared.segment.placement().processors();
    if members(&everywhere).count() < 2 {
        return;
    }
    let mut workspace = WORKSPACE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut storer = Storer::new(&mut workspace);
    let mut away_from = None;
    jobs.set_open(true);
    while !shared.is_stopping() {
        let together = shared.segment.placement().together();
        if together != away_from {
            let _stays_where_it_is =
                thread::set_affinity(thread::thread_id(), &without(&everywhere, together));
            away_from = together;
        }
        let seen = shared.segment.budget().signal_count(Signal::Store);
        if !block(storer.turn(shared.segment, shared)) {
            block(uswap_engine::Backing::wait(shared, Signal::Store, seen, IDLE_NS));
        }
    }
    jobs.set_open(false);
}

fn without(everywhere: &Processors, cpu: Option<u32>) -> Processors {
    let not = cpu.map_or([0; 16], only);
    core::array::from_fn(|word| everywhere[word] & !not[word])
}
