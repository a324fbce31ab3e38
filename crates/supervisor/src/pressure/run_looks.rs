//! Whether anything of the run is done while a thread waits for a page: the looks that "full" of the whole run is made
//! of.
//!
//! A look asks the processes that wait first, each as [`full`](super::full) does, and then all others of the run,
//! managed or not: there, a thread that runs or waits for the disk is at work. It ends with the first that is. So it is
//! of one moment as far as asking is quick: 8 us for each thread. Looks are as rare as those at one process with as
//! many threads, and take what was seen of a process in this instant.

use std::time::Instant;

use uswap_core::mm::MmRecord;

use super::full::{Due, OwnThreads, ThreadStates, threads_of};
use crate::processes::Processes;

/// When was looked, and what is known for the next look.
#[derive(Default)]
pub struct RunLooks {
    due: Due,
    own: OwnThreads,
}

/// A process of which a thread waits.
#[derive(Clone, Copy)]
pub struct Waiting<'a> {
    /// Its record.
    pub record: MmRecord<'a>,
    /// What was seen of it in this instant, if it was looked at.
    pub seen: Option<ThreadStates>,
}

impl RunLooks {
    /// Looks, if it is time: whether nothing is done. `pids`: all processes of the run. None: it is not time, or nobody
    /// waits any more.
    pub fn look(&mut self, processes: &Processes, waiting: &[Waiting<'_>], pids: &[u32]) -> Option<bool> {
        let now = Instant::now();
        if waiting.is_empty() || !self.due.is_at(now) {
            return None;
        }
        let own = self.own.for_a_look();
        let (mut threads, mut found) = (0, None);
        for process in waiting {
            let seen = process.seen.or_else(|| ThreadStates::now(processes, process.record, own));
            threads += seen.map_or(0, |seen| seen.threads);
            if let Some(is_full) = seen.and_then(|seen| seen.is_full) {
                found = Some(is_full);
            }
            if found == Some(false) {
                break;
            }
        }
        if found == Some(true) {
            let waits = |pid: u32| waiting.iter().any(|process| process.record.pid() == pid);
            let is_at_work = pids.iter().filter(|pid| !waits(**pid)).any(|&pid| {
                let others = threads_of(pid, own);
                threads += others.threads;
                others.is_at_work()
            });
            found = Some(!is_at_work);
        }
        self.due = Due::after(now, threads);
        found
    }
}
