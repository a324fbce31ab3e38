//! Tables and pages.
//!
//! | module | for |
//! |---|---|
//! | [`program`] | the table of a program of the user |
//! | [`contents`], [`duel`], [`wide`] | what is said: facts and [`sheet`]s; with a row for each rival, or a column |
//! | [`figure`], [`number`] | how a figure and a number are said |
//! | [`table`] | the terminal |
//! | [`markdown`] | `docs/BENCHMARKS.md` and the README |
//! | [`page`], [`plot`] | one HTML file with pictures |
//! | [`compare`], [`repeat`] | two results side by side; whether uswap stands to the bar in both as it does in the other |
//! | [`join`] | a table that was measured in parts |
//!
//! What must hold: all forms say the same; what looks bad is not left out; text of programs and of the machine is
//! escaped wherever it is printed.

pub mod compare;
pub mod contents;
pub mod duel;
mod escape;
pub mod figure;
pub mod join;
pub mod markdown;
pub mod number;
pub mod page;
pub mod plot;
pub mod program;
pub mod repeat;
#[cfg(test)]
pub mod sample;
pub mod sheet;
pub mod table;
pub mod wide;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::results::{FORMAT, Results};

/// Writes `results.json`, `report.html`, `table.txt` and `table.md` into `dir`, which is made if it is missing. Returns
/// their paths. The data come first: if something goes wrong later they are safe.
pub fn write_all(results: &Results, dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    fs::create_dir_all(dir).with_context(|| {
        format!("cannot make the directory {} for the reports; choose another one", dir.display())
    })?;
    let mut json = serde_json::to_string_pretty(results).context("cannot turn the results into JSON")?;
    json.push('\n');
    let mut paths = Vec::new();
    let mut write = |name: &str, text: String| -> anyhow::Result<()> {
        let path = dir.join(name);
        fs::write(&path, text).with_context(|| {
            format!("cannot write {}; is the disk full or the directory read-only?", path.display())
        })?;
        paths.push(path);
        Ok(())
    };
    write("results.json", json)?;
    write("table.txt", table::text(results))?;
    write("table.md", markdown::whole(results))?;
    write("report.html", page::html(results))?;
    Ok(paths)
}

/// Reads a `results.json`.
pub fn read(path: &Path) -> anyhow::Result<Results> {
    /// The part that every format has.
    #[derive(Deserialize)]
    struct Head {
        format: u32,
    }

    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read {}; give the results.json of a bench", path.display()))?;
    let head: Head = serde_json::from_str(&text)
        .with_context(|| format!("{} is not the results.json of a bench", path.display()))?;
    if head.format != FORMAT {
        bail!(
            "{} has format {}, this uswap knows format {FORMAT}: the numbers could mean something else. Read it with \
             the uswap that wrote it, or run the bench again",
            path.display(),
            head.format
        );
    }
    serde_json::from_str(&text).with_context(|| {
        format!("{} has format {FORMAT}, but is damaged or was changed by hand", path.display())
    })
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
