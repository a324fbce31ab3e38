//! The modules of a crate, and which of them a path leads to.
//!
//! Must hold: what is only built for tests is no module here. Modules that are written inside of a file count as the
//! file. A path is followed through `pub use` as far as names allow.

mod callers;
mod circles;
mod maps;
mod sentence;
mod uses;

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::{File, Tree};
use uses::{UsedPath, Uses};

pub use callers::named;
pub use circles::none as no_circles;
pub use maps::complete as mapped;

/// Names from the root of the crate on; none for the root itself.
type Module = Vec<String>;

/// The modules of a crate, each with its file.
type Files<'a> = BTreeMap<Module, (&'a File, Uses)>;

/// The crate of these checks, which lies beside the others.
const OWN: &str = "xtask";

fn crate_names(tree: &Tree) -> BTreeSet<String> {
    let names = tree.files.iter().filter_map(|file| file.path.strip_prefix("crates/")?.split_once("/src/"));
    names.map(|(name, _)| name.to_owned()).collect()
}

/// The modules of a library, or of a program where there is no library, but for tests.
fn files_of<'a>(tree: &'a Tree, name: &str) -> Files<'a> {
    let source = if name == OWN { format!("{OWN}/src/") } else { format!("crates/{name}/src/") };
    let root =
        if tree.files.iter().any(|file| file.path == format!("{source}lib.rs")) { "lib" } else { "main" };
    let mut files = BTreeMap::new();
    for file in tree.rust_files() {
        let Some(path) = file.path.strip_prefix(&source).and_then(|path| path.strip_suffix(".rs")) else {
            continue;
        };
        let mut module: Module = path.split('/').map(str::to_owned).collect();
        match module.last().map(String::as_str) {
            Some(last) if last == root && module.len() == 1 => module.clear(),
            Some("lib" | "main") if module.len() == 1 => continue,
            Some("mod") => drop(module.pop()),
            _ => {}
        }
        if module.first().is_none_or(|first| first != "bin") {
            files.insert(module, (file, uses::of(&file.text)));
        }
    }
    let tests: Vec<Module> = files
        .iter()
        .flat_map(|(module, (_, uses))| {
            uses.test_modules.iter().map(|test| [&module[..], std::slice::from_ref(test)].concat())
        })
        .collect();
    files.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
    files
}

/// Passing on and on ends somewhere.
const REEXPORTS_MAX: usize = 8;

/// The module in which a path that `from` uses is defined; None: in another crate.
fn resolve(files: &Files, from: &Module, names: &[String], depth: usize) -> Option<Module> {
    let mut at = from.clone();
    let mut names = names;
    match names.first()?.as_str() {
        "crate" => {
            at.clear();
            names = &names[1..];
        }
        "self" => names = &names[1..],
        "super" => {
            while names.first().is_some_and(|name| name == "super") {
                at.pop()?;
                names = &names[1..];
            }
        }
        // A module that was imported by its name has its arrow from there.
        first if !files.contains_key(&[&at[..], &[first.to_owned()]].concat()) => return None,
        _ => {}
    }
    for (index, name) in names.iter().enumerate() {
        let child = [&at[..], std::slice::from_ref(name)].concat();
        if files.contains_key(&child) {
            at = child;
            continue;
        }
        let (_, uses) = files.get(&at)?;
        let passed_on = uses.reexports.iter().find(|(given, _)| given == name);
        return match passed_on {
            Some((_, UsedPath { names: whole, .. })) if depth < REEXPORTS_MAX => {
                let whole = [&whole[..], &names[index + 1..]].concat();
                resolve(files, &at, &whole, depth + 1)
            }
            _ => Some(at),
        };
    }
    Some(at)
}
