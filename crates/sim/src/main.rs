//! `uswap-sim`: runs seeds, replays one, compares two runs of each, makes a run that fails smaller.
#![forbid(unsafe_code)]

use anyhow::{Context as _, Result, bail};
use clap::{Parser, Subcommand};
use std::collections::BTreeMap;
use std::process::Command as Program;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use uswap_sim::minimise::{Smaller, minimise};
use uswap_sim::{Arena, Case, Keep, Mix, Reduction, run_case};

/// The engine in a simulated world.
#[derive(Parser)]
#[command(name = "uswap-sim", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
    /// Switch one bug of the engine on (needs `--features plant`), by its name in `engine::plant`: the seeds must find
    /// it.
    #[arg(long, global = true)]
    plant: Option<String>,
    /// What programs mostly do.
    #[arg(long, global = true, default_value = "all")]
    mix: Mix,
    /// Play what the seed says in another order, in which other things go wrong. The same number is the same run.
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u64).range(..u64::MAX))]
    schedule: Option<u64>,
    #[command(flatten)]
    reduction: Reduction,
}

#[derive(Subcommand)]
enum Command {
    /// Run seeds until one fails.
    Run {
        /// How many.
        #[arg(long, default_value_t = 1000)]
        seeds: u64,
        /// The first one.
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// Go on after a seed that failed.
        #[arg(long)]
        keep_going: bool,
    },
    /// Run programs for simulated hours, in which processes end and begin: does anything leak?
    Soak {
        /// How long.
        #[arg(long, default_value_t = 24)]
        hours: u64,
        /// How many seeds.
        #[arg(long, default_value_t = 1)]
        seeds: u64,
        /// The first one.
        #[arg(long, default_value_t = 0)]
        from: u64,
    },
    /// Run one seed again.
    Replay {
        /// Which.
        #[arg(long)]
        seed: u64,
        /// Print one line for each event.
        #[arg(long)]
        trace: bool,
    },
    /// Run each seed twice and compare the traces.
    Meta {
        /// How many.
        #[arg(long, default_value_t = 20)]
        seeds: u64,
        /// The first one.
        #[arg(long, default_value_t = 0)]
        from: u64,
    },
    /// Look for a smaller run of a seed that still fails, and print the line that replays the smallest.
    Minimise {
        /// Which seed.
        #[arg(long)]
        seed: u64,
        /// A run of so many simulated hours, as `soak` plays it, in the place of a mix.
        #[arg(long)]
        hours: Option<u64>,
        /// Play so many runs at most.
        #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
        runs: u64,
    },
}

static SEED: AtomicU64 = AtomicU64::new(0);

/// What is the same in all runs of one command.
struct Runs {
    mix: Mix,
    reduction: Reduction,
    schedule: Option<u64>,
    plant: Option<String>,
}

impl Runs {
    fn case(&self, seed: u64) -> Case {
        SEED.store(seed, Ordering::Relaxed);
        Case { seed, mix: self.mix, reduction: self.reduction.clone(), schedule: self.schedule }
    }

    /// The arguments with which this program plays a case.
    fn arguments(&self, case: &Case) -> Vec<String> {
        let plant = self.plant.iter().flat_map(|plant| ["--plant".to_owned(), plant.clone()]);
        case.arguments().into_iter().chain(plant).collect()
    }

    fn replay_line(&self, case: &Case) -> String {
        let features = if self.plant.is_some() { " --features plant" } else { "" };
        format!("cargo run --release -p uswap-sim{features} -- {}", self.arguments(case).join(" "))
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    set_plant(args.plant.as_deref())?;
    let mix = match args.command {
        Command::Soak { hours, .. } | Command::Minimise { hours: Some(hours), .. } => Mix::Soak { hours },
        _ => args.mix,
    };
    let Args { reduction, schedule, plant, .. } = args;
    let runs = Arc::new(Runs { mix, reduction, schedule, plant });
    let (before, of_hook) = (std::panic::take_hook(), Arc::clone(&runs));
    std::panic::set_hook(Box::new(move |info| {
        before(info);
        let seed = SEED.load(Ordering::Relaxed);
        eprintln!("seed {seed} failed: {}", of_hook.replay_line(&of_hook.case(seed)));
    }));
    match args.command {
        Command::Run { seeds, from, keep_going } => runs.run(seeds, from, keep_going),
        Command::Soak { seeds, from, .. } => runs.run(seeds, from, true),
        Command::Replay { seed, trace } => runs.replay(seed, trace),
        Command::Meta { seeds, from } => runs.meta(seeds, from),
        Command::Minimise { seed, runs: runs_max, .. } => runs.minimise(seed, runs_max),
    }
}

#[cfg(feature = "plant")]
fn set_plant(name: Option<&str>) -> Result<()> {
    use uswap_engine::plant::{Plant, set};
    let by_name = |name: &str| Plant::ALL.into_iter().find(|plant| format!("{plant:?}") == name);
    let plant = name.map(|name| by_name(name).with_context(|| format!("no bug {name}: {:?}", Plant::ALL)));
    set(plant.transpose()?);
    Ok(())
}
#[cfg(not(feature = "plant"))]
fn set_plant(name: Option<&str>) -> Result<()> {
    if name.is_some() {
        bail!("this build has no bugs to switch on: build it with --features plant");
    }
    Ok(())
}

impl Runs {
    fn run(&self, seeds: u64, from: u64, keep_going: bool) -> Result<()> {
        let start = Instant::now();
        let mut arena = Arena::default();
        let mut tally: BTreeMap<&'static str, u64> = BTreeMap::new();
        let mut failed = 0;
        for seed in from..from + seeds {
            let case = self.case(seed);
            let outcome = run_case(&mut arena, &case, Keep::Hash);
            for (name, amount) in outcome.tally {
                *tally.entry(name).or_default() += amount;
            }
            if let Some(failure) = outcome.failure {
                eprintln!("seed {seed} failed: {failure}\n{}", self.replay_line(&case));
                failed += 1;
                if !keep_going {
                    bail!("failed after {} seeds", seed - from + 1);
                }
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        for (name, amount) in &tally {
            println!("{amount:>12}  {name}");
        }
        println!("{seeds} seeds from {from}, {failed} failed, {:.1} seeds/s", seeds as f64 / seconds);
        if failed > 0 { bail!("{failed} seeds failed") } else { Ok(()) }
    }

    fn replay(&self, seed: u64, trace: bool) -> Result<()> {
        let keep = if trace { Keep::Lines } else { Keep::Hash };
        let outcome = run_case(&mut Arena::default(), &self.case(seed), keep);
        if let Some(lines) = outcome.trace {
            print!("{lines}");
        }
        println!("seed {seed}, trace {:016x}", outcome.trace_hash);
        match outcome.failure {
            Some(failure) => bail!("seed {seed} failed: {failure}"),
            None => Ok(()),
        }
    }

    fn meta(&self, seeds: u64, from: u64) -> Result<()> {
        let mut arena = Arena::default();
        for seed in from..from + seeds {
            let case = self.case(seed);
            let first = run_case(&mut arena, &case, Keep::Lines);
            let second = run_case(&mut arena, &case, Keep::Lines);
            if first.trace_hash != second.trace_hash || first.trace != second.trace {
                bail!("seed {seed} gives different traces");
            }
            println!(
                "seed {seed}: {:016x}, {} bytes twice",
                first.trace_hash,
                first.trace.map_or(0, |trace| trace.len())
            );
        }
        Ok(())
    }

    fn minimise(&self, seed: u64, runs_max: u64) -> Result<()> {
        let tell = |Smaller { runs, what, failure }: Smaller<'_>| println!("{runs:>5}  {what}: {failure}");
        let smallest = minimise(self.case(seed), runs_max, |case| self.play_apart(case), tell)?;
        let end = if smallest.is_complete {
            "nothing more can be taken away"
        } else {
            "there may be a smaller one: give more --runs"
        };
        println!(
            "after {} runs, {end}: {}\n{}",
            smallest.runs,
            smallest.failure,
            self.replay_line(&smallest.case)
        );
        Ok(())
    }

    /// Plays a case in a process of its own, since an assertion of the engine may end that. What failed, in one line.
    fn play_apart(&self, case: &Case) -> Result<Option<String>> {
        // As clap ends if the arguments are not what it knows.
        const WRONG_ARGUMENTS: i32 = 2;
        let itself = std::env::current_exe().context("who am I?")?;
        let arguments = self.arguments(case);
        let played = Program::new(itself).args(&arguments).env("RUST_BACKTRACE", "0").output();
        let played = played.context("a process cannot be started")?;
        let said = String::from_utf8_lossy(&played.stderr);
        match played.status.code() {
            Some(0) => Ok(None),
            Some(WRONG_ARGUMENTS) => bail!("it does not take arguments of its own, {arguments:?}: {said}"),
            _ => Ok(Some(failure_in(&said))),
        }
    }
}

/// The first line of what a run that failed said. What an assertion says is in the second.
fn failure_in(said: &str) -> String {
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or("it was killed");
    let first = first.strip_prefix("Error: ").unwrap_or(first);
    if first.ends_with(':') {
        format!("{first} {}", lines.next().unwrap_or_default())
    } else {
        first.to_owned()
    }
}
