//! The processes of the run as the kernel shows them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use uswap_core::mm::{MmRecord, MmState, MmTable};
use uswap_os::process::StatmFile;

use super::shared::Shared;
use super::unmanaged::UnmanagedProcesses;

/// How often memory that a fork left shared is counted; a count walks the page tables of the process.
const SHARED_EVERY: Duration = Duration::from_millis(50);

/// Open files of the processes that are measured, and what was found out the slow way.
#[derive(Default)]
pub struct Tree {
    statm: HashMap<u32, StatmFile>,
    shared_counted: HashMap<u32, Instant>,
    unmanaged: UnmanagedProcesses,
}

impl Tree {
    /// Anonymous memory of all processes of the run, in pages. Shared pages of forked relatives are counted once, as far as it is known.
    pub fn anonymous_pages(&mut self, shared: &Shared) -> u64 {
        let mut total = 0;
        let records = records_of_processes(shared.segment.mms());
        for &(pid, record) in &records {
            let Some(pages) = self.pages_of(pid) else { continue };
            record.set_resident_pages(pages);
            if record.fork_generation() > 0 {
                self.count_shared(pid, |shared_pages| record.set_shared_pages(shared_pages));
            }
            total += pages - record.shared_pages().min(pages);
        }
        let known: Vec<u32> = records.iter().map(|&(pid, _)| pid).collect();
        let unmanaged = self.unmanaged.look(shared, &known);
        self.statm.retain(|pid, _| known.contains(pid) || unmanaged.contains(pid));
        total + unmanaged.into_iter().filter_map(|pid| self.pages_of(pid)).sum::<u64>()
    }

    fn pages_of(&mut self, pid: u32) -> Option<u64> {
        if let Some(pages) = self.statm.get(&pid).and_then(|file| file.read().ok()) {
            return Some(pages.anonymous_pages());
        }
        let file = StatmFile::open(Some(pid)).ok()?;
        let pages = file.read().ok()?.anonymous_pages();
        self.statm.insert(pid, file);
        Some(pages)
    }

    /// Resident minus proportional memory: what is counted in another process too.
    fn count_shared(&mut self, pid: u32, set: impl FnOnce(u64)) {
        if self.shared_counted.get(&pid).is_some_and(|counted| counted.elapsed() < SHARED_EVERY) {
            return;
        }
        self.shared_counted.insert(pid, Instant::now());
        let Ok(text) = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) else { return };
        let kilobytes = |name: &str| -> Option<u64> {
            let line = text.lines().find(|line| line.starts_with(name))?;
            line[name.len()..].trim().trim_end_matches("kB").trim().parse().ok()
        };
        if let (Some(all), Some(proportional)) = (kilobytes("Anonymous:"), kilobytes("Pss_Anon:")) {
            set(all.saturating_sub(proportional) / 4);
        }
    }
}

/// Each process once: who has executed a new program has a second record until the reaper comes by, and its memory is not twice there.
fn records_of_processes(mms: MmTable<'_>) -> Vec<(u32, MmRecord<'_>)> {
    let of_process = |record: &MmRecord<'_>| matches!(record.state(), MmState::Live | MmState::Taken);
    let mut records: Vec<_> = mms
        .in_use()
        .filter(of_process)
        .map(|record| (record.pid(), record))
        .filter(|&(pid, _)| pid != 0)
        .collect();
    // The youngest one is kept.
    records.sort_unstable_by_key(|&(pid, record)| (pid, Reverse(record.number())));
    records.dedup_by_key(|&mut (pid, _)| pid);
    records
}
