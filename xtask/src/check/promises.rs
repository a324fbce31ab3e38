//! Each promise of docs/SEMANTICS.md names the test that keeps it, and that test exists.
//!
//! A promise is a `## ` heading. One paragraph under it, `Test: name` or `Test: name, name`, names test functions of
//! this repository. What is no promise (a known limit) has a heading of another level.

use std::collections::BTreeSet;

use super::Problem;
use crate::code::{code_only, is_word};
use crate::tree::{File, Tree};

const DOCUMENT: &str = "docs/SEMANTICS.md";

/// Each promise has a test.
pub fn tested(tree: &Tree) -> Vec<Problem> {
    let Some(document) = tree.files.iter().find(|file| file.path == DOCUMENT) else {
        return vec![Problem { path: DOCUMENT.into(), line: 1, what: "this file is missing".into() }];
    };
    let tests: BTreeSet<String> = tree.rust_files().flat_map(test_names).collect();
    let mut problems = Vec::new();
    let mut promise_count = 0;
    let mut untested: Option<(usize, &str)> = None;
    let mut goes_on = false;
    for (line, text) in document.numbered_lines() {
        if text.starts_with("# ") || text.starts_with("## ") {
            problems.extend(untested.take().map(|promise| no_test(document, promise)));
        }
        if let Some(heading) = text.strip_prefix("## ") {
            promise_count += 1;
            untested = Some((line, heading));
        }
        let first = text.strip_prefix("Test: ");
        if let Some(names) = first.or_else(|| goes_on.then_some(text)) {
            untested = None;
            // A comma at the end of a line: there are more on the next one.
            goes_on = names.ends_with(',');
            let names = names.trim_end_matches(',').split(',').map(str::trim);
            for name in names.filter(|name| !tests.contains(*name)) {
                problems.push(Problem::new(document, line, format!("there is no test function `{name}`")));
            }
        }
    }
    problems.extend(untested.map(|promise| no_test(document, promise)));
    if promise_count == 0 {
        problems.push(Problem::new(document, 1, "no promise: not one `## ` heading"));
    }
    problems
}

fn no_test(document: &File, (line, heading): (usize, &str)) -> Problem {
    Problem::new(document, line, format!("the promise \"{heading}\" has no line `Test: name`"))
}

/// Names of the functions with `#[test]` above them, written out or made by a macro of the same file.
fn test_names(file: &File) -> Vec<String> {
    let code = code_only(&file.text);
    let mut names = Vec::new();
    for (at, attribute) in code.match_indices("#[test]") {
        let after = &code[at + attribute.len()..];
        let Some((between, function)) = after.split_once("fn ") else { continue };
        // Other attributes may stand between; the end of an item may not.
        if between.contains(['{', '}', ';']) {
            continue;
        }
        if function.starts_with('$') {
            names.extend(names_given_to_macro(&code, at));
        } else {
            names.push(leading_name(function));
        }
    }
    names
}

/// `code[..at]` ends inside `macro_rules! NAME`. What `NAME! { test => ..., test => ... }` calls its tests.
fn names_given_to_macro(code: &str, at: usize) -> Vec<String> {
    let Some((_, definition)) = code[..at].rsplit_once("macro_rules! ") else { return Vec::new() };
    let call = format!("\n{}! {{", leading_name(definition));
    let Some((_, arguments)) = code.split_once(&call) else { return Vec::new() };
    let arguments = arguments.split('}').next().unwrap_or_default();
    arguments
        .split(',')
        .filter_map(|argument| argument.split_once("=>"))
        .map(|(name, _)| leading_name(name.trim()))
        .collect()
}

fn leading_name(code: &str) -> String {
    code.chars().take_while(|character| is_word(*character)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str =
        "#[test]\nfn fork_works() {}\n#[test]\n#[should_panic]\nfn exec_works() {}\nfn no_test() {}\n";

    fn problems_of(document: &str) -> Vec<String> {
        let tree = Tree::sample(&[(DOCUMENT, document), ("tests/tests/a.rs", SOURCE)]);
        tested(&tree).iter().map(|problem| format!("{}: {}", problem.line, problem.what)).collect()
    }

    #[test]
    fn a_promise_without_a_test_is_a_problem() {
        assert_eq!(
            problems_of("## Fork\nWorks.\n\n## Exec\nTest: exec_works\n"),
            ["1: the promise \"Fork\" has no line `Test: name`"]
        );
        assert_eq!(problems_of("## Fork\nWorks.\n# Limits\nTest: fork_works\n").len(), 1);
        assert_eq!(problems_of("## Exec\nTest: exec_works\n## Fork\n").len(), 1);
    }

    #[test]
    fn a_test_that_does_not_exist_is_a_problem() {
        assert_eq!(
            problems_of("## Fork\nTest: fork_works, fork_flies\n"),
            ["2: there is no test function `fork_flies`"]
        );
        assert_eq!(problems_of("## Fork\nTest: no_test\n").len(), 1);
    }

    #[test]
    fn tests_made_by_a_macro_count() {
        let source = "macro_rules! modes {\n($($test:ident => $mode:literal),*) => { $(#[test]\nfn $test() {})* };\n}\n\
                      modes! {\n    evil_a => \"a\", evil_b => \"b\",\n}\nfn x() { match y { other => 1 } }\n";
        let document = "## A\nTest: evil_a, evil_b, other\n";
        let problems = tested(&Tree::sample(&[(DOCUMENT, document), ("tests/tests/a.rs", source)]));
        assert_eq!(
            problems.iter().map(|problem| problem.what.as_str()).collect::<Vec<_>>(),
            ["there is no test function `other`"]
        );
    }

    #[test]
    fn a_document_without_promises_is_a_problem() {
        assert_eq!(problems_of("# Semantics\n").len(), 1);
        assert_eq!(tested(&Tree::sample(&[])).len(), 1);
    }

    #[test]
    fn promises_with_tests_are_fine() {
        assert!(
            problems_of("# A\n## Fork\nWorks.\nTest: fork_works, exec_works\n# Limits\n### Debuggers\nNo.\n")
                .is_empty()
        );
    }
}
