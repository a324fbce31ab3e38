//! Win, loss, tie, mixed or no data; and the bar.
//!
//! What must hold: a tie is called where the interval of the ratio holds 1, or where the ratio is within the machine's
//! noise. A rival whose runs did not all end well loses against one whose did; where it was the faster one in rounds
//! that both ended well, the verdict is mixed, or a tie if that may be chance or noise. The verdict says so. Nobody
//! wins where both have failed runs, unless only one of them has any that ended well. Nobody is better with more memory
//! than the budget.

use std::fmt;

use crate::results::{Better, Cell, Outcome, Results, Workload};

use super::ratio::{self, Ratio};
use super::{figure, figures, median};

/// How one side does against another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Verdict {
    /// The first is better.
    Win,
    /// The second is better.
    Loss,
    /// No difference beyond chance and noise.
    Tie,
    /// One of them has runs that did not end well, and is the better one in the others.
    Mixed,
    /// Nothing to compare.
    NoData,
}

impl Verdict {
    /// One word for tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Win => "win",
            Self::Loss => "loss",
            Self::Tie => "tie",
            Self::Mixed => "mixed",
            Self::NoData => "no data",
        }
    }
}

/// How the runs of a cell ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Endings {
    /// With the right result.
    pub done: usize,
    /// Killed by the kernel for want of memory.
    pub killed: usize,
    /// Not in time.
    pub timed_out: usize,
    /// After how many seconds the first of those was stopped; 0: not known.
    pub stopped_after_s: u64,
    /// Failed, or with a wrong result.
    pub failed: usize,
}

impl Endings {
    /// Of a cell.
    pub fn of(cell: &Cell) -> Self {
        let mut endings = Self::default();
        for run in &cell.runs {
            match run.outcome {
                Outcome::Done => endings.done += 1,
                Outcome::Killed => endings.killed += 1,
                Outcome::TimedOut => {
                    endings.timed_out += 1;
                    let seconds = figure(run, "wall_s").unwrap_or(0.0) as u64;
                    let first = endings.timed_out == 1;
                    endings.stopped_after_s =
                        if first { seconds } else { endings.stopped_after_s.min(seconds) };
                }
                Outcome::Failed(_) => endings.failed += 1,
            }
        }
        endings
    }

    /// All runs.
    pub fn total(self) -> usize {
        self.done + self.killed + self.timed_out + self.failed
    }

    /// There are runs, and all ended well.
    pub fn all_well(self) -> bool {
        self.done > 0 && self.done == self.total()
    }
}

/// What did not end well: `killed 3 of 5`, `killed 1, more than 60 s 1 of 5`; `no run` or `all 5 ended well` otherwise.
impl fmt::Display for Endings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total();
        if total == 0 {
            return formatter.write_str("no run");
        }
        let late = match self.stopped_after_s {
            0 => "timed out".to_owned(),
            seconds => format!("more than {seconds} s"),
        };
        let bad: Vec<String> =
            [(self.killed, "killed"), (self.timed_out, late.as_str()), (self.failed, "failed")]
                .iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, word)| format!("{word} {count}"))
                .collect();
        if bad.is_empty() {
            return write!(formatter, "all {total} ended well");
        }
        write!(formatter, "{} of {total}", bad.join(", "))
    }
}

/// The comparison of two cells.
#[derive(Clone, PartialEq, Debug)]
pub struct Advantage {
    /// Who is better.
    pub verdict: Verdict,
    /// By how much, where both have runs that can be compared.
    pub ratio: Option<Ratio>,
    /// Why the verdict is not by the ratio.
    pub why: Option<String>,
}

impl Advantage {
    fn without_ratio(verdict: Verdict, why: String) -> Self {
        Self { verdict, ratio: None, why: Some(why) }
    }
}

/// Who took more than this part of the budget is better for nothing.
const BUDGET_PERCENT_MAX: u64 = 110;

/// That a run of the cell took more than the budget, if one did; results of before a workload had its own say nothing.
fn over_budget(workload: &Workload, cell: &Cell) -> Option<String> {
    let budget = workload.budget_bytes?.max(1);
    let most = cell.runs.iter().map(|run| run.memory.sum_bytes).max()?;
    let percent = most.saturating_mul(100) / budget;
    (percent > BUDGET_PERCENT_MAX).then(|| format!("{} took {percent} % of the budget", cell.rival))
}

/// Whether the rounds of the two sides belong together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pairing {
    /// One bench: what the machine did in a round, it did to both.
    Rounds,
    /// Two benches.
    Apart,
}

/// How `first` does against `second`, judged by the workload's main figure. `noise` is
/// [`crate::results::Machine::noise`].
pub fn advantage(
    workload: &Workload,
    first: &Cell,
    second: &Cell,
    pairing: Pairing,
    noise: f64,
) -> Advantage {
    let noise = usable_noise(noise);
    let endings = [first, second].map(Endings::of);
    if let Some(side) = [first, second].iter().find(|side| side.runs.is_empty()) {
        let why = side.left_out.clone().unwrap_or_else(|| "no run".to_owned());
        return Advantage::without_ratio(Verdict::NoData, format!("{}: {why}", side.rival));
    }
    let ratio = match pairing {
        Pairing::Rounds => ratio::of_pairs(&round_ratios(workload, first, second), noise),
        Pairing::Apart => {
            let [left, right] = [first, second].map(|side| figures(side, &workload.main_figure));
            match workload.better {
                Better::Higher => ratio::of_sides(&left, &right, noise),
                Better::Lower => ratio::of_sides(&right, &left, noise),
            }
        }
    };
    let (verdict, why) = if !endings[0].all_well() || !endings[1].all_well() {
        let (verdict, why) = by_endings([first, second], endings, ratio, noise);
        (verdict, Some(why))
    } else if let Some(ratio) = ratio {
        (by_ratio(ratio, noise), None)
    } else {
        let why = format!("no run of both with a figure {} above 0", workload.main_figure);
        return Advantage::without_ratio(Verdict::NoData, why);
    };
    let better = match verdict {
        Verdict::Win => Some(first),
        Verdict::Loss => Some(second),
        Verdict::Tie | Verdict::Mixed | Verdict::NoData => None,
    };
    match better.and_then(|cell| over_budget(workload, cell)) {
        Some(why) => Advantage { verdict: Verdict::NoData, ratio, why: Some(why) },
        None => Advantage { verdict, ratio, why },
    }
}

/// The noise of a machine as a number that can be reckoned with: 0 if it is none.
pub fn usable_noise(noise: f64) -> f64 {
    if noise.is_finite() { noise.max(0.0) } else { 0.0 }
}

/// For each round in which both sides ended well: above 1 if the first was better.
fn round_ratios(workload: &Workload, first: &Cell, second: &Cell) -> Vec<f64> {
    let value = |cell: &Cell, round: u32| {
        let run = cell.runs.iter().find(|run| run.round == round && run.outcome == Outcome::Done)?;
        figure(run, &workload.main_figure).filter(|value| *value > 0.0)
    };
    let mut rounds: Vec<u32> = first.runs.iter().map(|run| run.round).collect();
    rounds.sort_unstable();
    rounds.dedup();
    rounds
        .into_iter()
        .filter_map(|round| Some((value(first, round)?, value(second, round)?)))
        .map(|(left, right)| match workload.better {
            Better::Higher => left / right,
            Better::Lower => right / left,
        })
        .collect()
}

fn by_ratio(ratio: Ratio, noise: f64) -> Verdict {
    let holds_one = ratio.low <= 1.0 && 1.0 <= ratio.high;
    if holds_one || ratio.ratio.ln().abs() <= noise.ln_1p() {
        Verdict::Tie
    } else if ratio.ratio > 1.0 {
        Verdict::Win
    } else {
        Verdict::Loss
    }
}

/// At least one side has runs that did not end well. `ratio` is of those that did.
fn by_endings(
    sides: [&Cell; 2],
    endings: [Endings; 2],
    ratio: Option<Ratio>,
    noise: f64,
) -> (Verdict, String) {
    let [left, right] = endings;
    let said = |index: usize| format!("{} {}", sides[index].rival, endings[index]);
    // `failed` has runs that did not end well, and `is_faster` by the others.
    let judged = |verdict: Verdict, failed: usize, is_faster: bool| match ratio {
        Some(ratio) if is_faster && by_ratio(ratio, noise) == Verdict::Tie => (Verdict::Tie, said(failed)),
        Some(_) if is_faster => (Verdict::Mixed, format!("{}, faster in the others", said(failed))),
        _ => (verdict, said(failed)),
    };
    if left.all_well() || (right.done == 0 && left.done > 0) {
        judged(Verdict::Win, 1, ratio.is_some_and(|ratio| ratio.ratio < 1.0))
    } else if right.all_well() || (left.done == 0 && right.done > 0) {
        judged(Verdict::Loss, 0, ratio.is_some_and(|ratio| ratio.ratio > 1.0))
    } else {
        (Verdict::NoData, format!("{}; {}", said(0), said(1)))
    }
}

/// Whether a rival is one of those that uswap is judged by: the kernel's zram, each algorithm, with and without the
/// background reclaimer.
pub fn is_bar(rival: &str) -> bool {
    ["zram-lz4", "zram-lzo-rle"].contains(&rival.strip_suffix("+bg").unwrap_or(rival))
}

/// Whether a rival is uswap, in any form: `uswap`, `uswap-huge`.
pub fn is_ours(rival: &str) -> bool {
    rival == "uswap" || rival.starts_with("uswap-") || rival.starts_with("uswap+")
}

/// The bar of a workload: the best of the zram rivals, by the median of the main figure.
///
/// Only those whose runs all ended well count, unless there are none; then those with any run that did, and at last any
/// that ran. To take the best after the fact favours the bar, never uswap.
pub fn bar<'a>(results: &'a Results, workload: &Workload) -> Option<&'a Cell> {
    let cells = results.rivals.iter().filter(|rival| is_bar(&rival.name));
    let ran: Vec<&Cell> = cells
        .filter_map(|rival| results.cell(&workload.name, &rival.name))
        .filter(|cell| !cell.runs.is_empty())
        .collect();
    let value = |cell: &Cell| median(&figures(cell, &workload.main_figure));
    let best = |all_well: bool| {
        let measured = ran.iter().filter(|cell| Endings::of(cell).all_well() || !all_well);
        let measured = measured.filter_map(|cell| Some((*cell, value(cell)?)));
        let best = measured.reduce(|best, next| {
            let ahead = match workload.better {
                Better::Higher => next.1 > best.1,
                Better::Lower => next.1 < best.1,
            };
            if ahead { next } else { best }
        });
        best.map(|(cell, _)| cell)
    };
    best(true).or_else(|| best(false)).or_else(|| ran.first().copied())
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
