//! The commands that need a tool which not everybody has: Miri, AddressSanitizer, cargo-mutants, cargo-llvm-cov.
//!
//! Must hold: who does not have the tool is told the line that installs it, and the command fails. None of them is part
//! of `cargo xtask test`; the nightly workflow runs them all.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use crate::commands::{PROFILE, cargo, succeed, target_directory};
use crate::tree::root;

/// The only target: with its name given, flags are for the tests and not for build scripts.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// `cargo WORDS` of the nightly toolchain, with its own place to build.
fn nightly_cargo(words: &[&str], place: &str) -> Command {
    let mut command = Command::new("rustup");
    command.current_dir(root()).args(["run", "nightly", "cargo"]).args(words);
    // They name the toolchain that runs us.
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    command.env("CARGO_TARGET_DIR", target_directory().join(place));
    command
}

/// Fails with `remedy` if `command` does not run.
pub fn needs(mut command: Command, what: &str, remedy: &str) -> Result<()> {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_there = status.is_ok_and(|status| status.success());
    ensure!(is_there, "{what} is not installed: {remedy}");
    Ok(())
}

/// Unit tests of the structures of the segment, and of those steps of a codec that are short, under Miri. What tries
/// many random pages or lists takes hours there and is left out; so is what races threads for a while.
///
/// # Errors
/// Miri is missing, or has found something.
pub fn miri() -> Result<()> {
    let remedy = "rustup toolchain install nightly --component miri --component rust-src";
    needs(nightly_cargo(&["miri", "--version"], "miri"), "Miri", remedy)?;
    for words in [
        &["-p", "uswap-units", "-p", "uswap-core", "--lib", "--", "--skip", "model_tests"][..],
        &["-p", "uswap-codec", "--lib", "--", "hash::", "same::", "lz4::"],
    ] {
        let mut command = nightly_cargo(&[&["miri", "test"], words].concat(), "miri");
        // Few cases for each property test, and none written to a file.
        command.env("PROPTEST_CASES", "4").env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true");
        command.env("MIRIFLAGS", "-Zmiri-disable-isolation");
        succeed(command)?;
    }
    Ok(())
}

/// Unit tests of the crates with unsafe code under AddressSanitizer.
///
/// # Errors
/// There is no nightly compiler, or the sanitizer has found something.
pub fn sanitize() -> Result<()> {
    let remedy = "rustup toolchain install nightly --profile minimal";
    needs(nightly_cargo(&["--version"], "asan"), "a nightly compiler", remedy)?;
    let packages =
        ["-p", "uswap-vector", "-p", "uswap-codec", "-p", "uswap-os", "-p", "uswap-interpose", "-p"];
    let words = ["test", "--profile", PROFILE, "--target", TARGET, "--lib"];
    let mut command = nightly_cargo(&[&words[..], &packages, &["uswap-host"]].concat(), "asan");
    command.env("RUSTFLAGS", "-Zsanitizer=address");
    // The tests install handlers of their own for the signals that faults raise.
    command.env("ASAN_OPTIONS", "allow_user_segv_handler=1:handle_segv=0:handle_sigbus=0:use_sigaltstack=0");
    succeed(command)
}

/// Files whose mutants must die: a mistake there loses a page.
const MUTATED: [&str; 3] = [
    "crates/core/src/page_word.rs",
    "crates/core/src/page_word/present.rs",
    "crates/interpose/src/buffers/hazards.rs",
];

/// Changes the code in one place after the other; a change that no test notices is listed.
///
/// # Errors
/// cargo-mutants is missing, or a mutant lives. Those that may are named in docs/experiments/mutants.md.
pub fn mutants(files: &[&str]) -> Result<()> {
    needs(cargo(&["mutants", "--version"]), "cargo-mutants", "cargo install --locked cargo-mutants")?;
    let files = if files.is_empty() { &MUTATED[..] } else { files };
    let mut command = cargo(&["mutants", "--no-shuffle", "--profile", PROFILE, "--cargo-test-arg=--lib"]);
    command.args(files.iter().flat_map(|file| ["--file", file])).arg("--output").arg(target_directory());
    succeed(command)
}

/// Which lines the unit tests reach: a table on the terminal, and pages to look at.
///
/// # Errors
/// cargo-llvm-cov is missing, or a test fails.
pub fn coverage() -> Result<()> {
    let remedy = "cargo install --locked cargo-llvm-cov, and rustup component add llvm-tools";
    needs(cargo(&["llvm-cov", "--version"]), "cargo-llvm-cov", remedy)?;
    let packages = [
        "units",
        "sync",
        "core",
        "codec",
        "vector",
        "engine",
        "os",
        "interpose",
        "host",
        "sim",
        "supervisor",
        "cli",
    ];
    let packages = packages.map(|name| format!("uswap-{name}"));
    let mut command = cargo(&["llvm-cov", "--lib", "--html", "--profile", PROFILE]);
    command.args(packages.iter().flat_map(|package| [OsStr::new("-p"), OsStr::new(package)]));
    succeed(command)?;
    succeed(cargo(&["llvm-cov", "report", "--profile", PROFILE, "--summary-only"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_is_missing_is_named_with_what_installs_it() {
        let error =
            needs(Command::new("uswap-no-such-tool"), "That tool", "do this").expect_err("there is none");
        assert_eq!(error.to_string(), "That tool is not installed: do this");
        assert!(needs(Command::new("false"), "It", "do this").is_err());
        assert!(needs(Command::new("true"), "It", "do this").is_ok());
    }

    #[test]
    fn what_is_mutated_is_there() {
        for file in MUTATED {
            assert!(root().join(file).is_file(), "{file}");
        }
    }
}
