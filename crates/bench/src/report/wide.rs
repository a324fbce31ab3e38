//! Tables with a column for each rival, as `docs/BENCHMARKS.md` and the README print them. Too wide for a terminal,
//! which has the same numbers in a row for each rival.
//!
//! What must hold: how runs ended stands beside the figure that they gave; a rival that has no figure has its column
//! all the same.

use std::collections::BTreeSet;

use crate::results::{Better, Cell, Results, RivalInfo, Run, Workload};
use crate::statistics::{self, Endings, done_runs, figures, median};

use super::duel::{Duel, duels, method_notes, ratio_texts, score, verdict_entry};
use super::figure::main_median;
use super::number::{self, NOTHING};
use super::sheet::{Column, Entry, Row, Sheet, left, one_line, right};

/// All tables, in the order in which they are read.
pub fn sheets(results: &Results) -> Vec<Sheet> {
    let typical = |cell: &Cell, value: fn(&Run) -> f64, print: fn(f64) -> String| {
        median(&done_runs(cell).map(value).collect::<Vec<_>>()).map_or(NOTHING.to_owned(), print)
    };
    let both = |one: String, other: String| {
        if one == NOTHING && other == NOTHING { NOTHING.to_owned() } else { format!("{one} / {other}") }
    };
    let percentile = |cell: &Cell, name: &str| {
        median(&figures(cell, name)).map_or(NOTHING.to_owned(), number::nanoseconds)
    };
    let tables = [
        by_workload(
            results,
            "p99 and p99.9 of an access",
            "99 of 100 accesses take at most so long / 999 of 1000.",
            &|_, cell| both(percentile(cell, "p99_ns"), percentile(cell, "p999_ns")),
        ),
        by_workload(
            results,
            "Processor seconds",
            "Of the program, uswap inside it included / of the whole machine meanwhile, kernel threads included.",
            &|_, cell| {
                both(
                    typical(cell, |run| run.cpu_program_s, number::value),
                    typical(cell, |run| run.cpu_machine_s, number::value),
                )
            },
        ),
        by_workload(results, "Disk", "Bytes read / written.", &|_, cell| {
            both(
                typical(cell, |run| run.disk_read_bytes as f64, number::bytes),
                typical(cell, |run| run.disk_written_bytes as f64, number::bytes),
            )
        }),
        by_workload(
            results,
            "True RAM",
            "Resident and compressed pages, and uswap's own memory: the highest of all runs, in per cent of the \
             budget.",
            &|workload, cell| {
                let highest = cell.runs.iter().map(|run| run.memory.sum_bytes).max();
                highest
                    .map_or(NOTHING.to_owned(), |bytes| number::part_of(bytes, results.budget_of(workload)))
            },
        ),
    ];
    let mut sheets = vec![main(results)];
    sheets.extend(tables.into_iter().flatten());
    sheets.extend(further(results));
    sheets
}

/// The main figure of every rival, and how uswap does against the bar.
fn main(results: &Results) -> Sheet {
    let rivals: Vec<&RivalInfo> = results.rivals.iter().collect();
    let mut columns = vec![left("workload"), right("RAM")];
    columns.extend(rivals.iter().map(|rival| right(one_line(&rival.name))));
    columns.extend([right("uswap to the better zram"), right("interval"), left("verdict")]);
    let duels = duels(results);
    let rows = results.workloads.iter().flat_map(|workload| {
        let start = || {
            let mut entries: Vec<Entry> = vec![
                with_unit(&workload.name, workload).into(),
                number::bytes(results.budget_of(workload) as f64).into(),
            ];
            entries.extend(rivals.iter().map(|rival| Entry::from(result_of(results, workload, &rival.name))));
            entries
        };
        let mut rows: Vec<Row> = duels_of(&duels, workload)
            .map(|duel| {
                let (ratio, interval) = ratio_texts(duel.advantage.ratio);
                let mut entries = start();
                entries[0] = with_unit(&duel.name(), workload).into();
                entries.extend([ratio.into(), interval.into(), verdict_entry(&duel.advantage)]);
                Row::Entries(entries)
            })
            .collect();
        if rows.is_empty() {
            let mut entries = start();
            entries.extend([NOTHING, NOTHING, "no uswap"].map(Entry::from));
            rows.push(Row::Entries(entries));
        }
        rows
    });
    let rows = rows.collect();
    let mut notes = vec![format!(
        "Medians of the runs that ended well. {} Ratio above 1: uswap is better. {}.",
        directions(results),
        score(&duels)
    )];
    notes.extend(method_notes(duels.iter().filter_map(|duel| duel.advantage.ratio), results.machine.noise));
    Sheet { title: "Every rival on every workload".to_owned(), notes, columns, rows }
}

/// The short form: the bar, the other rivals that swap, uswap.
pub fn short(results: &Results) -> Sheet {
    let others = results.rivals.iter().filter(|rival| {
        rival.name != "none" && !statistics::is_bar(&rival.name) && !statistics::is_ours(&rival.name)
    });
    let others: Vec<&RivalInfo> = others.collect();
    let mut columns = vec![left("workload"), right("better zram")];
    columns.extend(others.iter().map(|rival| right(one_line(&rival.name))));
    columns.extend([right("uswap"), right("ratio"), left("verdict")]);
    let duels = duels(results);
    let rows = duels.iter().map(|duel| {
        let workload = duel.workload;
        let result = |rival: &str| Entry::from(result_of(results, workload, rival));
        let mut entries: Vec<Entry> = vec![
            with_unit(&duel.name(), workload).into(),
            duel.bar.map_or(NOTHING.into(), |bar| result(&bar.rival)),
        ];
        entries.extend(others.iter().map(|rival| result(&rival.name)));
        entries.push(result(duel.ours));
        entries.extend([ratio_texts(duel.advantage.ratio).0.into(), verdict_entry(&duel.advantage)]);
        Row::Entries(entries)
    });
    let rows: Vec<Row> = rows.collect();
    let notes = if rows.is_empty() {
        vec!["This result has no rival named uswap.".to_owned()]
    } else {
        vec![format!("{} Ratio above 1: uswap is better. {}.", directions(results), score(&duels))]
    };
    Sheet { title: "uswap against the kernel".to_owned(), notes, columns, rows }
}

/// `17.1`, `17.1, killed 2 of 5`, `more than 60 s 5 of 5`; nothing without runs.
fn result_of(results: &Results, workload: &Workload, rival: &str) -> String {
    let Some(cell) = results.cell(&workload.name, rival).filter(|cell| !cell.runs.is_empty()) else {
        return NOTHING.to_owned();
    };
    let (value, endings) = (main_median(workload, cell), Endings::of(cell));
    match (endings.all_well(), endings.done) {
        (true, _) => value,
        (false, 0) => endings.to_string(),
        (false, _) => format!("{value}, {endings}"),
    }
}

fn duels_of<'a>(duels: &'a [Duel<'a>], workload: &'a Workload) -> impl Iterator<Item = &'a Duel<'a>> {
    duels.iter().filter(move |duel| std::ptr::eq(duel.workload, workload))
}

fn with_unit(name: &str, workload: &Workload) -> String {
    one_line(&format!("{name}, {}", workload.unit))
}

/// Which figures are better if they are higher.
fn directions(results: &Results) -> String {
    let mut units = [Better::Higher, Better::Lower].map(|better| {
        let of = results.workloads.iter().filter(|workload| workload.better == better);
        of.map(|workload| one_line(&workload.unit)).collect::<BTreeSet<_>>()
    });
    let lower = std::mem::take(&mut units[1]);
    let list = |units: &BTreeSet<String>| units.iter().cloned().collect::<Vec<_>>().join(", ");
    match (units[0].is_empty(), lower.is_empty()) {
        (false, true) => "More is better.".to_owned(),
        (true, false) => "Less is better.".to_owned(),
        (true, true) => String::new(),
        (false, false) => format!("More is better for {}; less for {}.", list(&units[0]), list(&lower)),
    }
}

/// One row for each workload of which any rival has something to say.
fn by_workload(
    results: &Results,
    title: &str,
    note: &str,
    text: &dyn Fn(&Workload, &Cell) -> String,
) -> Option<Sheet> {
    let rows: Vec<Row> = results
        .workloads
        .iter()
        .filter_map(|workload| row(results, workload, one_line(&workload.name), &|cell| text(workload, cell)))
        .collect();
    let columns = rival_columns(results, "workload");
    (!rows.is_empty()).then(|| Sheet { title: title.to_owned(), notes: vec![note.to_owned()], columns, rows })
}

/// What else the workloads measured: one row for each figure.
fn further(results: &Results) -> Option<Sheet> {
    let mut rows = Vec::new();
    for workload in &results.workloads {
        let cells = || results.cells.iter().filter(|cell| cell.workload == workload.name);
        let names: BTreeSet<&String> =
            cells().flat_map(done_runs).flat_map(|run| run.figures.keys()).collect();
        let shown = [workload.main_figure.as_str(), "p99_ns", "p999_ns"];
        let own: Vec<Row> = names
            .into_iter()
            .filter(|name| !shown.contains(&name.as_str()))
            .filter_map(|name| {
                let text =
                    |cell: &Cell| median(&figures(cell, name)).map_or(NOTHING.to_owned(), number::value);
                row(results, workload, one_line(name), &text)
            })
            .collect();
        if !own.is_empty() {
            rows.push(Row::Group(one_line(&workload.name), String::new()));
            rows.extend(own);
        }
    }
    let columns = rival_columns(results, "figure");
    let notes = vec!["Medians of the runs that ended well; units stand in the names.".to_owned()];
    (!rows.is_empty()).then(|| Sheet { title: "What else was measured".to_owned(), notes, columns, rows })
}

fn rival_columns(results: &Results, first: &str) -> Vec<Column> {
    let rivals = results.rivals.iter().map(|rival| right(one_line(&rival.name)));
    std::iter::once(left(first)).chain(rivals).collect()
}

/// None if no rival has anything.
fn row(results: &Results, workload: &Workload, name: String, text: &dyn Fn(&Cell) -> String) -> Option<Row> {
    let texts: Vec<String> = results
        .rivals
        .iter()
        .map(|rival| results.cell(&workload.name, &rival.name).map_or(NOTHING.to_owned(), text))
        .collect();
    let any = texts.iter().any(|text| text != NOTHING);
    any.then(|| Row::Entries(std::iter::once(name).chain(texts).map(Entry::from).collect()))
}

#[cfg(test)]
mod tests {
    use super::super::markdown::sheet_text;
    use super::super::sample::{awkward, sample, small};
    use super::*;
    use crate::results::Outcome;

    #[test]
    fn the_tables_of_a_small_result() {
        let text: String = sheets(&small())
            .iter()
            .map(|sheet| format!("## {}\n\n{}\n", sheet.title, sheet_text(sheet)))
            .collect();
        assert_eq!(text.trim_end(), include_str!("golden/small_wide.md").trim_end());
    }

    #[test]
    fn every_row_is_as_long_as_the_head() {
        for results in [sample(), awkward(), small(), Results::default()] {
            for sheet in sheets(&results).into_iter().chain([short(&results)]) {
                for row in &sheet.rows {
                    let Row::Entries(entries) = row else { continue };
                    assert_eq!(entries.len(), sheet.columns.len(), "{}", sheet.title);
                    assert!(entries.iter().all(|entry| !entry.text.contains("NaN")), "{entries:?}");
                }
            }
        }
    }

    #[test]
    fn how_runs_ended_stands_beside_the_figure() {
        let mut results = small();
        let sort = results.workloads[1].clone();
        assert_eq!(result_of(&results, &sort, "zswap"), "9.00, killed 3 of 5");
        for run in &mut results.cells[3].runs {
            run.outcome = Outcome::TimedOut;
            run.figures.insert("wall_s".to_owned(), 60.02);
        }
        assert_eq!(result_of(&results, &sort, "zram-lz4"), "more than 60 s 5 of 5");
        let text = sheet_text(&main(&results));
        assert!(text.contains("win: zram-lz4 more than 60 s 5 of 5"), "{text}");
        assert_eq!(result_of(&results, &sort, "nobody"), NOTHING);
    }
}
