//! `cargo xtask`: each thing one does with this repository is one command.
//!
//! Called by people and by `.ci/run`. The commands are in `commands`, the whole test suite in `suite`, the rules of the
//! house in `check`. Nothing here is part of the product.
#![forbid(unsafe_code)]

mod check;
mod code;
mod commands;
mod install;
mod interpose_check;
mod kernel;
mod suite;
mod tree;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  check                 the rules of the house: crate edges, unsafe code, text, promises
  fmt                   is everything formatted?
  clippy                lints; a warning is an error
  build                 release build of the agent and of the uswap command
  demo [ARGS]           build, then `uswap demo ARGS`
  fuzz [--seconds N]    random lists of operations against the models of the structures, and random pages by vector kernels against portable code: 5 s or N of each
  fuzz --seed S         the lists and the page of one seed, as a failing run prints it
  swap-space [--short] [--scene NAME] [--out DIR]
                        allocators of swap slots side by side, in made-up time and with threads; pictures go to DIR
  highalloc [--short] [--seeds N] [--wait may|may-not] [--out DIR]
                        requests for huge pages on a machine that builds kernels, in made-up time: Linux 4.4, kcompactd, and ours
  second-chance [--short] [--seeds N] [--out DIR]
                        rules for which compressed pages go to the disk, on a build that is made up; tables go to DIR
  plants                bugs that are switched on in the engine, one after the other: the simulator must find each
  test                  everything: the checks, unit tests, fuzz, loom, shuttle, made-up time, simulator seeds, system calls, integration tests
  interpose-check [--only NAME] [--user own|nobody] [--way dispatched|patched|evicted] [--built] [--short] [--list]
                        other people's programs with their calls interposed and their pages evicted: the same result as alone?
  kernel [--package linux-image-RELEASE] [--only NAME]
                        programs without any rights on Debian's own kernel (6.1), in an emulated machine: some minutes
  install --prefix DIR  build, then copy to DIR/bin and DIR/lib/uswap
";

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
        ["check"] => check::run(),
        ["fmt"] => commands::fmt(),
        ["clippy"] => commands::clippy(),
        ["build"] => commands::build(),
        ["demo", demo_arguments @ ..] => commands::demo(demo_arguments),
        ["fuzz"] => suite::fuzz(Some(suite::FUZZ_SECONDS), None).map(drop),
        ["fuzz", "--seconds", seconds] => suite::fuzz(Some(seconds.parse()?), None).map(drop),
        ["fuzz", "--seed", seed] => suite::fuzz(None, Some(seed.parse()?)).map(drop),
        ["plants"] => commands::plants(),
        ["test"] => suite::run(),
        ["interpose-check", check_arguments @ ..] => interpose_check::run(check_arguments),
        ["kernel"] => kernel::run(None, ""),
        ["kernel", "--only", name] => kernel::run(None, name),
        ["kernel", "--package", package] => kernel::run(Some(package), ""),
        ["kernel", "--package", package, "--only", name] => kernel::run(Some(package), name),
        ["swap-space", bench_arguments @ ..] => commands::swap_space(bench_arguments),
        ["highalloc", bench_arguments @ ..] => commands::highalloc(bench_arguments),
        ["second-chance", bench_arguments @ ..] => commands::second_chance(bench_arguments),
        ["install", "--prefix", directory] => install::run(directory.as_ref()),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(())
        }
        [] => bail!("no command\n{USAGE}"),
        _ => bail!("cannot understand `{}`\n{USAGE}", words.join(" ")),
    }
}
