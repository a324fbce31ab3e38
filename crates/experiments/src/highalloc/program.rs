//! `cargo xtask highalloc`: runs all columns with all seeds, prints tables beside what was published, and writes them
//! down.
//!
//! What must hold: each column is printed, whoever is ahead; a figure is the mean of all seeds.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, Result};
use serde::Serialize;
use uswap_zones::node::Patience;

use super::Column;
use super::counts::Counts;
use super::world::{Outcome, Size, run};
use uswap_bench::report::sheet::{Row, Sheet, left, right};
use uswap_bench::report::{markdown, table};

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    column: Column,
    may_wait: bool,
    seed: u64,
    outcome: Outcome,
}

/// What was published in 2016 of the three columns of Linux: of requests that may not wait, then of those that may.
struct Published {
    success: [[u64; 3]; 3],
    figures: [(&'static str, [u64; 3]); 8],
}
const PUBLISHED: [Published; 2] = [
    Published {
        success: [[4, 4, 38], [3, 4, 38], [9, 10, 76]],
        figures: [
            ("alloc stalls", [321, 313, 260]),
            ("pages scanned directly", [53_308, 46_054, 47_504]),
            ("pages scanned by kswapd", [2_126_926, 2_156_583, 2_180_757]),
            ("compaction stalls", [1082, 1064, 924]),
            ("compaction success", [185, 134, 113]),
            ("pages migrated", [547_663, 555_349, 1_357_157]),
            ("migrate scanned", [1_518_500, 1_463_701, 7_626_063]),
            ("free scanned", [35_478_038, 32_735_896, 326_240_264]),
        ],
    },
    Published {
        success: [[13, 14, 77], [11, 12, 80], [7, 7, 79]],
        figures: [
            ("alloc stalls", [4516, 4571, 4577]),
            ("pages scanned directly", [164_893, 159_692, 113_793]),
            ("pages scanned by kswapd", [0; 3]),
            ("compaction stalls", [2686, 2749, 2256]),
            ("compaction success", [889, 955, 512]),
            ("pages migrated", [2_442_538, 0, 3_044_899]),
            ("migrate scanned", [17_004_834, 0, 20_155_758]),
            ("free scanned", [269_507_706, 0, 437_874_337]),
        ],
    },
];

/// Runs what is `chosen` (all columns, if none is), and writes `highalloc.json` and `highalloc.md` into `out`. Returns
/// the tables.
///
/// # Errors
/// A file cannot be written.
pub fn run_all(size: Size, chosen: &[Patience], out: &Path) -> Result<String> {
    let runs = runs(size, chosen);
    fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
    let sheets: Vec<Sheet> = chosen.iter().map(|&patience| sheet(&runs, patience)).collect();
    let markdown: String = sheets
        .iter()
        .map(|sheet| format!("### {}\n\n{}\n", sheet.title, markdown::sheet_text(sheet)))
        .collect();
    for (name, text) in [("highalloc.json", serde_json::to_string(&runs)?), ("highalloc.md", markdown)] {
        let path = out.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(sheets.iter().map(|sheet| table::sheet_text(sheet) + "\n").collect())
}

/// On as many threads as there are processors: the runs know nothing of each other.
fn runs(size: Size, chosen: &[Patience]) -> Vec<Run> {
    let mut left: Vec<(Patience, Column, u64)> = Vec::new();
    for &patience in chosen {
        for seed in 1..=size.seeds {
            left.extend(Column::ALL.map(|column| (patience, column, seed)));
        }
    }
    let (left, done) = (Mutex::new(left), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = left.lock().expect("no panic").pop();
                    let Some((patience, column, seed)) = next else { break };
                    let outcome = run(column, patience, size, seed);
                    let may_wait = patience == Patience::MayWait;
                    done.lock().expect("no panic").push(Run { column, may_wait, seed, outcome });
                }
            });
        }
    });
    let mut runs = done.into_inner().expect("no panic");
    runs.sort_by_key(|run| (run.may_wait, run.column as usize, run.seed));
    runs
}

type Figure = (&'static str, fn(&Outcome) -> f64);
const FIGURES: [Figure; 24] = [
    ("success 1, %", |outcome| outcome.tests[0].percent() as f64),
    ("success 2, %", |outcome| outcome.tests[1].percent() as f64),
    ("success 3, %", |outcome| outcome.tests[2].percent() as f64),
    ("work of the jobs, ms of CPU a second", |outcome| outcome.work_ms_per_s),
    ("alloc stalls", |outcome| outcome.counts.alloc_stalls as f64),
    ("pages scanned directly", |outcome| outcome.counts.direct_scanned as f64),
    ("pages scanned by kswapd", |outcome| outcome.counts.kswapd_scanned as f64),
    ("pages reclaimed by kswapd", |outcome| outcome.counts.kswapd_reclaimed as f64),
    ("swap outs", |outcome| outcome.counts.swapped_out as f64),
    ("compaction stalls", |outcome| outcome.counts.compact_stalls as f64),
    ("compaction success", |outcome| outcome.counts.compact_success as f64),
    ("pages migrated", |outcome| outcome.counts.migrated as f64),
    ("migrate failures", |outcome| outcome.counts.migrate_failed as f64),
    ("migrate scanned", |outcome| outcome.counts.migrate_scanned as f64),
    ("free scanned", |outcome| outcome.counts.free_scanned as f64),
    ("compaction cost", |outcome| outcome.counts.compaction_cost().0 as f64),
    ("compaction cost with free scanned", |outcome| outcome.counts.compaction_cost().1 as f64),
    ("kswapd, ms of CPU", |outcome| (outcome.counts.kswapd_ns / 1_000_000) as f64),
    ("kcompactd, ms of CPU", |outcome| (outcome.counts.kcompactd_ns / 1_000_000) as f64),
    ("jobs stalled, ms of CPU", |outcome| (outcome.counts.stalled_ns / 1_000_000) as f64),
    ("huge pages for jobs, %", |outcome| percent(&outcome.counts)),
    ("blocks with what cannot be moved, phase 3, %", |outcome| {
        f64::from(outcome.pinned_blocks) * 100.0 / f64::from(outcome.blocks)
    }),
    ("latency of a success in phase 1, p50, us", |outcome| outcome.tests[0].latency_us(50) as f64),
    ("the same, p99, us", |outcome| outcome.tests[0].latency_us(99) as f64),
];

fn percent(counts: &Counts) -> f64 {
    counts.huge_faults as f64 * 100.0 / counts.huge_wanted.max(1) as f64
}

fn sheet(runs: &[Run], patience: Patience) -> Sheet {
    let may_wait = patience == Patience::MayWait;
    let published = &PUBLISHED[usize::from(may_wait)];
    let of = |column: Column| runs.iter().filter(move |run| run.may_wait == may_wait && run.column == column);
    let mut rows = Vec::new();
    for (number, (name, figure)) in FIGURES.into_iter().enumerate() {
        let mut entries = vec![name.into()];
        for column in Column::ALL {
            let values: Vec<f64> = of(column).map(|run| figure(&run.outcome)).collect();
            let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
            let (least, most) = values
                .iter()
                .fold((f64::INFINITY, 0.0_f64), |(least, most), &value| (least.min(value), most.max(value)));
            let spread = if number < 4 { format!(" ({least:.0}-{most:.0})") } else { String::new() };
            entries.push(format!("{mean:.0}{spread}").into());
        }
        let of_linux = match number {
            0..3 => Some(published.success.map(|column| column[number])),
            _ => published.figures.iter().find(|(known, _)| *known == name).map(|&(_, values)| values),
        };
        // 0: not published.
        let known = |value: &u64| if *value == 0 { "-".to_owned() } else { value.to_string() };
        entries.push(
            of_linux
                .map_or("-".to_owned(), |values| values.iter().map(known).collect::<Vec<_>>().join(" / "))
                .into(),
        );
        rows.push(Row::Entries(entries));
    }
    let columns = [left("")]
        .into_iter()
        .chain(Column::ALL.map(|column| right(column.name())))
        .chain([right("published")]);
    let title = format!("Requests for 2 MiB that may {}wait", if may_wait { "" } else { "not " });
    let seeds = of(Column::Base).count();
    let notes = vec![format!(
        "Mean of {seeds} seeds (least-most). Published: base / kcompactd / kcompactd with order, Linux 4.4, 2016."
    )];
    Sheet { title, notes, columns: columns.collect(), rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was published comes out in the small: with the order, requests that may not wait succeed more often at
    /// rest, and scanning for room grows. Ours needs a part of that.
    #[test]
    fn the_short_form_shows_what_was_published() {
        let out = std::env::temp_dir().join(format!("uswap-highalloc-{}", std::process::id()));
        let text =
            run_all(Size::SHORT, &[Patience::MayNot, Patience::MayWait], &out).expect("it can be written");
        assert!(text.contains("kcompactd with order") && !text.contains("NaN"), "{text}");
        let runs: Vec<serde_json::Value> =
            serde_json::from_str(&fs::read_to_string(out.join("highalloc.json")).expect("it was written"))
                .expect("it is JSON");
        assert_eq!(runs.len(), 8);
        fs::remove_dir_all(&out).expect("it is ours");
        let runs = super::runs(Size::SHORT, &[Patience::MayNot]);
        let of = |column: Column| &runs.iter().find(|run| run.column == column).expect("it ran").outcome;
        let rest = |column: Column| of(column).tests[2].percent();
        assert!(rest(Column::WithOrder) > rest(Column::Base) + 20, "{text}");
        assert!(rest(Column::Kcompactd) < rest(Column::Base) + 20, "the order is lost: {text}");
        assert!(rest(Column::Ours) >= rest(Column::WithOrder), "{text}");
        let scanned = |column: Column| of(column).counts.free_scanned + of(column).counts.migrate_scanned;
        assert!(scanned(Column::Ours) * 2 < scanned(Column::Base), "{text}");
        assert_eq!(of(Column::Ours).counts.compact_stalls, 0, "who may not wait compacts nothing");
    }
}
