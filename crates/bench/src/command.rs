//! `uswap bench`: what is asked for, and where the results go.

use std::path::Path;

use crate::args::{BenchArguments, BenchCommand};
use crate::bench::{Bench, Ground};
use crate::plan::Plan;
use crate::results::Results;
use crate::rivals::Counting;
use crate::system::undo::Undo;
use crate::system::{settings, signals};
use crate::{report, user_program};

/// Runs the command; the exit code.
pub fn bench(arguments: &BenchArguments) -> i32 {
    let done = match &arguments.command {
        Some(BenchCommand::Compare { before, after }) => compare(before, after),
        Some(BenchCommand::Join { parts, out }) => {
            report::join::files(parts).and_then(|results| write(&results, out))
        }
        None if !arguments.program.is_empty() => measure_program(arguments),
        None => measure(arguments),
    };
    match done {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("uswap bench: {error:#}");
            1
        }
    }
}

fn compare(before: &Path, after: &Path) -> anyhow::Result<()> {
    print!("{}", report::compare::files(before, after)?);
    Ok(())
}

fn measure(arguments: &BenchArguments) -> anyhow::Result<()> {
    let plan = Plan::new(arguments)?;
    settings::check_machine()?;
    let undo = Undo::new();
    signals::undo_at_the_end_of_the_process(&undo)?;
    let ground = Ground::prepare(arguments, &undo, Counting::Group)?;
    let results = Bench::new(ground, &plan, plan.command(arguments)).run()?;
    write(&results, &arguments.out)
}

fn measure_program(arguments: &BenchArguments) -> anyhow::Result<()> {
    let undo = Undo::new();
    signals::undo_at_the_end_of_the_process(&undo)?;
    let results = user_program::measure(arguments, &undo)?;
    write(&results, &arguments.out)
}

fn write(results: &Results, out: &Path) -> anyhow::Result<()> {
    for path in report::write_all(results, out)? {
        eprintln!("uswap bench: wrote {}", path.display());
    }
    print!("{}", report::table::text(results));
    Ok(())
}
