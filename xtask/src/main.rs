//! `cargo xtask`: each thing one does with this repository is one command.
//!
//! Called by people and by `.ci/run`. The commands are listed in [`COMMANDS`]; what they do is in `commands`, `tools`
//! and modules of their own, the whole test suite in `suite`, the rules of the house in `check`. Nothing here is part
//! of the product.
#![forbid(unsafe_code)]

mod check;
mod churn;
mod code;
mod commands;
mod figures;
mod install;
mod interpose_check;
mod kernel;
mod package;
mod python;
mod rights;
mod semver;
mod steps;
mod suite;
mod tools;
mod tree;

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};

/// A command, as `cargo xtask help` shows it.
struct Command {
    name: &'static str,
    /// What may follow the name.
    arguments: &'static str,
    /// One line for people.
    what: &'static str,
    run: Run,
}

enum Run {
    Alone(fn() -> Result<()>),
    With(fn(&[&str]) -> Result<()>),
}

impl Command {
    const fn alone(name: &'static str, what: &'static str, run: fn() -> Result<()>) -> Command {
        Command { name, arguments: "", what, run: Run::Alone(run) }
    }

    const fn with(
        name: &'static str,
        arguments: &'static str,
        what: &'static str,
        run: fn(&[&str]) -> Result<()>,
    ) -> Command {
        Command { name, arguments, what, run: Run::With(run) }
    }

    fn usage(&self) -> String {
        format!("usage: cargo xtask {} {}", self.name, self.arguments).trim_end().to_owned()
    }
}

/// All commands, those that one needs most first.
const COMMANDS: &[Command] = &[
    Command::alone(
        "python",
        "build the wheel of the Python package, and test it in an environment of its own",
        || python::run().map(|ran| println!("{} tests, {} skipped", ran.tests, ran.skips)),
    ),
    Command::alone(
        "build",
        "release build of the agent, of the uswap command, and of the C library",
        commands::build,
    ),
    Command::alone(
        "test",
        "everything that must pass: all of what follows up to `fuzz`, and more",
        suite::run,
    ),
    Command::alone(
        "check",
        "the rules of the house: crates, modules, unsafe code, text, links, promises",
        check::run,
    ),
    Command::alone("fmt", "is everything formatted?", commands::fmt),
    Command::alone("clippy", "lints; a warning is an error", commands::clippy),
    Command::alone("doc", "documentation of all crates; a warning is an error", commands::doc),
    Command::with(
        "semver",
        "[--against COMMIT | --update]",
        "what programs build on: as it is written down, and as the last tag had it? Build first",
        semver::run,
    ),
    Command::with(
        "fuzz",
        "[--seconds N | --seed S]",
        "random input against models and promises, 5 s or N for each target; or what seed S makes",
        fuzz,
    ),
    Command::with(
        "churn",
        "[--minutes N] [--seed N]",
        "programs that map, fork and are killed under a budget, without rights; 10 minutes or N",
        churn::run,
    ),
    Command::with("demo", "[ARGUMENTS of uswap demo]", "build, then `uswap demo`", commands::demo),
    Command::with("install", "--prefix DIR", "build, then copy to DIR/bin, lib, include and share", install),
    Command::with(
        "package",
        "--out DIR [deb|tarball|all]",
        "Debian packages, a tarball, and their sums",
        package,
    ),
    Command::with("manual", "--out DIR", "man pages and completions, as they lie below /usr/share", manual),
    Command::alone(
        "plants",
        "bugs switched on one by one: the simulator must find each; minutes",
        commands::plants,
    ),
    Command::with(
        "interpose-check",
        "[--only NAME] [--user own|nobody] [--way dispatched|patched|evicted] [--built] [--short] [--list]",
        "other people's programs, interposed and evicted: the same result as alone?",
        interpose_check::run,
    ),
    Command::with(
        "kernel",
        "[--package linux-image-RELEASE] [--only NAME]",
        "programs without rights on Debian's kernel 6.1, in an emulated machine; minutes",
        kernel,
    ),
    Command::alone(
        "miri",
        "unit tests under an interpreter that sees undefined behaviour; needs nightly",
        tools::miri,
    ),
    Command::alone("sanitize", "unit tests with AddressSanitizer; needs nightly", tools::sanitize),
    Command::with(
        "mutants",
        "[FILE...]",
        "small changes to the code of page words and hazards: does a test fail? Needs cargo-mutants",
        tools::mutants,
    ),
    Command::alone("coverage", "which lines the unit tests reach; needs cargo-llvm-cov", tools::coverage),
    Command::with(
        "swap-space",
        "[--short] [--scene NAME] [--out DIR]",
        "allocators of swap slots side by side, in simulated time and with threads",
        commands::swap_space,
    ),
    Command::with(
        "highalloc",
        "[--short] [--seeds N] [--wait may|may-not] [--out DIR]",
        "requests for huge pages on a simulated machine that builds kernels",
        commands::highalloc,
    ),
    Command::with(
        "second-chance",
        "[--short] [--seeds N] [--out DIR]",
        "rules for which compressed pages go to the disk, on a simulated build",
        commands::second_chance,
    ),
    Command::alone(
        "figures",
        "writes the newest results of bench/results into the documents",
        figures::write,
    ),
    Command::with("help", "[COMMAND]", "this list, or what a command takes", help),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--help" | "-h"] => help(&[]),
        [name, rest @ ..] => {
            let command = command(name)?;
            match command.run {
                Run::Alone(run) => {
                    ensure!(rest.is_empty(), "`{}` takes no arguments\n{}", rest.join(" "), command.usage());
                    run()
                }
                Run::With(run) => run(rest),
            }
        }
        [] => bail!("no command\n{}", list()),
    }
}

fn command(name: &str) -> Result<&'static Command> {
    COMMANDS
        .iter()
        .find(|command| command.name == name)
        .with_context(|| format!("there is no command `{name}`; `cargo xtask help` lists all"))
}

/// One line for each command.
fn list() -> String {
    let lines = COMMANDS.iter().map(|command| format!("  {:<16}{}\n", command.name, command.what));
    format!("usage: cargo xtask COMMAND\n\n{}", lines.collect::<String>())
}

fn help(words: &[&str]) -> Result<()> {
    match words {
        [] => print!("{}", list()),
        [name] => {
            let command = command(name)?;
            println!("{}\n\n{}", command.usage(), command.what);
        }
        _ => bail!("{}", command("help")?.usage()),
    }
    Ok(())
}

fn fuzz(words: &[&str]) -> Result<()> {
    match words {
        [] => suite::fuzz(Some(suite::FUZZ_SECONDS), None).map(drop),
        ["--seconds", seconds] => suite::fuzz(Some(seconds.parse()?), None).map(drop),
        ["--seed", seed] => suite::fuzz(None, Some(seed.parse()?)).map(drop),
        _ => bail!("{}", command("fuzz")?.usage()),
    }
}

fn install(words: &[&str]) -> Result<()> {
    match words {
        ["--prefix", directory] => install::run(directory.as_ref()),
        _ => bail!("{}", command("install")?.usage()),
    }
}

fn package(words: &[&str]) -> Result<()> {
    match words {
        ["--out", directory] => package::run(directory.as_ref(), package::What::All),
        ["--out", directory, what] => package::run(directory.as_ref(), package::What::parse(what)?),
        _ => bail!("{}", command("package")?.usage()),
    }
}

fn manual(words: &[&str]) -> Result<()> {
    match words {
        ["--out", directory] => package::manual::run(directory.as_ref()),
        _ => bail!("{}", command("manual")?.usage()),
    }
}

fn kernel(words: &[&str]) -> Result<()> {
    match words {
        [] => kernel::run(None, ""),
        ["--only", name] => kernel::run(None, name),
        ["--package", package] => kernel::run(Some(package), ""),
        ["--package", package, "--only", name] => kernel::run(Some(package), name),
        _ => bail!("{}", command("kernel")?.usage()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        dispatch(&words).expect_err("it is not right").to_string()
    }

    #[test]
    fn each_command_has_one_name_and_one_line() {
        for (index, command) in COMMANDS.iter().enumerate() {
            assert!(COMMANDS[..index].iter().all(|other| other.name != command.name), "{}", command.name);
        }
        for line in list().lines() {
            assert!(line.chars().count() <= 120, "{line}");
        }
        assert_eq!(list().lines().count(), COMMANDS.len() + 2);
    }

    #[test]
    fn what_is_not_understood_is_refused_with_what_would_be_right() {
        assert!(error_of(&["chekc"]).contains("no command `chekc`"));
        assert!(error_of(&["check", "--all"]).contains("takes no arguments"));
        assert!(error_of(&["install"]).contains("usage: cargo xtask install --prefix DIR"));
        assert!(error_of(&["package", "--out", "x", "rpm"]).contains("none of deb, tarball, all"));
        assert!(error_of(&["help", "one", "two"]).contains("usage: cargo xtask help [COMMAND]"));
        assert!(error_of(&[]).contains("  test "));
    }
}
