//! The program behind `cargo xtask second-chance`.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use clap::Parser;
use uswap_experiments::second_chance::program::{self, Size};

/// Compares rules by which compressed pages go to the disk, on a build that is made up.
#[derive(Parser)]
struct Arguments {
    /// Only show that all rules run.
    #[arg(long)]
    short: bool,
    /// So many seeds.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Where results go.
    #[arg(long, default_value = "target/second-chance")]
    out: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let size = if arguments.short { Size::Short } else { Size::Full };
    print!("{}", program::run(size, arguments.seeds, &arguments.out)?);
    Ok(())
}
