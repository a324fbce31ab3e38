//! Comparisons of made-up results whose difference is known.

use super::super::sample::{awkward, sample, small};
use super::*;
use crate::results::Outcome;

/// The row of a workload and a rival.
fn change<'a>(changes: &'a [Change<'a>], workload: &str, rival: &str) -> &'a Change<'a> {
    let found = changes.iter().find(|change| change.workload.name == workload && change.new.rival == rival);
    found.expect("both results have it")
}

#[test]
fn the_same_twice_is_the_same() {
    let results = sample();
    for change in changes(&results, &results) {
        let expected = if change.new.runs.iter().any(|run| run.outcome == Outcome::Killed) {
            Verdict::NoData
        } else {
            Verdict::Tie
        };
        assert_eq!(change.advantage.verdict, expected, "{} {}", change.workload.name, change.new.rival);
        let ratio = change.advantage.ratio.expect("some runs ended well");
        assert!((ratio.ratio - 1.0).abs() < 1e-9);
    }
    assert!(warnings(&results, &results).is_empty());
    let text = text(&results, &results);
    assert!(!text.contains("differ in more") && text.contains("0 better, 0 worse"), "{text}");
}

#[test]
fn a_change_is_found_in_the_right_direction() {
    let old = sample();
    let mut new = sample();
    for cell in new.cells.iter_mut().filter(|cell| cell.rival == "uswap") {
        for run in &mut cell.runs {
            run.figures.values_mut().for_each(|value| *value *= 1.5);
        }
    }
    let changes = changes(&old, &new);
    // More throughput is better, more time is worse.
    let throughput = &change(&changes, "seqscan", "uswap").advantage;
    assert_eq!(throughput.verdict, Verdict::Win);
    assert!((throughput.ratio.expect("runs").ratio - 1.5).abs() < 1e-9);
    let time = &change(&changes, "sort", "uswap").advantage;
    assert_eq!(time.verdict, Verdict::Loss);
    assert!((time.ratio.expect("runs").ratio - 1.0 / 1.5).abs() < 1e-9);
    assert_eq!(change(&changes, "seqscan", "zswap").advantage.verdict, Verdict::Tie);
    let text = text(&old, &new);
    assert!(text.contains("3 better, 3 worse"), "{text}");
}

#[test]
fn the_noisier_machine_decides_what_is_the_same() {
    let old = small();
    let mut new = small();
    for cell in &mut new.cells {
        cell.runs.iter_mut().for_each(|run| run.figures.values_mut().for_each(|value| *value *= 1.1));
    }
    let verdict = |new: &Results| change(&changes(&old, new), "sort", "zram-lz4").advantage.verdict;
    assert_eq!(verdict(&new), Verdict::Loss, "10 s became 11 s in every run");
    new.machine.noise = 0.2;
    assert_eq!(verdict(&new), Verdict::Tie);
}

#[test]
fn other_machines_and_settings_are_said() {
    let old = small();
    let mut new = small();
    new.machine.kernel = "7.0".to_owned();
    new.machine.cpus = 64;
    new.machine.commit = Some("other".to_owned());
    new.budget_bytes *= 2;
    new.scenario = "else".to_owned();
    new.machine.settings.remove("thp");
    new.machine.settings.insert("vm.swappiness".to_owned(), "100".to_owned());
    new.machine.settings.insert("new".to_owned(), "1".to_owned());
    new.workloads[1].data_bytes = Some(144 << 20);
    let expected = [
        "processor: A has Example processor at 2.0 GHz, 2 usable, B has Example processor at 2.0 GHz, 64 usable",
        "kernel: A has 6.18.0, B has 7.0",
        "scenario: A has small, B has else",
        "true RAM: A has 100 MiB, B has 200 MiB",
        "sort: A has 2 times 96 MiB, B has 1.5 times 96 MiB",
        "thp: A has never, B has nothing",
        "vm.swappiness: A has 60, B has 100",
        "new: A has nothing, B has 1",
    ];
    assert_eq!(warnings(&old, &new), expected);
    let text = text(&old, &new);
    assert!(text.contains("B: uswap 0.1.0, commit other"), "{text}");
    assert!(text.contains("* kernel: A has 6.18.0, B has 7.0\n"), "{text}");
}

#[test]
fn what_one_lacks_is_listed() {
    let old = small();
    let mut new = small();
    new.cells.retain(|cell| cell.rival != "zram-lz4");
    new.workloads[1].main_figure = "items_per_s".to_owned();
    let text = text(&old, &new);
    for line in [
        "* scan, zram-lz4: only in A\n",
        "* sort: A is judged by wall_s (s, less is better), B by items_per_s (s, less is better)\n",
        "* scan, zswap: no run in A nor in B\n",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
}

#[test]
fn odd_results_compare_without_nan_and_within_the_width() {
    for (old, new) in
        [(awkward(), sample()), (sample(), awkward()), (awkward(), awkward()), (Results::default(), small())]
    {
        let text = text(&old, &new);
        assert!(!text.contains("NaN"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= table::WIDTH), "{text}");
    }
}

#[test]
fn a_small_comparison_as_it_is_printed() {
    let old = small();
    let mut new = small();
    new.machine.commit = Some("0f1e2d3".to_owned());
    for run in &mut new.cells[2].runs {
        run.figures.insert("mb_per_s".to_owned(), 200.0 + f64::from(run.round));
    }
    new.cells[5].runs[1].outcome = Outcome::Killed;
    assert_eq!(text(&old, &new), include_str!("golden/small_compare.txt"));
}
