//! The commands that are one or two calls of cargo.
//!
//! Must hold: the agent is always built by itself and never as a test target. It is a `no_std` library with a panic
//! handler of its own; and cargo joins the features that packages ask of a dependency, so a build together with other
//! packages would link the standard library into it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::tree::root;

/// The package of the agent.
pub const AGENT: &str = "uswap-agent";
/// The package of the C library.
pub const C_LIBRARY: &str = "uswap-c";
/// The package of the integration tests.
pub const INTEGRATION: &str = "uswap-tests";
/// The package of the programs that the integration tests run.
pub const PROGRAMS: &str = "uswap-test-programs";
/// The package of the experiments in simulated time.
pub const EXPERIMENTS: &str = "uswap-experiments";
/// Its feature with which the atomics note each access.
pub const VIRTUAL_TIME: &str = "virtual_time";
/// How tests are built. What they run under a budget are release builds.
pub const PROFILE: &str = "unit";

/// `cargo ARGUMENTS` in the root of the repository.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(arguments);
    // Cargo sets these for us, about the package xtask. They are not meant for the cargo that we start.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs `command` with our own terminal.
///
/// # Errors
/// It cannot be started, or fails.
pub fn succeed(mut command: Command) -> Result<()> {
    let status = command.status().with_context(|| format!("starting {command:?}"))?;
    ensure!(status.success(), "{status} of {command:?}");
    Ok(())
}

/// Where cargo puts what it builds.
pub fn target_directory() -> PathBuf {
    let chosen = std::env::var_os("CARGO_TARGET_DIR").or_else(|| std::env::var_os("CARGO_BUILD_TARGET_DIR"));
    root().join(chosen.map_or_else(|| "target".into(), PathBuf::from))
}

/// The `uswap` command of the release build.
pub fn uswap_path() -> PathBuf {
    target_directory().join("release/uswap")
}

/// The agent of the release build.
pub fn agent_path() -> PathBuf {
    target_directory().join("release/libuswap_agent.so")
}

/// The C library of the release build, shared and static.
pub fn c_library_paths() -> [PathBuf; 2] {
    ["libusw.so", "libusw.a"].map(|name| target_directory().join("release").join(name))
}

/// Is everything formatted?
pub fn fmt() -> Result<()> {
    succeed(cargo(&["fmt", "--all", "--", "--check"]))
}

/// Lints of all targets; a warning is an error. With the profile of the tests, which then need not build again what
/// runs while building; but the agent cannot unwind.
pub fn clippy() -> Result<()> {
    let all = ["--workspace", "--exclude", AGENT, "--all-targets"];
    let warnings = ["--", "-D", "warnings"];
    succeed(cargo(&[&["clippy", "--profile", PROFILE], &all[..], &warnings].concat()))?;
    succeed(cargo(&[&["clippy", "-p", AGENT, "--lib"], &warnings[..]].concat()))
}

/// Documentation of all crates, with what is private: comments link to that too. A warning is an error.
pub fn doc() -> Result<()> {
    let words = ["doc", "--profile", PROFILE, "--workspace", "--no-deps", "--document-private-items"];
    let mut command = cargo(&words);
    let flags = std::env::var("RUSTDOCFLAGS").unwrap_or_default();
    // A link to something private is right where private things are documented.
    let allowed = "-A rustdoc::private_intra_doc_links";
    command.env("RUSTDOCFLAGS", format!("{flags} -D warnings {allowed}"));
    succeed(command)
}

/// Release build of the agent, of the command, and of the C library.
pub fn build() -> Result<()> {
    succeed(cargo(&["build", "--release", "-p", AGENT]))?;
    succeed(cargo_of_commit(&["build", "--release", "-p", "uswap-cli"]))?;
    succeed(cargo(&["build", "--release", "-p", C_LIBRARY]))?;
    for path in [agent_path(), uswap_path()].into_iter().chain(c_library_paths()) {
        ensure!(path.is_file(), "the build made no {}", path.display());
    }
    Ok(())
}

/// `cargo ARGUMENTS` for what has the command in it: results of `uswap bench` name the commit. Whoever builds it goes
/// through here, or it would be built anew each time.
pub fn cargo_of_commit(arguments: &[&str]) -> Command {
    let mut command = cargo(arguments);
    if let Some(commit) = commit() {
        command.env("USWAP_COMMIT", commit);
    }
    command
}

/// The commit that is checked out, if this is a clone and git is there.
fn commit() -> Option<String> {
    let output =
        Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).current_dir(root()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}

/// Does the simulator find the bugs that can be switched on in the engine? A build of its own, and some minutes.
pub fn plants() -> Result<()> {
    let test = ["test", "--profile", PROFILE, "-p", "uswap-sim", "--features", "plant", "--test", "plants"];
    succeed(cargo(&[&test[..], &["--", "--nocapture"]].concat()))
}

/// Builds, then runs `uswap demo`.
pub fn demo(arguments: &[&str]) -> Result<()> {
    build()?;
    let mut command = Command::new(uswap_path());
    command.arg("demo").args(arguments);
    succeed(command)
}

/// Measures the space of the swap file twice: in simulated time, then with threads of this machine.
pub fn swap_space(arguments: &[&str]) -> Result<()> {
    let (build, run) =
        (["run", "--quiet", "--release", "-p", EXPERIMENTS], ["--example", "swap_space", "--"]);
    for features in [&["--features", VIRTUAL_TIME][..], &[]] {
        let mut command = cargo(&[&build[..], features, &run, arguments].concat());
        if !arguments.contains(&"--out") {
            command.arg("--out").arg(target_directory().join("swap-space"));
        }
        succeed(command)?;
    }
    Ok(())
}

/// Runs stress-highalloc in simulated time.
pub fn highalloc(arguments: &[&str]) -> Result<()> {
    let words = ["run", "--quiet", "--release", "-p", EXPERIMENTS, "--example", "highalloc", "--"];
    let mut command = cargo(&words);
    command.args(arguments);
    if !arguments.contains(&"--out") {
        command.arg("--out").arg(target_directory().join("highalloc"));
    }
    succeed(command)
}

/// Compares rules for what goes to the disk.
pub fn second_chance(arguments: &[&str]) -> Result<()> {
    let words = ["run", "--quiet", "--release", "-p", EXPERIMENTS, "--example", "second_chance", "--"];
    let mut command = cargo(&words);
    command.args(arguments);
    if !arguments.contains(&"--out") {
        command.arg("--out").arg(target_directory().join("second-chance"));
    }
    succeed(command)
}

/// `cargo WORDS` as a build of its own, with `--cfg name`.
pub fn with_other_atomics(name: &str, words: &[&str]) -> Command {
    let mut command = cargo(words);
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    command.env("RUSTFLAGS", format!("{flags} --cfg {name}"));
    command.env("CARGO_TARGET_DIR", target_directory().join(name));
    command
}
