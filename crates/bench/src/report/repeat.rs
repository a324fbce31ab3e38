//! How well a result comes again: the ratios of uswap to the bar in two results, beside each other.
//!
//! What must hold: a ratio that only one of them has is named, not dropped.

use crate::results::Results;

use super::duel::duels;
use super::number;
use super::sheet::one_line;

/// Ratios that are as near as this to each other are the same: 10 % more, or as much less.
const NEAR: f64 = 1.1;

/// `uswap to the bar, in A and B: 2 of 3 ratios are within 10 % of each other; not sort (0.50, 0.70)`. None if nothing
/// can be compared.
pub fn line(old: &Results, new: &Results) -> Option<String> {
    let olds = duels(old);
    let (mut near, mut far, mut one_sided) = (0, Vec::new(), Vec::new());
    for duel in duels(new) {
        let name = duel.name();
        let before = olds.iter().find(|other| other.name() == name);
        let ratio = |duel: &super::duel::Duel<'_>| duel.advantage.ratio.map(|ratio| ratio.ratio);
        match (before.and_then(ratio), ratio(&duel)) {
            (Some(before), Some(after)) if is_near(before, after) => near += 1,
            (Some(before), Some(after)) => {
                far.push(format!("{name} ({}, {})", number::ratio(before), number::ratio(after)));
            }
            (None, None) => {}
            (None, Some(_)) => one_sided.push(format!("{name} (B)")),
            (Some(_), None) => one_sided.push(format!("{name} (A)")),
        }
    }
    let count = near + far.len();
    if count + one_sided.len() == 0 {
        return None;
    }
    let mut line =
        format!("uswap to the bar, in A and B: {near} of {count} ratios are within 10 % of each other");
    if !far.is_empty() {
        line += &format!("; not {}", far.join(", "));
    }
    if !one_sided.is_empty() {
        line += &format!("; in one of them only: {}", one_sided.join(", "));
    }
    Some(one_line(&format!("{line}.")))
}

fn is_near(one: f64, other: f64) -> bool {
    // A little more, so that 1.1 against 1.0 is near however it is rounded.
    (one / other).ln().abs() <= NEAR.ln() + 1e-9
}

#[cfg(test)]
mod tests {
    use super::super::sample::{sample, small};
    use super::*;
    use crate::results::Outcome;

    #[test]
    fn the_same_result_twice_is_near_everywhere() {
        let results = sample();
        let expected = "uswap to the bar, in A and B: 6 of 6 ratios are within 10 % of each other.";
        assert_eq!(line(&results, &results).as_deref(), Some(expected));
        assert_eq!(line(&Results::default(), &Results::default()), None);
    }

    #[test]
    fn what_is_further_away_or_in_one_only_is_named() {
        let (old, mut new) = (small(), small());
        let cell = |results: &mut Results, workload: &str, by: f64| {
            let cells = results.cells.iter_mut();
            for cell in cells.filter(|cell| cell.rival == "uswap" && cell.workload == workload) {
                cell.runs.iter_mut().for_each(|run| run.figures.values_mut().for_each(|value| *value *= by));
            }
        };
        cell(&mut new, "scan", 1.1);
        cell(&mut new, "sort", 1.12);
        let expected = "uswap to the bar, in A and B: 1 of 2 ratios are within 10 % of each other; not sort (0.50, \
            0.45).";
        assert_eq!(line(&old, &new).as_deref(), Some(expected));
        for run in new.cells.iter_mut().filter(|cell| cell.workload == "sort").flat_map(|cell| &mut cell.runs)
        {
            run.outcome = Outcome::Killed;
        }
        let expected = "uswap to the bar, in A and B: 1 of 1 ratios are within 10 % of each other; in one of them \
            only: sort (A).";
        assert_eq!(line(&old, &new).as_deref(), Some(expected));
    }

    #[test]
    fn near_is_the_same_from_both_sides() {
        for (one, other, near) in
            [(1.0, 1.1, true), (1.1, 1.0, true), (1.0, 1.11, false), (0.5, 0.454, false)]
        {
            assert_eq!((is_near(one, other), is_near(other, one)), (near, near), "{one} {other}");
        }
    }
}
