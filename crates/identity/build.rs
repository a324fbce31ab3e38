//! Hashes the sources of the agents and of all crates of the workspace that they are made of.
//!
//! What must hold: the same tree gives the same hash, wherever it lies, with git or without; and any change of a file
//! that is hashed runs this again, however little is built. The command is built for itself, but from the same tree: so
//! both know the same hash exactly when they agree about all that they share.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

fn main() {
    let crates =
        Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("cargo says where this is")).join("..");
    let mut hash = Xxh3::new();
    for name in linked_into_the_agent(&crates) {
        let root = crates.join(&name);
        let mut files = vec![root.join("Cargo.toml")];
        add_sources(&root.join("src"), &mut files);
        files.sort();
        println!("cargo::rerun-if-changed={}", root.join("Cargo.toml").display());
        // A directory stands for all that is in it, also for what is new or gone.
        println!("cargo::rerun-if-changed={}", root.join("src").display());
        for file in files {
            let content = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let path = file.strip_prefix(&crates).expect("it lies there").to_string_lossy().into_owned();
            for part in [path.as_bytes(), &content] {
                hash.update(&(part.len() as u64).to_le_bytes());
                hash.update(part);
            }
        }
    }
    println!("cargo::rustc-env=USWAP_SOURCES={:032x}", hash.digest128());
}

/// The agent, and all that its manifest names, and so on.
fn linked_into_the_agent(crates: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut left = vec!["agent".to_owned()];
    while let Some(name) = left.pop() {
        if found.insert(name.clone()) {
            left.extend(dependencies(&crates.join(name).join("Cargo.toml")));
        }
    }
    found
}

/// The crates of this workspace in the section `[dependencies]`.
fn dependencies(manifest: &Path) -> Vec<String> {
    let text = fs::read_to_string(manifest).unwrap_or_else(|error| panic!("{}: {error}", manifest.display()));
    let sections = text.split("\n[");
    let section = sections.into_iter().find_map(|section| section.strip_prefix("dependencies]"));
    let names = section.unwrap_or_default().lines().filter_map(|line| line.strip_prefix("uswap-"));
    names.map(|rest| rest.chars().take_while(|&c| c.is_alphanumeric() || c == '-').collect()).collect()
}

fn add_sources(directory: &Path, files: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    for entry in entries {
        let path = entry.expect("the directory can be read").path();
        if path.is_dir() {
            add_sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}
