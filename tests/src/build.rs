//! `make -j2` of SQLite and zstd, a build that needs memory. The sources are those inside the crates `libsqlite3-sys`
//! and `zstd-sys`, fetched with cargo. Called by the budget tests and the tests of steering.

use crate::places::{Scratch, full_size, skip};
use crate::run::Run;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A Makefile and the sources that it names.
#[derive(Debug)]
pub struct Build {
    makefile: PathBuf,
    scratch: Scratch,
}

impl Build {
    /// Fetches the sources. SQLite is one large file, which is compiled once with each of these flags. None: the
    /// sources cannot be had; that was said.
    pub fn new(large_flags: &[&str]) -> Option<Self> {
        let scratch = Scratch::new();
        let Some((sqlite, zstd)) = sources(&scratch) else {
            skip("the C sources cannot be fetched with cargo");
            return None;
        };
        let makefile = makefile(&scratch, &sqlite, &zstd, large_flags);
        Some(Self { makefile, scratch })
    }

    /// The command that builds all into a directory of this name, whether it is there already or not.
    pub fn make(&self, name: &str) -> Run {
        let directory = self.directory(name);
        std::fs::create_dir_all(&directory).expect("the scratch directory is writable");
        Run::plain("make").args(["-j2", "-s", "-B", "-f"]).arg(&self.makefile).directory(&directory)
    }

    fn directory(&self, name: &str) -> PathBuf {
        self.scratch.file(name)
    }

    /// Panics unless both directories have the same objects.
    #[track_caller]
    pub fn must_be_the_same(&self, left: &str, right: &str) {
        let right = self.directory(right);
        let mut compared = 0;
        for entry in std::fs::read_dir(self.directory(left)).expect("it was made").flatten() {
            let (left, right) = (std::fs::read(entry.path()), std::fs::read(right.join(entry.file_name())));
            assert!(left.is_ok(), "{:?} cannot be read", entry.path());
            assert!(left.ok() == right.ok(), "{:?} differs", entry.file_name());
            compared += 1;
        }
        assert!(compared > 20, "only {compared} objects");
    }
}

/// Directories of the sources of SQLite and zstd.
fn sources(scratch: &Scratch) -> Option<(PathBuf, PathBuf)> {
    let project = scratch.file("sources");
    std::fs::create_dir_all(project.join("src")).expect("the scratch directory is writable");
    let manifest = "[package]\nname = \"sources\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[workspace]\n\
                    [dependencies]\nlibsqlite3-sys = \"0.35\"\nzstd-sys = \"2\"\n";
    std::fs::write(project.join("Cargo.toml"), manifest).expect("the scratch directory is writable");
    std::fs::write(project.join("src/lib.rs"), "").expect("the scratch directory is writable");
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--format-version", "1"])
        .current_dir(&project)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    let place = |name: &str| {
        let package = metadata["packages"].as_array()?.iter().find(|package| package["name"] == name)?;
        Some(Path::new(package["manifest_path"].as_str()?).parent()?.to_path_buf())
    };
    Some((place("libsqlite3-sys")?.join("sqlite3"), place("zstd-sys")?.join("zstd/lib")))
}

/// Writes a Makefile whose rules read the sources where they are and write into the working directory.
fn makefile(scratch: &Scratch, sqlite: &Path, zstd: &Path, large_flags: &[&str]) -> PathBuf {
    // The large file is what needs memory; the small ones are there for their number.
    let small_flags = if full_size() { "-O2" } else { "-O0" };
    let mut rules = String::new();
    let mut objects = Vec::new();
    for (number, flags) in large_flags.iter().enumerate() {
        let object = format!("sqlite{number}.o");
        rules.push_str(&format!(
            "{object}:\n\tgcc {flags} -w -c {}/sqlite3.c -o {object}\n",
            sqlite.display()
        ));
        objects.push(object);
    }
    for part in ["common", "compress", "decompress"] {
        let Ok(files) = std::fs::read_dir(zstd.join(part)) else { continue };
        for file in files
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|e| e == "c"))
        {
            let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let object = format!("{part}-{stem}.o");
            rules.push_str(&format!(
                "{object}:\n\tgcc {small_flags} -w -DZSTD_DISABLE_ASM -I{} -c {} -o {object}\n",
                zstd.display(),
                file.display()
            ));
            objects.push(object);
        }
    }
    assert!(
        objects.len() > large_flags.len() + 20,
        "the sources of zstd are not where they were: {objects:?}"
    );
    let path = scratch.file("Makefile");
    let all = format!("all: {}\n\n{rules}", objects.join(" "));
    std::fs::write(&path, all).expect("the scratch directory is writable");
    path
}
