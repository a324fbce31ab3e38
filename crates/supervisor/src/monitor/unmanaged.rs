//! Processes of the run that have no engine: they are found below its root, named, and counted.
//!
//! What must hold: a process is named as soon as it is known why it has no engine, and one of which that is not known
//! when it had time enough to join; each is a pidfd, so that its number is never another's; one that is managed is not
//! here.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use uswap_control::unpoisoned;
use uswap_core::mm::MmState;
use uswap_os::pidfd::Pidfd;
use uswap_os::process::{self, StatmFile};

use super::unseen::Unseen;
use super::why::{Why, why_unmanaged};
use crate::human;
use crate::report::Unmanaged;
use crate::shared::Shared;

/// How often processes without an engine are looked for: who lives longer is seen. Sooner, if a process was made: one
/// that grows by raw system calls has written 100 MiB by then.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A look costs some 30 us for each process. No more than this part of the time goes into it.
const PART_OF_TIME: u32 = 25;

/// A process has so long to join, on a busy machine too, before it is said that it did not.
const TIME_TO_JOIN: Duration = Duration::from_millis(500);

/// A child that a managed process has forked claims its record within milliseconds, and on a busy machine in so long.
const TIME_TO_CLAIM: Duration = Duration::from_secs(10);

/// Measurements after which a process is armed that has so many times the memory with which it would arm itself. After
/// one it may be about to do so.
const UNSEEN_MEASUREMENTS: u32 = 2;
const UNSEEN_PARTS: u64 = 2;

/// Kinds of processes that the report tells apart, by name and reason. What others use is counted all the same.
const KINDS_MAX: usize = 64;

/// Processes without an engine.
#[derive(Default)]
pub struct UnmanagedProcesses {
    looked: Option<Looked>,
    youngest: Youngest,
    seen: HashMap<u32, Sighting>,
}

/// The last look for new processes.
struct Looked {
    at: Instant,
    took: Duration,
    youngest: Option<u32>,
}

impl Looked {
    fn is_due_again(&self, now: Instant, youngest: Option<u32>) -> bool {
        let patience = if youngest == self.youngest { LOOK_EVERY } else { Duration::ZERO };
        now.duration_since(self.at) >= patience.max(self.took * PART_OF_TIME)
    }
}

/// Tells which process of the machine, or of the pid namespace, was made last.
#[derive(Default)]
struct Youngest {
    file: Option<File>,
}

impl Youngest {
    /// Its number. None: it cannot be known.
    fn pid(&mut self) -> Option<u32> {
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(File::open("/proc/loadavg").ok()?),
        };
        let mut text = [0; 128];
        let bytes = file.read_at(&mut text, 0).ok()?;
        pid_at_the_end(core::str::from_utf8(&text[..bytes]).ok()?)
    }
}

/// Of `0.20 0.18 0.12 1/80 11206`.
fn pid_at_the_end(loadavg: &str) -> Option<u32> {
    loadavg.split_ascii_whitespace().next_back()?.parse().ok()
}

/// One that was found.
struct Sighting {
    pidfd: Pidfd,
    sizes: Option<StatmFile>,
    since: Instant,
    looks: u32,
    /// Measurements in a row in which it was larger than a process that is left alone.
    grown: u32,
    /// Which entry of the report it is.
    named: Option<(String, String)>,
    /// It was named without a reason that is certain: it may only be slow to join.
    slow: bool,
    /// It is larger than a process that is left alone, and may have grown by calls that nobody has seen.
    unseen: Unseen,
}

impl UnmanagedProcesses {
    /// The process numbers of those without a record, which `known` has; looks for new ones when it is time.
    pub fn look(&mut self, shared: &Shared, known: &[u32]) -> Vec<u32> {
        // Who has just announced itself is not unmanaged any more, though the next look is still to come: its memory
        // would count twice.
        self.seen.retain(|pid, seen| {
            let is_managed = known.contains(pid);
            if let Some(kind) = seen.slow.then_some(seen.named.as_ref()).flatten().filter(|_| is_managed) {
                take_back(shared, kind);
            }
            !is_managed && !seen.pidfd.has_ended()
        });
        let (started, youngest) = (Instant::now(), self.youngest.pid());
        if self.looked.as_ref().is_none_or(|looked| looked.is_due_again(started, youngest)) {
            self.look_now(shared, known);
            let at = Instant::now();
            self.looked = Some(Looked { at, took: at - started, youngest });
        }
        self.note_peaks(shared);
        self.seen.keys().copied().collect()
    }

    fn look_now(&mut self, shared: &Shared, known: &[u32]) {
        let known: HashSet<u32> = known.iter().copied().collect();
        let mut found = HashSet::new();
        let root = shared.root();
        // What it executes is not of such a run, and what it forks has a record.
        let mut to_visit = if shared.options.regions_only { Vec::new() } else { vec![root.pid()] };
        if root.is_member() && !known.contains(&root.pid()) {
            found.insert(root.pid());
        }
        while let Some(parent) = to_visit.pop() {
            let _gone = process::for_each_child(parent, |child| {
                to_visit.push(child);
                if !known.contains(&child) {
                    found.insert(child);
                }
            });
        }
        self.seen.retain(|pid, _| found.contains(pid));
        for pid in found {
            if let std::collections::hash_map::Entry::Vacant(place) = self.seen.entry(pid) {
                let Some(seen) = Sighting::now(pid) else { continue };
                place.insert(seen);
            }
            let Some(seen) = self.seen.get_mut(&pid) else { continue };
            seen.looks += 1;
            seen.name(shared);
        }
    }

    /// So much private memory was measured for each. Whoever has grown unseen is armed.
    pub fn note_sizes(&mut self, shared: &Shared, bytes_of: impl Fn(u32) -> Option<u64>) {
        let too_large = UNSEEN_PARTS * shared.join_bytes();
        for (&pid, seen) in &mut self.seen {
            let is_large = bytes_of(pid).is_some_and(|bytes| bytes >= too_large);
            seen.grown = if is_large { seen.grown + 1 } else { 0 };
            if seen.grown >= UNSEEN_MEASUREMENTS {
                seen.arm(shared);
            }
        }
    }

    fn note_peaks(&self, shared: &Shared) {
        let named = self.seen.values().filter(|seen| seen.named.is_some());
        let sizes: Vec<_> = named.filter_map(|seen| Some((seen.named.as_ref()?, seen.bytes()?))).collect();
        if sizes.is_empty() {
            return;
        }
        let mut unmanaged = unpoisoned(shared.unmanaged.lock());
        for ((name, reason), bytes) in sizes {
            let entry = unmanaged.iter_mut().find(|entry| entry.name == *name && entry.reason == *reason);
            if let Some(entry) = entry {
                entry.peak_bytes = entry.peak_bytes.max(bytes);
            }
        }
    }
}

impl Sighting {
    /// The process that is a child of the run now. None: it is gone, or only waits to be buried.
    fn now(pid: u32) -> Option<Sighting> {
        let pidfd = Pidfd::open(pid).ok()?;
        let sizes = StatmFile::open(Some(pid)).ok();
        let is_below = pidfd.while_it_lives(process::stat)?.is_ok_and(|stat| stat.state != b'Z');
        is_below.then(|| Sighting {
            pidfd,
            sizes,
            since: Instant::now(),
            looks: 0,
            grown: 0,
            named: None,
            slow: false,
            unseen: Unseen::default(),
        })
    }

    fn bytes(&self) -> Option<u64> {
        self.sizes.as_ref()?.read().ok().map(|sizes| sizes.anonymous_bytes())
    }

    /// A process of this size takes a place in the run by itself, when it makes a call by which it grows.
    fn arm(&mut self, shared: &Shared) {
        let unseen = &mut self.unseen;
        if may_be_unclaimed(shared, self.since) || !unseen.is_due(Instant::now()) {
            return;
        }
        self.pidfd.while_it_lives(|pid| {
            // A child of vfork: its parent is who has the memory.
            let shares = process::stat(pid)
                .is_ok_and(|stat| process::have_same_memory(pid, stat.parent).unwrap_or(true));
            if !shares && matches!(why_unmanaged(shared, pid), Why::Unknown(_)) {
                unseen.arm(pid, &shared.options.agent);
            }
        });
    }

    /// Names it, if it is time. One that executes another program is named anew.
    fn name(&mut self, shared: &Shared) {
        let found = self.pidfd.while_it_lives(|pid| {
            let comm = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
            Some((String::from_utf8_lossy(&comm).trim_end().to_owned(), why_unmanaged(shared, pid)))
        });
        let Some(Some((name, why))) = found else { return };
        let slow = matches!(why, Why::Unknown(_));
        let waited = self.since.elapsed() >= TIME_TO_JOIN;
        let why = match why {
            // Certain, whatever it was before it executed this program.
            Why::Program(reason) | Why::User(reason) => reason,
            // A child has its parent's environment for a moment.
            Why::Environment(reason) if self.looks > 1 => reason,
            Why::Environment(_) => return,
            // A forked child that nobody has claimed may be this one, which is stopped or has not run yet.
            Why::Unknown(_) if !waited || may_be_unclaimed(shared, self.since) => return,
            // It takes a place when it has more.
            Why::Unknown(_) if self.bytes().is_none_or(|bytes| bytes < shared.join_bytes()) => return,
            Why::Unknown(reason) => reason,
        };
        let kind = (name, why.clause);
        if self.named.as_ref() != Some(&kind) {
            note(shared, self.pidfd.pid(), &kind, why.advice, self.bytes().unwrap_or(0));
            self.named = Some(kind);
            self.slow = slow;
        }
    }
}

/// Whether a process that was found at that time may be a child that has not taken its memory over yet. A record that
/// nobody will ever claim, of a child that was killed at once and is not waited for, says nothing about others for
/// long.
fn may_be_unclaimed(shared: &Shared, since: Instant) -> bool {
    since.elapsed() < TIME_TO_CLAIM
        && shared.segment.mms().in_use().any(|record| record.state() == MmState::Forked)
}

/// One that was named without a certain reason is managed after all: it was slow to join.
fn take_back(shared: &Shared, (name, reason): &(String, String)) {
    let mut unmanaged = unpoisoned(shared.unmanaged.lock());
    for entry in unmanaged.iter_mut().filter(|entry| entry.name == *name && entry.reason == *reason) {
        entry.processes -= 1;
    }
    unmanaged.retain(|entry| entry.processes > 0);
}

/// Says it at the first one of its kind, and puts it into the report.
fn note(shared: &Shared, pid: u32, (name, reason): &(String, String), advice: &str, bytes: u64) {
    let mut unmanaged = unpoisoned(shared.unmanaged.lock());
    let known = unmanaged.iter_mut().find(|entry| entry.name == *name && entry.reason == *reason);
    if let Some(entry) = known {
        entry.processes += 1;
        return;
    }
    if unmanaged.len() == KINDS_MAX {
        return;
    }
    unmanaged.push(Unmanaged {
        pid,
        name: name.clone(),
        reason: reason.clone(),
        processes: 1,
        peak_bytes: bytes,
    });
    drop(unmanaged);
    if !shared.options.quiet {
        shared.say(format_args!(
            "process {pid} ({name}) is not managed: {reason}. Its memory, {} now, counts and cannot be reclaimed. \
             {advice}",
            human::bytes(bytes)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_processes_are_looked_for_when_one_was_made_and_else_now_and_then() {
        assert_eq!(pid_at_the_end("0.20 0.18 0.12 1/80 11206\n"), Some(11206));
        assert_eq!(pid_at_the_end(""), None);
        let at = Instant::now();
        let looked = Looked { at, took: Duration::from_micros(100), youngest: Some(7) };
        let is_due = |us, youngest| looked.is_due_again(at + Duration::from_micros(us), youngest);
        assert!(is_due(2500, Some(8)) && !is_due(2400, Some(8)), "a part of the time");
        assert!(!is_due(19_000, Some(7)) && is_due(20_000, Some(7)));
        let looked = Looked { took: Duration::from_millis(2), ..looked };
        assert!(!looked.is_due_again(at + LOOK_EVERY, Some(7)), "a look at many processes takes long");
    }

    #[test]
    fn the_youngest_process_is_known() {
        let mut youngest = Youngest::default();
        let before = youngest.pid().expect("/proc is mounted");
        std::process::Command::new("true").status().expect("it starts");
        assert_ne!(youngest.pid(), Some(before));
    }
}
