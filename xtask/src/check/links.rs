//! Links between documents lead somewhere: to a file of the repository, and to a heading that it has. Paths of the
//! sources that documents name are there.
//!
//! Looks at `[text](place)` in files that end with `.md`, outside of listings, and at paths between backquotes that
//! begin with `crates/`. Places on the web are not visited.

use std::collections::BTreeSet;

use super::Problem;
use crate::tree::{File, Tree};

/// Each link inside of the repository has an end.
pub fn lead_somewhere(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.files.iter().filter(|file| is_document(&file.path)) {
        for (line, place) in links(&file.text) {
            if let Some(what) = complaint(tree, file, &place) {
                problems.push(Problem::new(file, line, what));
            }
        }
    }
    problems
}

/// Each path below `crates/` that a living document names between backquotes is a file or a directory. What tells of
/// the past may name what was there then.
pub fn named_paths_exist(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.files.iter().filter(|file| is_living(&file.path)) {
        for (line, text) in file.numbered_lines() {
            let codes = text.split('`').skip(1).step_by(2);
            for path in codes.filter(|code| code.starts_with("crates/") && !code.contains(' ')) {
                if !exists(tree, path.trim_end_matches('/')) {
                    problems.push(Problem::new(file, line, format!("`{path}` is not there")));
                }
            }
        }
    }
    problems
}

/// Documents that say how things are. Those of the past, and decisions, say how they were.
fn is_living(path: &str) -> bool {
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    let is_there = matches!(directory, "" | "docs" | "docs/internals" | "docs/guide");
    is_there && name.ends_with(".md") && path != "CHANGELOG.md"
}

/// Whether the repository has such a file or directory.
fn exists(tree: &Tree, path: &str) -> bool {
    let is_it = |file: &File| {
        file.path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    tree.files.iter().any(is_it)
}

fn is_document(path: &str) -> bool {
    // A report of a benchmark stands in another directory when somebody reads it.
    path.ends_with(".md") && !path.contains("/golden/")
}

fn complaint(tree: &Tree, from: &File, place: &str) -> Option<String> {
    if place.contains("://") || place.starts_with("mailto:") {
        return None;
    }
    let (path, heading) =
        place.split_once('#').map_or((place, None), |(path, heading)| (path, Some(heading)));
    let path = if path.is_empty() { from.path.clone() } else { joined(&from.path, path) };
    let file = tree.files.iter().find(|file| file.path == path);
    if !exists(tree, &path) {
        return Some(format!("the link `{place}` leads to {path}, which is not there"));
    }
    let heading = heading?;
    let has_it = file.is_none_or(|file| !is_document(&file.path) || anchors(&file.text).contains(heading));
    (!has_it).then(|| format!("the link `{place}` leads to a heading that {path} does not have"))
}

/// `to` as seen from the directory of the file `from`.
fn joined(from: &str, to: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in to.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The places of all links, with their lines. A text may be broken into two lines; a place may not.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (line, text) in outside_of_listings(text) {
        let text = without_code(text);
        for (at, mark) in text.match_indices("](") {
            let place = text[at + mark.len()..].split([')', ' ']).next().unwrap_or_default();
            links.push((line, place.to_owned()));
        }
    }
    links
}

/// A line, with blanks for what is between backquotes.
fn without_code(line: &str) -> String {
    let parts = line.split('`').enumerate();
    parts.map(|(index, part)| if index % 2 == 0 { part } else { " " }).collect()
}

fn outside_of_listings(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_listing = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_listing ^= is_fence;
        (!in_listing && !is_fence).then_some((index + 1, line))
    })
}

/// What a heading is called in a link, as GitHub makes it: small letters, digits and hyphens. A second heading of the
/// same words has a number.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in outside_of_listings(text) {
        let heading = line.trim_start_matches('#');
        let depth = line.len() - heading.len();
        if !(1..=6).contains(&depth) || !heading.starts_with(' ') {
            continue;
        }
        let anchor: String = heading
            .trim()
            .to_lowercase()
            .chars()
            .filter(|character| character.is_alphanumeric() || matches!(character, ' ' | '-' | '_'))
            .map(|character| if character == ' ' { '-' } else { character })
            .collect();
        let again = (1..).map(|number| format!("{anchor}-{number}")).find(|anchor| !anchors.contains(anchor));
        match (anchors.contains(&anchor), again) {
            (true, Some(again)) => anchors.insert(again),
            _ => anchors.insert(anchor),
        };
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems_of(text: &str) -> Vec<String> {
        let other = "# Other\n## A heading, and `code`\n## Twice\n## Twice\n```\n# no heading\n```\n";
        let tree = Tree::sample(&[
            ("docs/a.md", text),
            ("docs/more/b.md", other),
            ("README.md", "# uswap\n## Use it\n"),
        ]);
        lead_somewhere(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_link_to_nowhere_is_a_problem() {
        assert_eq!(
            problems_of("See\n[b](b.md).\n"),
            ["docs/a.md:2: the link `b.md` leads to docs/b.md, which is not there"]
        );
        assert_eq!(problems_of("[a](../docs/mor)").len(), 1);
        assert_eq!(problems_of("[fine](more/b.md), [not](../LICENSE)").len(), 1);
    }

    #[test]
    fn a_link_to_a_heading_that_is_not_there_is_a_problem() {
        assert_eq!(
            problems_of("[b](more/b.md#a-heading)"),
            [
                "docs/a.md:1: the link `more/b.md#a-heading` leads to a heading that docs/more/b.md does not have"
            ]
        );
        for place in ["more/b.md#no-heading", "more/b.md#twice-2", "#other"] {
            assert_eq!(problems_of(&format!("# A\n[b]({place})")).len(), 1, "{place}");
        }
    }

    #[test]
    fn a_path_that_is_not_there_is_a_problem_in_living_documents() {
        let text = "# A\n`crates/core/src/a.rs` and `crates/core`, `crates/core/`\n`b.rs`: `crates/core/src/b.rs`, \
            `crates/co`\n`crates/core/src/{a,b}.rs`\n";
        let tree = Tree::sample(&[
            ("README.md", "`crates/core/src/gone.rs`\n"),
            ("CHANGELOG.md", text),
            ("crates/core/README.md", text),
            ("crates/core/src/a.rs", ""),
            ("docs/adr/0001.md", text),
            ("docs/history/then.md", text),
            ("docs/internals/now.md", text),
        ]);
        let problems: Vec<String> = named_paths_exist(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            [
                "README.md:1: `crates/core/src/gone.rs` is not there",
                "docs/internals/now.md:3: `crates/core/src/b.rs` is not there",
                "docs/internals/now.md:3: `crates/co` is not there",
                "docs/internals/now.md:4: `crates/core/src/{a,b}.rs` is not there",
            ]
        );
    }

    #[test]
    fn links_that_lead_somewhere_are_fine() {
        let places = "[1](more/b.md#a-heading-and-code) [2](more/b.md#twice-1) [3](../README.md#use-it) [4](more) \
            [5](#here) [6](https://example.org/x.md) `[7](code.md)`\n```\n[8](listing.md)\n```\n# Here\n";
        assert_eq!(problems_of(places), [""; 0]);
    }
}
