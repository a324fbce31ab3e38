//! Processes of the run that have no engine: they are found below the supervisor, named, and counted.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use uswap_os::process;

use super::shared::Shared;
use crate::report::Unmanaged;

/// How often processes without an engine are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Unmanaged processes, and how often each was seen.
#[derive(Default)]
pub struct UnmanagedProcesses {
    looked: Option<Instant>,
    seen: HashMap<u32, u32>,
}

impl UnmanagedProcesses {
    /// The process numbers of those without a record, which `known` has; looks for new ones when it is time.
    pub fn look(&mut self, shared: &Shared, known: &[u32]) -> Vec<u32> {
        // Who has just announced itself is not a stranger any more, though the next look at those is still to come:
        // its memory would count twice.
        self.seen.retain(|pid, _| !known.contains(pid));
        if self.looked.is_none_or(|looked| looked.elapsed() > LOOK_EVERY) {
            self.looked = Some(Instant::now());
            self.look_now(shared, known);
        }
        self.seen.keys().copied().collect()
    }

    /// Processes below the supervisor that have no record. One that was seen twice is named; before, it may be between fork and exec.
    fn look_now(&mut self, shared: &Shared, known: &[u32]) {
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
        self.seen.retain(|pid, _| found.contains(pid));
        // A process may have been slow to report.
        let mut unmanaged = shared.unmanaged.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        unmanaged.retain(|process| !known.contains(&process.pid));
        drop(unmanaged);
        for pid in found {
            let seen = self.seen.entry(pid).or_insert(0);
            *seen += 1;
            if *seen == 2 {
                note_stranger(shared, pid);
            }
        }
    }
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
