//! Hashes and compresses what processes of the run hand over, on a processor where the program does not run.
//!
//! Only who has a memory map of its own can do that without a TLB flush in the program's: threads of the agent cannot.

use std::ops::Range;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use uswap_core::budget::Signal;
use uswap_core::load_jobs::LOAD_JOBS;
use uswap_core::store_jobs::JobHead;
use uswap_engine::Workspace;
use uswap_engine::loader::{BackgroundReads, Reading, Turn};
use uswap_engine::storer::{RemoteFrames, Storer};
use uswap_os::{Errno, file, process};
use uswap_units::PAGE_BYTES;
use uswap_units::limits::LOAD_BUFFER_BYTES;

use super::away::Away;
use super::shared::Shared;
use super::shrinker::block;

/// Too large for a stack.
static WORKSPACE: Mutex<Workspace> = Mutex::new(Workspace::new());

/// Without an end in tests: who goes on waiting when the run has ended hangs there.
const IDLE_NS: u64 = if cfg!(test) { u64::MAX / 4 } else { 100_000_000 };

/// After so long without work the buffers of reads are given back.
const REST_AFTER: Duration = Duration::from_millis(50);

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

/// Reads of the swap files by the storer's own ring.
struct Reads<'a> {
    shared: &'a Shared,
    reads: file::BackgroundReads<LOAD_JOBS>,
}

impl BackgroundReads for Reads<'_> {
    fn begin(&mut self, number: usize, parts: &[Range<u64>]) -> usize {
        if !self.reads.clear(number) {
            return 0;
        }
        let files = self.shared.segment.slots().files();
        let mut end = 0;
        // The system has them open itself once it was told of the reads.
        let mut open = Vec::with_capacity(parts.len());
        for part in parts {
            let start = end;
            end += (part.end - part.start) as usize;
            let Some((file, offset)) = self.shared.files.locate(files, part.start) else { break };
            let is_added = file.file().is_some_and(|file| self.reads.add(number, start..end, file, offset));
            if !is_added {
                break;
            }
            open.push(file);
        }
        self.reads.submit(number);
        open.len()
    }

    fn state(&mut self, number: usize) -> Reading {
        match self.reads.state(number) {
            file::Reading::UnderWay => Reading::UnderWay,
            file::Reading::Ended => Reading::Ended,
            file::Reading::Failed => Reading::Failed,
        }
    }

    fn content(&self, number: usize) -> &[u8] {
        self.reads.content(number)
    }

    async fn wait(&mut self) {
        self.reads.wait();
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
    let mut reads = Reads { shared, reads: file::BackgroundReads::new(LOAD_BUFFER_BYTES) };
    jobs.set_open(true);
    let mut idle_since = None;
    loop {
        // Before the question whether the run has ended: its end raises the signal too.
        let seen = shared.segment.budget().signal_count(Signal::Store);
        if shared.is_stopping() {
            break;
        }
        away.follow(shared);
        match block(storer.turn(shared.segment, shared, &mut reads)) {
            Turn::Ended => idle_since = None,
            Turn::Reads => block(reads.wait()),
            Turn::Idle => {
                if idle_since.get_or_insert_with(Instant::now).elapsed() >= REST_AFTER {
                    reads.reads.rest();
                }
                storer.rest(shared.segment, shared);
                block(uswap_engine::Backing::wait(shared, Signal::Store, seen, IDLE_NS));
            }
        }
    }
    jobs.set_open(false);
}
