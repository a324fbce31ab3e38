//! The command line.
//!
//! A usage error exits with 2. `run` exits with the program's own code; 125 is uswap's own failure before the program
//! starts, 126 a program that cannot be executed, 127 one that cannot be found (as `env` and `timeout` do).

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use uswap_bench::args::BenchArguments;
use uswap_metrics::address::{Address, parse_address};
use uswap_metrics::args::MetricsArguments;
use uswap_top::args::{DumpArguments, RecordArguments, ReplayArguments, TopArguments};

use crate::age::{parse_age, parse_interval};
use crate::named::{Named, parse_new_protect, parse_new_weight, parse_protect, parse_weight};
use crate::ram::{Ram, parse_ram_or_auto};
use crate::size::{
    parse_min_free, parse_pool, parse_ram, parse_ram_of_machine, parse_share, parse_write_limit,
};
use crate::swap_place::parse_swap_place;
use crate::without::{VARIABLE, parse_without};
use uswap_os::without::Without;
use uswap_supervisor::files::place::SwapPlace;
use uswap_supervisor::options::{Fraction, OnFull, PoolSize};

/// Run a program in less memory than it uses: swap in user space.
#[derive(Debug, Parser)]
#[command(name = "uswap", version, about)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The command that libraries start.
pub const SUPERVISE: &str = "supervise";

/// One of the commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run PROGRAM and its children within --ram
    #[command(after_help = RUN_AFTER_HELP)]
    Run(RunArguments),
    /// Say which options hold for a program, from uswap.toml and the environment
    #[command(after_help = CONFIG_AFTER_HELP)]
    Config(ConfigArguments),
    /// List the runs that are under way
    #[command(after_help = PS_AFTER_HELP)]
    Ps(PsArguments),
    /// Say how a run goes: its memory, and how long its processes wait for their pages
    #[command(after_help = STAT_AFTER_HELP)]
    Stat(StatArguments),
    /// Show which parts of the memory of a process are where: in RAM, in the pool, in a swap file
    #[command(after_help = MAP_AFTER_HELP)]
    Map(MapArguments),
    /// Show how a run goes on a screen
    #[command(after_help = uswap_top::args::TOP_AFTER_HELP)]
    Top(TopArguments),
    /// Write down how a run goes
    #[command(after_help = uswap_top::args::RECORD_AFTER_HELP)]
    Record(RecordArguments),
    /// Show what was recorded on the screen of `uswap top`
    #[command(after_help = uswap_top::args::REPLAY_AFTER_HELP)]
    Replay(ReplayArguments),
    /// Print what was recorded, for other programs
    #[command(after_help = uswap_top::args::DUMP_AFTER_HELP)]
    Dump(DumpArguments),
    /// Say how a run goes in the words of Prometheus (OpenMetrics), once or to all who ask
    #[command(after_help = uswap_metrics::args::AFTER_HELP)]
    Metrics(MetricsArguments),
    /// Bring all memory of a run home, and let its processes go on without a budget
    Leave(RunArgument),
    /// Write all memory of a run to its swap files, and stop its processes
    Freeze(RunArgument),
    /// Let a run go on that was frozen
    Thaw(RunArgument),
    /// Change what a run has to keep to while it goes on
    #[command(after_help = SET_AFTER_HELP)]
    Set(SetArguments),
    /// Write what a run has not touched for a while from its pool to its swap file
    Writeback(WritebackArguments),
    /// Give a run one more swap file
    Swapon(SwaponArguments),
    /// Empty a swap file of a run into the others, and remove it
    Swapoff(SwapoffArguments),
    /// Say whether `uswap run` can work on this machine, and how to fix what is missing
    Doctor(DoctorArguments),
    /// Run a sort that needs about four times the budget, first without uswap, then with it
    #[command(after_help = DEMO_AFTER_HELP)]
    Demo(DemoArguments),
    /// Measure uswap and the kernel's ways to swap on the same work, at the same true RAM
    #[command(after_help = uswap_bench::args::AFTER_HELP)]
    Bench(BenchArguments),
    /// Make the calls of uswap, to see whether a filter of system calls ends this process
    #[command(hide = true, name = crate::filter::COMMAND)]
    TryCalls {
        /// Index of the first one
        from: usize,
    },
    /// Keep a process within a budget that runs already, and has asked for it by the library uswap
    #[command(hide = true, name = SUPERVISE)]
    Supervise(SuperviseArguments),
    /// One of the programs that `bench` runs
    #[command(hide = true)]
    Workload {
        /// Its name and options
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
}

const RUN_AFTER_HELP: &str = "\
SIZE is a number with K, M, G or T (powers of 1024): 256M, 1.5G, 300MiB.
Several --swap: the file of highest PRIORITY (0 to 32767) is filled first, those of equal priority in turn; without one
they follow in the order given. One that is full, or fails, is left to the others. What a file lies on is found out;
where that is wrong, say :rotational or :solid-state at the end: --swap /srv:8G:5:rotational
--protect db=100M: of all processes named db together, 100 MiB stay in RAM as long as the others of the run have
something to give; then they are reclaimed too, and that is said. --weight batch=50: twice as much is taken from batch
as from another of its size. NAME is as 'uswap stat' and ps show it, or the file name of the program.
Exit code: that of PROGRAM; if a signal ended it, uswap ends by the same signal.
125: uswap could not start it; 126: it is not executable; 127: it was not found.
Example: uswap run --ram 256M -- sort -S 1G big.txt";

const DEMO_AFTER_HELP: &str = "\
Takes about fourteen times --ram of disk space while it runs, in a directory that it removes.
The data are the logs of 64 servers, each in order of time, so sort walks through them mostly in order. A program
that jumps about in its memory at random is slowed down far more.
Exit code: 0 if the result with uswap is right, byte for byte; 1 otherwise.";

/// What a run is told: arguments of `uswap run` and `uswap supervise`.
#[derive(Debug, Args)]
pub struct LimitArguments {
    /// RAM for the program, its children and uswap together; at least 8M, and no more than the machine has. auto: what
    /// the container, the Slurm job or the machine allows, less a tenth
    #[arg(long, value_name = "SIZE", env = "USWAP_RAM", hide_env_values = true, value_parser = parse_ram_or_auto)]
    pub ram: Ram,
    /// Directory of a swap file, its largest size (auto: 90 % of the free space, at most 64G), and its priority; may be
    /// given several times, see below
    #[arg(long, value_name = "DIR[:SIZE[:PRIORITY]]", env = "USWAP_SWAP", hide_env_values = true,
          default_value = "/var/tmp:auto", action = ArgAction::Append,
          value_parser = OsStringValueParser::new().try_map(parse_swap_place))]
    pub swap: Vec<SwapPlace>,
    /// What the file system of each swap file keeps free: below that, the file counts as full
    #[arg(long, value_name = "SIZE", env = "USWAP_SWAP_MIN_FREE", hide_env_values = true,
          value_parser = parse_min_free)]
    pub swap_min_free: Option<u64>,
    /// How much may be written to all swap files in 24 hours, to spare a disk: beyond that, they count as full
    #[arg(long, value_name = "SIZE/day", env = "USWAP_SWAP_WRITE_LIMIT", hide_env_values = true,
          value_parser = parse_write_limit)]
    pub swap_write_limit: Option<u64>,
    /// Largest part of --ram that compressed pages may take, 1% to 90%; it is 4M at least, or a quarter of a --ram
    /// below 16M [default: 10% to 85%, as the program needs it]
    #[arg(long, value_name = "SHARE", env = "USWAP_POOL", hide_env_values = true, value_parser = parse_share)]
    pub pool: Option<Fraction>,
    /// When pool and swap file are full: go over the budget, stop the program, or kill it
    #[arg(long, value_name = "RULE", env = "USWAP_ON_FULL", hide_env_values = true, default_value = "grow")]
    pub on_full: OnFullArgument,
    /// Memory of the processes whose program has this name that is not reclaimed while others have something; may be
    /// given several times, see below
    #[arg(long, value_name = "NAME=SIZE", action = ArgAction::Append, value_parser = parse_protect)]
    pub protect: Vec<Named>,
    /// The share in which memory is taken from processes of this name goes inversely to the weight, 1 to 10000
    /// [default: 100]; may be given several times
    #[arg(long, value_name = "NAME=N", action = ArgAction::Append, value_parser = parse_weight)]
    pub weight: Vec<Named>,
    /// A test aid: what newer kernels have and uswap goes without (SEMANTICS has the names)
    #[arg(long, value_name = "NAMES", env = VARIABLE, default_value = "", hide = true,
          value_parser = parse_without)]
    pub without: Without,
    /// Write the closing report to FILE as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write what happened to FILE as a page: memory over time, latencies, what went where
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Show how the run goes at unix:PATH or 127.0.0.1:PORT (0: any free one), as a page and for Prometheus. Only this
    /// machine can connect
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    pub metrics: Option<Address>,
    /// Accept a swap directory that is itself in RAM (tmpfs)
    #[arg(long)]
    pub allow_tmpfs: bool,
    /// Keep managing a process that changes its user or group
    #[arg(long)]
    pub keep_after_setuid: bool,
}

/// Arguments of `uswap run`.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// What the run is told.
    #[command(flatten)]
    pub limit: LimitArguments,
    /// Run a program that cannot be managed (static, setuid) all the same, with a warning
    #[arg(long)]
    pub unmanaged_ok: bool,
    /// Say more (repeat for more)
    #[arg(short, long, action = ArgAction::Count)]
    pub verbose: u8,
    /// No closing table and no notices; what goes wrong is always printed
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    pub program: Vec<OsString>,
}

/// Arguments of `uswap supervise`.
#[derive(Debug, Args)]
pub struct SuperviseArguments {
    /// What the run is told.
    #[command(flatten)]
    pub limit: LimitArguments,
    /// The process that has asked for it
    #[arg(long, value_name = "PID")]
    pub pid: u32,
    /// Only memory that it names is managed
    #[arg(long)]
    pub regions_only: bool,
}

/// `--on-full` as typed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum OnFullArgument {
    /// Go over the budget, with a warning
    Grow,
    /// Stop the program (SIGSTOP), so that room can be made
    Stop,
    /// Kill the program
    Kill,
}

impl From<OnFullArgument> for OnFull {
    fn from(argument: OnFullArgument) -> Self {
        match argument {
            OnFullArgument::Grow => Self::Grow,
            OnFullArgument::Stop => Self::Stop,
            OnFullArgument::Kill => Self::Kill,
        }
    }
}

const STAT_AFTER_HELP: &str = "\
For the whole run, two lines in the form of Linux's pressure stall information (/proc/pressure), as Linux has them for a
cgroup: in how many of 100 parts of the last 10, 60 and 300 seconds at least one thread of any process waited for a page
(some), or one did and nothing of the run that does not sleep did anything else (full, from samples), and for how many
microseconds in all.
For each process, those that wait most first: its memory in RAM, how much it uses
(that, and what comes back to it), how many pages were taken from it, how many of them came
back, and how many of those soon (they would still have been there if the run had had twice the RAM for its pages).
Then the same two lines for it alone: at least one of its threads waited (some), or none of the others ran meanwhile
(full). --json says all that, each counter, and of the faults from each source how many there were and how long they
took: count, total_ns (exact), p50_ns, p99_ns, max_ns.";

const CONFIG_AFTER_HELP: &str = "\
What is typed comes first, then the environment (USWAP_RAM, USWAP_SWAP, ...), then uswap.toml of the user
(~/.config/uswap/), then that of the system (/etc/uswap/): in each the profile of the program, then [run].
Keys are the long names of the options of 'uswap run':
[run]
swap = [\"/scratch:100G\"]
[profile.redis-server]
ram = \"2G\"
USWAP_CONFIG names another file, the only one then; empty: none.";

/// Arguments of `uswap config`.
#[derive(Debug, Args)]
pub struct ConfigArguments {
    /// The program, for its profile
    #[arg(value_name = "PROGRAM")]
    pub program: Option<OsString>,
}

const PS_AFTER_HELP: &str = "\
Those of this user; root sees all. PID is what the other commands are told; they find the only run by themselves.
USED: what counts towards RAM: RESIDENT (memory of the processes), shared memory, POOL (compressed), and uswap's own.
SWAP: what the swap files hold. WAITS: how much of the last 10 seconds the process that waits most spent waiting for
its pages. TIME: since the run began.";

/// Arguments of `uswap ps`.
#[derive(Debug, Args)]
pub struct PsArguments {
    /// Print a list of what 'uswap stat --json' prints of each
    #[arg(long)]
    pub json: bool,
}

/// The run that a command is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Args)]
pub struct RunArgument {
    /// Process id of `uswap run` [default: that of the only run]
    #[arg(value_name = "PID")]
    pub pid: Option<u32>,
}

/// Arguments of `uswap stat`.
#[derive(Debug, Args)]
pub struct StatArguments {
    /// Print it as JSON
    #[arg(long)]
    pub json: bool,
    /// Print it again every so many seconds, until the run ends [default: 2]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "2",
          value_parser = parse_interval)]
    pub watch: Option<Duration>,
    /// The run.
    #[command(flatten)]
    pub run: RunArgument,
}

const MAP_AFTER_HELP: &str = "\
Each mark is a part of the managed memory, in the order of addresses, all of one size; it says where most of that part
is. Warm: in RAM, and passed by for now when pages are chosen to go, since it came back soon after it had gone, does not
compress, or must stay. Cold: in RAM, and may go next; it may be in use all the same, since uswap sees a page
only when it comes back.
Sizes are those of the program's memory, not what it takes compressed. The process counts by itself, part by part, so
this is not a snapshot, and a process that is stopped cannot be asked.";

/// Arguments of `uswap map`.
#[derive(Debug, Args)]
pub struct MapArguments {
    /// Print it as JSON
    #[arg(long)]
    pub json: bool,
    /// A process of the run [default: the one that has most memory under management]
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub process: Option<u32>,
    /// The run.
    #[command(flatten)]
    pub run: RunArgument,
}

const SET_AFTER_HELP: &str = "\
What is not named stays as it is. A smaller --ram holds as soon as what is above it has gone to the pool and the swap
files: the command waits for that, at most --wait, and says how long it took. Where a --pool was set, it is the same
part of the new --ram. A name of --protect or --weight that the run has already gets the new value; =0 takes it away.
Example: uswap set --ram 2G";

/// Arguments of `uswap set`.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub struct ChangeArguments {
    /// RAM for the program, its children and uswap together
    #[arg(long, value_name = "SIZE", value_parser = parse_ram_of_machine)]
    pub ram: Option<u64>,
    /// Largest part of --ram that compressed pages may take, or auto
    #[arg(long, value_name = "SHARE", value_parser = parse_pool)]
    pub pool: Option<PoolSize>,
    /// When pool and swap file are full: go over the budget, stop the program, or kill it
    #[arg(long, value_name = "RULE")]
    pub on_full: Option<OnFullArgument>,
    /// Memory of the processes of this name that is not reclaimed while others have something
    #[arg(long, value_name = "NAME=SIZE", action = ArgAction::Append, value_parser = parse_new_protect)]
    pub protect: Vec<Named>,
    /// The weight of processes of this name in reclaim
    #[arg(long, value_name = "NAME=N", action = ArgAction::Append, value_parser = parse_new_weight)]
    pub weight: Vec<Named>,
}

/// Arguments of `uswap set`.
#[derive(Debug, Args)]
pub struct SetArguments {
    /// What changes.
    #[command(flatten)]
    pub change: ChangeArguments,
    /// How long a smaller budget is waited for; 0s: not at all
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_age)]
    pub wait: Duration,
    /// The run.
    #[command(flatten)]
    pub run: RunArgument,
}

/// Arguments of `uswap writeback`.
#[derive(Debug, Args)]
pub struct WritebackArguments {
    /// Pages that nobody touches for so long, from now on; 0s: all that are in the pool
    #[arg(long, value_name = "TIME", value_parser = parse_age)]
    pub older_than: Duration,
    /// The run.
    #[command(flatten)]
    pub run: RunArgument,
}

/// Arguments of `uswap swapon`.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub struct SwaponArguments {
    /// The run.
    #[command(flatten)]
    pub run: RunArgument,
    /// Directory of the swap file, its largest size and its priority, as with `uswap run --swap`
    #[arg(value_name = "DIR[:SIZE[:PRIORITY]]", required = true,
          value_parser = OsStringValueParser::new().try_map(parse_swap_place))]
    pub swap: SwapPlace,
}

/// Arguments of `uswap swapoff`.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub struct SwapoffArguments {
    /// The run.
    #[command(flatten)]
    pub run: RunArgument,
    /// Directory of the swap file; if there are several, the last that was added
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

/// Arguments of `uswap doctor`.
#[derive(Debug, Args)]
pub struct DoctorArguments {
    /// Print the findings as JSON
    #[arg(long)]
    pub json: bool,
    /// Directory that `run` would put the swap file in
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub swap: PathBuf,
    /// As of `run`
    #[arg(long, value_name = "NAMES", env = VARIABLE, default_value = "", hide = true, value_parser = parse_without)]
    pub without: Without,
}

/// Arguments of `uswap demo`.
#[derive(Debug, Args)]
pub struct DemoArguments {
    /// The budget; the data to be sorted needs about four times as much
    #[arg(long, value_name = "SIZE", default_value = "128M", value_parser = parse_ram)]
    pub ram: u64,
    /// Directory for the data and the swap file
    #[arg(long, value_name = "DIR[:SIZE]", default_value = "/var/tmp:auto",
          value_parser = OsStringValueParser::new().try_map(parse_swap_place))]
    pub swap: SwapPlace,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;
    use clap::error::ErrorKind;

    fn parse(line: &str) -> Result<Command, clap::Error> {
        Arguments::try_parse_from(line.split(' ')).map(|arguments| arguments.command)
    }

    fn parse_run(line: &str) -> RunArguments {
        match parse(line) {
            Ok(Command::Run(arguments)) => arguments,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn run_has_the_documented_defaults() {
        let run = parse_run("uswap run --ram 256M -- sort -S 1G");
        assert_eq!(run.limit.ram, Ram { bytes: 256 << 20, why: None });
        let place = SwapPlace { dir: "/var/tmp".into(), bytes_max: None, priority: None, kind: None };
        assert_eq!(run.limit.swap, [place]);
        assert_eq!(run.limit.pool, None);
        assert_eq!((run.limit.swap_min_free, run.limit.swap_write_limit), (None, None));
        assert_eq!(run.limit.on_full, OnFullArgument::Grow);
        assert_eq!(run.program, ["sort", "-S", "1G"]);
        assert!(!run.limit.allow_tmpfs);
        assert!(!run.quiet);
        assert_eq!(run.verbose, 0);
    }

    #[test]
    fn what_follows_the_program_belongs_to_the_program() {
        let run = parse_run("uswap run --ram 1G -vv sh -c --ram -- -q");
        assert_eq!(run.program, ["sh", "-c", "--ram", "--", "-q"]);
        assert_eq!(run.verbose, 2);
        assert!(!run.quiet);
    }

    #[test]
    fn every_rule_and_option_is_taken() {
        let line = "uswap run --ram 64M --swap /srv:2G --swap /srv:2G:5 --swap-min-free 1G --swap-write-limit 10G/day \
            --pool 0.05 --on-full kill --json r.json --html r.html --metrics unix:r.sock \
            --allow-tmpfs --protect db=1M --protect web=2M --weight db=50 \
                    --keep-after-setuid --unmanaged-ok -q -- true";
        let run = parse_run(&line.split_whitespace().collect::<Vec<_>>().join(" "));
        let place = SwapPlace { dir: "/srv".into(), bytes_max: Some(2 << 30), priority: None, kind: None };
        assert_eq!(run.limit.swap, [place.clone(), SwapPlace { priority: Some(5), ..place }]);
        assert_eq!((run.limit.swap_min_free, run.limit.swap_write_limit), (Some(1 << 30), Some(10 << 30)));
        assert_eq!(run.limit.pool.expect("it was given").of(1000), 50);
        let named = |name: &str, value| Named { name: name.to_owned(), value };
        assert_eq!(run.limit.protect, [named("db", 1 << 20), named("web", 2 << 20)]);
        assert_eq!(run.limit.weight, [named("db", 50)]);
        assert_eq!(run.limit.on_full, OnFullArgument::Kill);
        assert_eq!((run.limit.json, run.limit.html), (Some("r.json".into()), Some("r.html".into())));
        assert_eq!(run.limit.metrics, Some(Address::Unix("r.sock".into())));
        assert!(run.limit.allow_tmpfs && run.limit.keep_after_setuid && run.unmanaged_ok && run.quiet);
    }

    #[test]
    fn mistakes_are_usage_errors_with_code_2() {
        let cases = [
            ("uswap run -- true", ErrorKind::MissingRequiredArgument),
            ("uswap run --ram 256M", ErrorKind::MissingRequiredArgument),
            ("uswap run --ram 4M -- true", ErrorKind::ValueValidation),
            ("uswap run --ram lots -- true", ErrorKind::ValueValidation),
            ("uswap run --ram 64 -- true", ErrorKind::ValueValidation),
            ("uswap run --ram 1000000T -- true", ErrorKind::ValueValidation),
            ("uswap run --ram 64M --swap-min-free 64 -- true", ErrorKind::ValueValidation),
            ("uswap run --ram 64M --protect db=64 -- true", ErrorKind::ValueValidation),
            ("uswap run --ram 1G --pool 95% -- true", ErrorKind::ValueValidation),
            ("uswap run --ram 1G --on-full panic -- true", ErrorKind::InvalidValue),
            ("uswap run --ram 1G --swap /tmp:x -- true", ErrorKind::ValueValidation),
            ("uswap run --ram 1G --swap-write-limit 10G -- true", ErrorKind::ValueValidation),
            ("uswap run --ram 1G --swap /tmp:1G:x -- true", ErrorKind::ValueValidation),
            ("uswap run --ram 1G -q -v -- true", ErrorKind::ArgumentConflict),
            ("uswap run --ram 1G --nonsense -- true", ErrorKind::UnknownArgument),
            ("uswap run --ram 1G --protect redis -- true", ErrorKind::ValueValidation),
            ("uswap run --ram 1G --weight make=0 -- true", ErrorKind::ValueValidation),
            ("uswap stat x", ErrorKind::ValueValidation),
            ("uswap stat --watch=0", ErrorKind::ValueValidation),
            ("uswap run --ram 1G --metrics 0.0.0.0:9100 -- true", ErrorKind::ValueValidation),
            ("uswap metrics --listen 9100", ErrorKind::ValueValidation),
            ("uswap metrics --all 1", ErrorKind::ArgumentConflict),
            ("uswap set", ErrorKind::MissingRequiredArgument),
            ("uswap set --ram 4M", ErrorKind::ValueValidation),
            ("uswap set --pool 95%", ErrorKind::ValueValidation),
            ("uswap set --protect db", ErrorKind::ValueValidation),
            ("uswap writeback 1", ErrorKind::MissingRequiredArgument),
            ("uswap writeback --older-than 60 1", ErrorKind::ValueValidation),
            ("uswap swapon", ErrorKind::MissingRequiredArgument),
            ("uswap swapon 1 /tmp:x", ErrorKind::ValueValidation),
            ("uswap swapoff /tmp 1", ErrorKind::ValueValidation),
            ("uswap swapoff", ErrorKind::MissingRequiredArgument),
            ("uswap nonsense", ErrorKind::InvalidSubcommand),
        ];
        for (line, kind) in cases {
            let error = parse(line).expect_err(line);
            assert_eq!(error.kind(), kind, "{line}: {error}");
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }
}
