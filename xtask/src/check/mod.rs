//! `cargo xtask check`: rules of the house that the compiler does not know.
//!
//! Each check is a function from a `Tree` to the problems it sees. It must be able to fail: each has a test with a
//! sample that breaks its rule.

mod dependencies;
mod links;
mod modules;
mod orders;
mod promises;
mod steps;
mod text;
mod unsafe_code;

use std::fmt;

use anyhow::{Result, ensure};

use crate::figures;
use crate::tree::{File, Tree};

/// A place that breaks a rule, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem {
    path: String,
    line: usize,
    what: String,
}

impl Problem {
    fn new(file: &File, line: usize, what: impl Into<String>) -> Problem {
        Problem { path: file.path.clone(), line, what: what.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.path, self.line, self.what)
    }
}

type Check = fn(&Tree) -> Vec<Problem>;

const CHECKS: &[(&str, Check)] = &[
    ("crates depend downwards only", dependencies::edges),
    ("modules depend one way", modules::no_circles),
    ("crates without a licence for unsafe code forbid it", unsafe_code::forbidden),
    ("unsafe code says why it is right", unsafe_code::explained),
    ("memory orders say what they pair with", orders::explained),
    ("what they name is there", orders::named),
    ("nothing is left for later", text::left_for_later),
    ("files are short, without tabs, and UTF-8", text::shape),
    ("lines of comments and documents are short", text::columns),
    ("lines of code are short", text::code_columns),
    ("each source file says what it is for", text::opening),
    ("what files say of their callers is true", modules::named),
    ("the map of a crate names each of its modules", modules::mapped),
    ("no path of somebody's machine", text::machine_paths),
    ("links of documents lead somewhere", links::lead_somewhere),
    ("paths that documents name are there", links::named_paths_exist),
    ("each promise has its test", promises::tested),
    ("the steps of the tests are those of CONTRIBUTING", steps::documented),
    ("figures in documents are the newest results", fresh_figures),
];

fn fresh_figures(tree: &Tree) -> Vec<Problem> {
    let stale =
        |file: &File| Problem::new(file, 1, "its figures are not the newest results: cargo xtask figures");
    match figures::stale(tree) {
        Ok(documents) => documents.iter().map(|(file, _)| stale(file)).collect(),
        Err(error) => vec![Problem { path: "bench/results".to_owned(), line: 1, what: format!("{error:#}") }],
    }
}

/// Runs all checks on the repository and prints what they see.
///
/// # Errors
/// At least one rule is broken, or a file cannot be read.
pub fn run() -> Result<()> {
    let tree = Tree::of_repository()?;
    let mut problem_count = 0;
    for (rule, check) in CHECKS {
        let problems = check(&tree);
        println!("{} {rule}", if problems.is_empty() { "ok  " } else { "FAIL" });
        for problem in &problems {
            println!("     {problem}");
        }
        problem_count += problems.len();
    }
    ensure!(problem_count == 0, "{problem_count} places break a rule of the house");
    Ok(())
}
