//! `cargo xtask second-chance`: the same builds under each rule, several seeds; tables of medians, and all figures as
//! JSON.
//!
//! What must hold: the figures of one seed are of the same work, whatever the rule; a rule that loses is printed like
//! one that wins.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use serde::Serialize;

use super::build::{self, Build, Outcome};
use super::decaying::Decaying;
use super::ours::{Count, Ours};
use super::prices::{DiskKind, PRICES, SLOW, SOLID_STATE};
use super::published::Published;
use uswap_bench::report::sheet::{Row, Sheet, left, right};
use uswap_bench::report::{markdown, table};
use uswap_bench::statistics::median;

/// How much is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// All of it.
    Full,
    /// Only to show that it runs.
    Short,
}

/// Whether there is data that nobody wants again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Data {
    WithoutCold,
    WithCold,
}

impl Data {
    fn name(self) -> &'static str {
        match self {
            Data::WithoutCold => "build",
            Data::WithCold => "build with cold data",
        }
    }
}

/// A rule by name, and how it is run.
type Rule = (&'static str, fn(Build, DiskKind, u64) -> Outcome);
const RULES: [Rule; 4] = [
    ("decaying", |build, disk, seed| build::run(build, disk, Decaying::default(), seed)),
    ("published", |build, disk, seed| build::run(build, disk, Published::default(), seed)),
    ("uswap", |build, disk, seed| {
        build::run(build, disk, Ours::new(build.limit_bytes, disk, Count::Scaled), seed)
    }),
    ("uswap, not scaled", |build, disk, seed| {
        build::run(build, disk, Ours::new(build.limit_bytes, disk, Count::Plain), seed)
    }),
];

/// What one run gave.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct Run {
    scene: &'static str,
    disk: &'static str,
    rule: &'static str,
    seed: u64,
    wall_s: f64,
    work_s: f64,
    from_disk: u64,
    asked_from_disk: u64,
    from_pool: u64,
    stored: u64,
    written: u64,
    cold_written: u64,
}

#[derive(Serialize)]
struct Results {
    model: String,
    runs: Vec<Run>,
}

/// Chosen so that the oldest rule reads as many pages from the disk, for each second of work, as was published of it
/// (227,300 in 4318 s: 53).
const COMPILER_PAGES: u64 = 10_800;

fn build_of(size: Size, data: Data) -> Build {
    const MIB: u64 = 1 << 20;
    let (parts, files_each) = match size {
        Size::Full => (1, 60),
        Size::Short => (32, 4),
    };
    // As much more as lets half of the cold data stay uncompressed. What was published had a gibibyte more, and pages
    // of files, which are not here.
    let (limit_bytes, cold_pages) = match data {
        Data::WithoutCold => (2048 * MIB, 0),
        Data::WithCold => (2304 * MIB, 512 * MIB / 4096),
    };
    Build {
        workers: 36,
        files_each,
        compiler_pages: COMPILER_PAGES / parts,
        common_pages: 60_000 / parts,
        output_pages: 40_u64.div_ceil(parts),
        cold_pages: cold_pages / parts,
        limit_bytes: limit_bytes / parts,
    }
}

/// Runs everything, writes `second-chance.json` and `second-chance.md` into `out`, and returns the tables.
///
/// # Errors
/// A file cannot be written.
pub fn run(size: Size, seeds: u64, out: &Path) -> Result<String> {
    let results = Results { model: model(size, seeds), runs: runs(size, seeds) };
    fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
    let write = |name: &str, text: String| {
        let path = out.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    };
    write("second-chance.json", serde_json::to_string_pretty(&results)?)?;
    let sheets = sheets(&results);
    let heads = &results.model;
    let markdown: String = sheets
        .iter()
        .map(|sheet| format!("### {}\n\n{}\n", sheet.title, markdown::sheet_text(sheet)))
        .collect();
    write("second-chance.md", format!("{heads}\n{markdown}"))?;
    let tables: String = sheets.iter().map(|sheet| table::sheet_text(sheet) + "\n").collect();
    Ok(format!("{heads}\n{tables}"))
}

fn model(size: Size, seeds: u64) -> String {
    let Build { workers, files_each, compiler_pages, common_pages, output_pages, limit_bytes, .. } =
        build_of(size, Data::WithoutCold);
    let with_cold = build_of(size, Data::WithCold);
    let mib = |pages: u64| pages as f64 / 256.0;
    format!(
        "{workers} compilers at once, {files_each} files each, {:.1} MiB each on the average; {:.1} MiB that all read, \
         {:.2} MiB made of each file; limit {} MiB, with {} MiB of cold data {} MiB\n\
         {PRICES}\n{SOLID_STATE}\n{SLOW}\nmedians of {seeds} seeds\n",
        mib(compiler_pages),
        mib(common_pages),
        mib(output_pages),
        limit_bytes >> 20,
        with_cold.cold_pages >> 8,
        with_cold.limit_bytes >> 20,
    )
}

/// All runs, in the order of the tables; as many at once as there are processors.
fn runs(size: Size, seeds: u64) -> Vec<Run> {
    let mut wanted = Vec::new();
    for seed in 1..=seeds {
        for disk in [SOLID_STATE, SLOW] {
            for data in [Data::WithoutCold, Data::WithCold] {
                wanted.extend(RULES.map(|rule| (disk, data, seed, rule)));
            }
        }
    }
    let next = AtomicUsize::new(0);
    let take_some = || {
        let mut done = Vec::new();
        while let index = next.fetch_add(1, Ordering::Relaxed)
            && let Some(&(disk, data, seed, rule)) = wanted.get(index)
        {
            let run = one_run(size, disk, data, seed, rule);
            if size == Size::Full {
                eprintln!("second-chance: {} of {}: {run:?}", index + 1, wanted.len());
            }
            done.push((index, run));
        }
        done
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut runs: Vec<(usize, Run)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(take_some)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a run does not panic")).collect()
    });
    runs.sort_by_key(|&(index, _)| index);
    runs.into_iter().map(|(_, run)| run).collect()
}

fn one_run(size: Size, disk: DiskKind, data: Data, seed: u64, (rule, run): Rule) -> Run {
    let Outcome { wall_ns, work_ns, counts } = run(build_of(size, data), disk, seed);
    Run {
        scene: data.name(),
        disk: disk.name,
        rule,
        seed,
        wall_s: wall_ns as f64 / 1e9,
        work_s: work_ns as f64 / 1e9,
        from_disk: counts.from_disk,
        asked_from_disk: counts.asked_from_disk,
        from_pool: counts.from_pool,
        stored: counts.stored,
        written: counts.written,
        cold_written: counts.cold_written,
    }
}

/// A figure of a run.
type Figure = (&'static str, fn(&Run) -> f64);
const FIGURES: [Figure; 7] = [
    ("read from disk", |run| run.from_disk as f64),
    ("waited for", |run| run.asked_from_disk as f64),
    ("from pool", |run| run.from_pool as f64),
    ("compressed", |run| run.stored as f64),
    ("written to disk", |run| run.written as f64),
    ("of that cold", |run| run.cold_written as f64),
    ("wall s", |run| run.wall_s),
];

fn sheets(results: &Results) -> Vec<Sheet> {
    let mut sheets: Vec<Sheet> = Vec::new();
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for run in &results.runs {
        let key = (run.scene, run.disk);
        if seen.contains(&key) {
            continue;
        }
        seen.push(key);
        let of_rule = |rule: &str, figure: fn(&Run) -> f64| -> Vec<f64> {
            let found = |run: &&Run| (run.scene, run.disk) == key && run.rule == rule;
            results.runs.iter().filter(found).map(figure).collect()
        };
        let mut rows = Vec::new();
        for (name, figure) in FIGURES {
            let first = of_rule(RULES[0].0, figure);
            let entries = RULES.map(|(rule, _)| entry(&first, &of_rule(rule, figure)).into());
            rows.push(Row::Entries([name.into()].into_iter().chain(entries).collect()));
        }
        let columns = [left("pages")].into_iter().chain(RULES.map(|(rule, _)| right(rule))).collect();
        let notes = vec![format!(
            "In brackets the change against {}: the median, the least and the most of all seeds.",
            RULES[0].0
        )];
        sheets.push(Sheet { title: format!("{}, disk {}", run.scene, run.disk), notes, columns, rows });
    }
    sheets
}

/// The median, and the changes against the first rule.
fn entry(first: &[f64], own: &[f64]) -> String {
    let value = median(own).expect("there are seeds");
    let digits = if own.iter().any(|value| value.fract() != 0.0) { 1 } else { 0 };
    let changes: Vec<f64> = first
        .iter()
        .zip(own)
        .filter(|(first, _)| **first > 0.0)
        .map(|(first, own)| (own / first - 1.0) * 100.0)
        .collect();
    let Some(change) = median(&changes) else { return format!("{value:.digits$}") };
    if first == own {
        return format!("{value:.digits$}");
    }
    let least = changes.iter().copied().fold(f64::INFINITY, f64::min);
    let most = changes.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{value:.digits$} ({change:+.0} %; {least:+.0} to {most:+.0})")
}
