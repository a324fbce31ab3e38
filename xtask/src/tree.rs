//! The files of the repository, in memory: what the checks look at.
//!
//! Must hold: paths are relative to the root, with `/`, in order. The checks get a `Tree` and never read the disk
//! themselves, so that their tests can hand them a broken sample.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// One file.
pub struct File {
    /// From the root of the repository, as `crates/codec/src/lib.rs`.
    pub path: String,
    /// Bytes that are not UTF-8 are replaced by U+FFFD.
    pub text: String,
}

impl File {
    /// Is it Rust source?
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The lines, numbered from 1.
    pub fn numbered_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// The files of the repository.
pub struct Tree {
    /// In order of their paths.
    pub files: Vec<File>,
}

impl Tree {
    /// Reads the repository. Leaves out what is built or hidden, except for the [`VISIBLE`] directories.
    ///
    /// # Errors
    /// A directory or a file cannot be read.
    pub fn of_repository() -> Result<Tree> {
        let mut files = Vec::new();
        read_directory(&root(), "", &mut files)?;
        files.sort_by(|a: &File, b: &File| a.path.cmp(&b.path));
        Ok(Tree { files })
    }

    /// A tree made by hand, for the tests of the checks.
    #[cfg(test)]
    pub fn sample(files: &[(&str, &str)]) -> Tree {
        let files = files.iter().map(|(path, text)| File { path: (*path).into(), text: (*text).into() });
        Tree { files: files.collect() }
    }

    /// The Rust sources.
    pub fn rust_files(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.is_rust())
    }
}

/// The root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask is a directory of the repository").to_path_buf()
}

/// Directories that are ours although their names begin with a dot.
const VISIBLE: &[&str] = &[".cargo", ".ci", ".devcontainer", ".github"];

/// Files that nobody writes by hand. In a second worktree `.git` is a file that names the first.
fn is_foreign_file(name: &str) -> bool {
    name.ends_with(".pyc") || name == "Cargo.lock" || name == ".git"
}

fn read_directory(directory: &Path, prefix: &str, files: &mut Vec<File>) -> Result<()> {
    let entries = fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() {
            let is_hidden = name.starts_with('.') && !VISIBLE.contains(&name.as_str());
            // What the fuzzers found on this machine.
            let is_found = matches!(path.as_str(), "fuzz/artifacts" | "fuzz/coverage");
            if !is_hidden && !is_found && !matches!(&*name, "target" | "__pycache__" | "dist") {
                read_directory(&entry.path(), &format!("{path}/"), files)?;
            }
        } else if kind.is_file() && !is_foreign_file(&name) {
            let bytes = fs::read(entry.path()).with_context(|| format!("reading {path}"))?;
            files.push(File { path, text: String::from_utf8_lossy(&bytes).into_owned() });
        }
    }
    Ok(())
}
