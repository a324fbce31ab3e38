//! `cargo xtask figures`: writes the newest results into the documents, so that no figure is typed by hand.
//!
//! Results lie in `bench/results/DATE-COMMIT/`, as `uswap bench --out` wrote them. A document has a place for a part of
//! them, between two lines: `<!-- figures: NAME -->` and `<!-- end -->`. `cargo xtask check` compares.

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::tree::{File, Tree, root};

/// Where results are.
const RESULTS: &str = "bench/results/";
/// The file of them that is read.
const TABLE: &str = "/table.md";
/// The workloads that the README shows: two that win, one with many processes, and two that do not win.
const CHOSEN: [&str; 5] = ["seqscan", "pmbench-zipf-2", "build", "redis", "xz"];

const BEGIN: &str = "<!-- figures: ";
const END: &str = "<!-- end -->";

/// The newest results: the path of their directory, and their text.
struct Newest<'a> {
    directory: &'a str,
    text: &'a str,
}

fn newest(tree: &Tree) -> Option<Newest<'_>> {
    let directory = |file: &File| -> Option<usize> {
        (file.path.starts_with(RESULTS) && file.path.ends_with(TABLE)).then(|| file.path.len() - TABLE.len())
    };
    let results = tree.files.iter().filter_map(|file| Some((&file.path[..directory(file)?], file)));
    let (directory, file) = results.max_by_key(|(directory, _)| *directory)?;
    Some(Newest { directory, text: &file.text })
}

impl Newest<'_> {
    /// The table below a heading, without the empty lines around it.
    fn section(&self, heading: &str) -> Result<Vec<&str>> {
        let mut lines = self.text.lines().skip_while(|line| *line != heading).skip(1);
        let table: Vec<&str> = lines
            .by_ref()
            .skip_while(|line| line.is_empty())
            .take_while(|line| line.starts_with('|'))
            .collect();
        ensure!(!table.is_empty(), "{}{TABLE} has no table below '{heading}'", self.directory);
        Ok(table)
    }

    fn fact(&self, name: &str) -> Result<&str> {
        let prefix = format!("| {name} | ");
        let line = self.text.lines().find_map(|line| line.strip_prefix(&prefix));
        let fact = line.and_then(|line| line.strip_suffix(" |"));
        fact.with_context(|| format!("{}{TABLE} does not tell the {name}", self.directory))
    }

    /// What stands between the two lines.
    fn part(&self, name: &str) -> Result<String> {
        let whole = |heading| -> Result<Vec<String>> {
            Ok(self.section(heading)?.iter().map(ToString::to_string).collect())
        };
        let mut lines = match name {
            "table" => self.chosen()?,
            "machine" => {
                self.text.lines().skip_while(|line| !line.starts_with('|')).map(str::to_owned).collect()
            }
            "rivals" => whole("## Every rival on every workload")?,
            "costs" => whole("## Slow accesses, processor, disk, true RAM, kills")?,
            _ => anyhow::bail!("no figures have the name '{name}': table, machine, rivals or costs"),
        };
        let end = lines.iter().position(|line| !line.starts_with('|')).unwrap_or(lines.len());
        lines.truncate(end);
        if name == "table" {
            let (date, uswap) = (self.fact("date")?, self.fact("uswap")?);
            lines.extend([String::new(), format!("{date}, {uswap}; all of it is in `{}`.", self.directory)]);
        }
        Ok(lines.join("\n") + "\n")
    }

    /// A few rows, without the verdict.
    fn chosen(&self) -> Result<Vec<String>> {
        let table = self.section("## uswap against the kernel")?;
        let is_chosen = |row: &&str| {
            let name = row.trim_start_matches("| ").split([',', ' ']).next();
            name.is_some_and(|name| CHOSEN.contains(&name))
        };
        let rows: Vec<&str> =
            table[..2].iter().copied().chain(table[2..].iter().copied().filter(is_chosen)).collect();
        ensure!(rows.len() == CHOSEN.len() + 2, "{}{TABLE} lacks one of {CHOSEN:?}", self.directory);
        let four_columns = |row: &str| {
            let cells: Vec<&str> = row.trim_matches('|').split('|').take(4).collect();
            format!("|{}|", cells.join("|"))
        };
        Ok(rows.into_iter().map(four_columns).collect())
    }
}

/// The document with the newest results in its places. None: it has no place for any.
fn filled(document: &File, newest: &Newest<'_>) -> Result<Option<String>> {
    let mut text = String::new();
    let mut lines = document.text.lines();
    let mut has_place = false;
    while let Some(line) = lines.next() {
        text += line;
        text.push('\n');
        let name = line.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(" -->"));
        let Some(name) = name else { continue };
        has_place = true;
        text += &newest.part(name).with_context(|| document.path.clone())?;
        ensure!(lines.any(|line| line == END), "{}: no '{END}' behind '{line}'", document.path);
        text += END;
        text.push('\n');
    }
    Ok(has_place.then_some(text))
}

fn documents(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.files.iter().filter(|file| file.path.ends_with(".md") && !file.path.starts_with(RESULTS))
}

/// Documents whose figures are not the newest, with what they should be.
///
/// # Errors
/// A place has no end, or names what there is not.
pub fn stale(tree: &Tree) -> Result<Vec<(&File, String)>> {
    let Some(newest) = newest(tree) else { return Ok(Vec::new()) };
    let mut stale = Vec::new();
    for document in documents(tree) {
        if let Some(text) = filled(document, &newest)?
            && text != document.text
        {
            stale.push((document, text));
        }
    }
    Ok(stale)
}

/// Writes them.
///
/// # Errors
/// As [`stale`], or a file cannot be written.
pub fn write() -> Result<()> {
    let tree = Tree::of_repository()?;
    for (document, text) in stale(&tree)? {
        fs::write(root().join(&document.path), text).with_context(|| document.path.clone())?;
        println!("wrote {}", document.path);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULT: &str = "\
| date | 2026-01-02 |
| uswap | 0.1.0, commit abc |

## uswap against the kernel

| workload | better zram | uswap | ratio | verdict |
|---|---:|---:|---:|---|
| seqscan, MB/s | 1 | 2 | 2.00 | win |
| pmbench-zipf-2, 1/s | 1 | 2 | 2.00 | win |
| build, s | 2 | 1 | 2.00 | win |
| redis, 1/s | 1 | 1 | 1.00 | tie |
| sort, s | 2 | 1 | 2.00 | win |
| xz (1.25 times), s | 1 | 2 | 0.50 | loss |

## Every rival on every workload

| workload | RAM |
|---|---|
| seqscan | 64 MiB |
";

    fn tree(document: &str) -> Tree {
        let older = RESULT.replace("2026-01-02", "2025-12-31");
        Tree::sample(&[
            ("bench/results/2025-12-31-old/table.md", &older),
            ("bench/results/2026-01-02-abc/table.md", RESULT),
            ("README.md", document),
        ])
    }

    #[test]
    fn a_place_is_filled_with_the_newest_results_and_stays_as_it_is_then() {
        let tree_before = tree("# T\n<!-- figures: table -->\nold\n<!-- end -->\nafter\n");
        let stale_before = stale(&tree_before).unwrap();
        let (document, text) = &stale_before[0];
        assert_eq!(document.path, "README.md");
        assert!(text.contains("| seqscan, MB/s | 1 | 2 | 2.00 |\n"), "{text}");
        assert!(text.contains("| xz (1.25 times), s | 1 | 2 | 0.50 |\n") && !text.contains("sort"), "{text}");
        assert!(
            text.contains("2026-01-02, 0.1.0, commit abc; all of it is in `bench/results/2026-01-02-abc`."),
            "{text}"
        );
        assert!(text.ends_with("<!-- end -->\nafter\n") && !text.contains("old"), "{text}");
        assert!(stale(&tree(text)).unwrap().is_empty());
    }

    #[test]
    fn what_cannot_be_filled_is_told() {
        let told = |document: &str| stale(&tree(document)).map(|_| ()).unwrap_err();
        assert!(format!("{:#}", told("<!-- figures: nothing -->\n<!-- end -->\n")).contains("'nothing'"));
        assert!(format!("{:#}", told("<!-- figures: rivals -->\nold\n")).contains("<!-- end -->"));
        assert!(stale(&tree("no place\n")).unwrap().is_empty());
    }
}
