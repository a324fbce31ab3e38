//! The table of a program of the user: one row for each rival.
//!
//! What must hold: a wrong result, a killed run and one that was left out stand in the same column as a right one; what
//! the program does without any limit is said, since all is compared with it.

use crate::results::{Cell, Memory, Results, Run, Unlimited, Workload};
use crate::statistics::{Endings, Pairing, Verdict, advantage, bar, done_runs, median};

use super::duel::against_bar;
use super::figure::main_median;
use super::number::{self, NOTHING};
use super::sheet::{Entry, Row, Sheet, left, one_line, right};

/// The rival without a limit.
const NONE: &str = "none";

/// One table for each program of the user; none if the results are of workloads.
pub fn sheets(results: &Results) -> Vec<Sheet> {
    results.workloads.iter().filter_map(|workload| sheet(results, workload)).collect()
}

fn sheet(results: &Results, workload: &Workload) -> Option<Sheet> {
    let unlimited = workload.unlimited.as_ref()?;
    let columns = vec![
        left("rival"),
        right("time, s"),
        right("to none"),
        right("to zram"),
        right("RAM"),
        right("CPU s"),
        right("all CPU s"),
        left("result"),
    ];
    let bar = bar(results, workload);
    let rows = results.rivals.iter().map(|rival| {
        let cell = results.cell(&workload.name, &rival.name);
        Row::Entries(entries(results, workload, &rival.name, cell, bar))
    });
    let mut notes = vec![one_line(&format!("{}.", capital(&alone(unlimited))))];
    let budget_bytes = results.budget_of(workload);
    if unlimited.peak_bytes <= budget_bytes {
        notes.push(one_line(&format!("{}.", capital(&fits(unlimited, budget_bytes)))));
    }
    if results.cell(&workload.name, NONE).is_some_and(|cell| Endings::of(cell).failed > 0) {
        notes.push(
            "Runs without a limit differ from each other, so the program does not print the same each time: no result \
             can be called right."
                .to_owned(),
        );
    }
    notes.push(match bar {
        Some(bar) => format!(
            "Ratios above 1: faster than that; the better zram is {}. Times and ratios: medians of runs with a right \
             result.",
            bar.rival
        ),
        None => "Ratios above 1: faster than that. No zram ran. Times and ratios: medians of runs with a right result."
            .to_owned(),
    });
    notes.push(
        "RAM: true RAM at its highest in all runs, in per cent of the budget. CPU s: processor seconds of the program, \
         uswap inside it included; all CPU s: of the whole machine meanwhile."
            .to_owned(),
    );
    let title = format!("One program at the same true RAM, {}", number::bytes(budget_bytes as f64));
    Some(Sheet { title, notes, columns, rows: rows.collect() })
}

/// `without a limit: 1.50 s, 120 MiB at its highest, exit code 0, standard output 00ff of 12 bytes`.
pub fn alone(unlimited: &Unlimited) -> String {
    let Unlimited { result, wall_s, peak_bytes } = unlimited;
    let peak = number::bytes(*peak_bytes as f64);
    format!("without a limit: {} s, {peak} at its highest, {result}", number::value(*wall_s))
}

/// Said where nothing is compared but the cost of being watched.
pub fn fits(unlimited: &Unlimited, budget_bytes: u64) -> String {
    format!(
        "without a limit it takes {}, which fits into {}: nobody has to swap, and the figures say only what each costs \
         then",
        number::bytes(unlimited.peak_bytes as f64),
        number::bytes(budget_bytes as f64)
    )
}

fn entries(
    results: &Results,
    workload: &Workload,
    rival: &str,
    cell: Option<&Cell>,
    bar: Option<&Cell>,
) -> Vec<Entry> {
    let Some(cell) = cell.filter(|cell| !cell.runs.is_empty()) else {
        let mut entries: Vec<Entry> = vec![rival.into()];
        entries.extend((0..6).map(|_| NOTHING.into()));
        entries.push(
            if cell.is_some_and(|cell| cell.left_out.is_some()) { "left out" } else { "no run" }.into(),
        );
        return entries;
    };
    let ratio_to = |other: Option<&Cell>| {
        let other = other.filter(|other| other.rival != rival)?;
        let noise = results.machine.noise;
        advantage(workload, cell, other, Pairing::Rounds, noise).ratio.map(|ratio| number::ratio(ratio.ratio))
    };
    let ratio = |other: Option<&Cell>| Entry::from(ratio_to(other).unwrap_or_else(|| NOTHING.to_owned()));
    let typical = |value: fn(&Run) -> f64| {
        let values: Vec<f64> = done_runs(cell).map(value).collect();
        Entry::from(median(&values).map_or(NOTHING.to_owned(), number::value))
    };
    let sum = |memory: &Memory| memory.sum_bytes;
    let highest = cell.runs.iter().map(|run| sum(&run.memory)).max().unwrap_or(0);
    let endings = Endings::of(cell);
    let to_bar = ratio(bar);
    let verdict = if endings.all_well() {
        bar.filter(|bar| bar.rival != rival && rival != NONE)
            .map(|bar| against_bar(results, workload, rival, Some(bar)).verdict)
    } else {
        Some(Verdict::Loss)
    };
    vec![
        rival.into(),
        main_median(workload, cell).into(),
        ratio(results.cell(&workload.name, NONE)),
        to_bar,
        number::part_of(highest, results.budget_of(workload)).into(),
        typical(|run| run.cpu_program_s),
        typical(|run| run.cpu_machine_s),
        Entry { text: result(endings), verdict },
    ]
}

/// `right`, or `wrong 1, killed 1 of 3`.
fn result(endings: Endings) -> String {
    if endings.all_well() {
        return "right".to_owned();
    }
    // A run of a program fails only by its result.
    endings.to_string().replace("failed", "wrong")
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::super::sample::{small, user_program};
    use super::super::table::sheet_text;
    use super::*;
    use crate::results::Outcome;

    #[test]
    fn a_program_as_it_is_printed() {
        let sheets = sheets(&user_program());
        let text: String = sheets.iter().map(sheet_text).collect();
        assert_eq!(text, include_str!("golden/program.txt"));
    }

    #[test]
    fn workloads_have_no_such_table() {
        assert_eq!(sheets(&small()), []);
    }

    #[test]
    fn a_program_that_differs_by_itself_and_one_that_fits_are_said() {
        let mut results = user_program();
        for cell in results.cells.iter_mut().filter(|cell| cell.rival == "none") {
            cell.runs[1].outcome = Outcome::Failed("WRONG RESULT".to_owned());
        }
        let unlimited = results.workloads[0].unlimited.as_mut().expect("it is a program");
        unlimited.peak_bytes = results.budget_bytes;
        let text = sheet_text(&sheets(&results)[0]);
        for words in ["wrong 1 of 3", "differ from each other", "which fits into"] {
            assert!(text.contains(words), "{words} is missing in\n{text}");
        }
    }
}
