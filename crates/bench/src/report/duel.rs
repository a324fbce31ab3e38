//! uswap against the bar, and how a verdict is told in a few words.
//!
//! What must hold: a verdict that is not by the ratio says why; how the intervals were found stands below every table
//! that shows some.

use crate::results::{Cell, Results, RivalInfo, Workload};
use crate::statistics::{self, Advantage, Basis, Pairing, Ratio, Verdict, advantage, bar};

use super::figure::{main_median, unit_and_direction};
use super::number::{self, NOTHING};
use super::sheet::{Entry, Row, Sheet, left, one_line, right};

/// One comparison of uswap with the bar.
pub struct Duel<'a> {
    /// On which work.
    pub workload: &'a Workload,
    /// Form of uswap.
    pub ours: &'a str,
    /// The zram that it is judged by.
    pub bar: Option<&'a Cell>,
    /// Who won.
    pub advantage: Advantage,
}

impl Duel<'_> {
    /// The workload, and the form of uswap if it is a special one.
    pub fn name(&self) -> String {
        let name = &self.workload.name;
        if self.ours == "uswap" { name.clone() } else { format!("{name} ({})", self.ours) }
    }
}

/// uswap against the bar on every workload, in the order of the workloads.
pub fn duels(results: &Results) -> Vec<Duel<'_>> {
    let ours: Vec<&RivalInfo> =
        results.rivals.iter().filter(|rival| statistics::is_ours(&rival.name)).collect();
    results
        .workloads
        .iter()
        .flat_map(|workload| ours.iter().map(move |rival| (workload, rival.name.as_str())))
        .map(|(workload, ours)| {
            let bar = bar(results, workload);
            Duel { workload, ours, bar, advantage: against_bar(results, workload, ours, bar) }
        })
        .collect()
}

/// How a rival does against the bar.
pub fn against_bar(results: &Results, workload: &Workload, rival: &str, bar: Option<&Cell>) -> Advantage {
    let nothing = |why: &str| Advantage { verdict: Verdict::NoData, ratio: None, why: Some(why.to_owned()) };
    match (results.cell(&workload.name, rival), bar) {
        (None, _) => nothing("not run"),
        // Why it has no runs stands in its own row, where its name is not needed.
        (Some(cell), _) if cell.runs.is_empty() => nothing(cell.left_out.as_deref().unwrap_or("no run")),
        (_, None) => nothing("no zram ran"),
        (Some(cell), Some(bar)) => advantage(workload, cell, bar, Pairing::Rounds, results.machine.noise),
    }
}

/// `5 wins, 1 tie, 2 losses, 1 mixed, 1 without data`.
pub fn score(duels: &[Duel<'_>]) -> String {
    let count = |verdict| duels.iter().filter(|duel| duel.advantage.verdict == verdict).count();
    let (wins, ties, losses) = (count(Verdict::Win), count(Verdict::Tie), count(Verdict::Loss));
    let several =
        |count: usize, one: &str, more: &str| format!("{count} {}", if count == 1 { one } else { more });
    let mut score =
        [several(wins, "win", "wins"), several(ties, "tie", "ties"), several(losses, "loss", "losses")]
            .join(", ");
    for (count, words) in [(count(Verdict::Mixed), "mixed"), (count(Verdict::NoData), "without data")] {
        if count > 0 {
            score += &format!(", {count} {words}");
        }
    }
    score
}

/// uswap against the bar: one row for each workload.
pub fn summary(results: &Results) -> Sheet {
    let duels = duels(results);
    let columns = vec![
        left("workload"),
        left("figure"),
        left("bar"),
        right("bar's"),
        right("uswap's"),
        right("ratio"),
        right("interval"),
        left("verdict"),
    ];
    let rows = duels.iter().map(|duel| {
        let workload = duel.workload;
        let median_of =
            |cell: Option<&Cell>| cell.map_or(NOTHING.to_owned(), |cell| main_median(workload, cell));
        let (ratio, interval) = ratio_texts(duel.advantage.ratio);
        Row::Entries(vec![
            duel.name().into(),
            unit_and_direction(workload).into(),
            duel.bar.map_or(NOTHING, |bar| bar.rival.as_str()).into(),
            median_of(duel.bar).into(),
            median_of(results.cell(&workload.name, duel.ours)).into(),
            ratio.into(),
            interval.into(),
            verdict_entry(&duel.advantage),
        ])
    });
    let rows: Vec<Row> = rows.collect();
    let mut notes = Vec::new();
    if rows.is_empty() {
        notes.push("This result has no rival named uswap.".to_owned());
    } else {
        notes.push(format!("Ratio above 1: uswap is better. {}.", score(&duels)));
        notes.push(
            "The bar is the best of zram-lz4 and zram-lzo-rle, with and without background reclaim, on each \
            workload."
                .to_owned(),
        );
    }
    notes.extend(method_notes(duels.iter().filter_map(|duel| duel.advantage.ratio), results.machine.noise));
    Sheet { title: "uswap against the kernel's zram".to_owned(), notes, columns, rows }
}

/// The ratio and its interval.
pub fn ratio_texts(ratio: Option<Ratio>) -> (String, String) {
    match ratio {
        None => (NOTHING.to_owned(), NOTHING.to_owned()),
        Some(ratio) => (number::ratio(ratio.ratio), number::interval(ratio.low, ratio.high)),
    }
}

/// `win`, `loss: zram-lz4 killed 3 of 5`, `win?` where the interval is assumed.
pub fn verdict_entry(advantage: &Advantage) -> Entry {
    let assumed =
        advantage.why.is_none() && advantage.ratio.is_some_and(|ratio| ratio.basis == Basis::Assumed);
    let mark = if assumed { "?" } else { "" };
    let why = advantage.why.as_ref().map_or(String::new(), |why| format!(": {}", one_line(why)));
    Entry { text: format!("{}{mark}{why}", advantage.verdict.word()), verdict: Some(advantage.verdict) }
}

/// Says how the intervals that are shown were found, each method once.
pub fn method_notes(ratios: impl Iterator<Item = Ratio>, noise: f64) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for ratio in ratios {
        let count = ratio.count;
        let coverage = number::percent(ratio.basis.coverage());
        let note = match ratio.basis {
            Basis::OrderStatistics { .. } => {
                format!("Intervals of {count} rounds: order statistics of the paired ratios, {coverage}.")
            }
            Basis::RankSum { .. } => format!(
                "Intervals of {count} runs or more of each side, measured apart: rank sums, {coverage}."
            ),
            Basis::Student => format!(
                "Intervals of {count} runs: Student's t on logarithms, {coverage} if they are normal; too few for more."
            ),
            Basis::Assumed => format!(
                "? One run of each side: the interval is an assumed {}, not measured. Run more rounds.",
                number::percent(statistics::ratio::assumed_doubt(statistics::verdict::usable_noise(noise)))
            ),
        };
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes.push(format!(
        "Tie: the interval holds 1, or the difference is within the machine's noise, {}.",
        number::percent(noise)
    ));
    notes
}
