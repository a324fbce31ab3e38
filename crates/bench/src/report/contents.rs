//! What the reports say: facts on the machine, and the tables.
//!
//! What must hold: losses and kills stand beside wins, in the same tables and the same order; each number is the median
//! of runs that ended well, memory the highest of all runs.

use crate::results::{Cell, Memory, Outcome, Results, Run, Workload};
use crate::statistics::{self, Endings, Verdict, bar, done_runs, figures, median};

use super::duel::{against_bar, ratio_texts, verdict_entry};
use super::figure::unit_and_direction;
use super::number::{self, NOTHING};
use super::sheet::{Entry, Row, Sheet, left, one_line, right, shortened};

/// Letters of a failed run's words that are shown.
const DETAIL_LETTERS: usize = 300;

/// Machine, scenario and command, as name and value.
pub fn facts(results: &Results) -> Vec<(&'static str, String)> {
    let machine = &results.machine;
    let commit = machine.commit.as_deref().map_or(String::new(), |commit| format!(", commit {commit}"));
    let settings: Vec<String> =
        machine.settings.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let mut facts = vec![
        (
            "true RAM",
            format!(
                "{} for resident and compressed pages together{}",
                number::bytes(results.budget_bytes as f64),
                exceptions(results, |workload| number::bytes(results.budget_of(workload) as f64))
            ),
        ),
        (
            "working sets",
            format!(
                "{} times that{}",
                number::trimmed(results.factor),
                exceptions(results, |workload| format!(
                    "{} times",
                    number::trimmed(results.factor_of(workload))
                ))
            ),
        ),
        ("rounds", format!("{}, seed {}", results.rounds, results.seed)),
        ("date", machine.date.clone()),
        ("uswap", format!("{}{commit}", machine.uswap_version)),
        ("kernel", machine.kernel.clone()),
        ("processor", format!("{}, {} usable", machine.cpu, machine.cpus)),
        ("memory", number::bytes(machine.ram_bytes as f64)),
        ("swap files", machine.swap_place.clone()),
        ("noise", format!("{} (spread of a fixed computation)", number::percent(machine.noise))),
        ("settings", settings.join(", ")),
        ("command", results.command.clone()),
    ];
    facts.iter_mut().for_each(|(_, value)| *value = one_line(value));
    facts.retain(|(_, value)| !value.is_empty());
    facts
}

/// `; build: 96 MiB; sort, sqlite: 32 MiB`: workloads for which `value` is another than for most of the bench.
fn exceptions(results: &Results, value: impl Fn(&Workload) -> String) -> String {
    let usual = value(&Workload::default());
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for workload in &results.workloads {
        let own = value(workload);
        match groups.iter_mut().find(|(known, _)| *known == own) {
            _ if own == usual => {}
            Some((_, names)) => names.push(&workload.name),
            None => groups.push((own, vec![&workload.name])),
        }
    }
    groups.iter().map(|(value, names)| format!("; {}: {value}", names.join(", "))).collect()
}

/// Every rival on the given workloads: the main figure, and the advantage over the bar.
pub fn main_figures(results: &Results, workloads: &[Workload]) -> Sheet {
    let columns = vec![
        left("rival"),
        right("ended well"),
        right("median"),
        right("spread"),
        right("ratio"),
        right("interval"),
        left("against the bar"),
    ];
    let mut rows = Vec::new();
    for workload in workloads {
        rows.push(group(results, workload, Some(unit_and_direction(workload))));
        let bar = bar(results, workload);
        for rival in &results.rivals {
            let cell = results.cell(&workload.name, &rival.name);
            let is_bar = bar.is_some_and(|bar| bar.rival == rival.name);
            let advantage = against_bar(results, workload, &rival.name, bar);
            let (ratio, interval) = if is_bar { ratio_texts(None) } else { ratio_texts(advantage.ratio) };
            let values = cell.map_or(Vec::new(), |cell| figures(cell, &workload.main_figure));
            let endings = cell.map_or(Endings::default(), Endings::of);
            rows.push(Row::Entries(vec![
                rival.name.as_str().into(),
                if endings.total() == 0 {
                    NOTHING.into()
                } else {
                    format!("{}/{}", endings.done, endings.total()).into()
                },
                median(&values).map_or(NOTHING.to_owned(), number::value).into(),
                statistics::spread(&values).map_or(NOTHING.to_owned(), number::percent).into(),
                ratio.into(),
                interval.into(),
                if is_bar { bar_entry(endings) } else { verdict_entry(&advantage) },
            ]));
        }
    }
    let notes = vec![
        "Medians of the runs that ended well; spread is (third quartile - first quartile) / median. Ratio above 1: \
         better than the bar.".to_owned(),
    ];
    Sheet { title: "Main figure of every rival".to_owned(), notes, columns, rows }
}

fn bar_entry(endings: Endings) -> Entry {
    if endings.all_well() { "the bar".into() } else { format!("the bar: {endings}").into() }
}

/// What it cost: slow accesses, processor, disk, memory, kills.
pub fn costs(results: &Results, workloads: &[Workload]) -> Sheet {
    let columns = vec![
        left("rival"),
        right("p99"),
        right("p99.9"),
        right("CPU s"),
        right("all CPU s"),
        right("read"),
        right("written"),
        right("resident"),
        right("compr."),
        right("own"),
        right("sum"),
        left("ended"),
    ];
    let mut rows = Vec::new();
    for workload in workloads {
        rows.push(group(results, workload, None));
        for rival in &results.rivals {
            let cell = results.cell(&workload.name, &rival.name);
            rows.push(Row::Entries(cost_entries(results.budget_of(workload), &rival.name, cell)));
        }
    }
    let notes = vec![
        "p99, p99.9: 99 of 100 accesses, and 999 of 1000, take at most so long. CPU s: processor seconds of the \
         program, uswap inside it included; all CPU s: of the whole machine meanwhile, kernel threads included. \
         Medians of the runs that ended well.".to_owned(),
        "resident, compressed, own (tables, threads, supervisor; the kernel's are not counted) and their sum: the \
         highest of all runs, in per cent of the budget. The three need not be highest at the same moment.".to_owned(),
    ];
    Sheet { title: "Slow accesses, processor, disk, true RAM, kills".to_owned(), notes, columns, rows }
}

fn cost_entries(budget_bytes: u64, rival: &str, cell: Option<&Cell>) -> Vec<Entry> {
    let Some(cell) = cell.filter(|cell| !cell.runs.is_empty()) else {
        let mut entries: Vec<Entry> = vec![rival.into()];
        entries.extend((0..10).map(|_| NOTHING.into()));
        entries.push("no run".into());
        return entries;
    };
    let typical = |value: fn(&Run) -> f64, print: fn(f64) -> String| {
        median(&done_runs(cell).map(value).collect::<Vec<_>>()).map_or(NOTHING.to_owned(), print)
    };
    let highest = |part: fn(&Memory) -> u64| {
        let bytes = cell.runs.iter().map(|run| part(&run.memory)).max().unwrap_or(0);
        number::part_of(bytes, budget_bytes)
    };
    let endings = Endings::of(cell);
    vec![
        rival.into(),
        median(&figures(cell, "p99_ns")).map_or(NOTHING.to_owned(), number::nanoseconds).into(),
        median(&figures(cell, "p999_ns")).map_or(NOTHING.to_owned(), number::nanoseconds).into(),
        typical(|run| run.cpu_program_s, number::value).into(),
        typical(|run| run.cpu_machine_s, number::value).into(),
        typical(|run| run.disk_read_bytes as f64, number::bytes).into(),
        typical(|run| run.disk_written_bytes as f64, number::bytes).into(),
        highest(|memory| memory.resident_bytes).into(),
        highest(|memory| memory.compressed_bytes).into(),
        highest(|memory| memory.own_bytes).into(),
        highest(|memory| memory.sum_bytes).into(),
        Entry { text: endings.to_string(), verdict: (!endings.all_well()).then_some(Verdict::Loss) },
    ]
}

/// What was left out, never ran, or failed with words. None if there is nothing.
pub fn troubles(results: &Results) -> Option<Sheet> {
    let mut rows = Vec::new();
    for workload in &results.workloads {
        for rival in &results.rivals {
            for trouble in cell_troubles(results.cell(&workload.name, &rival.name)) {
                let entries = [workload.name.as_str(), rival.name.as_str(), trouble.as_str()];
                rows.push(Row::Entries(entries.map(Entry::from).to_vec()));
            }
        }
    }
    let columns = vec![left("workload"), left("rival"), left("what")];
    (!rows.is_empty()).then(|| Sheet {
        title: "Left out and failed".to_owned(),
        notes: Vec::new(),
        columns,
        rows,
    })
}

fn cell_troubles(cell: Option<&Cell>) -> Vec<String> {
    let Some(cell) = cell else {
        return vec!["not run".to_owned()];
    };
    let mut troubles = Vec::new();
    if let Some(why) = &cell.left_out {
        troubles.push(format!("left out: {}", shortened(&one_line(why), DETAIL_LETTERS)));
    } else if cell.runs.is_empty() {
        troubles.push("not run".to_owned());
    }
    for run in &cell.runs {
        let how = match &run.outcome {
            Outcome::Done => continue,
            Outcome::Killed => "killed by the kernel for want of memory".to_owned(),
            Outcome::TimedOut => "did not end in time".to_owned(),
            Outcome::Failed(detail) => format!("failed: {}", shortened(&one_line(detail), DETAIL_LETTERS)),
        };
        troubles.push(format!("round {}: {how}", run.round + 1));
    }
    troubles
}

/// How each rival was set up, and the limits that were found for it.
pub fn setups(results: &Results) -> Sheet {
    let mut rows = Vec::new();
    for rival in &results.rivals {
        rows.push(Row::Group(rival.name.clone(), one_line(&rival.title)));
        for workload in &results.workloads {
            let Some(cell) = results.cell(&workload.name, &rival.name) else { continue };
            let Some(limit) = cell.limit_bytes else { continue };
            rows.push(Row::Entries(vec![
                workload.name.as_str().into(),
                number::bytes(limit as f64).into(),
                number::part_of(limit, results.budget_of(workload)).into(),
                cell.search_runs.to_string().into(),
            ]));
        }
    }
    let columns =
        vec![left("workload"), right("limit of the group"), right("of the budget"), right("runs to find it")];
    let notes =
        vec!["At its limit a rival's resident and compressed pages together are the budget.".to_owned()];
    Sheet { title: "How the rivals were set up".to_owned(), notes, columns, rows }
}

fn group(results: &Results, workload: &Workload, figure: Option<String>) -> Row {
    let figure = figure.map_or(String::new(), |figure| format!(" ({figure})"));
    let title = &workload.title;
    Row::Group(workload.name.clone(), one_line(&format!("{title}{}{figure}", sizes(results, workload))))
}

/// `; 192 MiB in 96 MiB`; nothing where the result says only what holds for all.
pub fn sizes(results: &Results, workload: &Workload) -> String {
    let size = |bytes| number::bytes(bytes as f64);
    workload
        .data_bytes
        .map_or(String::new(), |bytes| format!("; {} in {}", size(bytes), size(results.budget_of(workload))))
}
