//! `cargo xtask semver`: does what programs build on change, and does the version say so?
//!
//! Three interfaces are public: the crate `uswap`, the C library, and the Python package. What each of them offers is
//! written down beside it, and a change of that is made on purpose or not at all: `crates/uswap/api.txt` is compared
//! here, `crates/libusw/abi.txt` here and by a test of that crate, `python/tests/api.txt` by a test of the package.
//! Once there is a tag, cargo-semver-checks compares the crate with that, too; it knows what breaks programs and what
//! does not, and which version a change asks for.

mod pages;

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::commands::{C_LIBRARY, PROFILE, c_library_paths, cargo, succeed, target_directory};
use crate::tools::needs;
use crate::tree::root;

/// The crate for programs in Rust.
const CRATE: &str = "uswap";
const CRATE_LIST: &str = "crates/uswap/api.txt";
const LIBRARY_LIST: &str = "crates/libusw/abi.txt";

const UPDATE: &str = "cargo xtask semver --update";

/// The command.
///
/// # Errors
/// Something public is another than before, or a tool is missing.
pub fn run(words: &[&str]) -> Result<()> {
    match words {
        [] => {
            lists()?;
            against_last_tag()
        }
        ["--against", commit] => against(commit),
        ["--update"] => update(),
        _ => bail!("usage: cargo xtask semver [--against COMMIT | --update]"),
    }
}

/// What takes no time: the lists of the crate and of the C library, which has been built.
///
/// # Errors
/// Something public is another than its list says.
pub fn lists() -> Result<()> {
    let written = read_list(CRATE_LIST)?;
    same(CRATE_LIST, &written, &crate_lines()?)?;
    println!("{CRATE_LIST}: the crate has these {} lines", written.len());
    let [library, _] = c_library_paths();
    ensure!(library.is_file(), "there is no {}: cargo xtask build", library.display());
    let written: Vec<String> =
        read_list(LIBRARY_LIST)?.iter().filter_map(|line| exported(line)).map(str::to_owned).collect();
    same(LIBRARY_LIST, &written, &exports(&library)?)?;
    println!("{LIBRARY_LIST}: the library exports these {} names", written.len());
    Ok(())
}

/// Writes the lists anew.
fn update() -> Result<()> {
    let head = "# The public interface of the crate, a line for each thing. `cargo xtask semver --update` writes it.\n";
    std::fs::write(root().join(CRATE_LIST), format!("{head}{}\n", crate_lines()?.join("\n")))?;
    let test = ["test", "--profile", PROFILE, "-p", C_LIBRARY, "--lib", "--", "abi_tests"];
    let mut command = cargo(&test);
    command.env("USWAP_UPDATE_ABI", "1");
    succeed(command)?;
    println!(
        "{CRATE_LIST} and {LIBRARY_LIST} are as the sources. `git diff` shows what changes for programs."
    );
    Ok(())
}

/// The public interface of the crate. It is documented in a place of its own: where all crates are, their private parts
/// are documented, too.
fn crate_lines() -> Result<Vec<String>> {
    let target = target_directory().join("semver");
    let mut command = cargo(&["rustdoc", "--quiet", "-p", CRATE, "--lib", "--profile", PROFILE]);
    command.env("CARGO_TARGET_DIR", &target);
    succeed(command)?;
    pages::lines(&target.join("doc").join(CRATE))
}

/// What a shared library exports, and its name for the loader.
fn exports(library: &Path) -> Result<Vec<String>> {
    let symbols = output_of(Command::new("nm").args(["-D", "--defined-only"]).arg(library))?;
    let names = symbols.lines().filter_map(|line| line.split_whitespace().nth(2));
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    let entries = output_of(Command::new("readelf").arg("-d").arg(library))?;
    let name =
        entries.lines().find(|line| line.contains("(SONAME)")).and_then(|line| line.split(['[', ']']).nth(1));
    names.insert(0, name.context("the library has no name for the loader")?.to_owned());
    Ok(names)
}

/// The name that a line of the list of the C library says: of the library, or of a function.
fn exported(line: &str) -> Option<&str> {
    if let Some(library) = line.strip_prefix("library ") {
        return Some(library);
    }
    let (head, _) = line.strip_prefix("function ")?.split_once('(')?;
    head.rsplit([' ', '*']).next()
}

fn output_of(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("starting {program}, of binutils"))?;
    ensure!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The lines of a list, without its comments.
fn read_list(path: &str) -> Result<Vec<String>> {
    let text =
        std::fs::read_to_string(root().join(path)).with_context(|| format!("{path}: {UPDATE} writes it"))?;
    Ok(text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect())
}

/// Compares a list with what is there.
fn same(path: &str, written: &[String], there: &[String]) -> Result<()> {
    let differences = differences(written, there);
    ensure!(
        differences.is_empty(),
        "what programs build on is another than {path} says:\n{}\n\
         A line with - is gone or has changed, and programs that use it break: then the version grows.\n\
         A line with + is new. If all of that is meant, write the list anew by `{UPDATE}`, and say in CHANGELOG.md\n\
         what changes for programs.",
        differences.join("\n")
    );
    Ok(())
}

/// `- LINE` for what is missing, `+ LINE` for what is new.
fn differences(written: &[String], there: &[String]) -> Vec<String> {
    let only = |mark, lines: &[String], others: &[String]| {
        let mut others = others.to_vec();
        let mut found = Vec::new();
        for line in lines {
            match others.iter().position(|other| other == line) {
                Some(at) => drop(others.swap_remove(at)),
                None => found.push(format!("  {mark} {line}")),
            }
        }
        found
    };
    [only('-', written, there), only('+', there, written)].concat()
}

/// Compares the crate with the last version.
fn against_last_tag() -> Result<()> {
    if let Some(tag) = last_tag() {
        return against(&tag);
    }
    println!("There is no tag yet: {CRATE_LIST} is all that the crate is compared with.");
    Ok(())
}

/// Compares the crate with what it was in a commit.
fn against(commit: &str) -> Result<()> {
    let remedy = "cargo install --locked cargo-semver-checks";
    needs(cargo(&["semver-checks", "--version"]), "cargo-semver-checks", remedy)?;
    println!("{CRATE}, against {commit}:");
    succeed(cargo(&["semver-checks", "check-release", "-p", CRATE, "--baseline-rev", commit]))
}

/// The newest tag of a version that leads to what is checked out, if this is a clone and has one.
fn last_tag() -> Option<String> {
    let mut command = Command::new("git");
    command.args(["describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"]).current_dir(root());
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned()).filter(|tag| !tag.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn what_went_and_what_came_is_said_with_what_to_do() {
        let (before, now) = (list(&["a", "b", "b", "c"]), list(&["c", "b", "d", "a"]));
        assert_eq!(differences(&before, &now), ["  - b", "  + d"]);
        let error = same("list.txt", &before, &now).expect_err("they are different").to_string();
        assert!(error.contains("list.txt") && error.contains(UPDATE), "{error}");
        assert!(same("list.txt", &before, &before).is_ok());
    }

    #[test]
    fn names_are_found_in_lines_of_the_list() {
        assert_eq!(exported("library libusw.so.0"), Some("libusw.so.0"));
        assert_eq!(exported("function void *usw_malloc(usw_pool *pool, size_t bytes)"), Some("usw_malloc"));
        assert_eq!(exported("function int usw_release(void)"), Some("usw_release"));
        assert_eq!(exported("constant USW_COLD 1"), None);
    }

    #[test]
    fn the_list_of_the_c_library_names_what_is_exported() {
        let lines = read_list(LIBRARY_LIST).expect("it is there");
        assert!(lines.iter().filter_map(|line| exported(line)).count() > 15, "{lines:?}");
    }
}
