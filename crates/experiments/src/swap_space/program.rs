//! `cargo xtask swap-space`: measures all scenes with the clock of this build, prints tables, and writes them down.
//!
//! What must hold: a table has all contenders that were measured, whoever is ahead.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use uswap_sync::trace;

use super::calibration::calibrate;
use super::scenes::one_page::{self, Figure};
use super::scenes::{Row, Scene, Size, folios, held, pages, single_pages};
use super::simulated_time::Prices;
use super::{clock, picture};
use uswap_bench::report::sheet::{self, Sheet, left, right};
use uswap_bench::report::{markdown, table};

/// All that was measured.
#[derive(Serialize)]
struct Results {
    clock: &'static str,
    /// What memory costs, or of which machine the threads are.
    model: String,
    scenes: Vec<Scene>,
    one_page: Vec<Figure>,
}

/// What can be chosen, with the scenes that measure it.
type Measure = fn(Size) -> Option<Scene>;
const SCENES: [(&str, Measure); 4] = [
    ("folios", |size| Some(folios::run(size))),
    ("single-pages", |size| Some(single_pages::run(size))),
    ("pages", |size| Some(pages::run(size))),
    ("held", held::run),
];
/// The figures of one page, which are no scene.
const ONE_PAGE: &str = "one-page";

/// Names that may be chosen.
#[must_use]
pub fn names() -> Vec<&'static str> {
    SCENES.iter().map(|&(name, _)| name).chain([ONE_PAGE]).collect()
}

/// Measures what is `chosen`, or everything if nothing is; and writes `CLOCK.json`, `CLOCK.md` and `SCENE-CLOCK.svg`
/// into `out`. Returns the tables.
///
/// # Errors
/// A file cannot be written.
pub fn run(size: Size, chosen: &[String], out: &Path) -> Result<String> {
    let clock = clock::NAME.replace(' ', "-");
    let results = measured(size, |name| chosen.is_empty() || chosen.iter().any(|chosen| chosen == name));
    fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
    let write = |name: String, text: String| {
        let path = out.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    };
    write(format!("{clock}.json"), serde_json::to_string_pretty(&results)?)?;
    let sheets = sheets(&results);
    let heads = format!("{}: {}\n", results.clock, results.model);
    let markdown: String = sheets
        .iter()
        .map(|sheet| format!("### {}\n\n{}\n", sheet.title, markdown::sheet_text(sheet)))
        .collect();
    write(format!("{clock}.md"), format!("{heads}\n{markdown}"))?;
    // Over the number of CPUs, of which that one has two.
    for scene in results.scenes.iter().filter(|scene| scene.name != held::NAME) {
        write(format!("{}-{clock}.svg", scene.name), picture::of(scene, results.clock))?;
    }
    let tables: String = sheets.iter().map(|sheet| table::sheet_text(sheet) + "\n").collect();
    Ok(format!("{heads}\n{tables}"))
}

fn measured(size: Size, is_chosen: impl Fn(&str) -> bool) -> Results {
    let model = if trace::RECORDS {
        format!("two sockets, {}\n{}", Prices::default(), calibrate())
    } else {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        format!("threads of this machine, which has {cpus} processors for them")
    };
    Results {
        clock: clock::NAME,
        model,
        scenes: SCENES
            .iter()
            .filter(|(name, _)| is_chosen(name))
            .filter_map(|(_, measure)| measure(size))
            .collect(),
        // Made-up time is not for one thread, and noting what it does takes longer than doing it.
        one_page: if trace::RECORDS || !is_chosen(ONE_PAGE) { Vec::new() } else { one_page::run(size) },
    }
}

fn percent(share: Option<f64>) -> Option<String> {
    share.map(|share| format!("{share:.2}"))
}

fn sheets(results: &Results) -> Vec<Sheet> {
    let mut sheets = Vec::new();
    for scene in &results.scenes {
        let mut add = |what: &str, figure: fn(&Row) -> Option<String>| {
            sheets.extend(of_figure(scene, what, figure));
        };
        if scene.rows.iter().any(|row| row.fallback_percent.is_some()) {
            add("nanoseconds each", |row| Some(format!("{:.0}", row.measured.mean_ns)));
            add("runs of 16 not found, percent", |row| percent(row.fallback_percent));
            add("of those, there was one somewhere, percent", |row| percent(row.avoidable_percent));
        } else {
            add("million a second", |row| Some(format!("{:.3}", row.measured.per_second / 1e6)));
        }
        add("waiting for locks, percent", |row| percent(row.measured.waiting_percent));
        if scene.rows.iter().any(|row| row.measured.waiting_tree_percent.is_some_and(|share| share > 0.0)) {
            add("waiting for locks of trees alone, percent", |row| {
                percent(row.measured.waiting_tree_percent)
            });
        }
    }
    sheets.extend(of_one_page(&results.one_page));
    sheets
}

/// Contenders in columns, CPUs in rows. None if nothing has the figure.
fn of_figure(scene: &Scene, what: &str, figure: fn(&Row) -> Option<String>) -> Option<Sheet> {
    let mut who: Vec<&'static str> = Vec::new();
    let mut lines: Vec<(&str, u16)> = Vec::new();
    for row in &scene.rows {
        if !who.contains(&row.who) {
            who.push(row.who);
        }
        if !lines.contains(&(&row.setting, row.measured.cpus)) {
            lines.push((&row.setting, row.measured.cpus));
        }
    }
    lines.sort_by_key(|&(setting, _)| scene.rows.iter().position(|row| row.setting == setting));
    let mut has_any = false;
    let mut rows = Vec::new();
    for &(setting, cpus) in &lines {
        let mut entries: Vec<sheet::Entry> = vec![setting.into(), cpus.to_string().into()];
        for who in &who {
            let found = |row: &&Row| row.setting == setting && row.measured.cpus == cpus && row.who == *who;
            let text = scene.rows.iter().find(found).and_then(figure);
            has_any |= text.is_some();
            entries.push(text.unwrap_or_else(|| "-".to_owned()).into());
        }
        rows.push(sheet::Row::Entries(entries));
    }
    let columns = [left("setting"), right("CPUs")].into_iter().chain(who.into_iter().map(right)).collect();
    let title = format!("{}, {}: {what}", scene.name, clock::NAME);
    has_any.then(|| Sheet { title, notes: vec![format!("Operation: {}.", scene.operation)], columns, rows })
}

fn of_one_page(figures: &[Figure]) -> Option<Sheet> {
    let entries = |figure: &Figure| {
        let value = format!("{:.1} {}", figure.each_page, figure.unit);
        sheet::Row::Entries(vec![figure.what.into(), figure.who.into(), value.into()])
    };
    let rows: Vec<sheet::Row> = figures.iter().map(entries).collect();
    let columns = vec![left("one thread"), left("by whom"), right("each page")];
    let notes = vec!["Runs of 16 of the fragments are without the trees.".to_owned()];
    (!rows.is_empty()).then(|| Sheet { title: "One page, one thread".to_owned(), notes, columns, rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_form_measures_and_writes_everything() {
        let out = std::env::temp_dir().join(format!("uswap-swap-space-{}", std::process::id()));
        let text = run(Size::Short, &[], &out).expect("the directory can be written");
        for scene in ["folios", "single-pages", "pages"] {
            assert!(text.contains(scene), "{text}");
            let picture = format!("{scene}-{}.svg", clock::NAME.replace(' ', "-"));
            assert!(fs::read_to_string(out.join(picture)).expect("it was drawn").contains("uswap"));
        }
        assert!(!text.contains("NaN"), "{text}");
        let json = out.join(format!("{}.json", clock::NAME.replace(' ', "-")));
        let json: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(json).expect("it was written")).expect("it is JSON");
        assert_eq!(
            json["scenes"].as_array().map(Vec::len),
            Some(SCENES.len() - usize::from(!trace::RECORDS))
        );
        fs::remove_dir_all(&out).expect("it is ours");
    }
}
