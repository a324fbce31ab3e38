//! What the processes of each name did in a run, from what it said of them while they were there.
//!
//! What must hold: what a process did is counted once, under the name that it had last. One that came and went between
//! two looks is not in it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use uswap_control::stat::{ProcessStat, RunStat};

/// Names that are kept apart. Those that come later are added up under [`OTHERS`].
const NAMES_MAX: usize = 256;
const OTHERS: &str = "(others)";

/// Processes that are kept apart: as many as a run names, twice.
const PROCESSES_MAX: usize = 2048;

/// The processes of one name.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Program {
    /// As the kernel has it.
    pub name: String,
    /// How many were seen.
    pub processes: u64,
    /// The most memory that they had in RAM together when the run was looked at.
    pub resident_peak_bytes: u64,
    /// Pages that reclaim took from them.
    pub pages_taken: u64,
    /// Pages that a touch brought back.
    pub pages_came_back: u64,
    /// Of those, the ones that would still have been there with twice the RAM.
    pub pages_came_back_soon: u64,
    /// How long at least one thread of a process waited for a page, processes added.
    pub some_seconds: f64,
    /// The part of it in which none of its other threads ran.
    pub full_seconds: f64,
}

/// The programs of a run so far.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    /// Processes that are there, by their numbers.
    present: BTreeMap<u32, ProcessStat>,
    ended: BTreeMap<String, Program>,
}

impl Programs {
    /// Takes in how the processes are now.
    pub fn add(&mut self, run: &RunStat) {
        let mut resident_bytes: BTreeMap<&str, u64> = BTreeMap::new();
        for process in &run.processes {
            *resident_bytes.entry(&process.name).or_default() += process.resident_bytes;
            let before = self.present.insert(process.pid, process.clone());
            // The number is another's now, or it began anew with another program.
            if let Some(before) = before.filter(|before| before.pages_taken > process.pages_taken) {
                self.note_end(&before);
            }
        }
        for (name, bytes) in resident_bytes {
            let program = self.program(name);
            program.resident_peak_bytes = program.resident_peak_bytes.max(bytes);
        }
        // Where not all are named, one that is not may still be there.
        if run.more_processes == 0 || self.present.len() > PROCESSES_MAX {
            let named: BTreeSet<u32> = run.processes.iter().map(|process| process.pid).collect();
            let (present, gone): (BTreeMap<_, _>, BTreeMap<_, _>) =
                std::mem::take(&mut self.present).into_iter().partition(|(pid, _)| named.contains(pid));
            self.present = present;
            gone.values().for_each(|process| self.note_end(process));
        }
    }

    /// All of them, those first from which most was taken.
    pub fn finish(mut self) -> Vec<Program> {
        let present = std::mem::take(&mut self.present);
        present.values().for_each(|process| self.note_end(process));
        let mut programs: Vec<Program> =
            self.ended.into_values().filter(|program| program.processes > 0).collect();
        programs
            .sort_by(|one, other| other.pages_taken.cmp(&one.pages_taken).then(one.name.cmp(&other.name)));
        programs
    }

    fn note_end(&mut self, process: &ProcessStat) {
        let program = self.program(&process.name);
        program.processes += 1;
        program.pages_taken += process.pages_taken;
        program.pages_came_back += process.pages_came_back;
        program.pages_came_back_soon += process.pages_came_back_soon;
        program.some_seconds += process.some.total_us as f64 / 1e6;
        program.full_seconds += process.full.total_us as f64 / 1e6;
    }

    fn program(&mut self, name: &str) -> &mut Program {
        let is_others = !self.ended.contains_key(name) && self.ended.len() >= NAMES_MAX;
        let name = if is_others { OTHERS } else { name };
        self.ended
            .entry(name.to_owned())
            .or_insert_with(|| Program { name: name.to_owned(), ..Program::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, name: &str, pages_taken: u64) -> ProcessStat {
        ProcessStat { pid, name: name.to_owned(), pages_taken, resident_bytes: 100, ..ProcessStat::default() }
    }

    fn of(looks: &[(&[ProcessStat], usize)]) -> Vec<(String, u64, u64, u64)> {
        let mut programs = Programs::default();
        for (processes, more_processes) in looks {
            let (processes, more_processes) = (processes.to_vec(), *more_processes);
            programs.add(&RunStat { processes, more_processes, ..RunStat::default() });
        }
        let all = programs.finish().into_iter();
        all.map(|program| (program.name, program.processes, program.pages_taken, program.resident_peak_bytes))
            .collect()
    }

    #[test]
    fn each_process_counts_once_under_its_last_name() {
        let looks: [(&[ProcessStat], usize); 3] = [
            (&[process(1, "sh", 1), process(2, "cc", 5), process(3, "cc", 5)], 0),
            (&[process(1, "make", 2), process(2, "cc", 7)], 0),
            (&[process(1, "make", 3), process(4, "cc", 1)], 0),
        ];
        let row = |name: &str, processes, taken, resident| (name.to_owned(), processes, taken, resident);
        assert_eq!(of(&looks), [row("cc", 3, 13, 200), row("make", 1, 3, 100)]);
    }

    #[test]
    fn one_that_is_not_named_for_a_while_is_not_counted_twice() {
        let looks: [(&[ProcessStat], usize); 3] = [
            (&[process(1, "a", 1)], 0),
            (&[process(2, "a", 1)], 1),
            (&[process(1, "a", 4), process(2, "a", 1)], 0),
        ];
        assert_eq!(of(&looks)[0].1, 2);
    }

    #[test]
    fn names_are_bounded() {
        let looks: Vec<Vec<ProcessStat>> =
            (0..1000).map(|pid| vec![process(pid + 1, &format!("n{pid}"), 1)]).collect();
        let looks: Vec<(&[ProcessStat], usize)> = looks.iter().map(|look| (&look[..], 0)).collect();
        let programs = of(&looks);
        assert_eq!(programs.len(), NAMES_MAX + 1);
        assert_eq!(programs.iter().map(|(_, processes, ..)| processes).sum::<u64>(), 1000);
    }
}
