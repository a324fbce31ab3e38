//! Where unsafe code may be, and what must stand above it.
//!
//! Two rules: only `os`, `interpose`, `host`, `agent`, `uswap`, `libusw`, `vector`, the Python package and the programs
//! under test may have any, and each block says, in a numbered list, what it relies on.
//! `clippy::undocumented_unsafe_blocks` asks for the comment; the numbers are our own rule.

use super::Problem;
use crate::code::{code_only, has_word};
use crate::tree::{File, Tree};

/// Packages that may have unsafe code.
const MAY_BE_UNSAFE: &[&str] = &[
    "crates/os",
    "crates/interpose",
    "crates/host",
    "crates/agent",
    "crates/uswap",
    "crates/libusw",
    "crates/vector",
    "python",
    "tests/programs",
];

/// The main file of every other package says `#![forbid(unsafe_code)]`.
pub fn forbidden(tree: &Tree) -> Vec<Problem> {
    let is_missing = |file: &&File| {
        let Some(package) = package_of_main_file(&file.path) else { return false };
        !MAY_BE_UNSAFE.contains(&package) && !code_only(&file.text).contains("#![forbid(unsafe_code)]")
    };
    let what = "write #![forbid(unsafe_code)] here";
    tree.files.iter().filter(is_missing).map(|file| Problem::new(file, 1, what)).collect()
}

/// The package, when `path` is the main file of one of its libraries or programs.
fn package_of_main_file(path: &str) -> Option<&str> {
    let (package, inside) = match path.split_once("/src/") {
        Some(parts) => parts,
        None => ("", path.strip_prefix("src/")?),
    };
    let is_program =
        inside.strip_prefix("bin/").is_some_and(|name| name.ends_with(".rs") && !name.contains('/'));
    let is_program_directory = inside.starts_with("bin/") && inside.ends_with("/main.rs");
    (inside == "lib.rs" || inside == "main.rs" || is_program || is_program_directory).then_some(package)
}

/// Each unsafe block, impl and extern block in `crates/` and `python/` has a numbered SAFETY comment above it.
pub fn explained(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    let is_ours = |file: &&File| ["crates/", "python/"].iter().any(|place| file.path.starts_with(place));
    for file in tree.rust_files().filter(is_ours) {
        let code = code_only(&file.text);
        let code_lines: Vec<&str> = code.lines().collect();
        let lines: Vec<&str> = file.text.lines().collect();
        for (index, code_line) in code_lines.iter().enumerate() {
            if starts_unsafe(code_line, code_lines.get(index + 1))
                && !is_explained(&lines, &code_lines, index)
            {
                let what =
                    "unsafe without a comment `// SAFETY:` that lists, numbered from 1, what it relies on";
                problems.push(Problem::new(file, index + 1, what));
            }
        }
    }
    problems
}

/// Does an unsafe block, impl or extern block start in this line? Unsafe functions and attributes do not count.
fn starts_unsafe(code_line: &str, next_line: Option<&&str>) -> bool {
    if !has_word(code_line, "unsafe") {
        return false;
    }
    code_line.match_indices("unsafe").any(|(at, word)| {
        let after = code_line[at + word.len()..].trim_start();
        let after = if after.is_empty() { next_line.map_or("", |line| line.trim_start()) } else { after };
        let is_extern_block = after.starts_with("extern") && !has_word(after, "fn");
        after.starts_with('{') || after.starts_with("impl") || is_extern_block
    })
}

/// Looks upwards for the comment: over attributes, and over the earlier lines of the same statement.
fn is_explained(lines: &[&str], code_lines: &[&str], unsafe_index: usize) -> bool {
    let mut index = unsafe_index;
    while index > 0 {
        index -= 1;
        let line = lines[index].trim();
        let code = code_lines[index].trim();
        if line.starts_with("//") {
            return is_numbered_safety_comment(lines, index);
        }
        let is_attribute = code.starts_with("#[");
        let ends_statement = code.is_empty() || code.ends_with([';', '{', '}', ',']);
        if ends_statement && !is_attribute {
            return false;
        }
    }
    false
}

/// `last_index` is the last line of a run of comment lines.
fn is_numbered_safety_comment(lines: &[&str], last_index: usize) -> bool {
    let comment: Vec<&str> = lines[..=last_index]
        .iter()
        .rev()
        .map(|line| line.trim())
        .take_while(|line| line.starts_with("//"))
        .collect();
    // `comment` is upside down: what comes after the word SAFETY are the lines before it.
    let Some(safety) = comment.iter().position(|line| line.starts_with("// SAFETY:")) else { return false };
    comment[..safety].iter().any(|line| line.starts_with("// 1. "))
        || comment[safety].starts_with("// SAFETY: 1. ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(problems: &[Problem]) -> Vec<usize> {
        problems.iter().map(|problem| problem.line).collect()
    }

    fn explained_lines(text: &str) -> Vec<usize> {
        lines_of(&explained(&Tree::sample(&[("crates/os/src/a.rs", text)])))
    }

    #[test]
    fn a_crate_that_does_not_forbid_unsafe_code_is_a_problem() {
        let open = "//! Text about #![forbid(unsafe_code)].\n";
        let closed = "//! Text.\n#![forbid(unsafe_code)]\n";
        let tree = Tree::sample(&[
            ("crates/core/src/lib.rs", open),
            ("crates/cli/src/main.rs", open),
            ("tests/src/bin/tool.rs", open),
            ("crates/codec/src/lib.rs", closed),
            ("crates/os/src/lib.rs", open),
            ("crates/agent/src/lib.rs", open),
            ("tests/programs/src/bin/fork.rs", open),
            ("crates/core/src/table.rs", open),
        ]);
        let problems = forbidden(&tree);
        let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(paths, ["crates/core/src/lib.rs", "crates/cli/src/main.rs", "tests/src/bin/tool.rs"]);
    }

    #[test]
    fn unsafe_without_numbers_is_a_problem() {
        assert_eq!(explained_lines("fn a() {\n    unsafe { b() }\n}\n"), [2]);
        assert_eq!(explained_lines("// SAFETY: it works.\nunsafe impl Send for A {}\n"), [2]);
        assert_eq!(explained_lines("// 1. no heading\nunsafe extern \"C\" {\n}\n"), [2]);
        assert_eq!(
            explained_lines(
                "// SAFETY:\n// 1. For the first.\nlet a = unsafe { b() };\nlet c = unsafe { d() };\n"
            ),
            [4]
        );
        assert_eq!(explained_lines("let a = unsafe\n{ b() };\n"), [1]);
    }

    #[test]
    fn a_numbered_list_is_fine() {
        assert!(explained_lines("// SAFETY:\n// 1. It is so,\n//    because.\nunsafe { b() }\n").is_empty());
        assert!(
            explained_lines("// SAFETY:\n// 1. So.\n#[allow(x)]\nlet a =\n    unsafe { b() };\n").is_empty()
        );
    }

    #[test]
    fn functions_attributes_and_words_are_not_blocks() {
        let text = "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn a() {}\nunsafe fn b() {}\n// unsafe { }\nlet c = \
            \"unsafe {\";\n";
        assert!(explained_lines(text).is_empty());
    }
}
