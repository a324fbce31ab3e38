//! Two results side by side: what a change did to each workload and rival.
//!
//! What must hold: the two were measured at different times, so rounds are not paired, and the noise is that of the
//! noisier; a difference in anything but the commit is said first; what only one of them has is listed, not dropped.

use std::path::Path;

use crate::results::{Cell, Machine, Results, Workload};
use crate::statistics::verdict::usable_noise;
use crate::statistics::{Advantage, Pairing, Ratio, Verdict, advantage, figures, median};

use super::duel::{method_notes, ratio_texts, verdict_entry};
use super::figure::unit_and_direction;
use super::number::{self, NOTHING};
use super::sheet::{Entry, Row, Sheet, left, one_line, right};
use super::{read, repeat, table};

/// Reads both files and compares them.
pub fn files(old: &Path, new: &Path) -> anyhow::Result<String> {
    Ok(text(&read(old)?, &read(new)?))
}

/// The comparison as plain text; a ratio above 1 says that `new` is better.
pub fn text(old: &Results, new: &Results) -> String {
    let mut text = table::wrapped("A: ", 3, &origin(old)) + &table::wrapped("B: ", 3, &origin(new));
    let warnings = warnings(old, new);
    if !warnings.is_empty() {
        text += "\nA and B differ in more than the commit; the ratios may come from that:\n";
        for warning in warnings {
            text += &table::wrapped("* ", 2, &warning);
        }
    }
    text.push('\n');
    text += &table::sheet_text(&sheet(old, new));
    if let Some(line) = repeat::line(old, new) {
        text += &format!("\n{}", table::wrapped("", 2, &line));
    }
    let missing = missing(old, new);
    if !missing.is_empty() {
        text += "\nNot compared:\n";
        for line in missing {
            text += &table::wrapped("* ", 2, &line);
        }
    }
    text
}

/// `uswap 0.1.0, commit 2a4e9b3, 2026-11-22, scenario paging, 5 rounds`.
fn origin(results: &Results) -> String {
    let machine = &results.machine;
    let commit = machine.commit.as_deref().unwrap_or("unknown");
    let (version, date) = (&machine.uswap_version, &machine.date);
    let (scenario, rounds) = (&results.scenario, results.rounds);
    one_line(&format!("uswap {version}, commit {commit}, {date}, scenario {scenario}, {rounds} rounds"))
}

/// One line for each thing that should be the same and is not.
pub fn warnings(old: &Results, new: &Results) -> Vec<String> {
    let facts = |results: &Results| {
        let Machine { kernel, cpu, cpus, ram_bytes, swap_place, .. } = &results.machine;
        [
            ("processor", format!("{cpu}, {cpus} usable")),
            ("memory", number::bytes(*ram_bytes as f64)),
            ("kernel", kernel.clone()),
            ("swap files", swap_place.clone()),
            ("scenario", results.scenario.clone()),
            ("true RAM", number::bytes(results.budget_bytes as f64)),
            ("working sets", format!("{} times", number::trimmed(results.factor))),
            ("seed", results.seed.to_string()),
        ]
    };
    let differs = |name: &str, old: &str, new: &str| one_line(&format!("{name}: A has {old}, B has {new}"));
    let mut warnings: Vec<String> = facts(old)
        .iter()
        .zip(facts(new))
        .filter(|((_, old), (_, new))| old != new)
        .map(|((name, old), (_, new))| differs(name, old, &new))
        .collect();
    for workload in &new.workloads {
        let Some(other) = old.workloads.iter().find(|other| other.name == workload.name) else { continue };
        let sizes = |results: &Results, workload: &Workload| {
            let budget = number::bytes(results.budget_of(workload) as f64);
            format!("{} times {budget}", number::trimmed(results.factor_of(workload)))
        };
        let (before, after) = (sizes(old, other), sizes(new, workload));
        let own = [other, workload].iter().any(|one| one.budget_bytes.or(one.data_bytes).is_some());
        if own && before != after {
            warnings.push(differs(&workload.name, &before, &after));
        }
    }
    let (old_settings, new_settings) = (&old.machine.settings, &new.machine.settings);
    for (name, value) in old_settings {
        let other = new_settings.get(name).map_or("nothing", String::as_str);
        if other != value {
            warnings.push(differs(name, value, other));
        }
    }
    let only_new = new_settings.iter().filter(|(name, _)| !old_settings.contains_key(*name));
    warnings.extend(only_new.map(|(name, value)| differs(name, "nothing", value)));
    warnings
}

/// A workload and a rival that both results have, and how the new one does.
struct Change<'a> {
    workload: &'a Workload,
    old: &'a Cell,
    new: &'a Cell,
    advantage: Advantage,
}

fn changes<'a>(old: &'a Results, new: &'a Results) -> Vec<Change<'a>> {
    let noise = usable_noise(old.machine.noise).max(usable_noise(new.machine.noise));
    let mut changes = Vec::new();
    for workload in &new.workloads {
        if !old.workloads.iter().any(|other| same_measure(workload, other)) {
            continue;
        }
        for rival in &new.rivals {
            let cells = (old.cell(&workload.name, &rival.name), new.cell(&workload.name, &rival.name));
            let (Some(old), Some(new)) = cells else { continue };
            if old.runs.is_empty() && new.runs.is_empty() {
                continue;
            }
            // So named, the reasons say of which side they are.
            let [left, right] =
                [(new, "B"), (old, "A")].map(|(cell, side)| Cell { rival: side.to_owned(), ..cell.clone() });
            let advantage = advantage(workload, &left, &right, Pairing::Apart, noise);
            changes.push(Change { workload, old, new, advantage });
        }
    }
    changes
}

/// Whether a figure of one is the figure of the other.
fn same_measure(one: &Workload, other: &Workload) -> bool {
    let measure = |workload: &Workload| {
        (workload.name.clone(), workload.main_figure.clone(), workload.unit.clone(), workload.better)
    };
    measure(one) == measure(other)
}

/// The table of all changes.
pub fn sheet(old: &Results, new: &Results) -> Sheet {
    let changes = changes(old, new);
    let mut rows = Vec::new();
    let mut group = None;
    for change in &changes {
        if group != Some(&change.workload.name) {
            group = Some(&change.workload.name);
            rows.push(Row::Group(
                one_line(&change.workload.name),
                one_line(&unit_and_direction(change.workload)),
            ));
        }
        let middle = |cell: &Cell| {
            median(&figures(cell, &change.workload.main_figure)).map_or(NOTHING.to_owned(), number::value)
        };
        let (ratio, interval) = ratio_texts(change.advantage.ratio);
        rows.push(Row::Entries(vec![
            change.new.rival.as_str().into(),
            middle(change.old).into(),
            middle(change.new).into(),
            ratio.into(),
            interval.into(),
            verdict(&change.advantage),
        ]));
    }
    let columns =
        vec![left("rival"), right("A"), right("B"), right("ratio"), right("interval"), left("B against A")];
    let mut notes = Vec::new();
    if changes.is_empty() {
        notes.push("A and B have no workload and rival in common.".to_owned());
    } else {
        let count = |verdict| changes.iter().filter(|change| change.advantage.verdict == verdict).count();
        let (better, worse, same) = (count(Verdict::Win), count(Verdict::Loss), count(Verdict::Tie));
        let mixed = match count(Verdict::Mixed) {
            0 => String::new(),
            mixed => format!(", {mixed} mixed"),
        };
        notes.push(format!(
            "Medians. Ratio above 1: B is better. {better} better, {worse} worse, {same} the same{mixed}."
        ));
        let noise = usable_noise(old.machine.noise).max(usable_noise(new.machine.noise));
        let ratios: Vec<Ratio> = changes.iter().filter_map(|change| change.advantage.ratio).collect();
        notes.extend(method_notes(ratios.into_iter(), noise));
    }
    Sheet { title: "B against A".to_owned(), notes, columns, rows }
}

/// `better`, `worse`, `same`, with what [`verdict_entry`] adds.
fn verdict(advantage: &Advantage) -> Entry {
    let entry = verdict_entry(advantage);
    let word = match advantage.verdict {
        Verdict::Win => "better",
        Verdict::Loss => "worse",
        Verdict::Tie => "same",
        Verdict::Mixed => "mixed",
        Verdict::NoData => "no data",
    };
    let rest = entry.text.strip_prefix(advantage.verdict.word()).unwrap_or_default();
    Entry { text: format!("{word}{rest}"), verdict: entry.verdict }
}

/// What only one has, and what cannot be compared.
fn missing(old: &Results, new: &Results) -> Vec<String> {
    let mut lines = Vec::new();
    for workload in &new.workloads {
        let other = old.workloads.iter().find(|other| other.name == workload.name);
        if let Some(other) = other.filter(|other| !same_measure(workload, other)) {
            let measure =
                |workload: &Workload| format!("{} ({})", workload.main_figure, unit_and_direction(workload));
            lines.push(format!(
                "{}: A is judged by {}, B by {}",
                workload.name,
                measure(other),
                measure(workload)
            ));
        }
    }
    for (name, one, other) in [("A", old, new), ("B", new, old)] {
        let only = one.cells.iter().filter(|cell| other.cell(&cell.workload, &cell.rival).is_none());
        lines.extend(only.map(|cell| format!("{}, {}: only in {name}", cell.workload, cell.rival)));
    }
    let runs = |results: &Results, cell: &Cell| {
        results.cell(&cell.workload, &cell.rival).is_some_and(|other| !other.runs.is_empty())
    };
    let neither = new.cells.iter().filter(|cell| old.cell(&cell.workload, &cell.rival).is_some());
    let neither = neither.filter(|cell| !runs(old, cell) && !runs(new, cell));
    lines.extend(neither.map(|cell| format!("{}, {}: no run in A nor in B", cell.workload, cell.rival)));
    lines.iter().map(|line| one_line(line)).collect()
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
