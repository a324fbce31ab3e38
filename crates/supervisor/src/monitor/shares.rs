//! `--protect` and `--weight`: writes into the records of the processes what the rules say of their names
//! ([`crate::rules`]).
//!
//! The monitor calls [`Shares::follow`] after each measurement, since what each of several processes of one name may
//! keep goes by its size, as memory.low of Linux does between the children of a group.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use uswap_core::counters::Counter;
use uswap_core::mm::{MmRecord, MmState};
use uswap_units::{PAGE_BYTES, ProcessNumber};

use crate::human;
use crate::rules::Rule;
use crate::shared::Shared;

/// A process may change its name.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// So little of it may go unsaid: others may have nothing for a moment.
const TOLERATED_PART: u64 = 16;

/// The rule that a process has, and when that was found out.
struct Found {
    rule: Option<usize>,
    at: Instant,
}

/// What is known of the processes, by their numbers ([`MmRecord::number`]).
#[derive(Default)]
pub struct Shares {
    /// As they were at the last look.
    rules: Vec<Rule>,
    found: HashMap<ProcessNumber, Found>,
    /// Names of rules that were about a process.
    used: HashSet<String>,
    told: bool,
}

impl Shares {
    /// Writes protection and weight of each process.
    pub fn follow(&mut self, shared: &Shared) {
        let limits = shared.limits();
        let rules = &limits.rules;
        if self.rules != *rules {
            self.rules.clone_from(rules);
            self.found.clear();
        }
        if rules.is_empty() {
            return;
        }
        let mut known = HashMap::new();
        let mut processes = Vec::new();
        let mut pages_of_rule = vec![0; rules.len()];
        for record in shared.segment.mms().in_use().filter(|record| record.state() == MmState::Live) {
            let before = self.found.remove(&record.number());
            let found = before.filter(|found| found.at.elapsed() < LOOK_EVERY).unwrap_or_else(|| Found {
                rule: shared.processes.look(record, |pid| rule_of(pid, rules)).flatten(),
                at: Instant::now(),
            });
            if let Some(rule) = found.rule {
                pages_of_rule[rule] += record.resident_pages();
                if !self.used.contains(&rules[rule].name) {
                    self.used.insert(rules[rule].name.clone());
                }
            }
            processes.push((record, found.rule));
            known.insert(record.number(), found);
        }
        self.found = known;
        for (record, rule) in processes {
            apply(record, rule.map(|rule| (&rules[rule], pages_of_rule[rule])));
        }
        let reclaimed = shared.segment.counters().get(Counter::ProtectedReclaimed) * PAGE_BYTES as u64;
        if !self.told && reclaimed > limits.protected_bytes() / TOLERATED_PART {
            self.told = true;
            shared.warn(&format!(
                "protected memory is reclaimed too: what else there is does not suffice to keep the run within {} \
                 (--protect asks for {}). Protect less, or raise --ram ('uswap set' changes both)",
                human::bytes(limits.ram_bytes),
                human::bytes(limits.protected_bytes())
            ));
        }
    }

    /// The run ends: names that nobody had are told, if it mattered.
    pub fn finish(&self, shared: &Shared) {
        if shared.segment.reuse().stored() == 0 {
            return;
        }
        for rule in shared.limits().rules.iter().filter(|rule| !self.used.contains(&rule.name)) {
            shared.warn(&format!(
                "no managed process of the run was named '{}': --protect or --weight for it had no effect ('uswap \
                 stat' shows the names)",
                rule.name
            ));
        }
    }
}

/// The first rule that is about a process.
fn rule_of(pid: u32, rules: &[Rule]) -> Option<usize> {
    let comm = uswap_os::process::command_name(pid).ok();
    let comm = comm.as_ref().map_or("", |name| std::str::from_utf8(name.as_bytes()).unwrap_or_default());
    let file = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let file = file.file_name().map(Path::new).map(|name| name.to_string_lossy()).unwrap_or_default();
    // A file that was replaced meanwhile.
    let file = file.strip_suffix(" (deleted)").unwrap_or(&file);
    rules.iter().position(|rule| rule.is_about(comm, file))
}

/// `rule`: with the pages of all processes that it is about.
fn apply(record: MmRecord<'_>, rule: Option<(&Rule, u64)>) {
    let own = record.resident_pages();
    let (protected, weight) = rule.map_or((0, 0), |(rule, all)| {
        (protected_part(rule.protected_bytes / PAGE_BYTES as u64, own, all), rule.weight)
    });
    record.set_protected_pages(protected);
    record.set_weight(weight);
}

/// What of the protected pages one process has, of which all those of its name have `all`.
fn protected_part(protected: u64, own: u64, all: u64) -> u64 {
    if all <= protected {
        // With room to grow.
        return own + (protected - all);
    }
    (u128::from(protected) * u128::from(own) / u128::from(all)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_one_name_share_its_protection_by_size() {
        assert_eq!(protected_part(1000, 300, 300), 1000);
        assert_eq!(protected_part(1000, 300, 900), 400);
        assert_eq!([500, 1500].map(|own| protected_part(1000, own, 2000)), [250, 750]);
        assert_eq!(protected_part(0, 5, 5), 0);
    }
}
