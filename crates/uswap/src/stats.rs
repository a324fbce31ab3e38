//! How the run of this process goes.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use uswap_control::{DONE, FAILED, STAT, ask};

use crate::Error;

/// A supervisor that is stopped does not answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How the run goes that this process has asked for. Sizes are those of all its processes together.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Stats {
    /// The budget.
    pub ram_bytes: u64,
    /// What counts towards it: memory of the processes, the pool, and uswap's own.
    pub used_bytes: u64,
    /// Memory of managed processes that is in RAM.
    pub resident_bytes: u64,
    /// Compressed pages in RAM.
    pub pool_bytes: u64,
    /// What the pool may take now.
    pub pool_bytes_max: u64,
    /// What the swap files hold.
    pub swap_file_bytes: u64,
    /// Every counter, by its name in docs/METRICS.md.
    pub counters: BTreeMap<String, u64>,
}

/// Asks the supervisor of a run.
pub fn of_run(supervisor: u32) -> Result<Stats, Error> {
    let answer = ask(supervisor, STAT, Some(PATIENCE)).map_err(Error::NoStats)?;
    let answer = answer.trim_end();
    match (answer.strip_prefix(DONE), answer.strip_prefix(FAILED)) {
        (Some(json), _) => serde_json::from_str(json).map_err(|error| Error::NoStats(error.to_string())),
        (_, Some(why)) => Err(Error::NoStats(why.to_owned())),
        _ => Err(Error::NoStats(format!("'{answer}' is no answer"))),
    }
}
