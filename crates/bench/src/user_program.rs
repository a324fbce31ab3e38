//! `uswap bench -- PROGRAM`: any program of the user on all rivals, at the same true RAM.
//!
//! It runs once without any limit. That says how much memory it takes, how long it runs, and what result is right: exit
//! code and standard output. Then it is a workload as any other. What cannot be set up here is left out with a line, so
//! a user without rights still sees the program alone and under uswap.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use anyhow::{Context as _, bail, ensure};
use rustix::fs::{Access, access};

use crate::args::BenchArguments;
use crate::bench::{Bench, Ground, say};
use crate::plan::Plan;
use crate::report::number;
use crate::report::program::{alone, fits};
use crate::results::{Better, Outcome, Results, Run, Unlimited};
use crate::rivals::{Counting, Rival};
use crate::system::group::Group;
use crate::system::undo::Undo;
use crate::workloads::scenario::{BUDGET_BYTES_MIN, Scenario};
use crate::workloads::size::size_text;
use crate::workloads::spec::WALL;
use crate::workloads::{Kind, Launch, WorkloadSpec};

/// Its name among the workloads.
const NAME: &str = "program";

/// Those of the whole table.
const RIVALS: [&str; 6] = ["none", "zram-lz4", "zram-lz4+bg", "zswap", "swapfile", "uswap"];

/// The fewest rounds that give an interval.
const ROUNDS: u32 = 3;

/// A run that takes so many times as long as without a limit is stopped.
const TIMEOUT_TIMES: f64 = 30.0;

/// And not before so many seconds.
const TIMEOUT_S_MIN: u64 = 60;

/// Longest `--timeout`, as in scenarios: a day.
const TIMEOUT_S_MAX: u64 = 86_400;

/// Measures the program that the command line names.
///
/// # Errors
/// If there is no such program, or nothing can be measured here.
pub fn measure(arguments: &BenchArguments, undo: &Undo) -> anyhow::Result<Results> {
    let [name, ..] = arguments.program.as_slice() else { bail!("no program is named") };
    find(name, std::env::var_os("PATH").as_deref())?;
    // Before hours of work: there must be a place for the results.
    fs::create_dir_all(&arguments.out)
        .with_context(|| format!("cannot make {}: name another place with --out", arguments.out.display()))?;
    let mut ground = Ground::prepare(arguments, undo, counting(undo))?;
    say("running it without a limit");
    let unlimited = run_unlimited(arguments, &mut ground)?;
    let plan = plan(arguments, &unlimited)?;
    if unlimited.peak_bytes <= plan.scenario.budget_bytes {
        say(&fits(&unlimited, plan.scenario.budget_bytes));
    }
    Bench::new(ground, &plan, command(arguments, &plan)).run()
}

/// A cgroup, if this user may make one.
fn counting(undo: &Undo) -> Counting {
    match Group::make(&mut undo.scope()) {
        Ok(_) => Counting::Group,
        Err(_) => {
            say(
                "no memory cgroup can be made here, so memory is summed over processes: what they share counts \
                 for each",
            );
            Counting::Processes
        }
    }
}

/// Where a program is that is named as in a shell.
fn find(name: &OsStr, path: Option<&OsStr>) -> anyhow::Result<PathBuf> {
    let shown = name.display();
    let may_run = |file: &Path| {
        ensure!(!file.is_dir(), "'{}' is a directory, not a program", file.display());
        access(file, Access::EXEC_OK)
            .map_err(io::Error::from)
            .with_context(|| format!("'{}' cannot be executed", file.display()))
    };
    if name.as_bytes().contains(&b'/') {
        ensure!(Path::new(name).exists(), "there is no program '{shown}'");
        return may_run(Path::new(name)).map(|()| name.into());
    }
    let mut refused = None;
    for directory in path.map(std::env::split_paths).into_iter().flatten() {
        let file = directory.join(name);
        if !file.is_file() {
            continue;
        }
        match may_run(&file) {
            Ok(()) => return Ok(file),
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.unwrap_or_else(|| anyhow::anyhow!("there is no program '{shown}' in a directory of PATH")))
}

fn run_unlimited(arguments: &BenchArguments, ground: &mut Ground<'_>) -> anyhow::Result<Unlimited> {
    let launch = Launch { words: arguments.program.clone(), environment: Vec::new() };
    let timeout = arguments.timeout.map_or(Duration::MAX, Duration::from_secs);
    let run = ground.run_unlimited(&launch, timeout)?;
    let unlimited = match &run.outcome {
        Outcome::Done => unlimited(&run),
        Outcome::Killed => {
            bail!("the kernel killed the program although it had no limit: it needs more than there is")
        }
        Outcome::TimedOut => {
            bail!("the program did not end in time without a limit: give a longer --timeout")
        }
        Outcome::Failed(why) => bail!("the program cannot be judged: {why}"),
    };
    say(&alone(&unlimited));
    Ok(unlimited)
}

fn unlimited(run: &Run) -> Unlimited {
    Unlimited {
        result: run.checksum.clone().unwrap_or_default(),
        wall_s: run.figures.get("wall_s").copied().unwrap_or_default(),
        peak_bytes: run.memory.sum_bytes,
    }
}

fn plan(arguments: &BenchArguments, unlimited: &Unlimited) -> anyhow::Result<Plan> {
    let budget_bytes = budget(arguments.ram, unlimited.peak_bytes)?;
    let timeout_s = match arguments.timeout {
        Some(seconds) => seconds,
        None => ((unlimited.wall_s * TIMEOUT_TIMES) as u64).clamp(TIMEOUT_S_MIN, TIMEOUT_S_MAX),
    };
    let mut rivals = Vec::new();
    let given = &arguments.rivals;
    let usual = RIVALS.iter().map(|name| (*name).to_owned());
    let named: Vec<String> = if given.is_empty() { usual.collect() } else { given.clone() };
    // What the others are compared with is always there.
    let none = (!named.contains(&Rival::None.name())).then(|| Rival::None.name());
    for name in none.iter().chain(&named).chain(&arguments.rival) {
        let rival = Rival::parse(name).with_context(|| format!("rival '{name}'"))?;
        ensure!(!rivals.contains(&rival), "rival '{}' is named twice", rival.name());
        rivals.push(rival);
    }
    let title = shell_words(arguments.program.iter().map(|word| word.to_string_lossy()));
    let seed = arguments.seed.unwrap_or(1);
    let rounds = arguments.rounds.unwrap_or(ROUNDS);
    let (main_figure, unit, better): (_, _, Better) = WALL;
    let spec = WorkloadSpec {
        name: NAME,
        title: title.clone(),
        main_figure,
        unit,
        better,
        kind: Kind::Program { words: arguments.program.clone(), unlimited: unlimited.clone() },
        budget_bytes,
        // Swap devices follow from it, and must not be too small to be made.
        bytes: unlimited.peak_bytes.max(budget_bytes),
        seconds: 1,
        seed,
    };
    let scenario = Scenario {
        name: NAME.to_owned(),
        title,
        budget_bytes,
        factor: unlimited.peak_bytes as f64 / budget_bytes as f64,
        rounds,
        seed,
        seconds: 1,
        rivals: rivals.iter().map(Rival::name).collect(),
        workloads: vec![NAME.to_owned()],
        timeout_s,
        of: Default::default(),
    };
    Ok(Plan { scenario, rivals, workloads: vec![spec] })
}

/// What was asked for, or half of what the program takes, in whole MiB.
fn budget(ram_bytes: Option<u64>, peak_bytes: u64) -> anyhow::Result<u64> {
    const MIB: u64 = 1 << 20;
    let least = size_text(BUDGET_BYTES_MIN);
    if let Some(bytes) = ram_bytes {
        ensure!(bytes >= BUDGET_BYTES_MIN, "--ram {} is too small: give at least {least}", size_text(bytes));
        return Ok(bytes);
    }
    let half = peak_bytes / 2 / MIB * MIB;
    ensure!(
        half >= BUDGET_BYTES_MIN,
        "without a limit it takes {}, and half of that is less than {least}, the least that can be compared: give \
         --ram if it is to be measured all the same",
        number::bytes(peak_bytes as f64)
    );
    Ok(half)
}

/// The command line that does the same again.
fn command(arguments: &BenchArguments, plan: &Plan) -> String {
    let scenario = &plan.scenario;
    let templates = arguments.rival.iter().map(|rival| format!(" --rival {}", shell_word(rival)));
    let named = plan.rivals.iter().filter(|rival| !matches!(rival, Rival::Template { .. }));
    format!(
        "uswap bench --ram {} --rounds {} --seed {} --timeout {} --rivals {}{}{} -- {}",
        size_text(scenario.budget_bytes),
        scenario.rounds,
        scenario.seed,
        scenario.timeout_s,
        named.map(Rival::name).collect::<Vec<_>>().join(","),
        templates.collect::<String>(),
        if arguments.raw { " --raw" } else { "" },
        scenario.title,
    )
}

fn shell_words<Word: AsRef<str>>(words: impl Iterator<Item = Word>) -> String {
    words.map(|word| shell_word(word.as_ref())).collect::<Vec<_>>().join(" ")
}

/// A word as a shell reads it back.
fn shell_word(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_=+./,:@%".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
#[path = "user_program_tests.rs"]
mod tests;
