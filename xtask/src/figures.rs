//! `cargo xtask figures`: writes the newest results into the documents, so that no figure is typed by hand.
//!
//! Results lie in `bench/results/DATE-COMMIT/`, or `DATE-NUMBER-COMMIT` where a day has several, as `uswap bench --out`
//! wrote them: `results.json` is what was measured. The newest table is made of that anew (`uswap bench join`), and
//! compared with the results before (`uswap bench compare`, kept as `compare.txt` beside it), so that both follow the
//! rules of the bench. A document has a place for a part of them, between two lines: `<!-- figures: NAME -->` and
//! `<!-- end -->`. `cargo xtask check` compares, without running anything.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::commands::{PROFILE, cargo};
use crate::tree::{File, Tree, root};

/// Where results are.
const RESULTS: &str = "bench/results/";
/// What was measured.
const MEASURED: &str = "/results.json";
/// The file of them that is read.
const TABLE: &str = "/table.md";
/// What `uswap bench compare` says of them and of the results before.
const COMPARISON: &str = "/compare.txt";
/// How its line about all ratios begins.
const AGREEMENT: &str = "uswap to the bar, in A and B: ";
/// What stands above the table of every rival, and its column of intervals; that of ratios is before it.
const RIVALS: &str = "## Every rival on every workload";
const INTERVAL: &str = "interval";
/// The workloads that the README shows: two that win, one with many processes, and two that do not win.
const CHOSEN: [&str; 5] = ["seqscan", "pmbench-zipf-2", "build", "redis", "xz"];

const BEGIN: &str = "<!-- figures: ";
const END: &str = "<!-- end -->";

/// The newest results: the path of their directory, their text, and the results before.
struct Newest<'a> {
    directory: &'a str,
    text: &'a str,
    before: Option<Before<'a>>,
}

/// The results before the newest.
struct Before<'a> {
    directory: &'a str,
    text: &'a str,
    /// None: the two were not compared yet.
    comparison: Option<&'a str>,
}

fn newest(tree: &Tree) -> Option<Newest<'_>> {
    let directory = |file: &File| -> Option<usize> {
        (file.path.starts_with(RESULTS) && file.path.ends_with(TABLE)).then(|| file.path.len() - TABLE.len())
    };
    let results = tree.files.iter().filter_map(|file| Some((&file.path[..directory(file)?], file)));
    let mut results: Vec<(&str, &File)> = results.collect();
    results.sort_by_key(|(directory, _)| *directory);
    let (directory, file) = results.pop()?;
    let comparison = format!("{directory}{COMPARISON}");
    let comparison = tree.files.iter().find(|file| file.path == comparison).map(|file| file.text.as_str());
    let before = results.pop().map(|(directory, file)| Before { directory, text: &file.text, comparison });
    Some(Newest { directory, text: &file.text, before })
}

/// The commit that a directory of results is named after.
fn commit_of(directory: &str) -> &str {
    directory.rsplit('-').next().unwrap_or_default()
}

/// The table below a heading of results, without the empty lines around it.
fn section<'a>(directory: &str, text: &'a str, heading: &str) -> Result<Vec<&'a str>> {
    let lines = text.lines().skip_while(|line| *line != heading).skip(1);
    let table: Vec<&str> =
        lines.skip_while(|line| line.is_empty()).take_while(|line| line.starts_with('|')).collect();
    ensure!(!table.is_empty(), "{directory}{TABLE} has no table below '{heading}'");
    Ok(table)
}

/// uswap to the bar on one workload, and the interval of that.
struct Ratio<'a> {
    workload: &'a str,
    ratio: f64,
    least: f64,
    most: f64,
}

/// The ratios of a table of every rival, and their intervals. Workloads that have none are left out.
fn ratios<'a>(table: &[&'a str]) -> Vec<Ratio<'a>> {
    let cells = |row: &'a str| -> Vec<&'a str> { row.split('|').map(str::trim).collect() };
    let number = |text: &str| text.replace(',', "").parse::<f64>().ok();
    let [head, _, rows @ ..] = table else { return Vec::new() };
    let Some(at) = cells(head).iter().position(|cell| *cell == INTERVAL) else { return Vec::new() };
    let of_row = |row: &&'a str| {
        let cells = cells(row);
        let (least, most) = cells.get(at)?.split_once(" .. ")?;
        Some(Ratio {
            workload: cells.get(1)?.split([',', ' ']).next()?,
            ratio: number(cells.get(at - 1)?)?,
            least: number(least)?,
            most: number(most.trim_end_matches(" ?"))?,
        })
    };
    rows.iter().filter_map(of_row).collect()
}

impl Newest<'_> {
    fn section(&self, heading: &str) -> Result<Vec<&str>> {
        section(self.directory, self.text, heading)
    }

    fn fact(&self, name: &str) -> Result<&str> {
        let prefix = format!("| {name} | ");
        let line = self.text.lines().find_map(|line| line.strip_prefix(&prefix));
        let fact = line.and_then(|line| line.strip_suffix(" |"));
        fact.with_context(|| format!("{}{TABLE} does not tell the {name}", self.directory))
    }

    /// How many ratios of the results before lie outside of the intervals of the newest, and what that means.
    fn outside(&self, before: &Before<'_>) -> Result<String> {
        let olds = ratios(&section(before.directory, before.text, RIVALS)?);
        let news = ratios(&self.section(RIVALS)?);
        let old_of =
            |new: &Ratio<'_>| olds.iter().find(|old| old.workload == new.workload).map(|old| old.ratio);
        let both: Vec<(f64, &Ratio<'_>)> = news.iter().filter_map(|new| Some((old_of(new)?, new))).collect();
        let outside: Vec<&str> = both
            .iter()
            .filter(|(old, new)| !(new.least..=new.most).contains(old))
            .map(|(_, new)| new.workload)
            .collect();
        let names = if outside.is_empty() { String::new() } else { format!(" ({})", outside.join(", ")) };
        Ok(format!(
            "{} of {} ratios of A lie outside of the interval of B{names}. An interval covers the rounds of one run, \
             so another run may fall outside it.",
            outside.len(),
            both.len()
        ))
    }

    /// How well the newest results agree with those before.
    fn agreement(&self) -> Result<Vec<String>> {
        let Some(before) = &self.before else {
            return Ok(vec!["There are no results before these.".to_owned()]);
        };
        let comparison = before.comparison.filter(|text| {
            let is_of = |side: &str, directory: &str| {
                let origin = text.lines().find(|line| line.starts_with(side));
                origin.is_some_and(|line| line.contains(&format!("commit {}", commit_of(directory))))
            };
            is_of("A: ", before.directory) && is_of("B: ", self.directory)
        });
        let comparison = comparison.with_context(|| {
            format!(
                "{}{COMPARISON} does not compare it with {}: cargo xtask figures",
                self.directory, before.directory
            )
        })?;
        let words: Vec<&str> = comparison
            .lines()
            .skip_while(|line| !line.starts_with(AGREEMENT))
            .take_while(|line| !line.is_empty())
            .flat_map(str::split_whitespace)
            .collect();
        let said = words.join(" ");
        let said = said
            .strip_prefix(AGREEMENT)
            .with_context(|| format!("{}{COMPARISON} does not say '{AGREEMENT}'", self.directory))?;
        Ok(wrapped(&format!(
            "uswap to the better zram, in the results before (`{}`, A) and in these (B): {said} \
             {} `{}{COMPARISON}` has the whole comparison.",
            before.directory,
            self.outside(before)?,
            self.directory
        )))
    }

    /// What stands between the two lines.
    fn part(&self, name: &str) -> Result<String> {
        if name == "agreement" {
            return Ok(self.agreement()?.join("\n") + "\n");
        }
        let whole = |heading| -> Result<Vec<String>> {
            Ok(self.section(heading)?.iter().map(ToString::to_string).collect())
        };
        let mut lines = match name {
            "table" => self.chosen()?,
            "machine" => {
                self.text.lines().skip_while(|line| !line.starts_with('|')).map(str::to_owned).collect()
            }
            "rivals" => whole(RIVALS)?,
            "costs" => whole("## Slow accesses, processor, disk, true RAM, kills")?,
            _ => {
                anyhow::bail!("no figures have the name '{name}': table, machine, rivals, agreement or costs")
            }
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

/// A paragraph in lines of a document.
fn wrapped(text: &str) -> Vec<String> {
    const COLUMNS_MAX: usize = 120;
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("it begins with one");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= COLUMNS_MAX {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
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

/// What `uswap bench` says, with these arguments.
fn bench(arguments: &[&str]) -> Result<String> {
    let mut command = cargo(&["run", "--quiet", "--profile", PROFILE, "-p", "uswap-cli", "--", "bench"]);
    let output = command.args(arguments).output().with_context(|| format!("starting {command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} of {command:?}: {errors}", output.status);
    String::from_utf8(output.stdout).context("uswap bench says what is no text")
}

/// Makes the newest table anew, and compares the results with those before.
fn make_anew(newest: &Newest<'_>) -> Result<()> {
    let measured = format!("{}{MEASURED}", newest.directory);
    let out = std::env::temp_dir().join(format!("uswap-figures-{}", std::process::id()));
    let made = bench(&["join", &measured, "--out", &out.to_string_lossy()])
        .and_then(|_| fs::read_to_string(out.join(&TABLE[1..])).context("uswap bench join made no table"));
    let _it_may_not_be_there = fs::remove_dir_all(&out);
    write_if_other(&format!("{}{TABLE}", newest.directory), newest.text, &made?)?;
    if let Some(before) = &newest.before {
        let text = bench(&["compare", &format!("{}{MEASURED}", before.directory), &measured])?;
        let path = format!("{}{COMPARISON}", newest.directory);
        write_if_other(&path, before.comparison.unwrap_or_default(), &text)?;
    }
    Ok(())
}

fn write_if_other(path: &str, before: &str, text: &str) -> Result<()> {
    if before != text {
        fs::write(root().join(Path::new(path)), text).with_context(|| path.to_owned())?;
        println!("wrote {path}");
    }
    Ok(())
}

/// Writes them.
///
/// # Errors
/// As [`stale`], or `uswap bench` cannot read the results, or a file cannot be written.
pub fn write() -> Result<()> {
    if let Some(newest) = newest(&Tree::of_repository()?) {
        make_anew(&newest)?;
    }
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

| workload | RAM | zram | uswap | uswap to the better zram | interval | verdict |
|---|---:|---:|---:|---:|---:|---|
| seqscan, MB/s | 64 MiB | 1 | 2 | 2.00 | 1.90 .. 2.10 | win |
| pmbench-zipf-2, 1/s | 64 MiB | 1 | 2 | 2.00 | 0.0100 .. 1,234 | tie |
| redis, 1/s | 32 MiB | 1 | 1 | 1.00 | 0.80 .. 1.25 ? | tie |
| sort, s | 32 MiB | 2 | killed 3 of 3 | - | - | loss |
";

    const COMPARED: &str = "\
A: uswap 0.1.0, commit 01d, 2025-12-31, scenario table, 3 rounds, and so many words that the line has
   another one
B: uswap 0.1.0, commit abcdef, 2026-01-02, scenario table, 3 rounds

B against A
-----------
scan: MB/s

uswap to the bar, in A and B: 1 of 3 ratios are within 10 % of each other; not sort (0.50, 0.70), xz
  (0.93, 1.12).

Not compared:
* other: only in A
";

    fn tree(document: &str) -> Tree {
        tree_with(document, COMPARED)
    }

    fn tree_with(document: &str, comparison: &str) -> Tree {
        let older = RESULT.replace("2026-01-02", "2025-12-31").replace("2.00 | 1.90", "2.11 | 1.90");
        Tree::sample(&[
            ("bench/results/2025-12-31-01d/table.md", &older),
            ("bench/results/2026-01-02-abc/compare.txt", comparison),
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
    fn the_newest_results_are_set_beside_those_before() {
        let place = "<!-- figures: agreement -->\n<!-- end -->\n";
        let tree_before = tree(place);
        let stale_before = stale(&tree_before).unwrap();
        let expected = "\
<!-- figures: agreement -->
uswap to the better zram, in the results before (`bench/results/2025-12-31-01d`, A) and in these (B): 1 of 3 ratios are
within 10 % of each other; not sort (0.50, 0.70), xz (0.93, 1.12). 1 of 3 ratios of A lie outside of the interval of B
(seqscan). An interval covers the rounds of one run, so another run may fall outside it.
`bench/results/2026-01-02-abc/compare.txt` has the whole comparison.
<!-- end -->
";
        assert_eq!(stale_before[0].1, expected);
        assert!(stale(&tree(expected)).unwrap().is_empty());

        let alone = Tree::sample(&[("bench/results/2026-01-02-abc/table.md", RESULT), ("README.md", place)]);
        assert!(stale(&alone).unwrap()[0].1.contains("no results before"));
    }

    #[test]
    fn a_comparison_of_other_results_is_told() {
        let place = "<!-- figures: agreement -->\n<!-- end -->\n";
        for comparison in [
            "",
            &COMPARED.replace("commit 01d", "commit 0ld"),
            &COMPARED.replace("commit abc", "commit bbc"),
            &COMPARED.replace("uswap to the bar", "all ratios"),
        ] {
            let error = stale(&tree_with(place, comparison)).map(|_| ()).unwrap_err();
            assert!(format!("{error:#}").contains("2026-01-02-abc/compare.txt does not"), "{error:#}");
        }
    }

    #[test]
    fn what_cannot_be_filled_is_told() {
        let told = |document: &str| stale(&tree(document)).map(|_| ()).unwrap_err();
        assert!(format!("{:#}", told("<!-- figures: nothing -->\n<!-- end -->\n")).contains("'nothing'"));
        assert!(format!("{:#}", told("<!-- figures: rivals -->\nold\n")).contains("<!-- end -->"));
        assert!(stale(&tree("no place\n")).unwrap().is_empty());
    }
}
