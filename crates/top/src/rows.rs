//! Which processes are shown, and in which order.
//!
//! What must hold: a process that the filter lets through is shown exactly once, whatever the run says of parents.

use std::collections::{BTreeMap, BTreeSet};

use uswap_control::stat::ProcessStat;

use crate::column::{Column, Process};
use crate::history::History;

/// In which order processes are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    /// By what.
    pub column: Column,
    /// Which end of it is first.
    pub direction: Direction,
    /// How they stand below each other.
    pub shape: Shape,
}

/// Which end of a column is first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// As of [`Column::compare`].
    Usual,
    /// The other one.
    Inverted,
}

/// How processes stand below each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// In order.
    List,
    /// Children below their parents, and in order there.
    Tree,
}

/// A process that is shown.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Its place in the sample.
    pub index: usize,
    /// Its number.
    pub pid: u32,
    /// What stands before its name.
    pub branch: String,
}

/// The processes of the newest sample whose names have `filter` in them, in order. Small letters and capitals are
/// alike.
pub fn rows(history: &History, order: Order, filter: &str) -> Vec<Row> {
    let processes: &[ProcessStat] = history.last().map_or(&[][..], |sample| sample.stat.processes.as_slice());
    let filter = filter.to_lowercase();
    let passes = |process: &ProcessStat| process.name.to_lowercase().contains(&filter);
    let mut indexes: Vec<usize> = (0..processes.len()).filter(|&index| passes(&processes[index])).collect();
    let look = |index: usize| process(history, &processes[index]);
    indexes.sort_by(|&one, &other| match order.direction {
        Direction::Usual => order.column.compare(look(one), look(other)),
        Direction::Inverted => order.column.compare(look(other), look(one)),
    });
    match order.shape {
        Shape::List => {
            let row = |index: usize| Row { index, pid: processes[index].pid, branch: String::new() };
            indexes.into_iter().map(row).collect()
        }
        Shape::Tree => tree(processes, &indexes),
    }
}

/// A process of the newest sample, with its rates.
pub fn process<'a>(history: &'a History, stat: &'a ProcessStat) -> Process<'a> {
    Process { stat, rates: history.rates().and_then(|rates| rates.processes.get(&stat.pid)) }
}

fn tree(processes: &[ProcessStat], indexes: &[usize]) -> Vec<Row> {
    let shown: BTreeSet<u32> = indexes.iter().map(|&index| processes[index].pid).collect();
    let mut children: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    let mut roots = Vec::new();
    for &index in indexes {
        let ProcessStat { pid, parent, .. } = processes[index];
        match parent != pid && shown.contains(&parent) {
            true => children.entry(parent).or_default().push(index),
            false => roots.push(index),
        }
    }
    let (mut rows, mut is_shown) = (Vec::with_capacity(indexes.len()), BTreeSet::new());
    // Parents are looked up one after the other, and numbers are used again: two may be each other's. Those are in no
    // tree, and follow behind it.
    for &root in roots.iter().chain(indexes) {
        // Those to be shown, the next one last: with what stands before its name, and before its children.
        let mut waiting = vec![(root, String::new(), String::new())];
        while let Some((index, branch, below)) = waiting.pop() {
            if !is_shown.insert(index) {
                continue;
            }
            let pid = processes[index].pid;
            let own = children.get(&pid).map_or(&[][..], Vec::as_slice);
            for (place, &child) in own.iter().enumerate().rev() {
                let (branch, further) = if place + 1 == own.len() { ("`- ", "   ") } else { ("|- ", "|  ") };
                waiting.push((child, format!("{below}{branch}"), format!("{below}{further}")));
            }
            rows.push(Row { index, pid, branch });
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up;
    use uswap_control::stat::Psi;

    const BY_WAIT: Order = Order { column: Column::Wait, direction: Direction::Usual, shape: Shape::List };

    /// Of (pid, parent, name, average).
    fn history(processes: &[(u32, u32, &str, f64)]) -> History {
        let mut history = History::default();
        let process = |&(pid, parent, name, avg10): &(u32, u32, &str, f64)| ProcessStat {
            pid,
            parent,
            name: name.to_owned(),
            some: Psi { avg10, ..Psi::default() },
            ..ProcessStat::default()
        };
        history.push(made_up::sample_of(1.0, processes.iter().map(process).collect()));
        history
    }

    fn pids(history: &History, order: Order, filter: &str) -> Vec<u32> {
        rows(history, order, filter).iter().map(|row| row.pid).collect()
    }

    #[test]
    fn the_one_that_waits_most_is_first_and_equal_ones_stand_by_number() {
        let history = history(&[(9, 1, "a", 2.0), (8, 1, "b", 2.0), (7, 1, "c", 30.0)]);
        assert_eq!(pids(&history, BY_WAIT, ""), [7, 8, 9]);
        assert_eq!(pids(&history, Order { direction: Direction::Inverted, ..BY_WAIT }, ""), [9, 8, 7]);
        assert_eq!(pids(&history, Order { column: Column::Pid, ..BY_WAIT }, ""), [7, 8, 9]);
        assert_eq!(pids(&history, Order { column: Column::Name, ..BY_WAIT }, ""), [9, 8, 7]);
        // Nobody has rates yet.
        assert_eq!(pids(&history, Order { column: Column::Back, ..BY_WAIT }, ""), [7, 8, 9]);
    }

    #[test]
    fn a_filter_is_a_part_of_a_name() {
        let history = history(&[(1, 0, "Postgres", 0.0), (2, 1, "sort", 1.0), (3, 1, "post", 2.0)]);
        assert_eq!(pids(&history, BY_WAIT, "POST"), [3, 1]);
        assert!(pids(&history, BY_WAIT, "x").is_empty());
        assert!(rows(&History::default(), BY_WAIT, "").is_empty());
    }

    #[test]
    fn children_stand_below_their_parents_in_order() {
        let tree = Order { shape: Shape::Tree, ..BY_WAIT };
        let processes = [
            (10, 1, "sh", 0.0),
            (11, 10, "make", 1.0),
            (12, 10, "cat", 5.0),
            (13, 11, "cc", 2.0),
            (20, 1, "x", 9.0),
        ];
        let rows = rows(&history(&processes), tree, "");
        let lines: Vec<_> = rows.iter().map(|row| format!("{}{}", row.branch, row.pid)).collect();
        assert_eq!(lines, ["20", "10", "|- 12", "`- 11", "   `- 13"]);
        // Without the parent that the filter hides.
        assert_eq!(pids(&history(&processes), tree, "c"), [12, 13]);
    }

    #[test]
    fn processes_that_are_each_others_parents_are_shown_once() {
        let tree = Order { shape: Shape::Tree, ..BY_WAIT };
        let circle = [(1, 2, "a", 1.0), (2, 1, "b", 2.0), (3, 3, "c", 0.0), (4, 1, "d", 3.0)];
        let mut shown = pids(&history(&circle), tree, "");
        shown.sort_unstable();
        assert_eq!(shown, [1, 2, 3, 4]);
    }
}
