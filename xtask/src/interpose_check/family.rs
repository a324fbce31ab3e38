//! The processes of one run: those with a mark in their environment, and whoever descends from them.
//!
//! A program may write over its environment (sshd does), leave its group and session, and outlive its parent. It is
//! found while the parent lives, and is remembered with the time of its start, since numbers of processes are used
//! again.

use std::collections::BTreeSet;
use std::fs;

/// The variable that has the mark.
pub const MARK: &str = "USWAP_INTERPOSE_CHECK";

/// A process, at one moment.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    process: u32,
    parent: u32,
    started: u64,
    /// It has ended, and waits for its parent to look. With other threads than the first it still runs.
    is_gone: bool,
}

impl Seen {
    fn of(process: u32) -> Option<Seen> {
        parse(process, &fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }
}

/// A line of `/proc/PID/stat`; the name in brackets may hold anything.
fn parse(process: u32, line: &str) -> Option<Seen> {
    let words: Vec<&str> = line.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |index: usize| words.get(index)?.parse::<u64>().ok();
    let is_gone = words.first() == Some(&"Z") && number(17)? <= 1;
    Some(Seen { process, parent: number(1)? as u32, started: number(19)?, is_gone })
}

/// All processes of a run that were seen.
#[derive(Debug)]
pub struct Family {
    variable: Vec<u8>,
    known: BTreeSet<(u32, u64)>,
}

impl Family {
    pub fn new(mark: &str) -> Family {
        Family { variable: format!("{MARK}={mark}").into_bytes(), known: BTreeSet::new() }
    }

    /// Those that run now.
    pub fn look(&mut self) -> Vec<u32> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut all: Vec<Seen> = numbers.filter_map(Seen::of).collect();
        all.sort_by_key(|seen| seen.started);
        let mut living = BTreeSet::new();
        // Parents come before their children, but for starts in the same tick.
        for _ in 0..2 {
            for seen in &all {
                let key = (seen.process, seen.started);
                let is_ours =
                    self.known.contains(&key) || living.contains(&seen.parent) || self.has_mark(seen.process);
                if is_ours {
                    self.known.insert(key);
                    living.insert(seen.process);
                }
            }
        }
        all.iter()
            .filter(|seen| !seen.is_gone && living.contains(&seen.process))
            .map(|seen| seen.process)
            .collect()
    }

    fn has_mark(&self, process: u32) -> bool {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == self.variable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_whose_first_thread_has_ended_still_runs() {
        let line = |state: &str, threads: u32| {
            format!("7 (a ) b) {state} 3 7 7 0 -1 4 1 0 0 0 1 2 0 0 5 -20 {threads} 0 99 0 0")
        };
        let seen = Seen { process: 7, parent: 3, started: 99, is_gone: false };
        assert_eq!(parse(7, &line("S", 1)), Some(seen));
        assert!(!parse(7, &line("Z", 2)).expect("it is a line").is_gone);
        assert!(parse(7, &line("Z", 1)).expect("it is a line").is_gone);
    }
}
