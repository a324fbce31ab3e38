//! The command line of `uswap metrics`.

use clap::Args;

use crate::address::{Address, parse_address};

/// Text behind the options.
pub const AFTER_HELP: &str = "\
Prints OpenMetrics, as Prometheus reads it; METRICS.md says what each is. With --listen it answers over HTTP: / is a
page that shows how the run goes, /metrics the same as printed, /events what 'uswap stat --json' says, each second.
Only this machine can connect. To see it from another: ssh -L 9100:127.0.0.1:9100 MACHINE
A run can do so by itself from its start on: uswap run --metrics ADDRESS
Examples: uswap metrics
          uswap metrics --all --listen 127.0.0.1:9100
          uswap metrics --listen unix:/run/user/1000/uswap.sock 812";

/// Arguments of `uswap metrics`.
#[derive(Debug, Args)]
pub struct MetricsArguments {
    /// All runs of this user (root: of all users), each with a label run="PID"
    #[arg(long, conflicts_with = "pid")]
    pub all: bool,
    /// Answer at unix:PATH or 127.0.0.1:PORT (0: any free one) until the run ends; with --all, until it is stopped
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    pub listen: Option<Address>,
    /// Process id of `uswap run` [default: that of the only run]
    #[arg(value_name = "PID")]
    pub pid: Option<u32>,
}
