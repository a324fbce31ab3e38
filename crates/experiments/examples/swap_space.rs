//! The program behind `cargo xtask swap-space`, which builds it twice: with the feature `virtual_time` and without.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use clap::Parser;
use uswap_experiments::swap_space::program;
use uswap_experiments::swap_space::scenes::Size;

/// Measures allocators of swap slots side by side.
#[derive(Parser)]
struct Arguments {
    /// Only show that all scenes run.
    #[arg(long)]
    short: bool,
    /// Measure only this; may be given several times.
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(program::names()))]
    scene: Vec<String>,
    /// Where results and pictures go.
    #[arg(long, default_value = "target/swap-space")]
    out: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let size = if arguments.short { Size::Short } else { Size::Full };
    print!("{}", program::run(size, &arguments.scene, &arguments.out)?);
    Ok(())
}
