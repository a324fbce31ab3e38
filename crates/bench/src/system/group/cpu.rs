//! Processor time of all processes that ran in a group.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;

use super::super::reread::Reread;

/// Unit of the times in /proc/PID/stat: it is 100 on every Linux that this runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Where the time is read.
pub(in crate::system) enum CpuClock {
    /// cpuacct.usage of version 1, in nanoseconds.
    Account(Reread),
    /// cpu.stat of version 2.
    Statistics(Reread),
    /// No group counts: living processes, and what this process has waited for since `ended_before_ticks`.
    Processes {
        /// Time of ended children of this process when the group was made.
        ended_before_ticks: u64,
    },
}

impl CpuClock {
    /// The best one of the directories that the processes are in.
    pub(in crate::system) fn of<'a>(dirs: impl IntoIterator<Item = &'a Path>) -> Self {
        for dir in dirs {
            if let Ok(file) = Reread::open(dir.join("cpuacct.usage")) {
                return Self::Account(file);
            }
            if let Ok(file) = Reread::open(dir.join("cpu.stat"))
                && file.text().is_ok_and(|text| usage_ns(&text).is_some())
            {
                return Self::Statistics(file);
            }
        }
        Self::of_processes()
    }

    fn of_processes() -> Self {
        Self::Processes { ended_before_ticks: times_of("self").map_or(0, |times| times.ended_children_ticks) }
    }

    /// Seconds since the group was made. `process_ids` are those in it now.
    pub(in crate::system) fn seconds(&self, process_ids: impl FnOnce() -> Vec<u32>) -> anyhow::Result<f64> {
        let ns = match self {
            Self::Account(file) => file.number()?,
            Self::Statistics(file) => usage_ns(&file.text()?)
                .with_context(|| format!("'{}' has no usage_usec", file.path().display()))?,
            Self::Processes { ended_before_ticks } => {
                let living = process_ids().into_iter().filter_map(|id| times_of(&id.to_string()));
                let ticks: u64 = living.map(|times| times.own_ticks + times.ended_children_ticks).sum();
                let ended = times_of("self").map_or(0, |times| times.ended_children_ticks);
                return Ok((ticks + ended.saturating_sub(*ended_before_ticks)) as f64 / TICKS_PER_SECOND);
            }
        };
        Ok(Duration::from_nanos(ns).as_secs_f64())
    }
}

fn usage_ns(cpu_stat: &str) -> Option<u64> {
    let text = cpu_stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    Some(text.trim().parse::<u64>().ok()? * 1000)
}

/// Times of one process in ticks, user and system together.
#[derive(PartialEq, Eq, Debug)]
struct Times {
    own_ticks: u64,
    ended_children_ticks: u64,
}

fn times_of(process: &str) -> Option<Times> {
    parse_times(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// The name in brackets may hold anything, so fields are counted from its end: state is the third of the file.
fn parse_times(stat: &str) -> Option<Times> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(14 - 3).map(|field| field.parse::<u64>().ok());
    let mut sum_of_two = || Some(fields.next()?? + fields.next()??);
    Some(Times { own_ticks: sum_of_two()?, ended_children_ticks: sum_of_two()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "77 (a) R (b) S 1 2 3 4 5 6 7 8 9 10 100 20 3 4 20 0 1 0 5";
        assert_eq!(parse_times(stat), Some(Times { own_ticks: 120, ended_children_ticks: 7 }));
        assert_eq!(parse_times("77 (a"), None);
        assert_eq!(usage_ns("usage_usec 12\nuser_usec 10\n"), Some(12_000));
        assert_eq!(usage_ns("user_usec 10\n"), None);
    }

    #[test]
    fn without_a_group_living_and_ended_processes_are_counted() {
        let clock = CpuClock::of_processes();
        let work = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; exec sleep 60";
        let mut child = Command::new("/bin/sh").args(["-c", work]).spawn().unwrap();
        let id = child.id();
        let living = || clock.seconds(|| vec![id]).unwrap();
        while living() < 0.05 {
            std::thread::sleep(Duration::from_millis(10));
        }
        let before = living();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(clock.seconds(Vec::new).unwrap() >= before, "the time of the ended child is kept");
    }
}
