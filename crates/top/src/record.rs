//! `uswap record`: writes down how a run goes.

use std::time::Instant;

use uswap_control::runs;

use crate::args::RecordArguments;
use crate::ask::{Answer, ask, first};
use crate::recording::Writer;
use crate::wake::Wake;

/// Writes a sample every so often, until the run ends, time is over, or somebody ends it.
///
/// # Errors
/// As a sentence: there is no run, or the file cannot be written.
pub fn record(arguments: &RecordArguments) -> Result<(), String> {
    let pid = arguments.pid.map_or_else(runs::the_only_one, Ok)?;
    let wake = Wake::new().map_err(|error| format!("signals cannot be waited for ({error})"))?;
    let began = Instant::now();
    let sample = first(pid)?;
    let mut writer = Writer::create(&arguments.file)?;
    writer.add(&sample)?;
    let end = arguments.duration.map(|duration| began + duration);
    let mut next = began + arguments.delay;
    loop {
        let until = end.map_or(next, |end| end.min(next));
        while wake.signal().is_none() && Instant::now() < until {
            wake.wait(None, Some(until.saturating_duration_since(Instant::now())))
                .map_err(|error| format!("it cannot be waited ({error})"))?;
        }
        if wake.signal().is_some() || end.is_some_and(|end| Instant::now() >= end) {
            return Ok(());
        }
        match ask(pid) {
            Answer::Sample(sample) => writer.add(&sample)?,
            // The next one follows soon.
            Answer::NotNow(_) => (),
            Answer::Ended(_) => return Ok(()),
        }
        // What could not be asked in time is left out.
        while next <= Instant::now() {
            next += arguments.delay;
        }
    }
}
