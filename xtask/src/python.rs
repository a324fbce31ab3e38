//! The Python package: its wheel is built from what `cargo xtask build` has built, installed into an environment of its
//! own, and tested there, as the calling user and as `nobody`.
//!
//! maturin and pytest come from the package index of Python. Where it cannot be reached there is nothing to test.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::{commands, rights};

/// What is needed to build the package, and for its tests.
const TOOLS: [&str; 9] = [
    "maturin",
    "pytest",
    "ipython",
    "ipykernel",
    "numpy",
    // For the notebook of the examples, and arrays that others take.
    "pandas",
    "matplotlib",
    "nbconvert",
    "pyarrow",
];
/// Debian's, which everybody may execute.
const PYTHON: &str = "/usr/bin/python3";

/// Tests that ran, and those that did not.
#[derive(Default)]
pub struct Ran {
    /// They passed.
    pub tests: u64,
    /// Lines `SKIP: why`.
    pub skips: u64,
}

/// Builds, installs and tests the package.
///
/// # Errors
/// It does not build, or a test fails.
pub fn run() -> Result<Ran> {
    let root = commands::target_directory();
    let (environment, wheels) = (root.join("python"), root.join("python-wheels"));
    if let Err(error) = prepare(&environment) {
        println!("SKIP: the Python package is not tested, since its tools cannot be had: {error:#}");
        return Ok(Ran { tests: 0, skips: 1 });
    }
    let _from_before = std::fs::remove_dir_all(&wheels);
    let program = |name: &str| environment.join("bin").join(name);
    let mut build = Command::new(program("python"));
    build.arg("python/build.py").arg("--maturin").arg(program("maturin")).arg("--out").arg(&wheels);
    succeed(&mut build)?;
    let wheel = std::fs::read_dir(&wheels)?.next().context("no wheel was built")??.path();
    let mut install = Command::new(program("python"));
    install.args(["-m", "pip", "install", "-q", "--force-reinstall", "--no-deps"]).arg(wheel);
    succeed(&mut install)?;
    let mut ran = Ran::default();
    for user in users() {
        let name = format!("uswap-python-{}-{}", user.name(), std::process::id());
        let scratch = std::env::temp_dir().join(name);
        // An earlier process of this number may have left it behind.
        let _was_not_there = std::fs::remove_dir_all(&scratch);
        std::fs::create_dir(&scratch).with_context(|| format!("{}", scratch.display()))?;
        let mut tests = user.command(&program("pytest"));
        tests.args(["-q", "-p", "no:cacheprovider"]).arg(std::path::absolute("python/tests")?);
        tests.current_dir(&scratch).env("HOME", &scratch).env("TMPDIR", &scratch);
        tests.env("PYTHONDONTWRITEBYTECODE", "1");
        user.owns(&scratch)?;
        let seen = listen(&mut tests);
        let _nobody_needs_it = std::fs::remove_dir_all(&scratch);
        let (tests, skips) = seen?;
        ran.tests += tests;
        ran.skips += skips;
    }
    ensure!(ran.tests > 0, "not one test of the Python package ran");
    Ok(ran)
}

/// An environment with the tools. What is there already is not fetched again.
fn prepare(environment: &Path) -> Result<()> {
    if !environment.join("bin/python").exists() {
        succeed(Command::new(PYTHON).args(["-m", "venv"]).arg(environment))?;
    }
    let mut install = Command::new(environment.join("bin/python"));
    succeed(install.args(["-m", "pip", "install", "-q", "--disable-pip-version-check"]).args(TOOLS))
}

fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

/// Whose rights the tests have.
#[derive(Clone, Copy)]
enum User {
    Own,
    Nobody,
}

fn users() -> Vec<User> {
    if rights::has_root() { vec![User::Own, User::Nobody] } else { vec![User::Own] }
}

impl User {
    fn name(self) -> &'static str {
        match self {
            User::Own => "own",
            User::Nobody => "nobody",
        }
    }

    fn command(self, program: &PathBuf) -> Command {
        match self {
            User::Own => Command::new(program),
            User::Nobody => {
                let mut command = Command::new(rights::AS_NOBODY[0]);
                command.args(&rights::AS_NOBODY[1..]).arg(program);
                command
            }
        }
    }

    fn owns(self, directory: &Path) -> Result<()> {
        if matches!(self, User::Nobody) {
            std::os::unix::fs::chown(directory, Some(rights::NOBODY), Some(rights::NOBODY))?;
        }
        Ok(())
    }
}

/// Runs pytest; how many tests passed and were skipped, by its last line: `78 passed, 1 skipped in 60.10s`.
fn listen(command: &mut Command) -> Result<(u64, u64)> {
    let output = command.stderr(Stdio::inherit()).output().with_context(|| format!("{command:?}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    ensure!(output.status.success(), "{command:?}: {}", output.status);
    let last = said.lines().last().unwrap_or_default();
    Ok((count(last, "passed"), count(last, "skipped")))
}

/// The number in front of a word.
fn count(line: &str, what: &str) -> u64 {
    let words: Vec<&str> = line.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let pair = words.windows(2).find(|pair| pair[1] == what);
    pair.and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_pytest_is_read() {
        let line = "78 passed, 2 skipped in 60.10s (0:01:00)";
        assert_eq!((count(line, "passed"), count(line, "skipped"), count(line, "failed")), (78, 2, 0));
    }
}
