//! Looks at processes through /proc and ends whole trees. Called by `run`, `sampler` and the kill tests.

use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs;

/// One process, told apart from a later one with the same number by the time it was started (clock ticks since boot).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// When it was started, in clock ticks since boot.
    pub start_ticks: u64,
}

impl Process {
    /// The process that has number `pid` now.
    pub fn now(pid: i32) -> Option<Self> {
        fields(pid).map(|(_, start_ticks)| Self { pid, start_ticks })
    }

    /// True until it ended; a zombie counts as ended.
    pub fn alive(&self) -> bool {
        fields(self.pid).is_some_and(|(state, start_ticks)| state != 'Z' && start_ticks == self.start_ticks)
    }

    /// Its state letter, as in /proc/PID/stat; None when it is gone.
    pub fn state(&self) -> Option<char> {
        fields(self.pid).filter(|&(_, start_ticks)| start_ticks == self.start_ticks).map(|(state, _)| state)
    }

    /// Sends a signal if it is still the same process.
    pub fn signal(&self, signal: Signal) {
        if let (true, Some(pid)) = (self.alive(), Pid::from_raw(self.pid)) {
            // It may end between the look and the call; then there is nothing left to do.
            let _ = kill_process(pid, signal);
        }
    }

    /// Stops it, and returns once none of its threads runs any more: `kill` returns before each of them has stopped.
    ///
    /// # Panics
    /// When a thread still runs after a minute.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
        let late = std::time::Instant::now() + std::time::Duration::from_mins(1);
        while self.alive() && !all_stopped(self.pid) {
            assert!(std::time::Instant::now() < late, "process {} does not stop", self.pid);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    /// The name of its program, at most 15 bytes.
    pub fn name(&self) -> String {
        fs::read_to_string(format!("/proc/{}/comm", self.pid)).unwrap_or_default().trim_end().to_string()
    }
}

/// True if each thread of a process is stopped by a signal, or has ended.
fn all_stopped(pid: i32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).ok();
        stat.and_then(|stat| fields_of(&stat)).is_none_or(|(state, _)| matches!(state, 'T' | 'Z' | 'X'))
    })
}

/// State letter and start time from /proc/PID/stat.
fn fields(pid: i32) -> Option<(char, u64)> {
    fields_of(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// State letter and start time from the line of a `stat` file.
fn fields_of(stat: &str) -> Option<(char, u64)> {
    // The name in brackets may hold anything; what follows the last bracket is well-formed.
    let rest: Vec<&str> = stat[stat.rfind(')')? + 2..].split(' ').collect();
    Some((rest.first()?.chars().next()?, rest.get(19)?.parse().ok()?))
}

/// All processes of a run ever seen. A process whose parent died is still found, because it was seen before.
#[derive(Debug, Default, Clone)]
pub struct Tree {
    seen: BTreeMap<i32, Process>,
}

impl Tree {
    /// A tree that starts at `root`.
    pub fn of(root: i32) -> Self {
        let mut tree = Self::default();
        tree.seen.extend(Process::now(root).map(|process| (root, process)));
        tree
    }

    /// Looks for new children, forgets ended processes, and answers those alive.
    pub fn look(&mut self) -> Vec<Process> {
        let mut open: Vec<i32> = self.seen.keys().copied().collect();
        while let Some(pid) = open.pop() {
            for child in children(pid) {
                if let (false, Some(process)) = (self.seen.contains_key(&child), Process::now(child)) {
                    self.seen.insert(child, process);
                    open.push(child);
                }
            }
        }
        self.seen.retain(|_, process| process.alive());
        self.seen.values().copied().collect()
    }

    /// Kills everything, also what appears while it kills; gives up after some rounds.
    pub fn kill(&mut self) {
        for _ in 0..50 {
            let alive = self.look();
            if alive.is_empty() {
                return;
            }
            alive.iter().for_each(|process| process.signal(Signal::KILL));
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// Children of all threads of a process.
fn children(pid: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|list| list.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<i32>>())
        .collect()
}
