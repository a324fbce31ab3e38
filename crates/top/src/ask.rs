//! Asking a run.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uswap_control::stat::RunStat;
use uswap_control::{connect, runs, stat_of};

use crate::sample::Sample;

/// A run that is stopped does not answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often the first sample is asked for: a run may be busy.
const FIRST_TRIES_MAX: u32 = 3;

/// Between two of these.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// The outcome of asking.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// How the run goes.
    Sample(Box<Sample>),
    /// It says nothing now, and why.
    NotNow(String),
    /// It has ended, or never was.
    Ended(String),
}

/// How the run of a supervisor goes.
pub fn ask(pid: u32) -> Answer {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    match stat_of(pid, Some(PATIENCE)) {
        Ok(stat) => {
            Answer::Sample(Box::new(Sample { at_seconds: now.as_secs_f64(), stat: named(pid, stat) }))
        }
        // Who still listens may be busy, or stopped.
        Err(why) if connect(pid).is_ok() => Answer::NotNow(why),
        Err(why) => Answer::Ended(why),
    }
}

/// The first sample of a run.
///
/// # Errors
/// As a sentence: there is no such run, it may not be asked, or it does not answer.
pub fn first(pid: u32) -> Result<Sample, String> {
    let mut why = String::new();
    for _ in 0..FIRST_TRIES_MAX {
        match ask(pid) {
            Answer::Sample(sample) => return Ok(*sample),
            Answer::NotNow(now) => why = now,
            Answer::Ended(why) => return Err(why),
        }
        std::thread::sleep(FIRST_PAUSE);
    }
    Err(why)
}

/// How all runs go that this user may ask. One that does not answer is left out.
///
/// # Errors
/// As a sentence: they cannot be looked for.
pub fn all() -> Result<Vec<RunStat>, String> {
    let pids = runs::of_this_user()
        .map_err(|error| format!("runs cannot be looked for ({error}): is /proc mounted?"))?;
    let stat = |pid| stat_of(pid, Some(PATIENCE)).ok().map(|stat| named(pid, stat));
    Ok(pids.into_iter().filter_map(stat).collect())
}

/// A run of an older version, or in another namespace, names itself otherwise.
fn named(pid: u32, stat: RunStat) -> RunStat {
    RunStat { pid, ..stat }
}
