//! Looks at a run each second, for its report.
//!
//! What must hold: it keeps no more than [`crate::series`] and [`crate::programs`] do, and ends at once when it is
//! told.

use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use uswap_control::stat::RunStat;
use uswap_control::unpoisoned;

use crate::programs::Programs;
use crate::report::Record;
use crate::series::Series;

/// Between two looks.
const PERIOD: Duration = Duration::from_secs(1);

const STACK_BYTES: usize = 256 * 1024;

/// What looks at a run.
pub struct Recorder {
    stop: Arc<Stop>,
    thread: JoinHandle<Record>,
}

#[derive(Default)]
struct Stop {
    is_wanted: Mutex<bool>,
    wake: Condvar,
}

impl Recorder {
    /// Begins to look. The last look is at the end.
    ///
    /// # Errors
    /// There is no room for a thread.
    pub fn start(look: impl Fn() -> RunStat + Send + 'static) -> std::io::Result<Recorder> {
        let stop = Arc::new(Stop::default());
        let of_thread = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("uswap-recorder".to_owned()).stack_size(STACK_BYTES);
        let thread = thread.spawn(move || record(&look, &of_thread))?;
        Ok(Recorder { stop, thread })
    }

    /// What was seen, up to now. None: it ended with an internal error.
    pub fn finish(self) -> Option<Record> {
        *unpoisoned(self.stop.is_wanted.lock()) = true;
        self.stop.wake.notify_all();
        self.thread.join().ok()
    }
}

fn record(look: &impl Fn() -> RunStat, stop: &Stop) -> Record {
    let (mut series, mut programs) = (Series::default(), Programs::default());
    loop {
        let is_wanted = unpoisoned(stop.is_wanted.lock());
        let waited = stop.wake.wait_timeout_while(is_wanted, PERIOD, |is_wanted| !*is_wanted);
        let has_ended = *unpoisoned(waited).0;
        let last = look();
        series.add(&last);
        programs.add(&last);
        if has_ended {
            return Record { last, points: series.into_points(), programs: programs.finish() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn the_last_look_is_at_the_end() {
        let now = Arc::new(AtomicU64::new(1));
        let seen = Arc::clone(&now);
        let look = move || RunStat { used_bytes: seen.load(Ordering::SeqCst), ..RunStat::default() };
        let recorder = Recorder::start(look).unwrap();
        now.store(7, Ordering::SeqCst);
        let record = recorder.finish().unwrap();
        assert_eq!(record.last.used_bytes, 7);
        assert!(!record.points.is_empty());
    }
}
