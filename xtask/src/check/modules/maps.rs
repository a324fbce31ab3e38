//! The map of a crate names each of its modules.
//!
//! A crate has a map if the opening of its `lib.rs` has a table with the head `| module | for |`, or a paragraph that
//! begins with `Map: `. There a module stands in back quotes, with or without a link. Modules that are built for tests
//! only need not be named, nor do those that are written inside of the file.

use std::collections::BTreeSet;

use super::uses;
use crate::check::Problem;
use crate::code::{code_only, is_word};
use crate::tree::{File, Tree};

const TABLE: &str = "| module | for |";
const PARAGRAPH: &str = "Map: ";

/// Each map is complete.
pub fn complete(tree: &Tree) -> Vec<Problem> {
    let is_library = |file: &&File| file.path.starts_with("crates/") && file.path.ends_with("/src/lib.rs");
    tree.files.iter().filter(is_library).flat_map(missing).collect()
}

fn missing(file: &File) -> Vec<Problem> {
    let Some(named) = names_of_map(&file.text) else { return Vec::new() };
    let for_tests = uses::of(&file.text).test_modules;
    let code = code_only(&file.text);
    let declared = code.lines().enumerate().filter_map(|(index, line)| Some((index + 1, declared(line)?)));
    declared
        .filter(|(_, module)| !named.contains(*module) && !for_tests.contains(*module))
        .map(|(line, module)| Problem::new(file, line, format!("the map above does not name `{module}`")))
        .collect()
}

/// The module of a line `mod NAME;`.
fn declared(line: &str) -> Option<&str> {
    let line = line.trim();
    let behind = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.trim_start(),
        None => line,
    };
    let name = behind.strip_prefix("mod ")?.strip_suffix(';')?;
    name.chars().all(is_word).then_some(name)
}

/// What stands in back quotes in the opening, but for listings; None if there is no map in it.
fn names_of_map(source: &str) -> Option<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let (mut has_map, mut in_listing) = (false, false);
    for line in source.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim_start) {
        if line.starts_with("```") {
            in_listing = !in_listing;
        } else if !in_listing {
            has_map |= line.starts_with(TABLE) || line.starts_with(PARAGRAPH);
            let quoted = line.split('`').skip(1).step_by(2);
            names.extend(quoted.map(|name| name.trim_start_matches("mod@").to_owned()));
        }
    }
    has_map.then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems_of(text: &str) -> Vec<String> {
        let tree = Tree::sample(&[("crates/core/src/lib.rs", text)]);
        complete(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_module_that_is_left_out_is_a_problem() {
        for map in ["| module | for |\n//! |---|---|\n//! | [`a`] | that |", "Map: [`a`] does that."] {
            let text = format!("//! A crate.\n//!\n//! {map}\n\npub mod a;\n    pub(crate) mod b;\nmod c;\n");
            let found = problems_of(&text);
            assert_eq!(found.len(), 2, "{found:?}");
            assert!(found[0].ends_with("the map above does not name `b`"), "{found:?}");
        }
        // A name in a listing is no name in a map, and a path is not the module that it begins with.
        let text = "//! Map: [`b::c`] does that.\n//! ```text\n//! `a`\n//! ```\nmod a;\nmod b;\n";
        assert_eq!(problems_of(text).len(), 2);
    }

    #[test]
    fn modules_that_are_named_and_those_of_tests_are_fine() {
        let text = "//! Map: [`a`] and [`mod@b`]; `c`\n//! helps.\n\npub mod a;\npub mod b;\nmod c;\n#[cfg(test)]\nmod \
                    tests;\n#[cfg(all(test, loom))]\nmod loom_tests;\nmod inside {\n}\n// mod d;\n";
        assert!(problems_of(text).is_empty(), "{:?}", problems_of(text));
    }

    #[test]
    fn a_crate_without_a_map_needs_none() {
        assert!(problems_of("//! A crate. It says `a`.\n\nmod b;\n").is_empty());
        let tree = Tree::sample(&[("crates/core/src/a/mod.rs", "//! Map: [`b`].\nmod c;\n")]);
        assert!(complete(&tree).is_empty());
    }
}
