//! The processes of the run as the kernel shows them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use uswap_core::mm::{MmRecord, MmState, MmTable};
use uswap_os::process::{self, StatmFile};

use super::shared::Shared;
use crate::report::Unmanaged;

/// How often processes without an engine are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How often memory that a fork left shared is counted; a count walks the page tables of the process.
const SHARED_EVERY: Duration = Duration::from_millis(50);

/// Open files of the processes that are measured, and what was found out the slow way.
#[derive(Default)]
pub struct Tree {
    statm: HashMap<u32, StatmFile>,
    shared_counted: HashMap<u32, Instant>,
    looked: Option<Instant>,
    /// Unmanaged processes, and how often each was seen.
    strangers: HashMap<u32, u32>,
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
        // Who has just announced itself is not a stranger any more, though the next look at those is still to come: its memory would count twice.
        self.strangers.retain(|pid, _| !known.contains(pid));
        self.statm.retain(|pid, _| known.contains(pid) || self.strangers.contains_key(pid));
        if self.looked.is_none_or(|looked| looked.elapsed() > LOOK_EVERY) {
            self.looked = Some(Instant::now());
            self.look_for_strangers(shared, &known);
        }
        let strangers: Vec<u32> = self.strangers.keys().copied().collect();
        total + strangers.into_iter().filter_map(|pid| self.pages_of(pid)).sum::<u64>()
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

    /// Processes below the supervisor that have no record. One that was seen twice is named; before, it may be between fork and exec.
    fn look_for_strangers(&mut self, shared: &Shared, known: &[u32]) {
        let mut found = Vec::new();
        let mut to_visit = vec![process::process_id()];
        while let Some(parent) = to_visit.pop() {
            let _gone = process::for_each_child(parent, |child| {
                to_visit.push(child);
                if !known.contains(&child) {
                    found.push(child);
                }
            });
        }
        self.strangers.retain(|pid, _| found.contains(pid));
        // A process may have been slow to report.
        let mut unmanaged = shared.unmanaged.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        unmanaged.retain(|process| !known.contains(&process.pid));
        drop(unmanaged);
        for pid in found {
            let seen = self.strangers.entry(pid).or_insert(0);
            *seen += 1;
            if *seen == 2 {
                note_stranger(shared, pid);
            }
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

fn note_stranger(shared: &Shared, pid: u32) {
    let zombie = process::stat(pid).is_ok_and(|stat| stat.state == b'Z');
    let Ok(name) = process::command_name(pid) else { return };
    let name = String::from_utf8_lossy(name.as_bytes()).trim_end().to_owned();
    let mut unmanaged = shared.unmanaged.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !zombie && !unmanaged.iter().any(|known| known.pid == pid) {
        let reason =
            "it has no engine: it is static or set-user-id, cleared its environment, or changed its rights";
        unmanaged.push(Unmanaged { pid, name, reason: reason.to_owned() });
    }
}
