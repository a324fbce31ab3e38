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

/// Each Rust file opens with a `//!` comment.
pub fn opening(tree: &Tree) -> Vec<Problem> {
    let is_silent = |text: &str| !text.lines().next().is_some_and(|line| line.starts_with("//! "));
    let silent_files = tree.rust_files().filter(|file| is_silent(&file.text));
    silent_files
        .map(|file| Problem::new(file, 1, "open with `//! `: what it is for, what must hold, who calls it"))
        .collect()
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
    }
}
