//! The command lines of `uswap top`, `record`, `replay` and `dump`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::column::Column;
use crate::looks::{Colours, Looks};

/// Text behind the options of `uswap top`.
pub const TOP_AFTER_HELP: &str = "\
Of several runs, a list is shown first; Enter opens one. Sizes are in powers of 1024. F1 says what the lines and columns
are, and which keys there are: they are those of htop.
Without a terminal: 'uswap stat --watch' and 'uswap record'.";

/// Text behind the options of `uswap record`.
pub const RECORD_AFTER_HELP: &str = "\
FILE gets a line of JSON for each sample, and must not be there before. It ends when the run ends, or with Ctrl-C.
See it with 'uswap replay FILE', or turn it into a table with 'uswap dump FILE'.
Example: uswap record --delay 5 --duration 2h monday.uswap";

/// Text behind the options of `uswap replay`.
pub const REPLAY_AFTER_HELP: &str = "\
Left and right go by one sample, PgUp and PgDn by a minute, g and G to the ends; space plays. F1 has the other keys.";

/// Text behind the options of `uswap dump`.
pub const DUMP_AFTER_HELP: &str = "\
csv: a row for each sample, with what happened since the one before, and every counter of docs/METRICS.md.
json: a list of samples, each as it was recorded, with what happened since the one before.";

/// Arguments of `uswap top`.
#[derive(Debug, Args)]
pub struct TopArguments {
    /// Process id of `uswap run` [default: that of the only run]
    #[arg(value_name = "PID")]
    pub pid: Option<u32>,
    /// How it is shown.
    #[command(flatten)]
    pub screen: ScreenArguments,
}

/// How the screen is to be.
#[derive(Debug, Args)]
pub struct ScreenArguments {
    /// Time between two samples
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_delay)]
    pub delay: Duration,
    /// By which column processes are ordered
    #[arg(long, value_name = "COLUMN", default_value = "wait")]
    pub sort: Column,
    /// Without colours, as with NO_COLOR in the environment
    #[arg(long)]
    pub no_color: bool,
}

impl ScreenArguments {
    /// What the terminal can show.
    pub fn looks(&self) -> Looks {
        let colours = if self.no_color { Colours::None } else { Colours::Some };
        Looks::new(colours, |name| std::env::var(name).ok())
    }
}

/// Arguments of `uswap record`.
#[derive(Debug, Args)]
pub struct RecordArguments {
    /// Where samples are written
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Process id of `uswap run` [default: that of the only run]
    #[arg(value_name = "PID")]
    pub pid: Option<u32>,
    /// Time between two samples
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_delay)]
    pub delay: Duration,
    /// Ends after so long: 90s, 5m, 2h or 7d
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
}

/// Arguments of `uswap replay`.
#[derive(Debug, Args)]
pub struct ReplayArguments {
    /// What `uswap record` has written
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// How it is shown.
    #[command(flatten)]
    pub screen: ScreenArguments,
}

/// Arguments of `uswap dump`.
#[derive(Debug, Args)]
pub struct DumpArguments {
    /// What `uswap record` has written
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// In which form
    #[arg(short = 'O', long = "output", value_name = "FORM", default_value = "csv")]
    pub form: Form,
    /// csv: a row for each process of each sample
    #[arg(long)]
    pub processes: bool,
}

/// In which form a recording is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Form {
    /// A list of samples
    Json,
    /// A table with commas
    Csv,
}

/// Seconds, and parts of them.
fn parse_delay(text: &str) -> Result<Duration, String> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse::<f64>().ok();
    let seconds = seconds.filter(|seconds| (0.1..=86_400.0).contains(seconds));
    let why =
        || format!("'{text}' is no time between two samples: write it like 2 or 0.5, from 0.1 s to a day");
    seconds.map(Duration::from_secs_f64).ok_or_else(why)
}

/// A number with s, m, h or d.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let malformed = || format!("'{text}' is not a time: write it like 90s, 5m, 2h or 7d");
    let (last, unit) = text.char_indices().next_back().ok_or_else(malformed)?;
    let unit_seconds: u32 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(malformed()),
    };
    let number: u32 = text[..last].parse().map_err(|_| malformed())?;
    Ok(Duration::from_secs(u64::from(number) * u64::from(unit_seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        assert_eq!(parse_delay("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_delay("2s"), Ok(Duration::from_secs(2)));
        for text in ["", "0", "0.01", "-1", "nan", "inf", "1m", "86401"] {
            assert!(parse_delay(text).is_err(), "{text}");
        }
        assert_eq!(parse_duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(parse_duration("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!(parse_duration("7d"), Ok(Duration::from_secs(604_800)));
        for text in ["", "60", "s", "-1s", "1.5s", "5µ", "99999999999s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
