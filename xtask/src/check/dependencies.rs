//! Which crate may depend on which: the arrows of ARCHITECTURE.md, as a table.
//!
//! Reads only the dependency sections of `crates/*/Cargo.toml`. What is for development only has a column of its own:
//! no product depends on it. Every name that starts with
//! `uswap-` in such a section counts, in whatever way it is written.

use std::collections::BTreeSet;

use super::Problem;
use crate::code::is_word;
use crate::tree::{File, Tree};

/// A crate of `crates/`: those that its product may use, and those that only its tests, examples and benchmarks may
/// use beside.
struct Allowed {
    name: &'static str,
    product: &'static [&'static str],
    development: &'static [&'static str],
}

const fn allowed(
    name: &'static str,
    product: &'static [&'static str],
    development: &'static [&'static str],
) -> Allowed {
    Allowed { name, product, development }
}

const ALLOWED: &[Allowed] = &[
    //      crate          its product                                            its tests beside
    allowed("units", &[], &[]),
    allowed("vector", &[], &[]),
    allowed("identity", &[], &[]),
    allowed("sync", &["units"], &[]),
    allowed("core", &["sync", "units"], &[]),
    allowed("codec", &["vector"], &["units"]),
    allowed("engine", &["core", "codec", "sync", "units"], &[]),
    // What processes that are killed share.
    allowed("os", &[], &["engine", "core", "units"]),
    allowed("interpose", &["os", "sync", "units"], &[]),
    allowed("sim", &["engine", "core", "codec", "sync", "units"], &[]),
    allowed("host", &["interpose", "identity", "os", "engine", "core", "codec", "sync", "units"], &[]),
    allowed("agent", &["host", "identity", "os"], &[]),
    allowed("bench", &["os", "units"], &["codec"]),
    allowed("zones", &["core", "sync", "units"], &[]),
    allowed("experiments", &["bench", "zones", "core", "sync", "units"], &[]),
    allowed("control", &["identity", "os"], &[]),
    allowed("uswap", &["control", "identity", "os", "units"], &[]),
    // It stands on `uswap` alone.
    allowed("libusw", &[], &[]),
    allowed(
        "supervisor",
        &["interpose", "control", "identity", "os", "engine", "core", "codec", "units"],
        &["sync"],
    ),
    allowed("metrics", &["control", "core", "units"], &[]),
    allowed("top", &["control", "units"], &[]),
    allowed(
        "cli",
        &["top", "metrics", "supervisor", "control", "bench", "identity", "os", "core", "units"],
        &[],
    ),
    allowed("manual", &["cli"], &[]),
    allowed("fuzz", &["cli", "supervisor", "interpose", "engine", "core", "codec", "units"], &[]),
];

/// Each edge between two crates is in the table.
pub fn edges(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in &tree.files {
        let Some(name) = file.path.strip_prefix("crates/").and_then(|path| path.strip_suffix("/Cargo.toml"))
        else {
            continue;
        };
        let Some(allowed) = ALLOWED.iter().find(|allowed| allowed.name == name) else {
            let what = "this crate has no place in the table of xtask/src/check/dependencies.rs";
            problems.push(Problem::new(file, 1, what));
            continue;
        };
        for Used { line, name: used, purpose } in used_crates(file) {
            let for_product = allowed.product.contains(&used.as_str());
            let for_tests = for_product || allowed.development.contains(&used.as_str());
            let what = match purpose {
                Purpose::Product if !for_product && for_tests => {
                    format!("{name} may depend on {used} for development only")
                }
                Purpose::Product if !for_product => format!("{name} may not depend on {used}"),
                Purpose::Development if !for_tests => {
                    format!("{name} may not depend on {used}, for development neither")
                }
                Purpose::Product | Purpose::Development => continue,
            };
            problems.push(Problem::new(file, line, what));
        }
    }
    problems
}

/// What a section of dependencies is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Purpose {
    /// `dependencies` and `build-dependencies`.
    Product,
    /// `dev-dependencies`.
    Development,
}

/// A crate of this workspace that a manifest names in a dependency section.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Used {
    line: usize,
    name: String,
    purpose: Purpose,
}

fn used_crates(manifest: &File) -> BTreeSet<Used> {
    let mut used = BTreeSet::new();
    let mut section = None;
    for (line, text) in manifest.numbered_lines() {
        let text = text.split('#').next().unwrap_or_default().trim();
        if text.starts_with('[') {
            let purpose =
                if text.contains("dev-dependencies") { Purpose::Development } else { Purpose::Product };
            section = text.contains("dependencies").then_some(purpose);
        }
        let Some(purpose) = section else { continue };
        for (at, prefix) in text.match_indices("uswap-") {
            let name: String =
                text[at + prefix.len()..].chars().take_while(|c| is_word(*c) || *c == '-').collect();
            used.insert(Used { line, name, purpose });
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems_of(path: &str, text: &str) -> Vec<String> {
        edges(&Tree::sample(&[(path, text)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_upward_edge_is_a_problem() {
        let text = "[package]\nname = \"uswap-core\"\n[dependencies]\nuswap-units = {}\nuswap-engine.workspace = \
            true\n";
        assert_eq!(
            problems_of("crates/core/Cargo.toml", text),
            ["crates/core/Cargo.toml:5: core may not depend on engine"]
        );
    }

    #[test]
    fn the_two_platforms_never_see_each_other() {
        assert_eq!(problems_of("crates/os/Cargo.toml", "[dev-dependencies]\nuswap-sim = {}\n").len(), 1);
        assert_eq!(
            problems_of("crates/sim/Cargo.toml", "[target.'cfg(unix)'.dependencies.uswap-os]\n").len(),
            1
        );
        assert_eq!(
            problems_of("crates/sim/Cargo.toml", "[dependencies]\nx = { package = \"uswap-os\" }\n").len(),
            1
        );
    }

    #[test]
    fn what_only_tests_may_use_is_a_problem_in_the_product() {
        let text = |section: &str| format!("[{section}]\nuswap-engine = {{}}\n");
        assert_eq!(
            problems_of("crates/os/Cargo.toml", &text("dependencies")),
            ["crates/os/Cargo.toml:2: os may depend on engine for development only"]
        );
        assert_eq!(
            problems_of("crates/os/Cargo.toml", &text("target.'cfg(loom)'.build-dependencies")).len(),
            1
        );
        assert!(problems_of("crates/os/Cargo.toml", &text("dev-dependencies")).is_empty());
        assert!(problems_of("crates/os/Cargo.toml", &text("target.'cfg(loom)'.dev-dependencies")).is_empty());
    }

    #[test]
    fn the_table_has_no_circle() {
        // From the bottom to the top: each crate stands on those above it in the table.
        for (index, allowed) in ALLOWED.iter().enumerate() {
            for used in allowed.product {
                assert!(ALLOWED[..index].iter().any(|below| below.name == *used), "{}: {used}", allowed.name);
            }
        }
    }

    #[test]
    fn the_agent_does_not_pretend() {
        assert_eq!(problems_of("crates/agent/Cargo.toml", "[dependencies]\nuswap-sim = {}\n").len(), 1);
    }

    #[test]
    fn downward_edges_and_other_sections_are_fine() {
        let text = "[package]\nname = \"uswap-cli\"\n[dependencies]\nuswap-os = {}\nuswap-core = {}\n[features]\nx = \
            [\"uswap-tests\"]\n";
        assert!(problems_of("crates/cli/Cargo.toml", text).is_empty());
        assert!(
            problems_of("tests/Cargo.toml", "[dependencies]\nuswap-os = {}\nuswap-sim = {}\n").is_empty()
        );
    }

    #[test]
    fn a_crate_without_a_place_is_a_problem() {
        assert_eq!(problems_of("crates/extra/Cargo.toml", "[package]\n").len(), 1);
    }
}
