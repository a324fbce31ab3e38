//! The command line of `uswap bench`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::workloads::choice::{Choice, parse_number_choice, parse_size_choice};
use crate::workloads::size::parse_size;

/// Text behind the options.
pub const AFTER_HELP: &str = "\
Needs root: it makes cgroups, zram devices and swap files, and takes them away again, also after Ctrl-C. With PROGRAM
what needs root is left out, and the program is measured alone and under uswap.
A scenario names the workloads, the rivals, the budget and the rounds; the options change single points of it.
RIVALS: none, zram-lz4, zram-lzo-rle, zram-lz4+bg, zram-lzo-rle+bg, zswap, zswap+shrinker, swapfile, mapped-file, uswap;
with --rival, any other: a command in which {program} stands for the program's words and {budget} for bytes.
--budget, --factor and --seconds take one value for all workloads, and NAME=VALUE for one: --budget 64M,build=96M.
PROGRAM is run several times by each rival, with empty input, by the user that uswap bench runs as. Its exit code and
the hash of its standard output must be those of a run without a limit.
Examples: uswap bench --scenario short
          uswap bench --ram 256M -- sort -S 1G big.txt
          uswap bench --scenario table
          uswap bench --workloads seqscan,pmbench-zipf-2 --rivals zram-lz4,zram-lz4+bg,uswap --rounds 5
          uswap bench compare before/results.json after/results.json
          uswap bench join monday/results.json tuesday/results.json --out table";

/// Arguments of `uswap bench`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArguments {
    /// Work on results that are there already
    #[command(subcommand)]
    pub command: Option<BenchCommand>,
    /// `full`, `table`, `short`, `random`, or a TOML file
    #[arg(long, value_name = "NAME|FILE", default_value = "full", conflicts_with = "program")]
    pub scenario: String,
    /// True RAM of every rival: resident and compressed together
    #[arg(
        long,
        value_name = "SIZES",
        value_delimiter = ',',
        value_parser = parse_size_choice,
        conflicts_with = "program"
    )]
    pub budget: Vec<Choice<u64>>,
    /// Working sets are so many times the budget
    #[arg(
        long,
        value_name = "NUMBERS",
        value_delimiter = ',',
        value_parser = parse_number_choice::<f64>,
        conflicts_with = "program"
    )]
    pub factor: Vec<Choice<f64>>,
    /// Measured runs of each rival on each workload
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: Option<u32>,
    /// Length of the workloads that run for a time
    #[arg(
        long,
        value_name = "SECONDS",
        value_delimiter = ',',
        value_parser = parse_number_choice::<u32>,
        conflicts_with = "program"
    )]
    pub seconds: Vec<Choice<u32>>,
    /// Seed of contents, accesses and the order of runs
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// Only these rivals
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub rivals: Vec<String>,
    /// One more rival
    #[arg(long, value_name = "NAME=COMMAND")]
    pub rival: Vec<String>,
    /// Only these workloads
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "program")]
    pub workloads: Vec<String>,
    /// Where swap files and inputs are made
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub swap_dir: PathBuf,
    /// Where the results go: results.json, report.html, table.txt, table.md
    #[arg(long, value_name = "DIR", default_value = "uswap-bench")]
    pub out: PathBuf,
    /// Leave the kernel's statistics of the group as stale as they are, and count what it kills because of them
    #[arg(long)]
    pub raw: bool,
    /// With PROGRAM: true RAM of every rival [default: half of what it takes without a limit]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "program")]
    pub ram: Option<u64>,
    /// With PROGRAM: a run that takes longer is stopped, and counted as such [default: 30 times as long as without a
    /// limit, at least 60]
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = clap::value_parser!(u64).range(1..=86_400),
        requires = "program"
    )]
    pub timeout: Option<u64>,
    /// Any program and its arguments, in place of the workloads of a scenario
    #[arg(last = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// Commands of `uswap bench`.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Set two results side by side: more than 1 means that the second is better
    Compare {
        /// results.json of the first
        before: PathBuf,
        /// results.json of the second
        after: PathBuf,
    },
    /// Make one table of results of different workloads, measured one after the other
    Join {
        /// results.json of each part, in the order of the table
        #[arg(required = true)]
        parts: Vec<PathBuf>,
        /// Where the results go, as those of a bench
        #[arg(long, value_name = "DIR", default_value = "uswap-bench")]
        out: PathBuf,
    },
}
