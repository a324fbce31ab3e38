//! `make -j2` of SQLite and zstd in 150M builds the same objects.
//!
//! The sources are those inside the crates `libsqlite3-sys` and `zstd-sys`, fetched with cargo.

use std::path::{Path, PathBuf};
use std::process::Command;
use uswap_tests::pair::figures;
use uswap_tests::{Outcome, Run, Scratch, full_size, needs, skip, turn};

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
fn makefile(scratch: &Scratch, sqlite: &Path, zstd: &Path) -> PathBuf {
    let variants: &[&str] = if full_size() { &["-O2", "-O1 -DSQLITE_ENABLE_FTS5"] } else { &["-O1"] };
    // The large file is what needs memory; the small ones are there for their number.
    let small_flags = if full_size() { "-O2" } else { "-O0" };
    let mut rules = String::new();
    let mut objects = Vec::new();
    for (number, flags) in variants.iter().enumerate() {
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
    assert!(objects.len() > variants.len() + 20, "the sources of zstd are not where they were: {objects:?}");
    let path = scratch.file("Makefile");
    let all = format!("all: {}\n\n{rules}", objects.join(" "));
    std::fs::write(&path, all).expect("the scratch directory is writable");
    path
}

fn build(scratch: &Scratch, makefile: &Path, name: &str, ram_mib: Option<u64>) -> (Outcome, PathBuf) {
    let directory = scratch.file(name);
    std::fs::create_dir_all(&directory).expect("the scratch directory is writable");
    let mut run = Run::plain("make").args(["-j2", "-s", "-f"]).arg(makefile).directory(&directory);
    if let Some(ram_mib) = ram_mib {
        run = run.uswap(ram_mib, &[]);
    }
    let outcome = run.finish();
    outcome.must_succeed();
    (outcome, directory)
}

#[test]
fn budget_make_builds_the_same_objects() {
    let _turn = turn();
    if !needs(&["make", "gcc"]) {
        return;
    }
    let scratch = Scratch::new();
    let Some((sqlite, zstd)) = sources(&scratch) else {
        skip("the C sources cannot be fetched with cargo");
        return;
    };
    let makefile = makefile(&scratch, &sqlite, &zstd);
    // Compilers do not get smaller in the short form, so the budget does not either.
    let ram_mib = 150;
    let (plain, plain_objects) = build(&scratch, &makefile, "plain", None);
    let (swapped, swapped_objects) = build(&scratch, &makefile, "swapped", Some(ram_mib));
    figures("budget_make", ram_mib, &plain, &swapped);
    let mut compared = 0;
    for entry in std::fs::read_dir(&plain_objects).expect("it was made").flatten() {
        let (left, right) =
            (std::fs::read(entry.path()), std::fs::read(swapped_objects.join(entry.file_name())));
        assert!(left.is_ok(), "{:?} cannot be read", entry.path());
        assert!(left.ok() == right.ok(), "{:?} differs", entry.file_name());
        compared += 1;
    }
    assert!(compared > 20, "only {compared} objects");
    assert!(plain.samples.peak_bytes >> 20 > 150, "the build is too small: {:?}", plain.samples);
    swapped.must_hold_budget(ram_mib);
}
