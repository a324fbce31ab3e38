//! Modules of a crate depend one way, as crates do.
//!
//! Looked at on each floor of each crate by itself: the modules side by side in one module, each with all that is in
//! it. `a::b` that uses `a::c::D` is an arrow from `b` to `c` on the floor `a`; if it uses `e::F`, it is one from `a`
//! to `e` on the ground floor. A module and those inside it are one house: they may use each other. `pub use` is no
//! arrow: who uses what it passes on depends on where that is defined. Modules that are written inside of a file count
//! as the file.

use std::collections::{BTreeMap, BTreeSet};

use super::{Files, OWN, crate_names, files_of, resolve};
use crate::check::Problem;
use crate::tree::Tree;

/// An arrow on a floor: the first use that makes it.
#[derive(Clone)]
struct Arrow {
    path: String,
    line: usize,
}

/// The arrows of one floor: from, to.
type Floor = BTreeMap<(String, String), Arrow>;

/// No circle of modules, in the crate of these checks neither.
pub fn none(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for name in crate_names(tree).into_iter().chain([OWN.to_owned()]) {
        for (floor_name, floor) in &floors_of(&name, &files_of(tree, &name)) {
            let starts = modules_in_circles(floor);
            problems.extend(starts.iter().map(|start| problem(floor_name, floor, start)));
        }
    }
    problems
}

/// One module in a circle, and the shortest way round.
fn problem(name: &str, floor: &Floor, start: &str) -> Problem {
    let way = way_round(floor, start);
    let first = &floor[&(way[0].clone(), way[1].clone())];
    let what = format!("modules of {name} in a circle: {}", way.join(" -> "));
    Problem { path: first.path.clone(), line: first.line, what }
}

fn floors_of(name: &str, files: &Files) -> BTreeMap<String, Floor> {
    let mut floors: BTreeMap<String, Floor> = BTreeMap::new();
    for (from, (file, uses)) in files {
        for used in &uses.paths {
            let Some(to) = resolve(files, from, &used.names, 0) else { continue };
            let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            let (Some(from_here), Some(to_here)) = (from.get(shared), to.get(shared)) else { continue };
            let floor = [&[name.to_owned()], &from[..shared]].concat().join("::");
            let arrow = Arrow { path: file.path.clone(), line: used.line };
            let arrows = floors.entry(floor).or_default();
            arrows.entry((from_here.clone(), to_here.clone())).or_insert(arrow);
        }
    }
    floors
}

/// The modules that can be reached from `start`, each with the one that it was reached from.
fn reached(floor: &Floor, start: &str) -> BTreeMap<String, String> {
    let mut reached = BTreeMap::new();
    let mut next = std::collections::VecDeque::from([start.to_owned()]);
    while let Some(from) = next.pop_front() {
        for (_, to) in floor.keys().filter(|(arrow_from, _)| *arrow_from == from) {
            if !reached.contains_key(to) {
                reached.insert(to.clone(), from.clone());
                next.push_back(to.clone());
            }
        }
    }
    reached
}

fn modules_in_circles(floor: &Floor) -> BTreeSet<String> {
    let modules: BTreeSet<&String> = floor.keys().map(|(from, _)| from).collect();
    modules.into_iter().filter(|module| reached(floor, module).contains_key(*module)).cloned().collect()
}

/// From a module in a circle to itself again.
fn way_round(floor: &Floor, start: &str) -> Vec<String> {
    let from = reached(floor, start);
    let mut way = vec![start.to_owned()];
    loop {
        let before = from[way.last().expect("it begins with one")].clone();
        way.push(before.clone());
        if before == start {
            way.reverse();
            return way;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let problems = none(&Tree::sample(files));
        problems.iter().map(ToString::to_string).collect()
    }

    const CIRCLE: &[(&str, &str)] = &[
        ("crates/a/src/lib.rs", "mod x;\nmod y;\nmod z;\npub use y::Y;\n"),
        ("crates/a/src/x.rs", "use crate::Y;\n"),
        ("crates/a/src/y.rs", "\nuse crate::z;\n"),
        ("crates/a/src/z.rs", "fn z() { super::x::x() }\n"),
    ];

    #[test]
    fn a_circle_is_a_problem_and_each_of_its_modules_is_named() {
        assert_eq!(
            found(CIRCLE),
            [
                "crates/a/src/x.rs:1: modules of a in a circle: x -> y -> z -> x",
                "crates/a/src/y.rs:2: modules of a in a circle: y -> z -> x -> y",
                "crates/a/src/z.rs:1: modules of a in a circle: z -> x -> y -> z",
            ]
        );
    }

    #[test]
    fn a_circle_of_the_checks_themselves_is_a_problem() {
        let files = [
            ("xtask/src/main.rs", "mod x;\nmod y;\n"),
            ("xtask/src/x.rs", "use crate::y;\n"),
            ("xtask/src/y.rs", "use crate::x::run;\n"),
        ];
        assert_eq!(found(&files)[0], "xtask/src/x.rs:1: modules of xtask in a circle: x -> y -> x");
    }

    #[test]
    fn folders_are_in_a_circle_when_their_files_are_not() {
        let files = [
            ("crates/a/src/lib.rs", "mod p;\nmod q;\n"),
            ("crates/a/src/p/mod.rs", "mod one;\nmod two;\n"),
            ("crates/a/src/p/one.rs", "use crate::q::three::T;\n"),
            ("crates/a/src/p/two.rs", ""),
            ("crates/a/src/q/mod.rs", "pub mod three;\npub mod four;\n"),
            ("crates/a/src/q/three.rs", ""),
            ("crates/a/src/q/four.rs", "use crate::p::two;\n"),
        ];
        assert_eq!(found(&files).len(), 2);
        assert!(found(&files[..4]).is_empty());
    }

    #[test]
    fn neighbours_on_an_upper_floor_are_looked_at() {
        let files = [
            ("crates/a/src/lib.rs", "mod p;\n"),
            ("crates/a/src/p.rs", "mod one;\nmod two;\n"),
            ("crates/a/src/p/one.rs", "use super::two::Two;\n"),
            ("crates/a/src/p/two.rs", "use crate::p::one;\n"),
        ];
        assert_eq!(
            found(&files)[0],
            "crates/a/src/p/one.rs:1: modules of a::p in a circle: one -> two -> one"
        );
    }

    #[test]
    fn a_house_and_tests_make_no_circle() {
        let files = [
            ("crates/a/src/lib.rs", "mod x;\nmod y;\n#[cfg(test)]\nmod tests;\n"),
            ("crates/a/src/x.rs", "mod inner;\nuse inner::I;\n#[cfg(test)]\nmod tests { use crate::y; }\n"),
            ("crates/a/src/x/inner.rs", "use super::X;\n"),
            ("crates/a/src/y.rs", "use crate::x::X;\n"),
            ("crates/a/src/tests.rs", "use crate::x;\n"),
        ];
        assert!(found(&files).is_empty());
    }
}
