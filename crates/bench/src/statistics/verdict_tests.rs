//! Verdicts of small cells that a reader can judge alone.

use super::*;
use crate::results::{RivalInfo, Run};
use crate::statistics::Basis;

fn workload(better: Better) -> Workload {
    Workload { name: "w".to_owned(), main_figure: "x".to_owned(), better, ..Workload::default() }
}

/// A cell with a run for each value: a number is a run that ended well.
fn cell(rival: &str, values: &[Result<f64, Outcome>]) -> Cell {
    let runs = values.iter().enumerate().map(|(round, value)| {
        let (figures, outcome) = match value {
            Ok(value) => ([("x".to_owned(), *value)].into(), Outcome::Done),
            Err(outcome) => (Default::default(), outcome.clone()),
        };
        Run { round: round as u32, outcome, figures, ..Run::default() }
    });
    Cell { workload: "w".to_owned(), rival: rival.to_owned(), runs: runs.collect(), ..Cell::default() }
}

fn done(rival: &str, values: &[f64]) -> Cell {
    cell(rival, &values.iter().map(|value| Ok(*value)).collect::<Vec<_>>())
}

const FAST: [f64; 5] = [20.0, 21.0, 22.0, 19.0, 20.5];
const SLOW: [f64; 5] = [10.0, 10.0, 11.0, 9.0, 10.5];
const KILLED: Result<f64, Outcome> = Err(Outcome::Killed);

fn against(better: Better, first: &Cell, second: &Cell) -> Advantage {
    advantage(&workload(better), first, second, Pairing::Rounds, 0.02)
}

#[test]
fn more_throughput_wins_and_more_time_loses() {
    let (fast, slow) = (done("a", &FAST), done("b", &SLOW));
    let throughput = against(Better::Higher, &fast, &slow);
    assert_eq!(throughput.verdict, Verdict::Win);
    assert_eq!(throughput.ratio.expect("five pairs").ratio, 2.0);
    assert_eq!(throughput.why, None);
    assert_eq!(against(Better::Lower, &fast, &slow).verdict, Verdict::Loss);
    assert_eq!(against(Better::Lower, &slow, &fast).verdict, Verdict::Win);
}

#[test]
fn a_tie_where_the_interval_holds_1_or_the_noise_is_larger() {
    let base = done("a", &[10.0, 10.0, 10.0, 10.0, 10.0]);
    let around = done("b", &[9.9, 12.0, 12.0, 12.0, 12.0]);
    assert_eq!(against(Better::Higher, &around, &base).verdict, Verdict::Tie, "one round was lost");
    let slightly = done("b", &[10.1, 10.1, 10.1, 10.1, 10.1]);
    assert_eq!(against(Better::Higher, &slightly, &base).verdict, Verdict::Tie, "1 % on a machine with 2 %");
    assert_eq!(against(Better::Higher, &base, &slightly).verdict, Verdict::Tie);
    let silent = advantage(&workload(Better::Higher), &slightly, &base, Pairing::Rounds, 0.0);
    assert_eq!(silent.verdict, Verdict::Win, "1 % in every round on a machine without noise");
    for odd in [f64::NAN, f64::INFINITY, -1.0] {
        let found = advantage(&workload(Better::Higher), &slightly, &base, Pairing::Rounds, odd);
        assert_eq!(found.verdict, Verdict::Win, "a noise of {odd} is no noise");
    }
}

#[test]
fn a_drift_of_the_machine_cancels_in_pairs_but_not_apart() {
    let drifting = [10.0, 20.0, 30.0, 40.0, 50.0];
    let first = done("a", &drifting.map(|value| value * 1.2));
    let second = done("b", &drifting);
    assert_eq!(against(Better::Higher, &first, &second).verdict, Verdict::Win);
    let apart = advantage(&workload(Better::Higher), &first, &second, Pairing::Apart, 0.02);
    assert_eq!(apart.verdict, Verdict::Tie);
}

#[test]
fn killed_runs_lose_against_runs_that_ended_well() {
    let slow = done("slow", &SLOW);
    let killed = cell("slower", &[Ok(0.1), KILLED, KILLED, Ok(0.1), KILLED]);
    let found = against(Better::Higher, &killed, &slow);
    assert_eq!((found.verdict, found.why.as_deref()), (Verdict::Loss, Some("slower killed 3 of 5")));
    assert_eq!(found.ratio.expect("two rounds are left to compare").count, 2);
    let found = against(Better::Higher, &slow, &killed);
    assert_eq!((found.verdict, found.why.as_deref()), (Verdict::Win, Some("slower killed 3 of 5")));
}

#[test]
fn where_the_faster_one_was_killed_sometimes_nobody_wins() {
    let slow = done("slow", &SLOW);
    let killed = cell("quick", &[Ok(99.0), KILLED, KILLED, Ok(99.0), KILLED]);
    for found in [against(Better::Higher, &killed, &slow), against(Better::Higher, &slow, &killed)] {
        let why = Some("quick killed 3 of 5, faster in the others");
        assert_eq!((found.verdict, found.why.as_deref()), (Verdict::Mixed, why));
    }
    let hardly = cell("hardly quicker", &[Ok(10.1), KILLED, KILLED, Ok(9.1), KILLED]);
    for found in [against(Better::Higher, &hardly, &slow), against(Better::Higher, &slow, &hardly)] {
        let why = Some("hardly quicker killed 3 of 5");
        assert_eq!((found.verdict, found.why.as_deref()), (Verdict::Tie, why), "1 % on a machine with 2 %");
    }
    let always = cell("never done", &[KILLED, KILLED]);
    assert_eq!(against(Better::Higher, &slow, &always).verdict, Verdict::Win);
}

#[test]
fn where_both_failed_nobody_wins_unless_only_one_has_results() {
    let failed = || Err(Outcome::Failed("no".to_owned()));
    let some = cell("some", &[Ok(1.0), KILLED]);
    let others = cell("others", &[failed(), Ok(9.0)]);
    let none = cell("none", &[KILLED, Err(Outcome::TimedOut)]);
    let found = against(Better::Higher, &some, &others);
    assert_eq!(found.verdict, Verdict::NoData);
    assert_eq!(found.why.as_deref(), Some("some killed 1 of 2; others failed 1 of 2"));
    assert_eq!(against(Better::Higher, &some, &none).verdict, Verdict::Win);
    let found = against(Better::Higher, &none, &some);
    assert_eq!(found.verdict, Verdict::Loss);
    assert_eq!(found.why.as_deref(), Some("none killed 1, timed out 1 of 2"));
    assert_eq!(against(Better::Higher, &none, &none.clone()).verdict, Verdict::NoData);
}

#[test]
fn no_data_says_why() {
    let base = done("a", &FAST);
    let left_out =
        Cell { left_out: Some("no zswap here".to_owned()), rival: "z".to_owned(), ..Cell::default() };
    let found = against(Better::Higher, &base, &left_out);
    assert_eq!((found.verdict, found.why.as_deref()), (Verdict::NoData, Some("z: no zswap here")));
    let found = against(Better::Higher, &done("zero", &[0.0; 5]), &base);
    assert_eq!(found.verdict, Verdict::NoData, "nothing can be divided by 0");
    assert_eq!(found.ratio, None);
    let mut later = done("later", &FAST);
    later.runs.iter_mut().for_each(|run| run.round += 10);
    assert_eq!(against(Better::Higher, &later, &base).verdict, Verdict::NoData, "no round of both");
}

#[test]
fn swapping_the_sides_mirrors_the_verdict() {
    let mut prng = uswap_units::Prng::new(3);
    for _ in 0..500 {
        let mut side = |name: &str| {
            let values: Vec<_> = (0..1 + prng.below(6))
                .map(|_| if prng.chance(1, 8) { KILLED } else { Ok(10.0 + prng.below(8) as f64) })
                .collect();
            cell(name, &values)
        };
        let (first, second) = (side("a"), side("b"));
        for better in [Better::Higher, Better::Lower] {
            for pairing in [Pairing::Rounds, Pairing::Apart] {
                let forth = advantage(&workload(better), &first, &second, pairing, 0.03);
                let back = advantage(&workload(better), &second, &first, pairing, 0.03);
                let mirrored = match back.verdict {
                    Verdict::Win => Verdict::Loss,
                    Verdict::Loss => Verdict::Win,
                    same => same,
                };
                assert_eq!(forth.verdict, mirrored, "{first:?} {second:?}");
                if let (Some(forth), Some(back)) = (forth.ratio, back.ratio) {
                    assert!((forth.ratio * back.ratio - 1.0).abs() < 1e-9);
                }
            }
        }
    }
}

#[test]
fn one_round_is_a_verdict_by_an_assumed_interval() {
    let found = against(Better::Higher, &done("a", &[20.0]), &done("b", &[10.0]));
    assert_eq!(found.verdict, Verdict::Win);
    assert_eq!(found.ratio.expect("a pair").basis, Basis::Assumed);
    let found = against(Better::Higher, &done("a", &[11.0]), &done("b", &[10.0]));
    assert_eq!(found.verdict, Verdict::Tie, "a tenth in a single run says nothing");
}

fn results(cells: Vec<Cell>) -> Results {
    let rivals = cells.iter().map(|cell| RivalInfo { name: cell.rival.clone(), title: String::new() });
    Results { rivals: rivals.collect(), cells, ..Results::default() }
}

#[test]
fn the_bar_is_the_better_zram_whose_runs_all_ended_well() {
    let bar_of = |better, results: &Results| bar(results, &workload(better)).map(|cell| cell.rival.clone());
    let mut three = results(vec![
        done("none", &[999.0; 5]),
        done("zswap", &[500.0; 5]),
        done("zram-lz4", &SLOW),
        done("zram-lzo-rle+bg", &FAST),
        cell("zram-lzo-rle", &[Ok(99.0), Ok(99.0), KILLED]),
        done("uswap", &[999.0; 5]),
    ]);
    assert_eq!(bar_of(Better::Higher, &three).as_deref(), Some("zram-lzo-rle+bg"));
    assert_eq!(bar_of(Better::Lower, &three).as_deref(), Some("zram-lz4"));
    three.cells.retain(|cell| cell.rival != "zram-lz4" && cell.rival != "zram-lzo-rle+bg");
    assert_eq!(bar_of(Better::Higher, &three).as_deref(), Some("zram-lzo-rle"), "nobody is better");
    let dead = results(vec![cell("zram-lz4", &[KILLED]), done("uswap", &FAST)]);
    assert_eq!(bar_of(Better::Higher, &dead).as_deref(), Some("zram-lz4"), "it ran, so it is the bar");
    assert_eq!(bar_of(Better::Higher, &results(vec![done("uswap", &FAST)])), None);
    assert!(is_bar("zram-lz4+bg") && !is_bar("zram-zstd") && !is_bar("zswap"));
    assert!(is_ours("uswap") && is_ours("uswap-huge") && !is_ours("uswapx"));
}

#[test]
fn endings_in_words() {
    let all = cell("a", &[Ok(1.0), KILLED, Err(Outcome::TimedOut), Err(Outcome::Failed("x".to_owned()))]);
    assert_eq!(Endings::of(&all).to_string(), "killed 1, timed out 1, failed 1 of 4");
    let mut late = cell("a", &[Err(Outcome::TimedOut), Ok(1.0), Err(Outcome::TimedOut)]);
    for (run, seconds) in late.runs.iter_mut().zip([61.3, 0.0, 60.02]) {
        run.figures.insert("wall_s".to_owned(), seconds);
    }
    assert_eq!(Endings::of(&late).to_string(), "more than 60 s 2 of 3");
    assert_eq!(Endings::of(&done("a", &FAST)).to_string(), "all 5 ended well");
    assert_eq!(Endings::default().to_string(), "no run");
}

#[test]
fn nobody_is_better_with_more_memory_than_the_budget() {
    let workload = Workload { budget_bytes: Some(100), ..workload(Better::Higher) };
    let taking = |mut cell: Cell, bytes| {
        cell.runs.iter_mut().for_each(|run| run.memory.sum_bytes = bytes);
        cell
    };
    let verdict = |fast_bytes, slow_bytes| {
        let (fast, slow) = (taking(done("a", &FAST), fast_bytes), taking(done("b", &SLOW), slow_bytes));
        let found = advantage(&workload, &fast, &slow, Pairing::Rounds, 0.02);
        let back = advantage(&workload, &slow, &fast, Pairing::Rounds, 0.02);
        (found.verdict, back.verdict, found.why)
    };
    assert_eq!(verdict(110, 100), (Verdict::Win, Verdict::Loss, None));
    let why = Some("a took 202 % of the budget".to_owned());
    assert_eq!(verdict(202, 100), (Verdict::NoData, Verdict::NoData, why));
    assert_eq!(verdict(100, 150), (Verdict::Win, Verdict::Loss, None), "the other one is worse with more");
}
