//! Each memory order stronger than `Relaxed` says what it pairs with, or why it is needed.
//!
//! A comment near it does: in the same function above it, or behind it in the line, with the word *pair* or the name
//! of an order. Where many in one file are for one thing, a paragraph `Memory order:` of the file's opening says it for
//! all of them; what it names is in that file or beside it. What a test or a model does need not be explained.

use super::Problem;
use crate::code::{code_only, has_word};
use crate::tree::{File, Tree};

const ORDERS: [&str; 4] = ["Acquire", "Release", "AcqRel", "SeqCst"];
const SAYS_WHY: &str = "Memory order:";

/// Orders of the crates that nothing says the pair of.
pub fn explained(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in product_files(tree) {
        let lines: Vec<&str> = file.text.lines().collect();
        let opening = lines.iter().take_while(|line| line.starts_with("//!"));
        if opening.into_iter().any(|line| line.contains(SAYS_WHY)) {
            continue;
        }
        let code = code_only(&file.text);
        let code_lines: Vec<&str> = code.lines().collect();
        let end = lines.iter().position(|line| is_start_of_tests(line)).unwrap_or(lines.len());
        for (index, line) in code_lines.iter().enumerate().take(end) {
            if has_order(line) && !is_explained(&lines, &code_lines, index) {
                let what = "a memory order without its pair: say in a comment what it pairs with";
                problems.push(Problem::new(file, index + 1, what));
            }
        }
    }
    problems
}

/// Names in the paragraph `Memory order:` of an opening that neither its file has, nor one beside it.
pub fn named(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in product_files(tree) {
        let opening = file.numbered_lines().take_while(|(_, text)| text.starts_with("//!"));
        let paragraph = opening.skip_while(|(_, text)| !text.contains(SAYS_WHY));
        let names: Vec<(usize, &str)> = paragraph
            .take_while(|(_, text)| *text != "//!")
            .flat_map(|(line, text)| text.split('`').skip(1).step_by(2).map(move |name| (line, name)))
            .collect();
        if names.is_empty() {
            continue;
        }
        let beside = tree.rust_files().filter(|other| is_beside(&file.path, &other.path));
        let code: Vec<String> = beside.map(|file| code_only(&file.text)).collect();
        for (line, name) in names {
            let last = name.rsplit([':', '.']).next().unwrap_or(name);
            // `set_` stands for all that begin so.
            let is_there = last.ends_with('_') || code.iter().any(|code| has_word(code, last));
            if !is_there {
                let what = format!("the memory order of `{name}`: it is neither in this file nor beside it");
                problems.push(Problem::new(file, line, what));
            }
        }
    }
    problems
}

/// Whether a file is the same one, lies in the same folder, or is of the same module and what is in it.
fn is_beside(path: &str, other: &str) -> bool {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let inside = path.trim_end_matches(".rs");
    let is_in = |folder: &str| other.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    is_in(inside)
        || other == format!("{folder}.rs")
        || is_in(folder) && !other[folder.len() + 1..].contains('/')
}

fn product_files(tree: &Tree) -> impl Iterator<Item = &File> {
    let is_product = |path: &str| path.starts_with("crates/") && path.contains("/src/") && !is_test(path);
    tree.rust_files().filter(move |file| is_product(&file.path))
}

fn is_test(path: &str) -> bool {
    let inside = path.split_once("/src/").map_or(path, |(_, inside)| inside);
    inside.split(['/', '.']).any(|part| part == "tests" || part.ends_with("_tests"))
}

fn is_start_of_tests(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("#[cfg(") && line.contains("test") && !line.contains("not(test")
}

fn has_order(code_line: &str) -> bool {
    ORDERS.iter().any(|order| code_line.contains(&format!("Ordering::{order}")))
}

fn says_why(comment: &str) -> bool {
    comment.contains("pair") || comment.contains("Pair") || ORDERS.iter().any(|order| comment.contains(order))
}

/// Looks upwards: through the function, and through the comment in front of it.
fn is_explained(lines: &[&str], code_lines: &[&str], index: usize) -> bool {
    let comment_of = |line: &'_ str| line.find("//").map(|at| line[at..].to_owned());
    let mut in_front = false;
    for at in (0..=index).rev() {
        let is_only_comment = code_lines[at].trim().is_empty() && lines[at].contains("//");
        if in_front && !is_only_comment && !lines[at].trim_start().starts_with('#') {
            return false;
        }
        if comment_of(lines[at]).is_some_and(|comment| says_why(&comment)) {
            return true;
        }
        let code = code_lines[at].trim_start();
        in_front |= ["fn ", "pub", "const fn", "async fn", "unsafe fn", "static ", "impl"]
            .iter()
            .any(|start| code.starts_with(start));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        explained(&Tree::sample(&[(path, text)])).iter().map(|problem| problem.line).collect()
    }

    #[test]
    fn a_name_that_is_not_there_is_a_problem() {
        let opening =
            "//! A.\n//!\n//! Memory order: `set` pairs with\n//! `b::get` and `wait_`.\n//!\n//! Not `x`.\n";
        let files = |name, path, other| {
            let text = format!("{opening}fn set() {{}}\n// fn {name}() {{}}\n");
            let tree = Tree::sample(&[("crates/core/src/a.rs", &text), (path, other)]);
            named(&tree).iter().map(|problem| problem.line).collect::<Vec<_>>()
        };
        assert_eq!(files("get", "crates/core/src/b.rs", "fn other() {}\n"), [4], "a comment is no function");
        assert!(files("c", "crates/core/src/b.rs", "fn get() {}\n").is_empty());
        assert!(files("c", "crates/core/src/a/b.rs", "fn get() {}\n").is_empty());
        assert_eq!(files("c", "crates/core/src/c/b.rs", "fn get() {}\n"), [4]);
        assert_eq!(files("c", "crates/host/src/b.rs", "fn get() {}\n"), [4]);
    }

    #[test]
    fn an_order_without_its_pair_is_a_problem() {
        const BARE: &str = "//! A.\n\nfn a() {\n    // It is loud.\n    b.load(Ordering::Acquire);\n}\n";
        assert_eq!(found("crates/core/src/a.rs", BARE), [5]);
        let after_another =
            "// Pairs with b.\nfn a() {}\n\nfn b() {\n    c.store(1, Ordering::Release);\n}\n";
        assert_eq!(found("crates/core/src/a.rs", after_another), [5]);
        assert!(found("crates/core/src/loom_tests/a.rs", BARE).is_empty());
        assert!(found("crates/core/src/tests.rs", BARE).is_empty());
    }

    #[test]
    fn a_comment_in_front_inside_or_behind_is_fine_and_one_for_the_file() {
        for text in [
            "/// Release pairs with `load`.\n#[inline]\npub fn a() {\n    b.store(1, Ordering::Release);\n}\n",
            "fn a() {\n    // Pairs with that in `c`.\n    fence(Ordering::SeqCst);\n}\n",
            "fn a() {\n    b.load(Ordering::Acquire); // pairs with `c`\n}\n",
            "//! A.\n//!\n//! Memory order: `set` pairs with `get`.\n\nfn a() {\n    b.load(Ordering::Acquire);\n}\n",
            "fn a() {\n    b.load(Ordering::Relaxed);\n}\n#[cfg(test)]\nmod tests {\n    fence(Ordering::SeqCst);\n}\n",
        ] {
            assert!(found("crates/core/src/a.rs", text).is_empty(), "{text}");
        }
    }
}
