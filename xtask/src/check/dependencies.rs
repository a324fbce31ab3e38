//! Which crate may depend on which: the arrows of ARCHITECTURE.md, as a table.
//!
//! Reads only the dependency sections of `crates/*/Cargo.toml`, those for development too. Every name that starts with
//! `uswap-` in such a section counts, in whatever way it is written.

use std::collections::BTreeSet;

use super::Problem;
use crate::code::is_word;
use crate::tree::{File, Tree};

/// A crate of `crates/`, and those it may use.
const ALLOWED: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("vector", &[]),
    ("identity", &[]),
    ("sync", &["units"]),
    ("core", &["sync", "units"]),
    ("codec", &["vector", "units"]),
    ("engine", &["core", "codec", "sync", "units"]),
    ("os", &["engine", "core", "units"]),
    ("interpose", &["os", "sync", "units"]),
    ("sim", &["engine", "core", "codec", "sync", "units"]),
    ("host", &["interpose", "identity", "os", "engine", "core", "codec", "sync", "units"]),
    ("agent", &["host", "identity", "os"]),
    ("bench", &["os", "codec", "units"]),
    ("fuzz", &["cli", "supervisor", "interpose", "engine", "core", "codec", "units"]),
    ("zones", &["core", "sync", "units"]),
    ("experiments", &["bench", "zones", "core", "sync", "units"]),
    ("control", &["identity", "os"]),
    ("uswap", &["control", "identity", "os", "units"]),
    // It stands on `uswap` alone.
    ("libusw", &[]),
    ("supervisor", &["interpose", "control", "identity", "os", "engine", "core", "codec", "sync", "units"]),
    ("metrics", &["control", "core", "units"]),
    ("top", &["control", "units"]),
    ("manual", &["cli"]),
    ("cli", &["top", "metrics", "supervisor", "control", "bench", "identity", "os", "core", "units"]),
];

/// Each edge between two crates is in the table.
pub fn edges(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in &tree.files {
        let Some(name) = file.path.strip_prefix("crates/").and_then(|path| path.strip_suffix("/Cargo.toml"))
        else {
            continue;
        };
        let Some((_, allowed)) = ALLOWED.iter().find(|(crate_name, _)| *crate_name == name) else {
            let what = "this crate has no place in the table of xtask/src/check/dependencies.rs";
            problems.push(Problem::new(file, 1, what));
            continue;
        };
        for (line, used) in used_crates(file) {
            if !allowed.contains(&used.as_str()) {
                problems.push(Problem::new(file, line, format!("{name} may not depend on {used}")));
            }
        }
    }
    problems
}

/// The crates of this workspace that a manifest names in its dependency sections, with their lines.
fn used_crates(manifest: &File) -> Vec<(usize, String)> {
    let mut used = BTreeSet::new();
    let mut is_dependency_section = false;
    for (line, text) in manifest.numbered_lines() {
        let text = text.split('#').next().unwrap_or_default().trim();
        if text.starts_with('[') {
            is_dependency_section = text.contains("dependencies");
        }
        if is_dependency_section {
            for (at, prefix) in text.match_indices("uswap-") {
                let name: String =
                    text[at + prefix.len()..].chars().take_while(|c| is_word(*c) || *c == '-').collect();
                used.insert((line, name));
            }
        }
    }
    used.into_iter().collect()
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
