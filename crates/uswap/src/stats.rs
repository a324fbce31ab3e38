//! How the run of this process goes.
//!
//! Must hold: a supervisor that does not answer is waited for five seconds at most. Called by [`mod@crate::limit`] and
//! `libusw`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

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
    let stat = uswap_control::stat_of(supervisor, Some(PATIENCE)).map_err(Error::NoStats)?;
    Ok(Stats {
        ram_bytes: stat.ram_bytes,
        used_bytes: stat.used_bytes,
        resident_bytes: stat.resident_bytes,
        pool_bytes: stat.pool_bytes,
        pool_bytes_max: stat.pool_bytes_max,
        swap_file_bytes: stat.swap_file_bytes,
        counters: stat.counters,
    })
}
