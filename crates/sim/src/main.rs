//! `uswap-sim`: runs seeds, replays one, compares two runs of each.
#![forbid(unsafe_code)]

use anyhow::{Result, bail};
use clap::{Parser, Subcommand, ValueEnum};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use uswap_sim::{Arena, Keep, Mix, run_seed};

/// The engine in a made-up world.
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
    mix: MixName,
}

/// What programs mostly do.
#[derive(Clone, Copy, ValueEnum)]
enum MixName {
    /// A little of everything.
    All,
    /// Map, unmap, move and fork.
    Mappings,
    /// A little of everything, while swap files come and go.
    Files,
    /// Go round in more memory than there is.
    Rounds,
    /// The kernel touches memory in system calls.
    Calls,
    /// Write to what was read, and fork.
    Forks,
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
    /// Run programs for made-up hours, in which processes end and begin: does anything leak?
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
}

static SEED: AtomicU64 = AtomicU64::new(0);

fn replay_line(seed: u64, mix: Mix) -> String {
    let rest = match mix {
        Mix::All => format!("replay --seed {seed}"),
        Mix::Mappings => format!("replay --seed {seed} --mix mappings"),
        Mix::Files => format!("replay --seed {seed} --mix files"),
        Mix::Rounds => format!("replay --seed {seed} --mix rounds"),
        Mix::Calls => format!("replay --seed {seed} --mix calls"),
        Mix::Forks => format!("replay --seed {seed} --mix forks"),
        Mix::Soak { hours } => format!("soak --hours {hours} --from {seed}"),
    };
    format!("cargo run --release -p uswap-sim -- {rest}")
}

fn main() -> Result<()> {
    let args = Args::parse();
    set_plant(args.plant.as_deref())?;
    let mix = match (&args.command, args.mix) {
        (Command::Soak { hours, .. }, _) => Mix::Soak { hours: *hours },
        (_, MixName::All) => Mix::All,
        (_, MixName::Mappings) => Mix::Mappings,
        (_, MixName::Files) => Mix::Files,
        (_, MixName::Rounds) => Mix::Rounds,
        (_, MixName::Calls) => Mix::Calls,
        (_, MixName::Forks) => Mix::Forks,
    };
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        before(info);
        eprintln!(
            "seed {} failed: {}",
            SEED.load(Ordering::Relaxed),
            replay_line(SEED.load(Ordering::Relaxed), mix)
        );
    }));
    match args.command {
        Command::Run { seeds, from, keep_going } => run(seeds, from, mix, keep_going),
        Command::Soak { seeds, from, .. } => run(seeds, from, mix, true),
        Command::Replay { seed, trace } => replay(seed, mix, trace),
        Command::Meta { seeds, from } => meta(seeds, from, mix),
    }
}

#[cfg(feature = "plant")]
fn set_plant(name: Option<&str>) -> Result<()> {
    use anyhow::Context;
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

fn run(seeds: u64, from: u64, mix: Mix, keep_going: bool) -> Result<()> {
    let start = Instant::now();
    let mut arena = Arena::default();
    let mut tally: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut failed = 0;
    for seed in from..from + seeds {
        SEED.store(seed, Ordering::Relaxed);
        let outcome = run_seed(&mut arena, seed, mix, Keep::Hash);
        for (name, amount) in outcome.tally {
            *tally.entry(name).or_default() += amount;
        }
        if let Some(failure) = outcome.failure {
            eprintln!("seed {seed} failed: {failure}\n{}", replay_line(seed, mix));
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

fn replay(seed: u64, mix: Mix, trace: bool) -> Result<()> {
    SEED.store(seed, Ordering::Relaxed);
    let keep = if trace { Keep::Lines } else { Keep::Hash };
    let outcome = run_seed(&mut Arena::default(), seed, mix, keep);
    if let Some(lines) = outcome.trace {
        print!("{lines}");
    }
    println!("seed {seed}, trace {:016x}", outcome.trace_hash);
    match outcome.failure {
        Some(failure) => bail!("seed {seed} failed: {failure}"),
        None => Ok(()),
    }
}

fn meta(seeds: u64, from: u64, mix: Mix) -> Result<()> {
    let mut arena = Arena::default();
    for seed in from..from + seeds {
        SEED.store(seed, Ordering::Relaxed);
        let first = run_seed(&mut arena, seed, mix, Keep::Lines);
        let second = run_seed(&mut arena, seed, mix, Keep::Lines);
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
