//! The program behind `cargo xtask highalloc`.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use clap::Parser;
use uswap_experiments::highalloc::program;
use uswap_experiments::highalloc::world::Size;
use uswap_zones::node::Patience;

/// Requests for huge pages on a machine that builds kernels, in simulated time.
#[derive(Parser)]
struct Arguments {
    /// An eighth of the machine, one seed: only shows that everything runs.
    #[arg(long)]
    short: bool,
    /// Seeds of each column.
    #[arg(long)]
    seeds: Option<u64>,
    /// Only requests of one kind.
    #[arg(long, value_parser = ["may-not", "may"])]
    wait: Option<String>,
    /// Where results go.
    #[arg(long, default_value = "target/highalloc")]
    out: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let size = if arguments.short { Size::SHORT } else { Size::FULL };
    let size = Size { seeds: arguments.seeds.unwrap_or(size.seeds), ..size };
    let chosen: &[Patience] = match arguments.wait.as_deref() {
        Some("may-not") => &[Patience::MayNot],
        Some(_) => &[Patience::MayWait],
        None => &[Patience::MayNot, Patience::MayWait],
    };
    print!("{}", program::run_all(size, chosen, &arguments.out)?);
    Ok(())
}
