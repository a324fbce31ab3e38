//! Rules about the text of files: nothing left for later, short, without tabs, with an opening comment, from nowhere.

use super::Problem;
use crate::code::has_word;
use crate::tree::Tree;

/// Longest Rust file, in lines. One idea a file; a file that needs more has two.
const LINES_MAX: usize = 700;

/// No file says that something is still to be done. Work that is left belongs to an issue.
pub fn left_for_later(tree: &Tree) -> Vec<Problem> {
    // Written in halves, so that this file does not break its own rule.
    let words = [["TO", "DO"], ["FIX", "ME"], ["XX", "X"]].map(|halves| halves.concat());
    let macros = [["todo", "!"], ["unimplemented", "!"]].map(|halves| halves.concat());
    every_line(tree, |line| {
        let word = words.iter().find(|word| has_word(line, word));
        let found = word.or_else(|| macros.iter().find(|name| line.contains(name.as_str())))?;
        Some(format!("{found} is work left undone: do it, or open an issue"))
    })
}

/// No file names a directory that only one machine has.
pub fn machine_paths(tree: &Tree) -> Vec<Problem> {
    let directories = ["root", "work", "home"].map(|name| format!("/{name}/"));
    every_line(tree, |line| {
        let found = directories.iter().find(|directory| line.contains(directory.as_str()))?;
        Some(format!("{found} is a place on somebody's machine"))
    })
}

/// Rust files are UTF-8, have no tabs and at most [`LINES_MAX`] lines.
pub fn shape(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.rust_files() {
        let line_count = file.text.lines().count();
        if line_count > LINES_MAX {
            let what = format!("{line_count} lines; at most {LINES_MAX}: find the two ideas in it");
            problems.push(Problem::new(file, line_count, what));
        }
        for (line, text) in file.numbered_lines() {
            if text.contains('\t') {
                problems.push(Problem::new(file, line, "a tab; write spaces, or \\t in a string"));
            }
            if text.contains(char::REPLACEMENT_CHARACTER) {
                problems.push(Problem::new(file, line, "bytes that are not UTF-8"));
            }
        }
    }
    problems
}

/// Comments, documents and code have at most this many columns.
const COLUMNS_MAX: usize = 120;

/// No line of a comment or a document is longer than [`COLUMNS_MAX`], but for tables, listings and addresses.
pub fn columns(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in &tree.files {
        let is_document = file.path.ends_with(".md");
        // A report is as wide as what it tells.
        let is_report = file.path.contains("/golden/") || file.path.starts_with("bench/results/");
        if is_report || !(is_document || file.path.ends_with(".rs")) {
            continue;
        }
        let mut in_listing = false;
        for (line, whole) in file.numbered_lines() {
            let text = whole.trim_start();
            let text = if is_document { text } else { comment_text(text).unwrap_or("") };
            in_listing ^= text.starts_with("```");
            let is_table = text.starts_with('|');
            let words_max = text.split(' ').map(|word| word.chars().count()).max().unwrap_or(0);
            let can_be_broken = words_max + 20 < COLUMNS_MAX;
            let columns = whole.chars().count();
            if columns > COLUMNS_MAX && !text.is_empty() && !in_listing && !is_table && can_be_broken {
                let what = format!("{columns} columns; at most {COLUMNS_MAX}: break the line");
                problems.push(Problem::new(file, line, what));
            }
        }
    }
    problems
}

/// No line of code is longer than [`COLUMNS_MAX`]. Rustfmt leaves alone what it cannot break: strings, macros. Scripts
/// have no such tool: of these each line counts, comments too.
pub fn code_columns(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in &tree.files {
        let is_script = [".sh", ".py"].iter().any(|end| file.path.ends_with(end));
        if !is_script && !file.path.ends_with(".rs") {
            continue;
        }
        let is_code = |text: &str| is_script || comment_text(text.trim_start()).is_none();
        for (line, text) in file.numbered_lines().filter(|(_, text)| is_code(text)) {
            let columns = text.chars().count();
            if columns > COLUMNS_MAX {
                let what =
                    format!("{columns} columns; at most {COLUMNS_MAX}: break the line, or the string in it");
                problems.push(Problem::new(file, line, what));
            }
        }
    }
    problems
}

/// What is behind the slashes of a line that is a comment.
fn comment_text(line: &str) -> Option<&str> {
    let behind = line.strip_prefix("//")?;
    Some(behind.trim_start_matches(['/', '!']).trim_start())
}

/// Each Rust file opens with a `//!` comment. Where the order of steps decides about other people's data it also says
/// what must hold and who calls it.
pub fn opening(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.rust_files() {
        let opening: Vec<&str> = file.text.lines().map_while(|line| line.strip_prefix("//!")).collect();
        if !opening.first().is_some_and(|line| line.starts_with(' ')) {
            let what = "open with `//! `: what it is for, what must hold, who calls it";
            problems.push(Problem::new(file, 1, what));
            continue;
        }
        let opening = opening.concat().to_lowercase();
        let says_all = opening.contains("must hold") && opening.contains("called by");
        if must_say_all(&file.path) && !says_all {
            let what = "the opening says what must hold (`Must hold:`) and who calls it (`Called by`)";
            problems.push(Problem::new(file, 1, what));
        }
    }
    problems
}

/// Crates in which an opening must say what must hold, and who calls.
const SAYS_ALL: [&str; 9] =
    ["agent", "codec", "core", "engine", "host", "interpose", "os", "uswap", "vector"];

/// Whether an opening must say what must hold, and who calls: in these crates, but for tests, and for the map of a
/// crate.
pub fn must_say_all(path: &str) -> bool {
    let inside = path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"));
    let is_inside = inside.is_some_and(|(name, _)| SAYS_ALL.contains(&name));
    is_inside && !path.contains("test") && !path.ends_with("/src/lib.rs")
}

/// One problem for each line of any file about which `complaint` has something to say.
fn every_line(tree: &Tree, complaint: impl Fn(&str) -> Option<String>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in &tree.files {
        for (line, text) in file.numbered_lines() {
            problems.extend(complaint(text).map(|what| Problem::new(file, line, what)));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(check: fn(&Tree) -> Vec<Problem>, path: &str, text: &str) -> Vec<usize> {
        check(&Tree::sample(&[(path, text)])).iter().map(|problem| problem.line).collect()
    }

    #[test]
    fn a_long_line_of_a_comment_is_a_problem_and_a_table_is_none() {
        let words = "word ".repeat(30);
        for (path, text, problems) in [
            ("a.rs", format!("//! {words}\n"), 1),
            ("a.rs", format!("    /// {words}\n"), 1),
            ("a.rs", format!("    let a = \"{words}\";\n"), 0),
            ("a.rs", format!("//! | {words} |\n"), 0),
            ("a.rs", format!("//! ```text\n//! {words}\n//! ```\n//! {words}\n"), 1),
            ("a.md", format!("{words}\n\n| {words} |\n"), 1),
            ("a.md", format!("[a]: {}\n", "x".repeat(150)), 0),
            ("a.sh", format!("# {words}\n"), 0),
        ] {
            assert_eq!(lines_of(columns, path, &text).len(), problems, "{path}: {text}");
        }
    }

    #[test]
    fn a_long_line_of_code_is_a_problem() {
        let words = "word ".repeat(30);
        assert_eq!(lines_of(code_columns, "a.rs", &format!("fine\n    let a = \"{words}\";\n")), [2]);
        assert!(lines_of(code_columns, "a.rs", &format!("    // {words}\n")).is_empty());
        assert_eq!(lines_of(code_columns, "a.sh", &format!("fine\n# {words}\n")), [2]);
        assert_eq!(lines_of(code_columns, "a.py", &format!("a = '{words}'\n")), [1]);
        assert!(lines_of(code_columns, "a.toml", &format!("a = \"{words}\"\n")).is_empty());
    }

    #[test]
    fn work_left_undone_is_a_problem() {
        for sample in
            [["// TO", "DO: later"], ["# FIX", "ME"], ["XX", "X"], ["todo", "!()"], ["unimplemented", "!()"]]
        {
            let text = format!("fine\n{}\n", sample.concat());
            assert_eq!(lines_of(left_for_later, "a.sh", &text), [2], "{text}");
        }
        assert!(lines_of(left_for_later, "a.sh", "mktemp uswap.XXXXXX\n").is_empty());
    }

    #[test]
    fn a_path_of_a_machine_is_a_problem() {
        for name in ["root", "work", "home"] {
            assert_eq!(lines_of(machine_paths, "README.md", &format!("fine\ncd /{name}/me\n")), [2]);
        }
        assert!(lines_of(machine_paths, "README.md", "cd /tmp/x; work/home\n").is_empty());
    }

    #[test]
    fn a_file_that_is_too_long_is_a_problem() {
        assert_eq!(lines_of(shape, "a.rs", &"x\n".repeat(LINES_MAX + 1)), [LINES_MAX + 1]);
        assert!(lines_of(shape, "a.rs", &"x\n".repeat(LINES_MAX)).is_empty());
    }

    #[test]
    fn tabs_and_broken_bytes_are_problems() {
        assert_eq!(lines_of(shape, "a.rs", "fine\n\tlet a;\n"), [2]);
        assert_eq!(lines_of(shape, "a.rs", &String::from_utf8_lossy(b"fine\n\xff\n")), [2]);
        assert!(lines_of(shape, "Makefile", "all:\n\tmake\n").is_empty());
    }

    #[test]
    fn a_file_that_does_not_say_what_it_is_for_is_a_problem() {
        assert_eq!(lines_of(opening, "a.rs", "use std::fs;\n//! late\n"), [1]);
        assert_eq!(lines_of(opening, "a.rs", ""), [1]);
        assert!(lines_of(opening, "a.rs", "//! What it is for.\n").is_empty());
        let path = "crates/engine/src/evict/a.rs";
        for text in
            ["//! What it is for.\n", "//! For this.\n//!\n//! Must hold: that.\n", "//! Called by all.\n"]
        {
            assert_eq!(lines_of(opening, path, text), [1], "{text}");
        }
        assert!(
            lines_of(opening, path, "//! For this.\n//!\n//! Must hold: that. Called by\n//! all.\n")
                .is_empty()
        );
    }
}
